# poem theory: its files, its seed, and what it refuses.
source "$(dirname "$0")/common.sh"

small=(--repeats 20 --dimensions 2,5 --samples 10 --signals 2,8 --epsilons 0.01,1,30)
expect_ok theory --out theory "${small[@]}"
expect_words "$logs/out" ratio FPR bound violated theory/theory.csv
for file in theory.json theory.csv ratio.svg fpr.svg extended_ratio.svg extended_{fpr,fnr}.svg; do
  [ -s "theory/$file" ] || fail "theory/$file is missing"
done
expect_same "$(find theory -type f | wc -l)" 7
# In the extended model the two rates differ, and no bound is drawn or spoken of.
! cmp -s <(grep clip-path= theory/extended_fpr.svg) <(grep clip-path= theory/extended_fnr.svg) || fail "one picture for FPR and FNR"
expect_words theory/extended_fnr.svg "false negative rate" "FNR"
expect_words theory/fpr.svg "dashed: the theorem" "bound</text>"
! grep -q theorem theory/extended_*.svg || fail "a bound of the extended model"
# Two models, two dimensions, two signals, three constraints and none; no figure that is not a number.
expect_same "$(wc -l <theory/theory.csv)" $((1 + 2 * 2 * 2 * 4))
! grep -qE 'nan|inf' theory/theory.csv theory/*.svg || fail "not a number"
expect_words theory/theory.csv "model,d,n,r0,epsilon,ratio" violated_theta2_norm "theorem,2,10,8,0.01," "extended,5,10,2,,"

expect_error theory "exists already" "--force" -- theory --out theory
cp -r theory first
expect_ok theory --out theory --force "${small[@]}"
diff -r theory first || fail "one seed, two results"
expect_ok theory --out theory --force "${small[@]}" --seed 1
! cmp -s theory/theory.csv first/theory.csv || fail "two seeds, one result"

# What is measured does not depend on sigma, the bound does.
expect_ok theory --out sigma "${small[@]}" --sigma 0.5
expect_same "$(cut -d, -f6 sigma/theory.csv)" "$(cut -d, -f6 first/theory.csv)"
! cmp -s <(cut -d, -f8 sigma/theory.csv) <(cut -d, -f8 first/theory.csv) || fail "the bound does not see sigma"

# Beyond epsilon 1 the theorem says nothing: neither on the terminal nor in the table of all figures.
expect_ok theory --out loose --repeats 20 --dimensions 2 --samples 10 --signals 2 --epsilons 3,10
expect_same "$(awk '$1 == 2 { print $(NF - 1), $NF }' "$logs/out")" "- -"
expect_same "$(awk -F, '$1 == "theorem" && ($8 != "" || $NF != "")' loose/theory.csv)" ""
expect_ok theory --out tight --repeats 20 --dimensions 2 --samples 10 --signals 2 --epsilons 1,10
expect_words "$logs/out" "0.0%"

mkdir foreign
printf 'precious' >foreign/letter.txt
expect_error foreign "theory.json" "never replaced" -- theory --out foreign --force
mkdir runs
cp -r foreign runs/theory # where it goes if nothing else is said
expect_error runs/theory "never replaced" -- theory
expect_error "--repeats" -- theory --out new --repeats 1
expect_error "--signals" -- theory --out new --signals 2,31
expect_error "--signals" -- theory --out new --signals 0
expect_error "--epsilons" -- theory --out new --epsilons 0
expect_error "--dimensions" -- theory --out new --dimensions 0
expect_error "--dimensions" -- theory --out new --dimensions two
expect_error "--samples" -- theory --out new --samples 0
expect_error "--sigma" -- theory --out new --sigma 0
