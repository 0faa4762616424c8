# No space and no permission, for every command that writes or reads: one line, exit code 2, nothing half-written left.
source "$(dirname "$0")/common.sh"
write_flat_config flat.yaml
expect_ok train flat.yaml --out run --set train.epochs=1
printf '3 2 1' >scores.txt
npy features.npy '<f4' '4, 1' '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x00\x3f\x00\x00\x40\x40'
cat >study.yaml <<'TEXT'
title: One cell
base: flat.yaml
seeds: [0]
set: {train.epochs: 1}
methods: [{name: POEM}]
TEXT

# What writes folders; pack, mine and posthoc have a full disk in their own tests.
writers=(
  "train flat.yaml --set train.epochs=1 --out"
  "study study.yaml --out"
  "eval run --id world2d:test:9 --ood a=world2d:ood:9 --out"
  "toy --out"
  "export run --onnx"
  "theory --dimensions 2 --samples 5 --signals 2 --epsilons 0.1 --repeats 2 --out"
)

# failed WORDS...: the last command ended with 2 and one line that has the words.
failed() {
  expect_same "$code" 2
  expect_same "$(wc -l <"$logs/err")" 1
  expect_words "$logs/err" "$@"
}

# Every write fails, as on a full disk. What stays is at most an empty folder.
mkdir full
for writer in "${writers[@]}"; do
  (
    trap '' XFSZ
    ulimit -f 0
    poem --quiet $writer full/out 2>&1 >/dev/null
    echo $?
  ) | cat >"$logs/both" || true
  code=$(tail -1 "$logs/both")
  sed '$d' "$logs/both" >"$logs/err"
  failed full/out "cannot write" "free some space"
  expect_same "$(find full -type f)" ""
  rm -rf full/out
done

# Without permission. The superuser may do anything, so then the program is run by nobody.
chmod 755 "$top" "$top/here"
mkdir locked
chmod 755 locked
printf 'secret' >locked/secret.npy
chmod 000 locked/secret.npy
mkdir -m 000 locked/images
as_user=()
if [ "$(id -u)" = 0 ]; then
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  "${as_user[@]}" "$program" --version >/dev/null 2>&1 || {
    echo "not tried: permissions (the program cannot be run by another user)"
    exit 0
  }
else
  chmod a-w locked
fi
denied() { # WORDS... -- ARGUMENTS...
  local words=() before
  while [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  shift
  before=$(find locked)
  code=0
  "${as_user[@]}" "$program" --threads 1 --quiet "$@" >"$logs/out" 2>"$logs/err" || code=$?
  failed "${words[@]}"
  expect_same "$(find locked)" "$before"
}
for writer in "${writers[@]}"; do denied locked "ermission" -- $writer locked/out; done
denied locked/new.poem "ermission" -- pack world:train:4 locked/new.poem
denied locked/new.npy "ermission" -- mine --id features.npy --outliers features.npy --pool features.npy --select 1 \
  --seed 1 --out locked/new.npy
denied locked/secret.npy "ermission" -- info locked/secret.npy
# One file that may not be read, and a folder, hide no other.
mkdir -m 755 mixed
printf 'x' | tee mixed/a.bin >mixed/b.bin
mkdir -m 000 mixed/closed
chmod 000 mixed/a.bin
printf 's: {title: t, downloads: [{file: a.bin}, {file: b.bin}]}\n' >sets.yaml
code=0
"${as_user[@]}" "$program" data --manifest sets.yaml verify mixed >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/out" "INCOMPLETE a.bin: cannot be read: Permission denied" "complete   b.bin"
expect_words "$logs/err" "mixed/closed: cannot be listed: Permission denied" "1 of 2 are incomplete"
denied locked/images "ermission" -- info locked/images
denied locked/secret.npy "ermission" -- metrics --id locked/secret.npy --ood a=scores.txt
denied locked/secret.npy "ermission" -- train locked/secret.npy --out new
denied locked/secret.npy "ermission" -- info "world:train:4#exclude=locked/secret.npy"
