# What poem shows on terminals of several kinds, and in a pipe.
source "$(dirname "$0")/common.sh"
# show ARGUMENTS...: runs poem in a terminal as `environment` and `terminal` say; the screen at the end lies in $logs/out, the fullest progress view in $logs/err.
show() {
  code=0
  env -u NO_COLOR -u LC_ALL -u LC_CTYPE PYTHONCOERCECLOCALE=0 PYTHONUTF8=1 LANG=C.UTF-8 TERM=xterm $environment \
    python3 "$sources/tests/cli/terminal.py" $terminal -- "$program" --threads 1 "$@" >"$logs/out" 2>"$logs/err" ||
    code=$?
}
environment= terminal= # words of `env` and of terminal.py
expect_none() { ! grep -qE -- "$2" "$1" || fail "'$2' is in $(basename "$1"): $(cat "$1")"; }
not_ascii='[^ -~]'
export LC_ALL=C # for grep; show takes it away

# The table: in a box where the terminal can show it and is wide enough.
printf '3 4 5 6' >id.txt
printf '1 2 3 4' >ood.txt
metrics=(metrics --id id.txt --ood ring=ood.txt)
show "${metrics[@]}"
expect_same $code 0
expect_words "$logs/out" "│ ring │ 50.00 │" "├──────┼" "└──────┴" "│ mean │"
environment="LANG=C" show "${metrics[@]}"
expect_words "$logs/out" "ring  50.00"
expect_none "$logs/out" "$not_ascii"
environment="LC_ALL=C" show "${metrics[@]}" # stronger than LANG
expect_none "$logs/out" "$not_ascii"
environment="TERM=dumb" show "${metrics[@]}"
expect_none "$logs/out" "$not_ascii"
terminal="--columns 40" show "${metrics[@]}"
expect_words "$logs/out" "ring  50.00"
expect_none "$logs/out" "│"
LC_ALL=C.UTF-8 expect_ok "${metrics[@]}" # a pipe, whatever the locale
expect_none "$logs/out" "$not_ascii"

# Errors are red on a terminal, and only there.
show metrics --id none.txt --ood ring=ood.txt
expect_same $code 2
expect_words "$logs/out" "poem: none.txt"
expect_same "$(tail -1 "$logs/err")" "colours"
for setting in NO_COLOR=1 TERM=dumb; do
  environment="$setting" show metrics --id none.txt --ood ring=ood.txt
  expect_same "$(tail -1 "$logs/err")" "no colours"
done
environment="NO_COLOR=" show metrics --id none.txt --ood ring=ood.txt # empty: as if not set
expect_same "$(tail -1 "$logs/err")" "colours"

# Training: a view while it runs, nothing of it left at the end.
write_flat_config flat.yaml
train=(train flat.yaml --set train.epochs=2 --set data.train=world2d:train:4000 --set train.batch=2
  --set train.outlier_batch=2 --set train.evaluate_every=1)
terminal="--columns 200" show "${train[@]}" --out run
expect_same $code 0
expect_words "$logs/err" "epoch " "training" "━" " %" "batches/s" " left, run " "loss " "accuracy " "energy ID " \
  "boundary score mined " "FPR95 "
expect_words "$logs/out" "epoch   2/2  loss" "│ ring │" "detector: run/detector.safetensors"
expect_none "$logs/out" "batches/s|━"

# The very lines of a pipe, but for the box.
poem "${train[@]}" --out piped >"$logs/piped" 2>&1
expect_none "$logs/piped" $'[\033\r]'
cmp <(grep '^epoch' "$logs/piped" | sed 's/  [0-9.]* s$//') <(grep '^epoch' "$logs/out" | sed 's/  [0-9.]* s$//')

# Too narrow for the lines of the log, and made narrower on the way: no debris.
environment="LANG=C NO_COLOR=1" terminal="--columns 120 --narrow 30" show "${train[@]}" --out narrow
expect_same $code 0
expect_none "$logs/out" "batches/s|===|training"
expect_none "$logs/err" "$not_ascii"
expect_words "$logs/err" "epoch " "training" " %" "no colours"
expect_same "$(grep -c 'epoch   2/2' "$logs/out")" 1

# A study shows the epochs of the networks in training.
cat >study.yaml <<'TEXT'
title: Epochs
base: flat.yaml
seeds: [0]
methods: [{name: random, set: {mining.miner: random, train.epochs: 160, data.train: 'world2d:train:4000'}}]
TEXT
terminal="--columns 200" show study study.yaml --out study
expect_same $code 0
expect_words "$logs/err" "training" "epochs/s" ": epoch " " of 160"
expect_none "$logs/out" "epochs/s"
expect_words "$logs/out" "one seed (0)"

# No view where it is not wanted.
environment="TERM=dumb" show "${train[@]}" --out dumb --set train.epochs=1
expect_none "$logs/err" "training"
show --quiet "${train[@]}" --out quiet --set train.epochs=1
expect_none "$logs/err" "training|epoch"

# Ctrl-C: the view goes, the message stays.
terminal="--interrupt training" show "${train[@]}" --out stopped
expect_same $code 130
expect_words "$logs/out" "finishing this step and saving; Ctrl-C again quits without saving" "poem train --resume stopped"
expect_none "$logs/out" "batches/s|━|training"
