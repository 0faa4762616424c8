# A rank that is killed while it mines, trains or saves, and a disk that fills: the job ends on all ranks with one
# message, and what goes on from the checkpoint ends with the bytes of an undisturbed run.
source "$(dirname "$0")/teams.sh"
need_teams
write_flat_config flat.yaml
sed -i 's/epochs: 2/epochs: 3/' flat.yaml

# Each config spends nearly all of its time in one phase; the last one saves 30 MB.
sed 's/outliers:120/outliers:3000/; s/pool: 100/pool: 1000000/' flat.yaml >mine.yaml
sed 's/train:120/train:3000/; s/outliers:120/outliers:3000/; s/pool: 100, select: 50/pool: 3000/
  s/rate: 0.01/rate: 0.001, batch: 8, outlier_batch: 8/' flat.yaml >train.yaml
sed 's/name: mlp/name: mlp, hidden: [1800, 1800, 64]/; s/rate: 0.01/rate: 0.0001/' flat.yaml >save.yaml

team() { "$program" --quiet --threads 1 launch --nproc 2 train "$@"; }
# start CONFIG RUN ARGUMENTS...: goes on when the first epoch is saved.
start() {
  run=$2
  "$program" --quiet --threads 1 launch --nproc 2 train "$1" --out "$run" "${@:3}" 2>"$logs/all" &
  child=$!
  local i
  for ((i = 0; i < 6000; ++i)); do
    if [ -e "$run/checkpoint/state.safetensors" ]; then return 0; fi
    kill -0 "$child" 2>/dev/null || break
    sleep 0.01
  done
  fail "$run has saved nothing: $(cat "$logs/all")"
}
epochs() { wc -l <"$run/metrics.jsonl"; }
process_of() { # RANK
  local process
  for process in $(pgrep -P "$child"); do
    if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "RANK=$1"; then echo "$process"; fi
  done
}
seconds() { # PHASE: of the first epoch
  head -1 "$run/metrics.jsonl" | grep -o "\"seconds\":{\"mine[^}]*" | grep -o "\"$1\":[0-9.e-]*" | cut -d : -f 2
}
expect_end() { # RANK: the job ends within 20 s, because this rank was killed
  local code=0 began=$SECONDS
  wait "$child" || code=$?
  expect_same $code 137
  [ $((SECONDS - began)) -le 20 ] || fail "the others took $((SECONDS - began)) s to end"
  grep -v "holds out few images" "$logs/all" >"$logs/err" || true
  expect_one_line "rank $1" "continue from the checkpoint"
}
expect_same_end() { # REFERENCE
  team --resume "$run" >"$logs/out" 2>"$logs/err" || fail "$(cat "$logs/err")"
  for file in detector.safetensors results.json checkpoint/state.safetensors; do
    cmp "$run/$file" "$1/$file" || fail "$run and $1 differ"
  done
  expect_same "$(find "$run" -name '*.tmp')" ""
}

for phase in mine train save; do
  team $phase.yaml --out "calm-$phase" >"$logs/out" 2>"$logs/err" || fail "$(cat "$logs/err")"
done

# In the second epoch, in the middle of the phase that takes nearly all of its time.
kill_in() { # PHASE RANK
  local phase=$1
  start "$phase.yaml" "killed-$phase"
  awk -v mine="$(seconds mine)" -v train="$(seconds train)" -v phase="$phase" \
    'BEGIN { exit !(phase == "mine" ? mine > 5 * train : train > 5 * mine) }' || fail "$phase.yaml spends its time elsewhere"
  sleep "$(awk -v s="$(seconds "$phase")" 'BEGIN { print 0.3 * s }')"
  kill -9 "$(process_of "$2")"
  expect_same "$(epochs)" 1
  expect_end "$2"
  expect_same_end "calm-$phase"
}
kill_in mine 1
kill_in train 0

# In the first epoch nothing is saved yet, and the folder is empty again: there is nothing to continue from.
"$program" --quiet --threads 1 launch --nproc 2 train train.yaml --out early 2>"$logs/all" &
child=$!
while [ ! -e early/config.yaml ]; do sleep 0.01; done
kill -9 "$(process_of 1)"
expect_end 1
expect_words "$logs/err" "was killed" "or start again if there is none"
[ ! -e early ] || fail "the folder of a training without a checkpoint was left"

# A rank that hangs: the other waits for it until --timeout, also for rank 0, which keeps the table of texts.
for victim in 0 1; do
  start train.yaml "hanging$victim" --timeout 3
  hanging=$(process_of $victim)
  waiting=$(process_of $((1 - victim)))
  kill -STOP "$hanging"
  for ((i = 0; i < 200; ++i)); do
    [ -e "/proc/$waiting" ] || break
    sleep 0.1
  done
  [ ! -e "/proc/$waiting" ] || fail "rank $((1 - victim)) waits longer than --timeout"
  kill -9 "$hanging"
  code=0
  wait "$child" || code=$?
  expect_same $code 2
  grep -v "holds out few images" "$logs/all" >"$logs/err" || true
  expect_one_line "rank $victim (process $hanging on" "runs, but does not answer" "continue from the checkpoint"
done
expect_same_end calm-train

# While rank 0 saves the second epoch. If it is killed itself, its half-written file shows that; rank 1 waits for it.
for victim in 0 1; do
  start save.yaml "killed-save-$victim"
  process=$(process_of $victim)
  while [ ! -e "$run/checkpoint/state.safetensors.tmp" ]; do :; done
  kill -9 "$process"
  expect_end $victim
  if [ $victim = 0 ]; then [ -e "$run/checkpoint/state.safetensors.tmp" ] || fail "rank 0 was not killed while it saved"; fi
  if [ $victim = 1 ]; then cp -a "$run" full; fi
  expect_same_end calm-save
done

# A disk that fills: the checkpoint no longer fits. Both ranks end, and the checkpoint before it is kept.
run=full
before=$(sha256sum full/checkpoint/state.safetensors)
(
  trap '' XFSZ
  ulimit -f 10000 # KiB: everything else fits
  code=0
  team --resume full 2>&1 >/dev/null || code=$?
  echo "exit code $code"
) | grep -v "holds out few images" >"$logs/all" || true
expect_same "$(tail -1 "$logs/all")" "exit code 2"
sed '$d' "$logs/all" >"$logs/err"
expect_one_line "full/checkpoint/state.safetensors" "cannot write" "File too large" "free some space"
expect_same "$(sha256sum full/checkpoint/state.safetensors)" "$before"
expect_same_end calm-save
