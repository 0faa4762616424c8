# poem train: the run folder, and what is refused before or during training.
source "$(dirname "$0")/common.sh"
write_flat_config flat.yaml

expect_ok train flat.yaml --out run
for file in config.yaml metrics.jsonl checkpoint/state.safetensors detector.safetensors results.json results.csv \
  scores/id.npy scores/ring.npy scores.csv report.html events.out.tfevents.*.poem; do
  [ -s run/$file ] || fail "run/$file is missing"
done
expect_same "$(find run -type f | wc -l)" 11
expect_same "$(wc -l <run/metrics.jsonl)" 2
expect_words run/metrics.jsonl '"epoch":1' '"epoch":2' loss id_energy outlier_energy train_accuracy seconds \
  pool_abs_logit mined_abs_logit pool_p_outlier mined_p_outlier spread draw_overlap last_overlap distinct_images
# The log and metrics.jsonl tell the boundary score with one sign.
for set in mined pool; do
  told=$(grep 'epoch   1/2' "$logs/err" | grep -o "$set -[0-9.]*" | head -1 | cut -d' ' -f2)
  kept=$(head -1 run/metrics.jsonl | grep -o "\"${set}_boundary_score\":[-0-9.e]*" | cut -d: -f2)
  expect_same "$(LC_ALL=C printf '%.2f' "$kept")" "$told"
done
expect_words run/results.json fpr95 auroc aupr_in aupr_out detection_error id_accuracy ring
expect_words run/results.csv "set,fpr95,auroc,aupr_in,aupr_out,detection_error,id_accuracy" ring, mean,
expect_words "$logs/out" FPR95 ring mean "ID accuracy"
expect_words "$logs/err" "epoch   1/2" "epoch   2/2" "run/detector.safetensors"
expect_ok info run
expect_words "$logs/out" "epochs     2 of 2" thompson mlp threshold
expect_ok info run/detector.safetensors
expect_words "$logs/out" mlp energy

# The same config gives the same bytes; another seed does not. --force replaces a run, and nothing but a run.
cp run/detector.safetensors first
expect_error run "exists already" "poem train --resume run" "--force" -- train flat.yaml --out run
expect_ok train flat.yaml --out run --force
cmp run/detector.safetensors first
expect_ok train flat.yaml --out run --force --seed 1
! cmp -s run/detector.safetensors first || fail "two seeds, one detector"
mkdir foreign
printf 'precious' >foreign/letter.txt
expect_error foreign "config.yaml" "never replaced" -- train flat.yaml --out foreign
expect_error foreign "config.yaml" "never replaced" -- train flat.yaml --out foreign --force
expect_error flat.yaml "is a file" -- train flat.yaml --out flat.yaml --force
cp -r run mixed
printf 'precious' >mixed/letter.txt
expect_error mixed "letter.txt" "never replaced" -- train flat.yaml --out mixed --force
expect_same "$(cat mixed/letter.txt)" precious
rm mixed/letter.txt
touch mixed/metrics.jsonl.tmp # a kill left it
expect_ok train flat.yaml --out mixed --force
# What is wrong with the folder is found before the data is looked for.
missing=(--set data.train=missing.poem)
expect_error flat.yaml "is a file" -- train flat.yaml --out flat.yaml/run "${missing[@]}"
expect_error run "exists already" -- train flat.yaml --out run "${missing[@]}"
mkdir made
expect_ok train flat.yaml --out made/deep/run # parents are made too
expect_ok train flat.yaml                     # runs/NAME if nothing else is said
cmp runs/flat/detector.safetensors first

# Nothing is left of what cannot start, and a run that --force would replace stays until the new one can.
for out in new run; do
  bad=(train flat.yaml --out $out --force --set)
  expect_error missing.poem "check the path" -- "${bad[@]}" data.train=missing.poem
  expect_error missing.poem "check the path" -- "${bad[@]}" data.outliers=missing.poem
  expect_error missing.poem "check the path" -- "${bad[@]}" data.test=missing.poem
  expect_error missing.poem "check the path" -- "${bad[@]}" "data.ood=[a=missing.poem]"
  expect_error "NAME=PATH" -- "${bad[@]}" "data.ood=[world2d:ood:4]"
  expect_error "'a'" twice -- "${bad[@]}" "data.ood=[a=world2d:ood:4, a=world2d:ood:5]"
  expect_error world2d:outliers:50 "no labels" -- "${bad[@]}" data.train=world2d:outliers:50
  expect_error "3 channels" "network.mean" -- "${bad[@]}" data.train=world:train:8
  expect_error "3 channels" "network takes 2" -- "${bad[@]}" data.test=world:test:8
  expect_error "3 channels" "network takes 2" -- "${bad[@]}" "data.ood=[a=world:digits:8]"
