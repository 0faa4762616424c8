# poem eval on a finished run, and test sets that do not fit.
source "$(dirname "$0")/common.sh"
write_image_config image.yaml
expect_ok train image.yaml --out run --set train.epochs=1
sets=(--id world:test:24 --ood digits=world:digits:8)

expect_ok eval run "${sets[@]}" --ood scenes=world:scenes:6
expect_words "$logs/out" FPR95 AUROC AUPR-in AUPR-out DetErr digits scenes mean "ID accuracy" "at threshold" kept rejected \
  "worst of 8 classes"
expect_ok eval run "${sets[@]}" --json --out results
expect_words "$logs/err" "results: results/results.json, results/results.csv"
cmp "$logs/out" results/results.json
for key in fpr95 auroc aupr_in aupr_out detection_error; do
  expect_same "$(grep -c "\"$key\": [0-9.]*" results/results.json)" 2 # the set and the mean
done
expect_words results/results.json '"id_accuracy": 0.' '"id_count": 24' '"ood_count": 8'
expect_words results/results.json '"scores": {' '"energy": {'
expect_words results/scores.csv "set,name,class,predicted,verdict,energy" "id,0," "digits,7,,"
expect_same "$(wc -l <results/scores.csv)" 33
expect_words results/results.csv "score,set,fpr95,auroc,aupr_in,aupr_out,detection_error,id_accuracy,id_count,ood_count"
expect_ok eval run/detector.safetensors "${sets[@]}" --json
cmp "$logs/out" results/results.json
expect_ok eval run "${sets[@]}" --json --score msp
! cmp -s "$logs/out" results/results.json || fail "two scores, one result"
expect_ok eval run --id world:scenes:8 --ood digits=world:digits:8 --json
expect_words "$logs/out" '"id_accuracy": null'

# Results are replaced when asked, and nothing beside them.
expect_error results/results.json "exists already" "--force" -- eval run "${sets[@]}" --out results
touch results/notes
expect_ok eval run "${sets[@]}" --out results --force
[ -e results/notes ] || fail "eval --force removed more than results"
expect_error "run" "of its own" "another folder" -- eval run "${sets[@]}" --out run --force
expect_error image.yaml "is a file" -- eval run "${sets[@]}" --out image.yaml
expect_error "/proc/nowhere" "cannot create" -- eval run "${sets[@]}" --out /proc/nowhere/x

expect_error enrgy "energy" "msp" -- eval run "${sets[@]}" --score enrgy
expect_error "'digits'" twice -- eval run "${sets[@]}" --ood digits=world:scenes:4
expect_error "world:digits" "NAME=PATH" -- eval run --id world:test:8 --ood world:digits
mkdir empty
expect_error empty "image" -- eval run --id world:test:8 --ood a=empty --out new
expect_error missing "check the path" -- eval missing "${sets[@]}"
expect_error empty "not a run" -- eval empty "${sets[@]}"
expect_error image.yaml "is a config, not a detector" "detector.safetensors" -- eval image.yaml "${sets[@]}"
npy grey.npy '|u1' '2, 2, 2' 'abcdefgh'
npy nine.npy '|u1' '1, 3, 2, 2' 'abcdefghijkl'
npy nine_labels.npy '<i8' '1,' '\x09\x00\x00\x00\x00\x00\x00\x00'
expect_error "nine.npy" "label 9" "8 classes" -- eval run --id nine.npy --ood a=world:digits:8 --out new
expect_error "grey.npy" "1 channels" "takes 3" -- eval run --id world:test:8 --ood a=grey.npy --out new
expect_error "nine.npy" "label 9" "8 classes" -- train image.yaml --out new --set data.test=nine.npy \
  --set "data.ood=[a=world:digits:8]"

# Several scores at once: a table of means, every set in JSON and CSV. What must be fitted is fitted on the run's images.
expect_ok eval run "${sets[@]}" --ood scenes=world:scenes:6 --score all --out several
for score in msp maxlogit energy mds rmds knn react dice ash scale vim gen fdbd ssd odin mahalanobis; do
  grep -q "^$score " "$logs/out" || fail "no line of $score"
  expect_words several/results.csv "$score,digits," "$score,scenes," "$score,mean,"
