# What the tests of the built program share. Each script gets the program as its argument, works in an empty folder
# of its own that is deleted at the end, and needs nothing beside bash and Debian's essential packages (some: python3).
set -euo pipefail
program=$(realpath "$1")
sources=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
top=$(mktemp -d)
logs=$top/logs # what the program printed; outside of the folder whose changes are watched
mkdir "$logs" "$top/here"
cd "$top/here"
finish() {
  local child
  for child in $(jobs -p); do kill -9 "$child" 2>/dev/null || true; done
  wait
  cd / && rm -rf "$top"
}
trap finish EXIT

export OMP_WAIT_POLICY=passive OPENBLAS_THREAD_TIMEOUT=14 # poem then need not start itself twice, which hundreds of calls would feel
poem() { "$program" --threads 1 "$@"; } # a test has one core; a second thread would cost a small training 0.3 s more

fail() {
  echo "FAILED at line ${BASH_LINENO[${#BASH_LINENO[@]} - 2]}: $*" >&2
  exit 1
}

# expect_ok ARGUMENTS...: exit code 0; stdout and stderr lie in $logs/out and $logs/err.
expect_ok() {
  local code=0
  poem "$@" >"$logs/out" 2>"$logs/err" || code=$?
  [ $code = 0 ] || fail "poem $*: exit code $code: $(cat "$logs/err")"
}

# expect_words FILE WORDS...: each stands in the file.
expect_words() {
  local file=$1 word
  for word in "${@:2}"; do
    grep -qF -- "$word" "$file" || fail "'$word' is not in $(basename "$file"): $(cat "$file")"
  done
}

expect_same() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'"; }

# Every path here with the checksum of what it holds.
snapshot() { find . -type d -printf '%p/\n' -o -type f -exec sha256sum {} + | sort; }

# expect_error WORDS... -- ARGUMENTS...: exit code 2, one line on stderr that has the words, nothing on stdout, and no
# file made, changed or removed.
expect_error() {
  local words=() code=0 before
  while [ "$1" != -- ]; do
    words+=("$1")
    shift
  done
  shift
  before=$(snapshot)
  poem --quiet "$@" >"$logs/out" 2>"$logs/err" || code=$?
  [ $code = 2 ] || fail "poem $*: exit code $code, expected 2: $(cat "$logs/err")"
  expect_same "$(wc -l <"$logs/err")" 1
  [ ! -s "$logs/out" ] || fail "poem $*: printed a result beside the error: $(cat "$logs/out")"
  expect_words "$logs/err" "${words[@]}"
  expect_same "$(snapshot)" "$before"
}

# The bytes of numbers as numpy saves them: npy FILE TYPE SHAPE BYTES, for instance npy x.npy '<f4' '2, 1' '\x00...'.
npy() {
  {
    printf '\x93NUMPY\x01\x00\x76\x00'
    printf '%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }"
    printf "$4"
  } >"$1"
}

# A run of a second: the two-dimensional world and the MLP.
write_flat_config() {
  cat >"$1" <<'TEXT'
data:
  train: world2d:train:120
  test: world2d:test:60
  outliers: world2d:outliers:120
  ood: [ring=world2d:ood:50]
  size: 1
  validation: 0.1
augment: {padding: 0, flip: false}
outliers: {padding: 0, flip: false}
network: {name: mlp, mean: [0, 0], std: [1, 1]}
mining: {pool: 100, select: 50}
train: {epochs: 2, learning_rate: 0.01}
TEXT
}

# The smallest run on images.
write_image_config() {
  cat >"$1" <<'TEXT'
data:
  train: world:train:32
  outliers: world:outliers:32
  size: 16
  validation: 0.1
network: {name: wideresnet, depth: 10, width: 1}
mining: {pool: 32}
train: {epochs: 4, batch: 8, outlier_batch: 8, learning_rate: 0.01}
TEXT
}

# expect_clean_stop SOURCE [OPTION...]: Ctrl-C while it is packed ends with 130 and leaves nothing behind.
expect_clean_stop() {
  local child code=0 i
  "$program" --threads 1 pack "$1" stopped.poem "${@:2}" >"$logs/out" 2>"$logs/err" &
  child=$!
  for ((i = 0; i < 500; ++i)); do
    [ -e stopped.poem.tmp ] && break
    sleep 0.02
  done
  [ -e stopped.poem.tmp ] || fail "packing never began: $(cat "$logs/err")"
  kill -INT "$child"
  wait "$child" || code=$?
  expect_same $code 130
  expect_same "$(find . -name 'stopped*')" ""
}