done
expect_error "/proc/nowhere" "cannot create" -- train flat.yaml --out /proc/nowhere/run
expect_error mining.select 200 "only 100" "raise mining.pool" -- train flat.yaml --out new --set mining.select=200
expect_error "depth" 11 -- train flat.yaml --out new --set network.name=wideresnet --set network.depth=11

# Two stages: log, metrics.jsonl, TensorBoard's file and report say what the first stage found, and
# too few candidates are refused before anything is written.
write_image_config images.yaml
two=(--set train.epochs=2 --set mining.pool=200 --set mining.select=40 --set mining.candidates=0.5)
expect_ok train images.yaml --out two "${two[@]}"
grep -q 'epoch   1/2.*first stage found [0-9.]* ± [0-9.]* %' "$logs/err" || fail "the log does not say what was found"
expect_words two/metrics.jsonl '"recall":' '"recall_error":'
expect_words two/report.html "Best outliers that the first stage found"
grep -aq 'mining/recall_error' two/events.out.tfevents.*.poem || fail "TensorBoard does not get the recall"
expect_error mining.candidates "0.1 of the pool are 20 candidates" "40 are mined" "0.2 or more" -- \
  train images.yaml --out new "${two[@]}" --set mining.candidates=0.1
expect_error images.yaml "mining.candidates is 0.5" "mining.miner diverse" -- \
  train images.yaml --out new "${two[@]}" --set mining.miner=diverse
[ ! -e new ] || fail "something is left of what was refused"

# A loss that is not finite: nothing to keep after the first epoch, later the last good checkpoint.
enough=(--set data.train=world2d:train:420 --set data.validation=0.5) # held out: no warning beside the error
expect_error "epoch 1" "not finite" "train.learning_rate" -- train flat.yaml --out new \
  --set train.learning_rate=1000 --set train.batch=8 "${enough[@]}"
expect_ok train flat.yaml --out nan --set train.batch=8 "${enough[@]}"
expect_ok train --resume nan # finished: only evaluated again
sed 's/learning_rate: 0.01/learning_rate: 0.02/' nan/config.yaml >changed.yaml
cp nan/config.yaml kept.yaml
mv changed.yaml nan/config.yaml
expect_error state.safetensors "another config.yaml" -- train --resume nan
mv kept.yaml nan/config.yaml
# The checkpoint holds the config too; replacements of equal length keep the file whole.
LC_ALL=C sed -i -e 's/epochs: 2/epochs: 3/' -e 's/learning_rate: 0.01/learning_rate: 1000/' \
  nan/config.yaml nan/checkpoint/state.safetensors
sha256sum nan/checkpoint/state.safetensors >"$logs/good"
expect_error "epoch 3" "not finite" "checkpoint is kept" -- train --resume nan
sha256sum --quiet -c "$logs/good"

# Without held-out images there is no threshold, and that is said before the training.
expect_ok train flat.yaml --out bare --set data.validation=0 --set data.test= --set mining.miner=none
expect_words "$logs/err" "data.validation 0 holds out no image" "no threshold"
expect_same "$(grep -c "holds out no image" "$logs/err")" 1
sed '/epoch   1/q' "$logs/err" | grep -q "holds out no image" || fail "said only after the training"
expect_same "$(find bare -name 'results*')" ""
expect_error run/config.yaml "settings" "poem train run/config.yaml" -- info run/config.yaml
expect_ok info bare
expect_words "$logs/out" "threshold  none"

