# poem demo: mistakes in any of its trainings are found before the first begins.
source "$(dirname "$0")/common.sh"
write_flat_config flat.yaml
demo=(demo --config flat.yaml --out made)

expect_error mining.select "only 10" -- "${demo[@]}" --set mining.pool=10 # only runs with outliers mine
expect_error missing.poem "check the path" -- "${demo[@]}" --set data.outliers=missing.poem
expect_error flat.yaml "is a file" -- demo --config flat.yaml --out flat.yaml/made
mkdir -p made/poem
printf precious >made/poem/letter.txt
expect_error made/poem "never replaced" -- "${demo[@]}"
expect_error made/poem "never replaced" -- "${demo[@]}" --force
rm -r made

expect_ok "${demo[@]}" --set train.epochs=1
expect_words "$logs/out" "no outliers, MSP" "random outliers" POEM
for run in none random poem; do [ -s made/$run/detector.safetensors ] || fail "made/$run has no detector"; done
expect_ok "${demo[@]}" --set train.epochs=1 # there already: the table again
expect_words "$logs/out" POEM
expect_error made/none "exists already" -- "${demo[@]}" --set train.epochs=2
