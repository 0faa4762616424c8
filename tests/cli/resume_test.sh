# Killed or interrupted at any moment, a run resumes to the very bytes of one that was left alone.
source "$(dirname "$0")/common.sh"
poem() { "$program" --threads 2 "$@"; } # the bytes must be the same with several threads, too
seed=${POEM_TEST_SEED:-$RANDOM}
echo "moments drawn with POEM_TEST_SEED=$seed"
RANDOM=$seed
write_image_config image.yaml

start() { # ARGUMENTS...: trains in the background, as process $child
  "$program" --threads 2 train "$@" >"$logs/out" 2>"$logs/err" &
  child=$!
}
stop() { # SIGNAL: $code is how the process ended
  kill -s "$1" "$child" 2>/dev/null || true
  code=0
  wait "$child" 2>/dev/null || code=$?
}
await() { # FILE: until it is there
  local i
  for ((i = 0; i < 3000; ++i)); do
    [ -e "$1" ] && return
    kill -0 "$child" 2>/dev/null || break
    sleep 0.01
  done
  fail "$1 never appeared: $(cat "$logs/err")"
}
epochs_of() { cat "$1/metrics.jsonl" 2>/dev/null | wc -l; }
await_epochs() { # RUN COUNT: until so many are complete, or all
  while [ "$(epochs_of "$1")" -lt "$2" ] && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
}
expect_finished() { # RUN REFERENCE
  cmp "$1/detector.safetensors" "$2/detector.safetensors" || fail "$1 ended in other bytes than $2"
  # All but the seconds; every epoch once.
  cmp <(sed 's/"seconds":{[^}]*}//' "$1/metrics.jsonl") <(sed 's/"seconds":{[^}]*}//' "$2/metrics.jsonl")
  expect_same "$(grep -o '"epoch":[0-9]*' "$1/metrics.jsonl" | tr '\n' ' ')" '"epoch":1 "epoch":2 "epoch":3 "epoch":4 '
  diff -r "$1/gallery" "$2/gallery" || fail "the pictures of $1 and $2 differ"
  expect_same "$(ls "$1/gallery" | wc -l)" 8 # four epochs, each a sheet and its list
  expect_same "$(find "$1" -name '*.tmp' -o -name '*.part')" ""
}

for features in stored fresh; do
  began=${EPOCHREALTIME/./}
  expect_ok train image.yaml --out $features --set queue.features=$features
  took=$(((${EPOCHREALTIME/./} - began) / 1000)) # ms
  expect_finished $features $features

  # kill -9 at a random moment of each epoch
  start image.yaml --out killed --set queue.features=$features
  await killed/config.yaml
  for epoch in 1 2 3 4; do
    await_epochs killed $((epoch - 1))
    moment=$((RANDOM % (took / 4)))
    sleep $((moment / 1000)).$(printf %03d $((moment % 1000)))
    stop KILL
    echo "$features: killed $moment ms into epoch $epoch, $(epochs_of killed) epochs complete"
    start --resume killed
  done
  wait "$child" || fail "resuming: $(cat "$logs/err")"
  expect_finished killed $features
  rm -r killed

  # Ctrl-C in the first epoch: the batch is finished, the message tells how to go on.
  start image.yaml --out stopped --set queue.features=$features
  await stopped/config.yaml
  stop INT
  expect_same $code 130
  expect_words "$logs/err" "interrupted" "poem train --resume stopped"
  [ ! -e stopped/detector.safetensors ] || fail "an interrupted run has a detector"
  expect_error stopped "no detector yet" "poem train --resume stopped" -- eval stopped --id world:test:8 --ood a=world:digits:8
  expect_ok info stopped
  expect_words "$logs/out" "of 4" "poem train --resume stopped"
  # And in a later one, unless the run was faster than the signal.
  start --resume stopped
  await_epochs stopped 2
  stop INT
  [ $code = 130 ] || [ $code = 0 ] || fail "exit code $code: $(cat "$logs/err")"
  expect_ok train --resume stopped
  expect_finished stopped $features
  rm -r stopped
done

# SIGTERM and SIGHUP are the same, whatever the program was about to do.
for signal in TERM HUP; do
  start image.yaml --out stopped
  await stopped/config.yaml
  stop $signal
  expect_same $code $((128 + $(kill -l $signal)))
  expect_words "$logs/err" "the same signal again quits" "poem train --resume stopped"
  expect_ok train --resume stopped
  expect_finished stopped stored
  rm -r stopped
done

# A folder's name stands in the message as a shell needs it.
start image.yaml --out "it's mine"
await "it's mine/config.yaml"
stop INT
expect_same $code 130
expect_words "$logs/err" "poem train --resume 'it'\\''s mine'"
expect_error "no detector yet" "poem train --resume 'it'\\''s mine'" -- eval "it's mine" --id world:test:8 --ood a=world:digits:8
expect_ok info "it's mine"
expect_words "$logs/out" "poem train --resume 'it'\\''s mine'"

# Before the first checkpoint there is the config only: the run starts again from it.
for attempt in 1 2 3 4 5; do # a busy machine may be late with the kill
  rm -rf early
  start image.yaml --out early
  await early/config.yaml
  stop KILL
  [ -e early/checkpoint/state.safetensors ] || break
done
[ ! -e early/checkpoint/state.safetensors ] || fail "the first checkpoint always came before the kill"
expect_ok train --resume early
expect_finished early stored

# A finished run is only evaluated again.
sha256sum early/metrics.jsonl early/detector.safetensors early/checkpoint/state.safetensors >"$logs/sums"
expect_ok train --resume early
sha256sum --quiet -c "$logs/sums"

# A second process in the folder is refused, and does no harm to the first.
start image.yaml --out busy --set train.epochs=100000
await busy/metrics.jsonl
for attempt in "--resume busy" "image.yaml --out busy --force"; do
  code=0
  # shellcheck disable=SC2086
  poem --quiet train $attempt >"$logs/out2" 2>"$logs/err2" || code=$?
  expect_same $code 2
  expect_same "$(wc -l <"$logs/err2")" 1
  expect_words "$logs/err2" busy "another process"
done
epochs=$(epochs_of busy)
await_epochs busy $((epochs + 1))
kill -0 "$child" 2>/dev/null || fail "the first process does not go on: $(cat "$logs/err")"
stop KILL