# A threshold from few images says so before the training; afterwards log, info, results and report tell what it
# rests on, and the interval of Beta(12, 1): 0.025^(1/12) and 0.975^(1/12).
expect_ok train flat.yaml --out few --set threshold.tpr=0.99
sed '/epoch   1/q' "$logs/err" | grep -q "data.validation 0.1 holds out few images" || fail "few images: not told before"
rests="keeps 12 of 12 held-out ID images (asked: 99 %) and, with 95 % confidence, 73.5 to 99.8 % of new ones"
expect_words "$logs/err" "$rests" "few images (12): the threshold will keep 73.5 to 99.8 % of new ID images"
expect_ok info few/detector.safetensors
expect_words "$logs/out" "$rests"
unbroken=$'\xc2\xa0%' # no line breaks between a figure and its sign
expect_words few/report.html "rests on 12 held-out images" "${rests// %/$unbroken}"
expect_words few/results.json '"images": 12' '"tpr": 0.99' '"kept_low": 0.7353' '"kept_high": 0.9978'
expect_ok train flat.yaml --out few --force "${enough[@]}"
! grep -q "holds out few" "$logs/err" || fail "210 images are called few"

# A run goes on longer. Other keys are refused, also by their short names.
expect_ok train flat.yaml --out longer
expect_ok train --resume longer --set train.epochs=3
expect_words "$logs/err" "resuming longer after 2 of 3 epochs" "learning rate goes on at" "epoch   3/3"
expect_ok info longer
expect_words "$logs/out" "epochs     3 of 3" threshold
expect_ok train --resume longer # with what it was told last
expect_error "set mining.pool=50" "cannot change" "train.epochs" "start another run" -- \
  train --resume longer --set mining.pool=50
expect_error "set seed=3" "cannot change" -- train --resume longer --seed 3
expect_error "unknown key 'train.epoch'" "train.epochs" -- train --resume longer --set train.epoch=4
expect_error "train.epochs" "2 are fewer than the 3" -- train --resume longer --set train.epochs=2
expect_error "--resume" "CONFIG" -- train flat.yaml --resume longer

# More than there is memory for: the key and the number, before anything is read or made.
for pool in 1000000000000 9000000000000000000; do
  expect_error mining.pool "$pool crops" "GiB are free" -- train flat.yaml --out new --set mining.pool=$pool \
    --set data.train=world2d:train:10
done
expect_error network.hidden "parameters" "GiB are free" -- train flat.yaml --out new \
  --set "network.hidden=[65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536, 65536]"

# A training of hours says so after its first steps, and SIGTERM ends it like Ctrl-C: saved, also in the first epoch.
"$program" --threads 1 train flat.yaml --out long --set train.epochs=1000000 --set train.batch=1 \
  --set data.train=world2d:train:20000 --set mining.miner=random >"$logs/out" 2>"$logs/err" &
child=$!
for ((i = 0; i < 1000; ++i)); do
  grep -q "a step takes" "$logs/err" && break
  sleep 0.05
done
expect_words "$logs/err" "this training will take about" " days " "until 2" "a step takes" "a GPU"
kill -TERM $child
code=0
wait $child || code=$?
expect_same $code 143
expect_words "$logs/err" "asked to stop: finishing this step and saving" "poem train --resume long"
[ -s long/checkpoint/state.safetensors ] || fail "SIGTERM in the first epoch saved nothing"
expect_same "$(wc -l <long/metrics.jsonl 2>/dev/null || echo 0)" 0

# The program chooses how idle threads wait, unless its environment says how; its name and arguments stay.
for choice in "" OMP_WAIT_POLICY=active GOMP_SPINCOUNT=7 OPENBLAS_THREAD_TIMEOUT=20; do
  case $choice in
    OPENBLAS*) expected="GOMP_SPINCOUNT=10000 $choice" ;;
    *) expected="${choice:-GOMP_SPINCOUNT=10000} OPENBLAS_THREAD_TIMEOUT=14" ;;
  esac
  : >"$logs/err" # what is awaited below must not be found in the last one's
  env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u OPENBLAS_THREAD_TIMEOUT $choice "$program" --threads 1 train --resume long >"$logs/out" 2>"$logs/err" &
  child=$!
  for ((i = 0; i < 1000; ++i)); do
    grep -q "resuming long" "$logs/err" && break
    sleep 0.05
  done
  tr '\0' '\n' </proc/$child/environ | grep -E '^(OMP_WAIT_POLICY|GOMP_SPINCOUNT|OPENBLAS_THREAD_TIMEOUT)=' | sort >"$logs/chosen" || true
  tr '\0' ' ' </proc/$child/cmdline >"$logs/command"
  expect_same "$(cat /proc/$child/comm)" "$(basename "$program")"
  kill -KILL $child
  wait $child 2>/dev/null || true
  expect_same "$(paste -sd ' ' "$logs/chosen")" "$expected"
  expect_same "$(cat "$logs/command")" "$program --threads 1 train --resume long "
