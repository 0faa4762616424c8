# poem study: tables, what is kept, what runs again, and what is refused before the first training.
source "$(dirname "$0")/common.sh"
write_flat_config flat.yaml
sed -i 's/ood: .*/ood: [ring=world2d:ood:50, other=world2d:ood:40:3]/' flat.yaml

write_study() { # FILE [EPOCHS OF POEM]
  cat >"$1" <<TEXT
title: A small study
base: flat.yaml
seeds: [0, 1]
columns: [fpr95, auroc, other.auroc, id_accuracy]
methods:
  - name: MSP
    set: {objective.name: cross_entropy, mining.miner: none}
    score: msp
    paper: {fpr95: 58.98}
  - name: Energy
    set: {objective.name: cross_entropy, mining.miner: none}
    score: energy
  - name: POEM
    set: {mining.miner: thompson, train.epochs: ${2:-2}}
TEXT
}
write_study study.yaml
figures() { sed 's/,[0-9.]*$//' "$1/results.csv"; }       # all but the seconds
runs() { (cd "$1/runs" && stat -c '%n %i %Y' -- */*.safetensors | sort); }

# Every file is there; one network serves two rows.
expect_ok study study.yaml --out one
for file in study.yaml results.json results.csv table.md table.tex report.html; do [ -s "one/$file" ] || fail "one/$file is missing"; done
expect_same "$(ls one/runs | wc -l)" 4
expect_same "$(find one/cells -name '*.json' | wc -l)" 6
expect_same "$(wc -l <one/results.csv)" $((1 + 6 * 3))
expect_words "$logs/err" "6 cells of 4 networks, 4 of them to train" "[6/6] POEM, seed 1: FPR95" "left)"
expect_words "$logs/out" "A small study" "2 seeds (0, 1)" "58.98"
expect_words one/table.tex '\toprule' '\textbf{' '$\pm$'

# The table's figures, worked out anew by awk from the cells' own files.
worked_out() { # NAMES OF FILES...: mean ± sample deviation, in percent, of the mean over sets
  local file
  for file in "$@"; do
    awk -F'[:,]' '/"fpr95"/ { n++; v[n] = $2 } END { s = 0; for (i = 1; i < n; ++i) s += v[i]; print s / (n - 1) }' "$file"
  done | awk '{ x[NR] = 100 * $1; s += x[NR] } END { m = s / NR; for (i in x) q += (x[i] - m) ^ 2; printf "%.2f ± %.2f", m, sqrt(q / (NR - 1)) }'
}
printed() { sed -n "s/^| $1 | \**\([0-9.]* ± [0-9.]*\).*/\1/p" one/table.md; }
expect_same "$(printed MSP)" "$(worked_out one/cells/cross_entropy-*/msp-*.json)"
expect_same "$(printed Energy)" "$(worked_out one/cells/cross_entropy-*/energy-*.json)"
expect_same "$(printed POEM)" "$(worked_out one/cells/energy-thompson-*/energy-*.json)"

# The page can be built again, and tells the same.
expect_ok report one --out again.html
cmp again.html one/report.html
expect_words one/report.html "<h1>A small study</h1>" "has the lowest mean FPR95" "$(printed POEM)"
expect_error one "name only the study" -- report one one/runs/* --out several.html
rm again.html

# A cell is what poem eval says of its run.
run=$(ls -d one/runs/energy-thompson-seed1-*)
expect_ok eval "$run" --id world2d:test:60 --ood ring=world2d:ood:50 --ood other=world2d:ood:40:3 --json
python3 - "$logs/out" one/cells/"$(basename "$run")"/energy-*.json <<'PYTHON' || fail "a cell is not what eval says"
import json, sys
told, cell = (json.load(open(path)) for path in sys.argv[1:])
told.update(told.pop("scores")["energy"])
assert told == cell, (told, cell)
PYTHON

# Once more: nothing is trained, the tables are the same.
before=$(runs one) table=$(cat one/table.md)
mkdir runs
mv one runs/study
expect_ok study study.yaml # where a study lies if nothing else is said
mv runs/study one
expect_words "$logs/err" "0 of them to train"
expect_same "$(runs one)" "$before"
expect_same "$(cat one/table.md)" "$table"

# Two at a time: the same figures.
expect_error one "folder of a study" "table.md" -- info one
expect_ok study study.yaml --out two --jobs 2
expect_same "$(figures two)" "$(figures one)"

# A changed method alone trains again; what the study no longer names stays, but not in the tables.
cp -r two changed
before=$(runs changed)
write_study changed.yaml 3
expect_ok study changed.yaml --out changed
expect_words "$logs/err" "6 cells of 4 networks, 2 of them to train"
expect_same "$(ls changed/runs | wc -l)" 6
expect_same "$(runs changed | grep -F "$before")" "$before"
expect_same "$(wc -l <changed/results.csv)" $((1 + 6 * 3))
expect_same "$(figures changed | grep -v POEM)" "$(figures one | grep -v POEM)"
expect_ok study study.yaml --out changed # and back: nothing to train
expect_words "$logs/err" "0 of them to train"
expect_same "$(figures changed)" "$(figures one)"
# Another test set trains nothing.
sed 's/^seeds/set: {data.ood: [ring=world2d:ood:50, other=world2d:ood:30:3]}\nseeds/' study.yaml >sets.yaml
expect_ok study sets.yaml --out changed
expect_words "$logs/err" "0 of them to train"
expect_words changed/results.csv ",60,30,"
# A run whose config was changed under it is no longer that cell's.
run=$(ls -d changed/runs/energy-thompson-seed1-* | head -1)
sed -i 's/learning_rate: .*/learning_rate: 0.5/' "$run/config.yaml"
expect_ok study study.yaml --out changed
expect_words "$logs/err" "1 of them to train"
expect_same "$(figures changed)" "$(figures one)"
rm -r changed

# A run that was stopped goes on from its checkpoint, whatever rows score it by now.
cp -r two rescored
run=$(ls -d rescored/runs/cross_entropy-none-seed0-*)
rm "$run/detector.safetensors" "rescored/logs/$(basename "$run").log"
sed 's/name: MSP/name: MaxLogit/; s/score: msp/score: maxlogit/' study.yaml >rescored.yaml
expect_ok study rescored.yaml --out rescored
expect_words "$logs/err" "1 of them to train"
expect_words "rescored/logs/$(basename "$run").log" "resuming" "after 2 of 2 epochs"
expect_same "$(figures rescored | grep -v MaxLogit)" "$(figures one | grep -v MSP)"
expect_same "$(find rescored/cells -name 'maxlogit-*' | wc -l)" 2
rm -r rescored

# Killed or interrupted at any moment, it goes on to the same figures; no training outlives it.
start() {
  "$program" --threads 1 study study.yaml --out "$1" --jobs 2 >"$logs/out" 2>"$logs/err" &
  child=$!
}
await_runs() { # DIR COUNT
  while [ "$(ls "$1/runs" 2>/dev/null | wc -l)" -lt "$2" ] && kill -0 "$child" 2>/dev/null; do sleep 0.01; done
}
alive() { grep -qs '^State:.[^Z]' "/proc/$1/status"; } # a zombie is not
children_of() { cat /proc/"$1"/task/*/children 2>/dev/null || true; }
for signal in KILL INT; do
  for count in 1 3; do
    start $signal
    await_runs $signal $count
    sleep 0.$((RANDOM % 5))
    trainings=$(children_of $child)
    kill -s $signal "$child" 2>/dev/null || true
    code=0
    wait "$child" 2>/dev/null || code=$?
    [ $signal = KILL ] || [ $code = 130 ] || [ $code = 0 ] || fail "exit code $code: $(cat "$logs/err")"
    for training in $trainings; do
      for ((i = 0; i < 500; ++i)); do alive "$training" && sleep 0.01 || break; done
      ! alive "$training" || fail "a training goes on after $signal"
    done
  done
  expect_ok study study.yaml --out $signal
  expect_same "$(figures $signal)" "$(figures one)"
  expect_same "$(find $signal -name '*.tmp' -o -name '*.part')" ""
done

# A cell that cannot run is found before the first training, and named with its remedy.
bad() { # SED SCRIPT WORDS...
  sed "$1" study.yaml >bad.yaml
  expect_error bad.yaml "${@:2}" -- study bad.yaml --out new
}
bad 's/score: msp/score: msb/' "MSP, seed 0" "'msb'" "nearest is 'msp'"
bad 's/train.epochs: 2/data.train: nowhere.bin/' "POEM, seed 0" "nowhere.bin" "check the path" "data.folder"
bad 's/train.epochs: 2/train.precision: bf16/' "POEM, seed 0" "train.precision" "float32"
bad 's/flat.yaml/missing.yaml/' "bad.yaml:2: base: missing.yaml" "No such file"
expect_error "flat.yaml: is the config of one training" "poem train flat.yaml" -- study flat.yaml --out new
expect_error "study.yaml: is a study" "poem study study.yaml" -- train study.yaml --out new
expect_error "nowhere.yaml" -- study nowhere.yaml --out new
: >empty.yaml
expect_error "empty.yaml: is not a map" -- study empty.yaml --out new
expect_error "--jobs" -- study study.yaml --out new --jobs 0

# Results that were damaged are named with what mends them.
cell=$(ls two/cells/energy-*/*.json | head -1)
cp -r two hurt
truncate -s 10 "hurt/${cell#two/}"
expect_hurt() { # FILE WHAT TO DELETE
  code=0
  poem --quiet study study.yaml --out hurt >"$logs/out" 2>"$logs/err" || code=$?
  expect_same $code 2
  expect_words "$logs/err" "$1: is damaged" "delete $2 and run"
  rm -r "$2"
  expect_ok study study.yaml --out hurt
  expect_same "$(figures hurt)" "$(figures one)"
}
expect_hurt "hurt/${cell#two/}" "hurt/${cell#two/}"
run=$(ls -d hurt/runs/energy-* | head -1)
truncate -s 10 "$run/metrics.jsonl"
expect_hurt "$run/metrics.jsonl" "$run"
rm -r hurt

# A folder of something else is never touched; --force starts a study anew.
mkdir foreign
printf 'precious' >foreign/letter.txt
expect_error foreign "study.yaml" "never replaced" -- study study.yaml --out foreign
expect_error foreign "study.yaml" "never replaced" -- study study.yaml --out foreign --force
expect_error flat.yaml "is a file" -- study study.yaml --out flat.yaml
touch one/runs/leftover
expect_ok study study.yaml --out one --force
expect_words "$logs/err" "4 of them to train"
[ ! -e one/runs/leftover ] || fail "--force left something"
expect_same "$(figures one)" "$(figures two)"

# A training that fails costs its own cells only; the tables tell what there is, the errors what failed.
sed 's/thompson, train.epochs: 2/thompson, train.learning_rate: 1000/; s/\[0, 1\]/[0]/' study.yaml >diverges.yaml
code=0
poem --quiet study diverges.yaml --out diverges >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 2
expect_same "$(wc -l <"$logs/err")" 2
expect_words "$logs/err" "POEM, seed 0: training ended with exit code 2" "logs/energy-thompson-seed0" \
  "poem: diverges.yaml: one cell failed" "correct the row, or delete its folder in runs/"
expect_words "$logs/out" "POEM" "failed"
expect_words diverges/table.md "| POEM | failed |  | failed |" "Failed: POEM, seed 0."
expect_same "$(wc -l <diverges/results.csv)" $((1 + 2 * 3))
expect_words diverges/report.html "1 of 3 cells is missing" "POEM, seed 0: training ended"
sed -i 's/1000/0.01/' diverges.yaml # mended: only that row is trained
expect_ok study diverges.yaml --out diverges
expect_words "$logs/err" "1 of them to train"
! grep -q failed diverges/table.md || fail "still failed"

# Curves: a line an evaluated epoch, set and cell; the last epoch is what the table has.
sed 's/^seeds.*/seeds: [0]\ncurves: 1/' study.yaml >curves.yaml
expect_ok study curves.yaml --out curves
expect_same "$(wc -l <curves/curves.csv)" $((1 + 3 * 2 * 3))
expect_same "$(grep -F ',0,2,' curves/curves.csv | sed 's/,0,2,/,0,/')" "$(figures curves | tail -n +2)"
# Pre-training is not counted.
sed 's/mining.miner: thompson/objective.name: sofl, mining.miner: random, train.pretrain: 1/' curves.yaml >stages.yaml
expect_ok study stages.yaml --out stages
expect_same "$(cut -d, -f1-4 stages/curves.csv | sort -u)" "$(cut -d, -f1-4 curves/curves.csv | sort -u)"
