# poem toy: its files, its seed, and where it may not write.
source "$(dirname "$0")/common.sh"

expect_ok toy --out toy
expect_words "$logs/out" "30 epochs with 300 mined outliers each" toy/report.html
for file in toy.json toy.yaml id.npy labels.npy outliers.npy max_softmax.npy mined.npy scores.npy logits.npy \
  boundary.csv mining.svg boundary.svg report.html; do
  [ -s "toy/$file" ] || fail "toy/$file is missing"
done
expect_same "$(find toy -type f | wc -l)" 13
expect_same "$(head -c 100 toy/mined.npy | grep -ao '([0-9, ]*)')" "(30, 300, 2)"
expect_same "$(head -1 toy/boundary.csv)" "x,y,logit,boundary_score,id_density"
for epoch in 1 4 30; do expect_words toy/mining.svg "Epoch $epoch<"; done
[ "$(stat -c %s toy/mining.svg)" -lt 150000 ] || fail "a large picture"
[ "$(stat -c %s toy/report.html)" -lt 3000000 ] || fail "a large page"
expect_same "$(grep -o '"title":"epoch [0-9]*' toy/report.html | sort -u | wc -l)" 30

# The same seed gives the same bytes.
expect_error toy "exists already" "--force" -- toy --out toy
cp -r toy first
expect_ok toy --out toy --force
diff -r toy first || fail "one seed, two toys"

mkdir foreign
printf 'precious' >foreign/letter.txt
expect_error foreign "toy.json" "never replaced" -- toy --out foreign --force
expect_error foreign/letter.txt "is a file" -- toy --out foreign/letter.txt
mkdir runs
cp -r foreign runs/toy # where it goes if nothing else is said
expect_error runs/toy "never replaced" -- toy
expect_error "--seed" -- toy --out new --seed -1
expect_error "--seed" x -- toy --out new --seed x