done

# Folders that cannot be resumed.
expect_error missing "not a run" "folder of a training" -- train --resume missing
expect_error foreign "not a run" "config.yaml" -- train --resume foreign
cp -r run damaged
truncate -s 1000 damaged/checkpoint/state.safetensors
expect_error damaged/checkpoint/state.safetensors "not a whole safetensors" "delete it" -- train --resume damaged
rm damaged/checkpoint/state.safetensors # as the remedy says
expect_ok train --resume damaged
cmp damaged/detector.safetensors run/detector.safetensors
cp run/detector.safetensors damaged/checkpoint/state.safetensors
expect_error damaged/checkpoint/state.safetensors "poem-detector-2" "poem-checkpoint-1" -- train --resume damaged
truncate -s -1 damaged/detector.safetensors
expect_error damaged/detector.safetensors "safetensors" "poem train --resume damaged)" -- info damaged/detector.safetensors
expect_error damaged/detector.safetensors "safetensors" -- info damaged # and not half of what there is to tell
(cd damaged && expect_error detector.safetensors "poem train --resume .)" -- info detector.safetensors)
head -c 1000 run/detector.safetensors >alone.safetensors
expect_error alone.safetensors "(copy it again)" -- info alone.safetensors
expect_error damaged/detector.safetensors "safetensors" -- eval damaged --id world2d:test:9 --ood a=world2d:ood:9
cp run/checkpoint/state.safetensors damaged/checkpoint/state.safetensors
expect_ok train --resume damaged # as the remedy says
cmp damaged/detector.safetensors run/detector.safetensors
sed -i 's/world2d:train:120/world2d:train:90/' damaged/config.yaml
expect_error damaged/checkpoint/state.safetensors "numbers of images: train " ", now " "restore the data" -- train --resume damaged
sed -i 's/^format: 1/format: 2/' damaged/config.yaml
expect_error damaged/config.yaml "format 2" "this poem knows 1" -- train --resume damaged
expect_error damaged/config.yaml "format 2" -- info damaged

# Other threads than the run had may change bits: a warning.
code=0
"$program" --threads 2 --quiet train --resume run >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 0
expect_words "$logs/err" "threads 2" "at 1" "to the bit"

# Another objective than the config's leaves its weight and score in place: a warning, unless they are given too.
printf 'objective: {beta: 0.01}\n' | cat flat.yaml - >weighted.yaml
expect_ok train weighted.yaml --out other --set objective.name=oe --set mining.miner=random
expect_words "$logs/err" "objective.beta stays 0.01" "weight of oe is 0.5" "score stays energy" "oe is published with msp"
expect_ok train weighted.yaml --out given --set objective.name=oe --set mining.miner=random --set score=msp --set objective.beta=auto
! grep -q "stays" "$logs/err" || fail "a warning though weight and score are given: $(cat "$logs/err")"

# Neither permission nor space.
mkdir locked
chmod a-w locked
if [ -w locked ]; then
  echo "not tried: a folder without permission (the superuser may write anywhere)"
else
  expect_error locked/run "ermission" -- train flat.yaml --out locked/run
fi
(
  trap '' XFSZ
  ulimit -f 16
  poem --quiet train flat.yaml --out full 2>&1 >/dev/null
) | cat >"$logs/err" || true
expect_words "$logs/err" full/checkpoint/state.safetensors "cannot write" "free some space"
[ ! -e full ] || fail "a run folder is left though its first checkpoint could not be written"
mkdir small
if mount -t tmpfs -o size=32k tmpfs small 2>/dev/null; then
  trap 'umount "$top/here/small"; finish' EXIT
  expect_error small/run "No space left" "free some space" -- train flat.yaml --out small/run "${enough[@]}"
else
  echo "not tried: a full file system (mounting is not permitted)"
fi

# A resumed run is checked like a new one.
cp -r few large
sed -i 's/^  pool: .*/  pool: 1000000000000/' large/config.yaml
expect_error mining.pool "of memory" -- train --resume large
