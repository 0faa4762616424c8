# poem report: of a run that is finished, goes on or is damaged, and of several; what it refuses.
source "$(dirname "$0")/common.sh"
write_image_config image.yaml
sets=(--set data.test=world:test:16 --set "data.ood=[digits=world:digits:9, scenes=world:scenes:7]")

# Every run leaves its report, with the scores and the pictures that it is made of.
expect_ok train image.yaml --out run "${sets[@]}" --set train.epochs=2
expect_words "$logs/err" "run/report.html"
for file in report.html scores/id.npy scores/digits.npy scores/scenes.npy gallery/{mined-0001,mined-0002,near-threshold}.{png,json}; do
  [ -s "run/$file" ] || fail "run/$file is missing"
done
expect_same "$(stat -c %s run/scores/scenes.npy)" $((128 + 4 * 7))
expect_words run/metrics.jsonl '"classes":[{' '"mined":' '"pool":'
expect_words run/report.html '<title>Run run</title>' "At its threshold" digits scenes "Figures on the test sets" "2 epochs in" \
  'data:image/png;base64,' '"float32"' config.yaml LibTorch
grep -qE "https?://[^w]" run/report.html && fail "the page names an address" || true

# Built again it is the same; another place is possible; what is no report is never replaced unasked.
cp run/report.html "$logs/first"
expect_ok report run
cmp run/report.html "$logs/first"
expect_ok report run --out here.html
cmp here.html "$logs/first"
printf 'precious' >letter.html
expect_error letter.html "not a report" "--force" -- report run --out letter.html
expect_ok report run --out letter.html --force
expect_words letter.html "At its threshold"

# Several runs.
expect_ok train image.yaml --out other "${sets[@]}" --set train.epochs=1 --set mining.miner=random --seed 1
expect_error "--out" "several runs" -- report run other
expect_error ./run/ "named twice" "once" -- report run other ./run/ --out both.html
expect_ok report run other --out both.html
expect_words both.html "2 runs compared" "ean FPR95: " mining.miner thompson random

# Cut short: by Ctrl-C, by what is missing, by damage. The page says so.
"$program" --threads 1 train image.yaml --out cut --set train.epochs=100000 >"$logs/out" 2>"$logs/err" &
child=$!
for ((i = 0; i < 3000; ++i)); do [ ! -e cut/metrics.jsonl ] || break; sleep 0.01; done
expect_ok report cut --out going.html # while it goes on
expect_words going.html "not finished" "of 100000 epochs"
kill -INT $child
code=0
wait $child || code=$?
expect_same $code 130
expect_words cut/report.html "not finished" "no detector yet" "poem train --resume cut"
cp -r run damaged
printf 'garbage' | tee damaged/results.json damaged/scores/digits.npy damaged/gallery/mined-0001.json damaged/metrics.jsonl >damaged/detector.safetensors
rm -r damaged/checkpoint
expect_ok report damaged
expect_words damaged/report.html results.json metrics.jsonl "line 1" mined-0001.json detector.safetensors "0 of 2 epochs"
sed -i 's/^format: 1/format: 2/' damaged/config.yaml
expect_ok report damaged
expect_words damaged/report.html "format 2, but this poem knows format 1"
cp -r run bare
rm -r bare/{scores,gallery,results.json,metrics.jsonl}
expect_ok report bare
expect_words bare/report.html "metrics.jsonl is missing"

# Not a run, and names that cannot be files.
mkdir empty
expect_error empty "not a run" -- report empty
expect_error missing "not a folder" -- report missing
mkdir figure
touch figure/toy.json
expect_error figure "poem toy" "report.html" -- report figure
expect_error nowhere/x.html "folder does not exist" -- report run --out nowhere/x.html
expect_error data.ood "'a/b'" "another name" -- train image.yaml --out new --set data.test=world:test:8 --set "data.ood=['a/b=world:digits:8']"
expect_error data.ood "'id'" "another name" -- train image.yaml --out new --set data.test=world:test:8 --set "data.ood=[id=world:digits:8]"
