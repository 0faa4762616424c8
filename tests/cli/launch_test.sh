# Several processes train one network: the result of one process, faults, and resuming on another number of them.
source "$(dirname "$0")/teams.sh"
write_flat_config flat.yaml
need_teams
poem launch --nproc 2 train flat.yaml --out probe >"$logs/out" 2>"$logs/err"

# The same figures, files written once, what was exchanged in the log.
expect_ok train flat.yaml --out one
expect_like probe one
expect_words "$logs/err" "epoch   2/2"
for ranks in 3 4; do
  expect_ok launch --nproc $ranks train flat.yaml --out "team$ranks"
  expect_words "$logs/err" "$ranks ranks sent" "to mine" "for the posterior"
  expect_same "$(grep -c 'epoch   1/2' "$logs/err")" 1
  expect_like "team$ranks" one
  expect_words "team$ranks/metrics.jsonl" '"team":{"bytes":{"mine":'
done

# Options of the command win over the launcher's, however they are written.
expect_ok --device auto launch --nproc 2 train flat.yaml --threads=1 --device=cpu --out equals

# What the command line cannot mean.
expect_error "launch" "needs a command" -- launch --nproc 2
expect_error "launch" "cannot start 'eval'" -- launch --nproc 2 eval one
expect_error "--nproc" "'0'" -- launch --nproc 0 train flat.yaml

# An error that every rank meets, and one that only rank 0 meets, are said once.
expect_error "train.epoch" "unknown key" -- launch --nproc 3 train flat.yaml --set train.epoch=1
expect_error "one" "exists already" -- launch --nproc 3 train flat.yaml --out one
expect_error "unknown option '--epoch'" -- launch --nproc 3 train flat.yaml --epoch 3
expect_error "device cudo" "unknown" -- launch --nproc 2 train flat.yaml --device cudo --out small
expect_error "train.batch" "fewer than the 3 processes" -- launch --nproc 3 train flat.yaml --set train.batch=2 --out small

# However long it is, and even if no pipe could hold it.
code=0
timeout 30 "$program" --threads 1 --quiet launch --nproc 2 train flat.yaml --set "$(head -c 70000 /dev/zero | tr '\0' a)=1" 2>"$logs/err" || code=$?
expect_same $code 2
expect_one_line "unknown key 'aaa" "'poem config' lists all"