done
! grep -q "^reject " "$logs/out" || fail "a score of outputs that are not there"
expect_words "$logs/out" "means over the OOD sets; 24 ID against digits 8, scenes 6" "ID accuracy"
# One score has the same shape, and the same figures, as several.
expect_ok eval run "${sets[@]}" --score knn --json
cp "$logs/out" "$logs/knn"
expect_ok eval run "${sets[@]}" --score knn,vim --json
expect_words "$logs/out" '"scores": {' '"vim": {'
lines=$(grep -n id_accuracy "$logs/knn" | cut -d: -f1) # what follows is of all scores
expect_same "$(head -n $lines "$logs/out")" "$(head -n $lines "$logs/knn")"
expect_error run/detector.safetensors "'knn'" "ID training images" "--train" -- eval run/detector.safetensors "${sets[@]}" --score knn
expect_error "'odin'" "not trained on" "--train" -- eval run/detector.safetensors "${sets[@]}" --score odin
expect_error "'knm'" "nearest is 'knn'" "mahalanobis" -- eval run "${sets[@]}" --score knm
expect_ok eval run/detector.safetensors "${sets[@]}" --score knn,mahalanobis --train world:train:32
expect_error "world:digits:8" "no labels" -- eval run "${sets[@]}" --score knn --train world:digits:8
expect_error run/detector.safetensors "'reject'" "beyond the classes" -- eval run "${sets[@]}" --score reject
# What a network of supcon or ccu cannot have is said of its file.
write_flat_config flat.yaml
points=(--id world2d:test:20 --ood ring=world2d:ood:20)
expect_ok train flat.yaml --out contrastive --set objective.name=supcon --set mining.miner=none --set score=ssd
expect_error contrastive/detector.safetensors "'energy'" "outputs for the classes" "ssd" -- eval contrastive "${points[@]}" --score energy
expect_ok train flat.yaml --out dense --set objective.name=ccu --set objective.components=2 --set score=msp
expect_error dense/detector.safetensors "'vim'" "linear" "msp" -- eval dense/detector.safetensors "${points[@]}" --score vim
expect_ok eval run "${sets[@]}" --score all,msp,knn
expect_same "$(grep -c "^knn \|^msp " "$logs/out")" 2
expect_ok eval run/detector.safetensors "${sets[@]}" --score all
! grep -q "^knn " "$logs/out" || fail "KNN without training images"
expect_words "$logs/err" "left out" "knn" "reject"
grep -q "^ash " "$logs/out" || fail "no ASH, which needs the last layer alone"
expect_ok eval run/detector.safetensors "${sets[@]}" --score ash,scale
expect_error "'odin'" "not trained on" "--train at least 20 images" -- eval run/detector.safetensors "${sets[@]}" \
  --score odin --train world:train:16

# A detector keeps what its own score was fitted to. The threshold is that of its own score alone.
figures() { python3 -c 'import json, sys; r = json.load(sys.stdin); [s.pop("at_threshold", 0) for s in r["scores"].values()]; print(r)'; }
for score in knn odin mahalanobis; do
  expect_ok train image.yaml --out $score --set train.epochs=1 --set score=$score
  expect_ok eval $score/detector.safetensors "${sets[@]}" --json --out $score-results
  expect_ok eval run "${sets[@]}" --json --score $score
  expect_same "$(figures <"$logs/out")" "$(figures <$score-results/results.json)"
done

# Poisoned test sets change nothing but their own figures: neither what training leaves nor the figures of the others.
npy white.npy '|u1' '2, 3, 2, 2' "$(printf '\\xff%.0s' {1..24})"
for score in odin mahalanobis; do
  for poison in digits=world:digits:8 digits=white.npy; do
    expect_ok train image.yaml --out poison --force --set train.epochs=1 --set score=$score \
      --set data.test=world:test:24 --set "data.ood=[scenes=world:scenes:6, $poison]"
    cmp poison/detector.safetensors $score/detector.safetensors
    expect_ok eval run --id world:test:24 --ood scenes=world:scenes:6 --ood $poison --score odin,mahalanobis \
      --out clean-or-poisoned --force
    grep -F ,scenes, clean-or-poisoned/results.csv >"$logs/scenes-${poison#*=}"
  done
  cmp "$logs/scenes-world:digits:8" "$logs/scenes-white.npy"
done
expect_error "'mahalanobis'" "data.validation" -- train image.yaml --out new --set score=mahalanobis --set data.validation=0
expect_error "'reject'" "beyond the classes" -- train image.yaml --out new --set score=reject
