# poem posthoc on files of features.
source "$(dirname "$0")/common.sh"

# le NUMBER BYTES: its little-endian bytes.
le() {
  local value=$1 i
  for ((i = 0; i < $2; i++)); do printf "\\x$(printf %02x $((value & 255)))" && value=$((value >> 8)); done
}

# npz FILE NAME=ARRAY.npy...: what numpy.savez writes, a zip without compression. gzip ends with the CRC.
npz() {
  local out=$1 entry name array size
  : >"$out" && : >"$logs/directory"
  for entry in "${@:2}"; do
    name=${entry%%=*}.npy array=${entry#*=}
    size=$(stat -c %s "$array")
    {
      le 20 2 && le 0 8
      gzip -c "$array" | tail -c 8 | head -c 4
      le "$size" 4 && le "$size" 4 && le ${#name} 2 && le 0 2
    } >"$logs/common"
    {
      printf 'PK\x01\x02' && le 20 2 && cat "$logs/common"
      le 0 10 && le "$(stat -c %s "$out")" 4 && printf %s "$name"
    } >>"$logs/directory"
    { printf 'PK\x03\x04' && cat "$logs/common" && printf %s "$name" && cat "$array"; } >>"$out"
  done
  size=$(stat -c %s "$out")
  cat "$logs/directory" >>"$out"
  {
    printf 'PK\x05\x06' && le 0 4 && le $(($# - 1)) 2 && le $(($# - 1)) 2
    le "$(stat -c %s "$logs/directory")" 4 && le "$size" 4 && le 0 2
  } >>"$out"
}

zero='\x00\x00\x00\x00' half='\x00\x00\x00\x3f' one='\x00\x00\x80\x3f' two='\x00\x00\x00\x40' three='\x00\x00\x40\x40'
nan='\x00\x00\xc0\x7f' long='\x00\x00\x00\x00\x00\x00\x00'
# Four training rows of two features in two classes; a class's logit is its feature.
npy train.npy '<f4' '4, 2' "$two$half$three$one$half$three$one$three"
npy labels.npy '<i8' '4,' "\x00$long\x00$long\x01$long\x01$long"
npy id.npy '<f4' '3, 2' "$two$half$half$three$three$one"
npy near.npy '<f4' '2, 2' "$one$one$half$one"
npy far.npy '<f4' '2, 2' "$zero$zero$three$three"
npy weight.npy '<f4' '2, 2' "$one$zero$zero$one"
npy bias.npy '<f4' '2,' "$zero$zero"
npz head.npz weight=weight.npy bias=bias.npy
fitted=(--train train.npy --train-labels labels.npy --head head.npz)
inputs=("${fitted[@]}" --id id.npy --ood near=near.npy --ood far=far.npy)

expect_ok posthoc "${inputs[@]}" --score all --out out
expect_words "$logs/out" FPR95 AUROC "3 ID against near 2, far 2"
scores="msp maxlogit energy mds rmds knn react dice ash scale vim gen fdbd ssd"
for score in $scores; do
  grep -q "^$score " "$logs/out" || fail "no line of $score"
  expect_same "$(stat -c %s out/$score/id.npy out/$score/near.npy out/$score/far.npy | tr '\n' ' ')" "140 136 136 "
  expect_words out/results.csv "$score,near," "$score,far," "$score,mean,"
done
expect_words out/results.csv "score,set,fpr95,auroc"
expect_words out/results.json '"scores": {' '"knn": {' '"id_count": 3' '"ood_count": 2'

# The largest logits are known: max(2, .5), max(.5, 3), max(3, 1), and 1, 1.
npy maxlogit.npy '<f4' '3,' "$two$three$three"
cmp out/maxlogit/id.npy maxlogit.npy
npy maxlogit.npy '<f4' '2,' "$one$one"
cmp out/maxlogit/near.npy maxlogit.npy

# The files are those that poem metrics reads, with the same result.
expect_ok metrics --id out/energy/id.npy --ood near=out/energy/near.npy --ood far=out/energy/far.npy --json
grep -A 7 '"near": {' "$logs/out" | sed 's/^ *//' >"$logs/metrics"
expect_ok posthoc "${inputs[@]}" --score energy --out one --json
cmp "$logs/out" one/results.json
grep -A 7 '"near": {' "$logs/out" | sed 's/^ *//' | cmp - "$logs/metrics"
expect_same "$(ls one | tr '\n' ' ')" "energy results.csv results.json "

# A poisoned test set changes its own scores and nothing else.
npy poison.npy '<f4' '2, 2' "$three$one$three$two"
expect_ok posthoc "${fitted[@]}" --id id.npy --ood near=near.npy --ood far=poison.npy --score all --out poisoned
for score in $scores; do
  cmp out/$score/id.npy poisoned/$score/id.npy
  cmp out/$score/near.npy poisoned/$score/near.npy
  ! cmp -s out/$score/far.npy poisoned/$score/far.npy || fail "$score does not see its test set"
done

# A score that cannot be fitted is marked among others, which are what they were; alone it is an error.
npy same.npy '<f4' '4, 2' "$two$one$two$one$two$one$two$one"
npy one.npy '<f4' '1, 2' "$two$one"
npy one_label.npy '<i8' '1,' "\x00$long"
huge='\xca\xf2\x49\x71' # 1e30
npy huge.npy '<f4' '4, 2' "$two$half$three$one$half$huge$one$three"
for wrong in "same.npy|labels.npy|all training rows are the same|mds rmds knn react dice vim fdbd ssd" \
  "one.npy|one_label.npy|there is only one training row|mds rmds knn react dice vim fdbd ssd" \
  "huge.npy|labels.npy|training row 2 has length 1e+30|mds rmds dice vim fdbd"; do
  IFS='|' read -r train labels why unfit <<<"$wrong"
  bad=(--train "$train" --train-labels "$labels" --head head.npz --id id.npy --ood near=near.npy --ood far=far.npy)
  expect_ok posthoc "${bad[@]}" --score all --out bad --force
  for score in $scores; do
    if [[ " $unfit " == *" $score "* ]]; then
      expect_words "$logs/out" "$score: cannot be fitted: $why"
      grep -qE "^$score( +NA){5}" "$logs/out" || fail "$score has figures: $(cat "$logs/out")"
      grep -F "$score,near,NA,NA,NA,NA,NA,,3,2," bad/results.csv | grep -qF "$why" || fail "$(cat bad/results.csv)"
    else
      cmp out/$score/near.npy bad/$score/near.npy 2>/dev/null || [[ $score =~ knn|react|ssd ]] ||
        fail "$score changed with the training rows"
    fi
  done
  expect_words bad/results.json '"problem": "cannot be fitted: ' '"auroc": null' '"auroc": 0'
  expect_error "score 'mds'" "cannot be fitted" "$why" -- posthoc "${bad[@]}" --score mds --out alone
done
rm -r bad huge.npy

# What cannot be.
hoc=(posthoc --score energy --out new)
expect_error "'enrgy'" "energy" "fdbd" -- posthoc "${inputs[@]}" --score msp,enrgy --out new
expect_error "'knm'" "nearest is 'knn'" "there are: msp, " -- posthoc "${inputs[@]}" --score knm --out new
! grep -q "odin\|mahalanobis\|reject" "$logs/err" || fail "names what saved features do not allow: $(cat "$logs/err")"
expect_error "'odin'" gradients "poem eval" -- posthoc "${inputs[@]}" --score odin --out new
expect_error "'reject'" "beyond the classes" -- posthoc "${inputs[@]}" --score reject --out new
expect_error "--score is required" -- posthoc "${inputs[@]}" --out new
expect_error "'id'" "beside id.npy" -- "${hoc[@]}" "${fitted[@]}" --id id.npy --ood id=near.npy
expect_error "'a/b'" -- "${hoc[@]}" "${fitted[@]}" --id id.npy --ood a/b=near.npy
expect_error near twice -- "${hoc[@]}" "${inputs[@]}" --ood near=far.npy
npy nan.npy '<f4' '1, 2' "$one$nan"
npy wide.npy '<f4' '1, 3' "$one$one$one"
npy none.npy '<f4' '0, 2' ''
for wrong in "nan.npy|row 0" "wide.npy|3 features per row" "none.npy|0 rows of 2" "missing.npy|No such file" "bias.npy|1 dimensions"; do
  expect_error "${wrong%|*}" "${wrong#*|}" -- "${hoc[@]}" "${fitted[@]}" --id "${wrong%|*}" --ood near=near.npy
  expect_error "${wrong%|*}" "${wrong#*|}" -- "${hoc[@]}" "${fitted[@]}" --id id.npy --ood "near=${wrong%|*}"
  expect_error "${wrong%|*}" "${wrong#*|}" -- "${hoc[@]}" "${fitted[@]:2}" --train "${wrong%|*}" --id id.npy --ood near=near.npy
done
huge='\x9c\x75\x00\x88\x3c\xe4\x37\x7e' # 1e300: no float32
npy huge.npy '<f8' '1, 2' "$huge$huge"
expect_error huge.npy "feature 0 of row 0" "float32" -- "${hoc[@]}" "${fitted[@]}" --id huge.npy --ood near=near.npy
npy few.npy '<i8' '1,' "\x00$long"
npy beyond.npy '<i8' '4,' "\x00$long\x00$long\x02$long\x01$long"
for wrong in "few.npy|1 labels for 4" "beyond.npy|row 2 has label 2, but the head has 2 classes" "train.npy|2 dimensions of float32"; do
  expect_error "${wrong%|*}" "${wrong#*|}" -- "${hoc[@]}" --train train.npy --head head.npz --id id.npy --ood n=near.npy \
    --train-labels "${wrong%|*}"
done
npz no_bias.npz weight=weight.npy
npz flat.npz weight=bias.npy bias=bias.npy
npz long.npz weight=weight.npy bias=labels.npy
npy one_bias.npy '<f4' '1,' "$one"
npz short.npz weight=weight.npy bias=one_bias.npy
npz nan.npz weight=nan.npy bias=one_bias.npy
for wrong in "no_bias.npz|no array 'bias'" "flat.npz|weight has shape 2" "long.npz|int64" "short.npz|2 rows and bias 1" \
  "nan.npz|not finite" "train.npy|numpy.savez"; do
  expect_error "${wrong%|*}" "${wrong#*|}" -- "${hoc[@]}" --train train.npy --train-labels labels.npy --id id.npy \
    --ood n=near.npy --head "${wrong%|*}"
done

# Outputs are replaced when asked, and nothing beside them.
expect_error "out/results.json" "exists already" "--force" -- posthoc "${inputs[@]}" --score energy --out out
expect_error "id.npy" "is a file" -- posthoc "${inputs[@]}" --score energy --out id.npy
rm one/results.json one/results.csv
expect_error "one/energy/id.npy" "exists already" -- posthoc "${inputs[@]}" --score energy --out one
echo mine >out/note
echo mine >out/knn/note
echo mine >out/react/my.npy
expect_ok posthoc "${fitted[@]}" --id id.npy --ood near=near.npy --score energy --out out --force
expect_words "$logs/err" "results: out/results.json, out/results.csv"
expect_same "$(find out -type f | sort | tr '\n' ' ')" "out/energy/id.npy out/energy/near.npy out/knn/note out/note \
out/react/my.npy out/results.csv out/results.json "
echo '{"scores": {"energy": {"sets": {"../../labels": {}}}}}' >out/results.json # not ours: nothing of it is believed
expect_ok posthoc "${inputs[@]}" --score all,knn --out out --force
[ -s labels.npy ] || fail "--force removed a file outside of DIR"
expect_same "$(grep -c '^knn,mean' out/results.csv)" 1

# --balance as in poem metrics, on the same scores.
expect_ok posthoc "${inputs[@]}" --score energy --out balanced --balance 1:2 --seed 3
expect_ok metrics --id out/energy/id.npy --ood near=out/energy/near.npy --ood far=out/energy/far.npy --balance 1:2 --seed 3 --json
grep -A 7 '"near": {' "$logs/out" | sed 's/^ *//' >"$logs/metrics"
grep -A 7 '"near": {' balanced/results.json | sed 's/^ *//' | cmp - "$logs/metrics"
expect_words balanced/results.json '"id_count": 1' '"ood_count": 2'
expect_error "--balance" "'1'" -- posthoc "${inputs[@]}" --score energy --out new --balance 1

# A full disk leaves no file.
(
  trap '' XFSZ
  ulimit -f 0
  poem posthoc "${inputs[@]}" --score energy --out full 2>&1 >/dev/null
) | cat >"$logs/err" || true
expect_same "$(wc -l <"$logs/err")" 1
expect_words "$logs/err" full/ "cannot write" "free some space"
expect_same "$(find . -path './full*' -type f)" ""