# Ranks that differ.
rank() { # RANK ARGUMENTS...: one of $size, started by hand
  GLOG_minloglevel=3 RANK=$1 WORLD_SIZE=$size LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 MASTER_PORT=$port "$program" --threads 1 --quiet train "${@:2}"
}
size=2
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
differ() { # WORDS... -- ARGUMENTS OF RANK 1, of $other_size
  local words=() code=0 other=0
  while [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  port=$(free_port)
  size=${other_size:-2} rank 1 "${@:2}" 2>>"$logs/err" &
  rank 0 flat.yaml --out differing 2>>"$logs/err" || code=$?
  wait $! || other=$?
  expect_same "$code $other" "2 2"
  expect_one_line "${words[@]}"
  [ ! -e differing ] || fail "a run that was refused left its folder"
  : >"$logs/err"
}
: >"$logs/err"
differ "rank 1" "train.weight_decay" "0.5" "rank 0" -- flat.yaml --out differing --set train.weight_decay=0.5
sed 's/outliers:120/outliers:121/' flat.yaml >other.yaml
differ "rank 1" "data.outliers" -- other.yaml --out differing
other_size=3 differ "rank 1" "is one of 3 processes, rank 0 is one of 2" "WORLD_SIZE" -- flat.yaml --out differing

# A port that another process has.
port=$(free_port)
python3 -c "import socket, time
s = socket.socket(); s.bind(('127.0.0.1', $port)); s.listen(); open('listening', 'w').close(); time.sleep(60)" &
listener=$!
while [ ! -e listening ]; do sleep 0.05; done
code=0
rank 0 flat.yaml --out taken 2>"$logs/err" || code=$?
expect_same $code 2
expect_one_line "127.0.0.1:$port" "in use" "MASTER_PORT"

# Errors that differ are said with their ranks: only rank 0 knows that the port is taken.
code=0
poem launch --nproc 3 --port $port train flat.yaml --out taken --timeout 1 2>"$logs/err" || code=$?
kill $listener
expect_same $code 2
expect_same "$(grep -c . "$logs/err")" 2
expect_words "$logs/err" "poem: rank 0: 127.0.0.1:$port: the port is in use" "poem: ranks 1, 2: 127.0.0.1:$port: the 3 processes did not meet"

# Also after they have met. Only rank 0 looks at the folder, and it does so first.
code=0
poem launch --nproc 3 train flat.yaml --out one --set data.train=absent 2>"$logs/err" || code=$?
expect_same $code 2
expect_same "$(grep -c . "$logs/err")" 2
expect_words "$logs/err" "poem: rank 0: one: exists already" "poem: ranks 1, 2: $PWD/absent: there is no such file"

# A rank that does not come.
port=$(free_port)
code=0
rank 0 flat.yaml --out waiting --timeout 1 2>"$logs/err" || code=$?
expect_same $code 2
expect_one_line "2 processes did not meet"

# Ctrl-C while a rank waits for the other.
for rank in 0 1; do
  GLOG_minloglevel=3 RANK=$rank WORLD_SIZE=2 MASTER_PORT=$(free_port) "$program" --threads 1 --quiet train flat.yaml --out waiting 2>"$logs/err" &
  child=$!
  until [ "/proc/$child/exe" -ef "$program" ]; do sleep 0.02; done                   # until then it is a shell
  while ! grep -q '^SigCgt:.*[2367abef]$' "/proc/$child/status"; do sleep 0.02; done # Ctrl-C is caught
  sleep 0.5
  kill -INT "$child"
  for ((i = 0; i < 500; ++i)); do grep -qs '^State:.[^Z]' "/proc/$child/status" && sleep 0.02 || break; done
  kill -9 "$child" 2>/dev/null || true
  code=0
  wait "$child" || code=$?
  expect_same $code 130
  expect_same "$(grep . "$logs/err")" "$([ $rank -gt 0 ] || echo "stopping; Ctrl-C again quits at once")"
done

# Killed: the others end by themselves and say which rank is gone. Another number of ranks goes on.
sed -i 's/epochs: 2/epochs: 40/; s/outliers:120/outliers:3000/; s/pool: 100/pool: 3000/' flat.yaml
expect_ok train flat.yaml --out long
start() { # ARGUMENTS...
  "$program" --quiet launch --nproc 3 train "$@" 2>"$logs/all" &
  child=$!
}
epochs_of() { cat "$1/metrics.jsonl" 2>/dev/null | wc -l; }
for victim in 0 1 2; do
  start flat.yaml --out "killed$victim"
  while [ "$(epochs_of "killed$victim")" -lt 3 ]; do sleep 0.02; done
  for process in $(pgrep -P "$child"); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep -qx "RANK=$victim"; then kill -9 "$process"; fi
  done
  code=0
  wait "$child" || code=$?
  expect_same $code 137
  grep -v "holds out few images" "$logs/all" >"$logs/err" || true
  expect_one_line "rank $victim" "continue from the checkpoint"
  expect_ok launch --nproc $((victim + 1)) train --resume "killed$victim"
  expect_like "killed$victim" long
done

# Where no rank is left to say it, launch does.
"$program" --quiet --threads 1 launch --nproc 1 train flat.yaml --out alone 2>"$logs/all" &
child=$!
while [ "$(epochs_of alone)" -lt 3 ]; do sleep 0.02; done
pkill -9 -P "$child"
code=0
wait "$child" || code=$?
expect_same $code 137
grep -v "holds out few images" "$logs/all" >"$logs/err" || true
expect_one_line "rank 0" "ended by signal 9" "continue from the checkpoint"

# Two jobs in one folder, and Ctrl-C.
start flat.yaml --out stopped
while [ "$(epochs_of stopped)" -lt 3 ]; do sleep 0.02; done
pkill -STOP -P "$child" # it must not end before the second job looks
code=0
poem --quiet launch --nproc 2 train --resume stopped 2>"$logs/second" || code=$?
expect_same $code 2
expect_same "$(grep -c . "$logs/second")" 1
expect_words "$logs/second" "stopped" "in use by another process"
kill -INT "$child"
sleep 0.2
pkill -CONT -P "$child"
code=0
wait "$child" || code=$?
expect_same $code 130
expect_same "$(grep -c "Ctrl-C again" "$logs/all")" 1
expect_ok launch --nproc 2 train --resume stopped
expect_like stopped long
echo "ok"
