# Training and test images that tell nothing: scores that cannot mean anything are named, not printed as results.
source "$(dirname "$0")/common.sh"

# Eight grey images of 8×8, all the same, in two classes.
images() { for ((i = 0; i < $1 * 64; i++)); do printf '\\x%s' "$2"; done; }
npy train.npy '|u1' '8, 8, 8' "$(images 8 80)"
npy train_labels.npy '|u1' '8,' '\x00\x01\x00\x01\x00\x01\x00\x01'
npy test.npy '|u1' '3, 8, 8' "$(images 3 80)"
cat >run.yaml <<'TEXT'
data: {train: train.npy, test: test.npy, ood: [a=test.npy], size: 8, validation: 0.25}
augment: {padding: 0, flip: false}
network: {name: wideresnet, depth: 10, mean: [128], std: [64]}
objective: {name: cross_entropy}
mining: {miner: none}
train: {epochs: 1, batch: 4, learning_rate: 0.01}
TEXT

# The run's own score: figures that say nothing come with a warning and are marked.
expect_ok train run.yaml --out run
expect_words "$logs/err" "score 'energy'" "all scores are" "cannot separate ID from OOD"
expect_words run/results.json '"problem": "all scores are' '"auroc": 0.5'
expect_words run/results.csv "cannot separate ID from OOD"

# One that must be fitted on such images ends the run with an error; what was trained is kept.
code=0
poem train run.yaml --out other --set score=mds >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" "score 'mds'" "cannot be fitted" "all training rows are the same"
[ -s other/checkpoint/state.safetensors ] || fail "the checkpoint is lost"

# Among others it is marked and they are not lost; alone it is an error.
expect_ok eval run --id test.npy --ood a=test.npy --score energy,mds,knn --out figures
grep -qE "^mds( +NA){5}" "$logs/out" || fail "mds has figures: $(cat "$logs/out")"
expect_words "$logs/out" "mds: cannot be fitted: all training rows are the same" "energy: all scores are"
expect_words figures/results.csv "mds,a,NA,NA,NA,NA,NA,"
expect_words figures/results.json '"auroc": null' '"problem": "cannot be fitted'
expect_error "score 'knn'" "cannot be fitted" -- eval run --id test.npy --ood a=test.npy --score knn
