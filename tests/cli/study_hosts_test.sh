# The same study started several times on one folder, as on several hosts: the processes share the networks and give
# the table of one process, even if one of them is killed.
source "$(dirname "$0")/common.sh"
write_flat_config flat.yaml
cat >study.yaml <<'TEXT'
title: POEM and random outliers
base: flat.yaml
seeds: [0, 1, 2]
set: {train.epochs: 3}
methods:
  - {name: random, set: {mining.miner: random}}
  - {name: random by MSP, set: {mining.miner: random}, score: msp}
  - {name: POEM}
TEXT
poem() { "$program" --threads 1 "$@"; } # bits depend on the number of threads
study() { "$program" --threads 1 study study.yaml --out "$1" >"$logs/$2.out" 2>"$logs/$2.err"; }
expect_ok study study.yaml --out one
expect_table() { # RUN: that of one process, each network trained once, and no claim left
  cmp "$1/table.md" one/table.md
  cmp <(cut -d , -f 1-9 "$1/results.csv") <(cut -d , -f 1-9 one/results.csv)
  expect_same "$(ls "$1/runs")" "$(ls one/runs)"
  expect_same "$(find "$1" -name claims -o -name '*.tmp')" ""
}

# Two at once.
study two a &
study two b
wait $!
expect_table two
for log in two/logs/*; do expect_same "$(grep -c 'epoch   1/3' "$log")" 1; done
expect_same "$(cat "$logs"/[ab].err | grep -c ', seed [0-9]*: another process has trained it')" 9
for process in a b; do # each prints the whole table
  expect_same "$(grep -c . "$logs/$process.out")" "$(grep -c . "$logs/out")"
done

# Started as srun does on two hosts, and as a pod of PyTorch does: a training is no rank of a team.
expect_alone() { # RUN VARIABLES...
  local code=0
  env "${@:2}" timeout -k 3 40 "$program" --threads 1 study study.yaml --out "$1" >"$logs/a.out" 2>"$logs/a.err" || code=$?
  expect_same $code 0
}
slurm=(SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE='1(x2)' SLURM_JOB_ID=77 SLURM_STEP_NODELIST=127.0.0.1 SLURM_LOCALID=0)
expect_alone srun "${slurm[@]}" SLURM_PROCID=0 SLURM_NODEID=0 &
expect_alone srun "${slurm[@]}" SLURM_PROCID=1 SLURM_NODEID=1
wait $!
expect_table srun
expect_alone pod RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1
expect_table pod

# One is killed while it trains: the other takes over what it had.
sed -i 's/train.epochs: 3/train.epochs: 30/' study.yaml
expect_ok study study.yaml --out one --force
"$program" --threads 1 study study.yaml --out three >"$logs/a.out" 2>"$logs/a.err" &
victim=$!
while [ -z "$(find three/runs -name metrics.jsonl 2>/dev/null)" ]; do sleep 0.02; done
study three b &
other=$!
while [ "$(find three/claims/workers -type f 2>/dev/null | wc -l)" -lt 2 ]; do sleep 0.02; done
kill -9 $victim
wait $victim || true
wait $other
expect_table three

# Another file, or --force, in a folder that is in use.
sed 's/epochs: 30/epochs: 3000/' study.yaml >long.yaml
"$program" --threads 1 study long.yaml --out busy >"$logs/a.out" 2>"$logs/a.err" &
victim=$!
while [ -z "$(find busy/runs -name metrics.jsonl 2>/dev/null)" ]; do sleep 0.02; done
code=0
poem --quiet study study.yaml --out busy 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" "poem: busy: is in use by another study"
code=0
poem --quiet study long.yaml --out busy --force 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" "poem: busy: is in use by another process, whose runs would be deleted"
kill -INT $victim
wait $victim || true
expect_same "$(find busy -name claims)" ""
