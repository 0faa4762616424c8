# poem calibrate: thresholds, temperature and p-values from images that were never trained on.
source "$(dirname "$0")/common.sh"
expect_ok world photos --train 80 --test 40 --outliers 64 --ood 4
write_image_config image.yaml
expect_ok train image.yaml --out run --set train.epochs=1 --set data.train=photos/train --set data.outliers=photos/outliers \
  --set outliers.fit=resize --set data.validation=0 --set mining.select=32
expect_error "run/detector.safetensors" "has no threshold" "poem calibrate" -- predict run photos/ood

expect_ok calibrate run --id photos/test --tpr 0.8 --unsure 0.95 --out new.safetensors
expect_words "$logs/out" "keeps 32 of 40 images of photos/test (asked: 80 %)" "unsure from" "keeps 38 of 40" "temperature" "% before" "detector     new.safetensors"
expect_words "$logs/err" "40 images are few to set a threshold on"
! grep -q "could not check" "$logs/err" || fail "a run says what it was trained on"
expect_ok info new.safetensors
expect_words "$logs/out" "keeps 32 of 40 images of photos/test" "unsure     from" "keeps 38 of 40 images of photos/test" "softmax    at temperature"

# Of the images that it was calibrated on, it keeps what it says, and their p-values are their ranks.
expect_ok predict new.safetensors photos/test
python3 - "$logs/out" <<'PYTHON' || fail "verdicts are not those of the calibration: $(cat "$logs/out")"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert len(rows) == 40 and sum(row["verdict"] not in ("unknown", "unsure") for row in rows) >= 32
assert sum(row["verdict"] != "unknown" for row in rows) >= 38
scores = [float(row["score"]) for row in rows]
for row, score in zip(rows, scores):
    assert abs(float(row["p_value"]) - (1 + sum(other <= score for other in scores)) / 41) < 1e-5
PYTHON

# poem eval counts the unsure ones among those that the first threshold rejects.
expect_ok eval new.safetensors --id photos/test --ood digits=photos/ood/digits --out judged
expect_words "$logs/out" "of these unsure" "% of all)"
python3 - judged <<'PYTHON' || fail "eval's counts are not those of its scores: $(cat judged/results.json judged/scores.csv)"
import csv, json, struct, sys
float32 = lambda text: struct.unpack("f", struct.pack("f", float(text)))[0]  # a threshold is one of the scores
at = json.load(open(sys.argv[1] + "/results.json"))["scores"]["energy"]["at_threshold"]
threshold, unsure = float32(at["threshold"]), float32(at["unsure_threshold"])
rows = list(csv.DictReader(open(sys.argv[1] + "/scores.csv")))
for name, counts in [("id", at["id"]), ("digits", at["sets"]["digits"])]:
    scores = [float32(row["energy"]) for row in rows if row["set"] == name]
    assert counts["unsure"] == sum(unsure <= score < threshold for score in scores), name
    assert counts["rejected"] == sum(score < threshold for score in scores), name
    assert counts["kept"] + counts["rejected"] == len(scores) > 0, name
assert at["id"]["unsure"] > 0 and unsure < threshold
PYTHON

# Without labels there is no temperature. A detector can be calibrated again, and other commands read it.
mkdir flat
find photos/test -name '*.png' -printf '%p\n' | while read -r file; do cp "$file" "flat/$(tr / - <<<"$file")"; done
expect_ok calibrate new.safetensors --id flat --out again.safetensors
expect_words "$logs/out" "keeps 38 of 40" "not fitted: the images have no labels"
! grep -q "unsure" "$logs/out" || fail "an old second threshold stayed"
# A file does not say what it was trained on, unless it lies in its run.
! grep -q "held-out" "$logs/out" || fail "claims more than it knows: $(cat "$logs/out")"
expect_words "$logs/err" "new.safetensors does not say what it was trained on" "images of flat are new" "name the run folder"
expect_error "photos/train" "trained on" -- calibrate run/detector.safetensors --id photos/train --out bad.safetensors
expect_ok features again.safetensors flat --out features.npz

expect_error "photos/train" "trained on" -- calibrate run --id photos/train --out bad.safetensors
expect_error "photos/train/" "trained on" -- calibrate run --id photos/train/ --out bad.safetensors
for source in photos 'photos/train#count=50' photos/train/boat; do
  expect_error "$source" "trained on, from " "photos/train (name" -- calibrate run --id "$source" --out bad.safetensors
done
ln -s photos/train elsewhere
expect_error elsewhere "trained on, from " "photos/train (name" -- calibrate run --id elsewhere --out bad.safetensors
# The test images of CIFAR-10 lie in the folder of its training images.
mkdir batches
for file in data_batch_1 test_batch; do
  python3 -c 'import sys
for i in range(30): sys.stdout.buffer.write(bytes([i % 10]) + bytes([7 * i]) * 3072)' >batches/$file.bin
done
expect_ok train image.yaml --out on-batches --set train.epochs=1 --set data.train=batches --set data.validation=0 --set mining.select=30
for source in batches batches/data_batch_1.bin; do
  expect_error "$source" "trained on, from " -- calibrate on-batches --id "$source" --out bad.safetensors
done
expect_ok calibrate on-batches --id batches/test_batch.bin --out calibrated.safetensors

expect_error "new.safetensors" "exists already" "--force" -- calibrate run --id flat --out new.safetensors
expect_error "--tpr" "is 1.5" "0.95 is usual" -- calibrate run --id flat --tpr 1.5 --out bad.safetensors
expect_error "--tpr" "is 0" -- calibrate run --id flat --tpr 0 --out bad.safetensors
expect_error "--unsure" "is 0.9" "above the tpr 0.95" -- calibrate run --id flat --unsure 0.9 --out bad.safetensors
expect_error "flat2" "no such file" -- calibrate run --id flat2 --out bad.safetensors
expect_error "has a class 'cropped'" -- calibrate run --id photos/ood --out bad.safetensors
expect_error "--out is required" -- calibrate run --id flat
