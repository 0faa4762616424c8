# poem demo: mistakes in any of its trainings are found before the first begins; the table, with and without a spread.
source "$(dirname "$0")/common.sh"
small=(--set data.train=world:train:64 --set data.test=world:test:40 --set "data.ood=[digits=world:digits:12]"
  --set data.outliers=world:procedural:64 --set data.size=16 --set mining.pool=64 --set train.epochs=1
  --set train.batch=16 --set train.outlier_batch=16)
demo=(demo --out made --seeds 1 "${small[@]}")

expect_error mining.select "only 10" -- "${demo[@]}" --set mining.pool=10 # only runs with outliers mine
expect_error missing.poem "check the path" -- "${demo[@]}" --set data.outliers=missing.poem
expect_error "--set" "train.epoch" -- "${demo[@]}" --set train.epoch=3
expect_error "--set seed=4" "seeds of its own" "--seeds" -- "${demo[@]}" --set seed=4
expect_error "--seeds" "'4'" "from 1 to 3" -- demo --seeds 4
: >file
expect_error file "is a file" -- demo --out file/made "${small[@]}"
mkdir made
printf precious >made/letter.txt
expect_error made "never replaced" -- "${demo[@]}"
expect_error made "never replaced" -- "${demo[@]}" --force
rm -r made

expect_ok "${demo[@]}"
expect_words "$logs/out" "no outliers (MSP)" "no outliers (energy)" "random outliers" POEM FPR95 "one seed (0)" "digits 12"
! grep -qF "+-" "$logs/out" || fail "one seed has no spread"
expect_same "$(ls made/runs | sed 's/-seed.*//' | sort)" $'cross_entropy-none\noutlier_class-random\noutlier_class-thompson'
[ -s made/report.html ] || fail "made/report.html is missing"
cp "$logs/out" "$logs/first"
expect_ok "${demo[@]}" # there already: the table again
cmp "$logs/out" "$logs/first"
expect_ok demo --out made "${small[@]}" # only the other two seeds are trained
expect_same "$(ls made/runs | wc -l)" 9
expect_words "$logs/err" "6 of them to train"
expect_words "$logs/out" "+-" "3 seeds (0, 1, 2)"
