# poem features, and what posthoc and mine make of them: what poem eval says of the images themselves.
source "$(dirname "$0")/common.sh"
write_image_config image.yaml
expect_ok train image.yaml --out run --set train.epochs=1 --set data.train=world:train:80 --set data.validation=0.2 --set mining.select=32

expect_ok features run --out train.npz
expect_words "$logs/out" "train.npz: 64 rows of 64 features" bias features labels logits weight # without the held-out images
expect_ok features run world:test:40 --out id.npz
expect_ok features run/detector.safetensors world:digits:16 --out digits.npz
! grep -q labels "$logs/out" || fail "labels of digits"
expect_ok features run world:outliers:30 --out outliers.npz
expect_words "$logs/err" "no labels are written" "world:outliers:30"

# Every score that features allow, with the figures of poem eval, which computes them from the images.
scores=msp,maxlogit,energy,mds,rmds,knn,react,dice,ash,scale,vim,gen,fdbd,ssd
expect_ok posthoc --train train.npz --id id.npz --ood digits=digits.npz --score $scores --out posthoc
expect_ok eval run --id world:test:40 --ood digits=world:digits:16 --score $scores --out eval
python3 - <<'PYTHON' || fail "posthoc and eval differ"
import json
features, images = (json.load(open(f"{folder}/results.json"))["scores"] for folder in ("posthoc", "eval"))
assert len(features) == 14 and features.keys() == images.keys()
for score in features:
    for figure, value in features[score]["mean"].items():
        assert abs(value - images[score]["mean"][figure]) < 1e-6, (score, figure)
PYTHON
expect_ok mine --id train.npz --outliers outliers.npz --pool digits.npz --select 5 --seed 1 --out chosen.npy

expect_error F.npy "NAME.npz" -- features run world:test:8 --out F.npy
expect_error id.npz "exists already" "--force" -- features run world:test:8 --out id.npz
expect_error run/detector.safetensors "training images" "run folder" -- features run/detector.safetensors --out new.npz
expect_error nowhere "no such file" -- features run nowhere --out new.npz
expect_error missing -- features missing world:test:8 --out new.npz
expect_error "digits.npz" "no array 'labels'" -- posthoc --train digits.npz --id id.npz --ood digits=digits.npz --score knn --out new
expect_error "--train-labels" "is missing" "poem features" -- posthoc --train x.npy --id id.npz --ood digits=digits.npz --score knn --out new
expect_error "eval/results.json" -- mine --id eval/results.json --outliers outliers.npz --pool digits.npz --select 5 --seed 1 --out new.npy
