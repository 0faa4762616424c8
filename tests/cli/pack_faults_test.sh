# What could be lost while packing: packed files of others, damage that nobody sees, names.
source "$(dirname "$0")/common.sh"

flip() { printf "$(printf '\\x%02x' $(($(od -An -tu1 -j "$2" -N1 "$1") ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# Shards never replace packed files that only have their names.
mkdir mine
expect_ok pack world:train:4 mine/00000.poem
for force in "" --force; do
  expect_error mine "no shards.json" "never replaced" -- pack world:test:9 mine --shard-size 60K $force
done
expect_error mine "no shards.json" "with braces" -- info mine
expect_ok info 'mine/{00000,00000}.poem'

# A kill leaves a folder that says so. The next pack needs no --force and removes what was left.
# The array lies outside of this folder, whose checksums expect_error compares.
npy ../long.npy '|u1' '400000, 3, 32, 32' ''
truncate -s $((128 + 400000 * 3 * 32 * 32)) ../long.npy
"$program" --threads 1 pack ../long.npy killed --shard-size 1M >"$logs/out" 2>"$logs/err" &
child=$!
for ((i = 0; i < 500; ++i)); do
  [ -e killed/00002.poem.tmp ] && break
  sleep 0.02
done
kill -9 $child
wait $child 2>/dev/null || true
expect_error killed "not finished" -- info killed
expect_ok pack world:train:4 killed --shard-size 60K
expect_same "$(ls killed | tr '\n' ' ')" "00000.poem shards.json "

# Damage never gets correct checksums.
expect_ok pack world:train:50 a.poem
flip a.poem 5000
expect_error a.poem "damaged: block 0, images 0 to 49" -- pack world:train:5:1 a.poem --append
expect_error a.poem "damaged: block 0, images 0 to 49" -- pack a.poem b.poem
expect_error a.poem "damaged: block 0, images 0 to 49" -- pack a.poem b --shard-size 60K
poem data verify a.poem >"$logs/out" 2>"$logs/err" && fail "the damage is gone"
flip a.poem 5000
expect_ok pack world:train:5:1 a.poem --append
expect_ok data verify a.poem

# One process at a time writes a file. A second one stops at once, whether it appends or replaces.
begin() { # FILE [OPTION]: packs in the background, until FILE is begun
  "$program" --threads 1 --quiet pack ../long.npy "$@" >"$logs/out" 2>"$logs/err" &
  child=$!
  for ((i = 0; i < 500; ++i)); do
    [ -s "$1.tmp" ] && break
    sleep 0.02
  done
}
expect_busy() { # ARGUMENTS of pack
  local code=0
  timeout 20 "$program" --quiet pack "$@" >"$logs/second" 2>&1 || code=$?
  expect_same $code 2
  expect_same "$(wc -l <"$logs/second")" 1
  expect_words "$logs/second" "$2: is being written by another process"
}
expect_ok pack world:digits:4 grows.poem
begin grows.poem --append
expect_busy world:digits:2 grows.poem --append
expect_busy world:digits:2 grows.poem --force
kill -INT $child
wait $child 2>/dev/null || true
expect_ok pack world:digits:2 grows.poem --append
expect_ok info grows.poem
expect_words "$logs/out" "count      6"
begin new.poem
expect_busy world:digits:2 new.poem
kill -9 $child # what it leaves is not in the way
wait $child 2>/dev/null || true
[ -s new.poem.tmp ] || fail "it ended too early"
expect_ok pack world:digits:2 new.poem
expect_ok data verify new.poem
expect_same "$(ls -d new* grows*)" "$(printf 'grows.poem\nnew.poem')"

# Names stay when images without names are added, and the log says where they do not.
/usr/bin/python3 "$sources/tests/cli/write_tars.py"
mkdir photos
tar -xf all.tar -C photos --wildcards '*.png'
names() { tail -c 4000 "$1" | tr '\0' '\n' | grep -ac "$2" || true; }
expect_ok pack photos named.poem --size 32
expect_same "$(names named.poem '\.png$')" 38
expect_ok pack world:digits:4 named.poem --append
expect_same "$(names named.poem '\.png$')" 38
expect_same "$(names named.poem 'world:digits:4:[0-3]$')" 4
expect_ok pack world:digits:4 plain.poem
expect_ok pack photos plain.poem --size 32 --append
expect_words "$logs/err" "photos: the names of its images are left out"

# The size of shards is that of their pixels. Images with an odd number of bytes fill pages only together.
expect_ok pack world:train:50 sized --shard-size 60K
expect_same "$(od -An -tu8 -j24 -N8 sized/00000.poem | tr -d ' ')" 20 # images of 3,072 bytes
grep -q warn "$logs/err" && fail "$(cat "$logs/err")"
poem pack --help >"$logs/out"
expect_words "$logs/out" "bytes of pixels"
npy odd.npy '|u1' '5, 3, 5, 5' "$(printf '%0375d' 0)"
expect_ok pack odd.npy odd --shard-size 100
expect_words "$logs/err" "each shard has 4096 images and 307200 bytes of pixels"

# All braces together stand for a limited number of names.
(ulimit -v 8000000 && timeout 60 "$program" --quiet pack 'x{0..999999}{0..999999}.tar' many.poem 2>"$logs/err") && fail "it was packed"
expect_words "$logs/err" "x{0..999999}{0..999999}.tar: stands for more than 1000000 names"
