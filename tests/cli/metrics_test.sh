# poem metrics on score files.
source "$(dirname "$0")/common.sh"

# ID 3 2 2 1, OOD 2 1 0 0. Of 16 pairs the ID score is larger in 12 and equal in 3: AUROC 13.5 / 16 = 0.84375.
# 95 % of four ID scores means all four: threshold 1, which 2 of 4 OOD scores reach: FPR95 0.5.
# Precision 1, 3/4, 4/6 at recall 1/4, 3/4, 1: AUPR-in 1/4 + 3/8 + 1/6 = 19/24.
printf '3 2\n2 1\n' >id.txt
printf 'input,score\na,2\nb,1\n"c, d",0\ne,0\n' >ood.csv
npy ood.npy '<f4' '4,' '\x00\x00\x00\x40\x00\x00\x80\x3f\x00\x00\x00\x00\x00\x00\x00\x00'
expect_ok metrics --id id.txt --ood a=ood.csv
expect_words "$logs/out" 84.38 50.00 79.17
expect_ok metrics --id id.txt --ood a=ood.csv --ood b=ood.npy --json
for key in fpr95 auroc aupr_in aupr_out detection_error; do
  expect_same "$(grep -c "\"$key\"" "$logs/out")" 3 # both sets and their mean
done
expect_words "$logs/out" '"auroc": 0.84375' '"fpr95": 0.5' '"aupr_in": 0.79166' '"id_count": 4' '"ood_count": 4'
expect_same "$(grep -c '"auroc": 0.84375' "$logs/out")" 3

# The scores.csv that poem train and poem eval write: each set has rows of its own.
cat >scores.csv <<'TEXT'
set,name,class,predicted,verdict,energy
id,cat/1.png,cat,cat,known,3
id,"cat/a,
7.png",cat,cat,known,2
id,cat/3.png,cat,dog,known,2
id,dog/1.png,dog,dog,known,1
a,1.png,,dog,known,2
a,2.png,,dog,known,1
b,0,,cat,unknown,0
a,3.png,,dog,unknown,0
a,4.png,,dog,unknown,0
TEXT
expect_ok metrics --id scores.csv --ood a=scores.csv --ood b=scores.csv --json
expect_words "$logs/out" '"auroc": 0.84375' '"id_count": 4' '"ood_count": 4' '"ood_count": 1'
expect_error scores.csv "no set 'far'" "id, a and b" -- metrics --id scores.csv --ood far=scores.csv

# --balance 1:2 takes two ID and four OOD scores, by the seed alone.
expect_ok metrics --id id.txt --ood a=ood.csv --balance 1:2 --json
expect_words "$logs/out" '"id_count": 2' '"ood_count": 4'
cp "$logs/out" "$logs/first"
expect_ok metrics --id id.txt --ood a=ood.csv --balance 1:2 --json --seed 0
cmp "$logs/out" "$logs/first"
for seed in 1 2 3 4 5; do
  expect_ok metrics --id id.txt --ood a=ood.csv --balance 1:2 --json --seed $seed
  cmp -s "$logs/out" "$logs/first" || break
done
! cmp -s "$logs/out" "$logs/first" || fail "six seeds, one choice"
expect_ok metrics --id id.txt --ood a=ood.csv --balance 1:1 --json # takes all
expect_words "$logs/out" '"auroc": 0.84375' '"id_count": 4'
expect_error "--balance" "'one'" "ID:OOD" -- metrics --id id.txt --ood a=ood.csv --balance one
expect_error "4 ID and 4 OOD" "5:1" -- metrics --id id.txt --ood a=ood.csv --balance 5:1
expect_error "--seed" "'-1'" "at least 0" -- metrics --id id.txt --ood a=ood.csv --balance 1:1 --seed -1

# Scores that float32 has one number for, and some that it has none for.
printf '0.999999999999 0.9999999999989 0.9999999999985' >near_id.txt
printf 'score\n0.999999999\n0.9999999985\n0.9999999999987\n' >near_ood.csv
expect_ok metrics --id near_id.txt --ood a=near_ood.csv --json # of 9 pairs the ID score is larger in 8
expect_words "$logs/out" '"auroc": 0.8888888888888888' '"fpr95": 0.3333333333333333'
sed 's/$/e300/; s/ /e300 /g' near_id.txt >far_id.txt
sed '2,$s/$/e300/' near_ood.csv >far_ood.csv
expect_ok metrics --id far_id.txt --ood a=far_ood.csv --json
expect_words "$logs/out" '"auroc": 0.8888888888888888' '"fpr95": 0.3333333333333333'
printf '1 2 3e400' >beyond.txt
expect_error beyond.txt "line 1" "3e400" "range of float64" "rescale" -- metrics --id id.txt --ood a=beyond.txt
printf '1 inf -inf' >infinite.txt
expect_ok metrics --id infinite.txt --ood a=ood.csv

# Scores that are all the same.
printf '2 2 2' >same.txt
expect_ok metrics --id same.txt --ood a=same.txt --ood b=same.txt
expect_words "$logs/out" "all scores are 2: they cannot separate ID from OOD"
expect_ok metrics --id same.txt --ood a=same.txt --json
expect_words "$logs/out" '"problem": "all scores are 2' '"auroc": 0.5'

printf '1\nnan\n' >nan.txt
npy nan.npy '<f4' '2,' '\x00\x00\x80\x3f\x00\x00\xc0\x7f'
printf 'score\n1\nx\n' >word.csv
: >empty.txt
printf 'not an array' >text.npy
npy short.npy '<f4' '4,' '\x00\x00\x80\x3f'
expect_error nan.txt "line 2" NaN remove -- metrics --id id.txt --ood a=nan.txt
expect_error nan.npy "index 1" NaN -- metrics --id nan.npy --ood a=ood.csv
expect_error word.csv "line 3" "'x'" -- metrics --id id.txt --ood a=word.csv
expect_error empty.txt "no scores" -- metrics --id empty.txt --ood a=ood.csv
expect_error missing.txt "No such file" -- metrics --id missing.txt --ood a=ood.csv
expect_error text.npy "not a npy array" -- metrics --id text.npy --ood a=ood.csv
expect_error short.npy "4 bytes" -- metrics --id short.npy --ood a=ood.csv
expect_error "'a'" "twice" -- metrics --id id.txt --ood a=ood.csv --ood a=ood.npy
expect_error "ood.csv" "NAME=PATH" -- metrics --id id.txt --ood ood.csv
printf 'PK\x03\x04 and so on' >cut.npz
expect_error cut.npz -- metrics --id cut.npz --ood a=ood.csv
expect_error "is a folder" -- metrics --id . --ood a=ood.csv
