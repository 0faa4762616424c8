# poem train with outliers from several sources, one of them a world of a million that is drawn on demand.
source "$(dirname "$0")/common.sh"
write_image_config images.yaml

expect_ok pack world:outliers:40:9 large.poem --size 24
list="[large.poem#share=0.25, world:outliers:1000000]"
expect_ok train images.yaml --out run --set "data.outliers=$list"
expect_words "$logs/err" "large.poem: 40 outliers, 25 % of each pool" "1000000 outliers, 75 % of each pool" \
  "1000040 outliers" "mined from large.poem"
expect_words run/config.yaml "outliers: $list"
expect_words run/metrics.jsonl '"sources":[{"mined":' '"name":"large.poem","pool":0.25}' \
  '"name":"world:outliers:1000000","pool":0.75}'
expect_words run/gallery/mined-0001.json '"source": "large.poem"' '"source": "world:outliers:1000000"'
expect_words run/report.html "Sources of the mined set" "large.poem (pool 25.0"
grep -aq "mining/sources/large.poem/mined" run/events.out.tfevents.*.poem || fail "TensorBoard lacks the sources"

# The run's config repeats the run, and a longer training goes on from it.
expect_ok train run/config.yaml --out again
cmp run/detector.safetensors again/detector.safetensors
expect_ok train --resume run --set train.epochs=5
expect_same "$(wc -l <run/metrics.jsonl)" 5

# In a file: a list, or one text.
sed -i "s|outliers: world:outliers:32|outliers: [large.poem, world:outliers:60]|" images.yaml
expect_ok train images.yaml --out other
expect_words other/metrics.jsonl '"name":"large.poem"'
expect_ok train images.yaml --out one --set data.outliers=large.poem
! grep -q sources one/metrics.jsonl || fail "one source has no shares"
expect_words one/config.yaml "outliers: large.poem"

bad=(train images.yaml --out bad --set)
expect_error data.outliers "add up to 1.1" -- "${bad[@]}" "data.outliers=[large.poem#share=0.7, world:outliers#share=0.4]"
expect_error data.outliers "add up to 0.5" -- "${bad[@]}" "data.outliers=large.poem#share=0.5"
expect_error data.outliers "large.poem twice" -- "${bad[@]}" "data.outliers=[large.poem, large.poem]"
expect_error missing.poem "no such file" -- "${bad[@]}" "data.outliers=[large.poem, missing.poem]"
expect_error "#share is '2'" "at most 1" -- "${bad[@]}" "data.outliers=[large.poem#share=2, world:outliers]"
expect_error "#share is only for data.outliers" -- "${bad[@]}" "data.train=world:train:32#share=0.5"
expect_error "#share is only for data.outliers" -- info "large.poem#share=0.5"
expect_error data.outliers "large.poem gets none" -- "${bad[@]}" "data.outliers=[large.poem, world:outliers:1000000]"
