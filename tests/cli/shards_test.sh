# Pools larger than memory: shards, appending, checksums, tars of WebDataset, tars from a pipe.
source "$(dirname "$0")/common.sh"
write_image_config images.yaml

# A second reader of the packed format, from its description in docs/data.md.
cat >read.py <<'TEXT'
import json, pathlib, struct, sys, zlib

def read(path):
    data = path.read_bytes()
    magic, version, c, h, w, n, labels, classes, class_bytes, name_bytes, sums, block, table, head = struct.unpack_from(
        "<8s4I6Q3I", data)
    assert magic == b"POEMPACK" and version == 3, (magic, version)
    assert zlib.crc32(data[:80]) == head and not any(data[84:4096])
    end = classes + class_bytes + name_bytes
    assert end == sums and zlib.crc32(data[sums:]) == table
    blocks = [zlib.crc32(data[i:min(i + block, sums)]) for i in range(4096, sums, block)]
    assert blocks == list(struct.unpack(f"<{len(blocks)}I", data[sums:]))
    size = c * h * w
    names = data[classes + class_bytes:end].split(b"\0")[:-1] or [b""] * n
    class_names = json.loads(data[classes:classes + class_bytes])
    for i in range(n):
        label = class_names[struct.unpack_from("<q", data, labels + 8 * i)[0]] if labels else "-"
        print(zlib.crc32(data[4096 + i * size:4096 + (i + 1) * size]), label, names[i].decode())

for source in map(pathlib.Path, sys.argv[1:]):
    if source.is_dir():
        listed = json.loads((source / "shards.json").read_text())
        assert listed["kind"] == "poem shards" and listed["version"] == 1
        for shard in listed["shards"]:
            data = (source / shard["file"]).read_bytes()
            assert struct.unpack_from("<Q", data, 24)[0] == shard["images"] <= listed["images_per_shard"]
            assert struct.unpack_from("<I", data, 80)[0] == shard["checksum"]
            read(source / shard["file"])
    else:
        read(source)
TEXT
same() { cmp <(/usr/bin/python3 read.py "$1") <(/usr/bin/python3 read.py "$2") || fail "$1 and $2 differ"; }

# Shards hold the images of one file.
expect_ok pack world:train:50 one.poem
expect_ok pack world:train:50 set --shard-size 60K
expect_words "$logs/out" "set: 50 images, 3 shards in all"
expect_same "$(ls set | tr '\n' ' ')" "00000.poem 00001.poem 00002.poem shards.json "
same one.poem set
expect_ok info set
expect_words "$logs/out" "count      50" "classes    8"
expect_ok pack set copy.poem
cmp one.poem copy.poem
expect_error "set" "exists already" "--force" -- pack world:train:50 set --shard-size 60K
expect_ok pack world:train:50 set --shard-size 100K --force
same one.poem set
expect_same "$(ls set | wc -l)" 3

# A disk that fills after the first shards: one line, and neither shards nor a folder stay. Appending keeps what was there.
on_small_disk() { # COMMAND...: in a folder of 300 KiB; its output and exit code in $logs/err
  unshare --map-root-user --mount bash -c '
    mount -t tmpfs -o size=300k tmpfs small && cd small && "$@" 2>&1 >/dev/null; echo "exit code $?"; find . -type f | sort' \
    small "$@" >"$logs/err" || true
}
mkdir small
if unshare --map-root-user --mount mount -t tmpfs tmpfs small 2>/dev/null; then
  on_small_disk "$program" --quiet pack world:train:200 set --shard-size 60K
  expect_words "$logs/err" "poem: set" "No space left on device" "free some space" "exit code 2"
  expect_same "$(wc -l <"$logs/err")" 2
  on_small_disk bash -c "'$program' --quiet pack world:train:30 set --shard-size 60K >/dev/null && '$program' --quiet pack world:train:200 set --append"
  expect_words "$logs/err" "No space left on device" "exit code 2" "./set/00000.poem" "./set/00001.poem" "./set/shards.json"
  expect_same "$(wc -l <"$logs/err")" 5
else
  echo "no small disk can be made here (unshare): a disk that fills between shards is not tested"
fi
rmdir small

mkdir other
: >other/mine
expect_error other "shards.json" "never replaced" -- pack world:train:4 other --shard-size 60K --force
expect_error one.poem "is a file" -- pack world:train:4 one.poem --shard-size 60K
for size in many 0 1X -1 99999999999999999999 9999999999T; do
  expect_error "--shard-size" "not a number of bytes such as 500M" -- pack world:train:4 new --shard-size=$size
done

# Appending: to shards, and to one file.
expect_ok pack world:train:30:1 more.poem
cat <(/usr/bin/python3 read.py one.poem more.poem) >expected.txt
expect_ok pack world:train:30:1 set --append
expect_words "$logs/out" "set: 30 images added"
expect_ok pack world:train:30:1 one.poem --append
for packed in one.poem set; do
  /usr/bin/python3 read.py $packed | cmp - expected.txt
done
expect_error one.poem "3×16×16" "3×32×32" "--size 32" -- pack world:train:4 one.poem --append --size 16
expect_error set "no labels" -- pack world:digits:4 set --append
expect_error new.poem "no such packed file" "--append" -- pack world:train:4 new.poem --append
expect_error "--append" -- pack world:train:4 set --append --force

# A kill while appending leaves what was there, and the next append goes on from it.
npy long.npy '|u1' '400000, 3, 32, 32' ''
truncate -s $((128 + 400000 * 3 * 32 * 32)) long.npy
expect_ok pack 'long.npy#count=4' plain.poem
expect_ok pack 'long.npy#count=4' plain --shard-size 100M
for packed in plain.poem plain; do
  /usr/bin/python3 read.py $packed >before.txt
  rm -f plain*/*.tmp plain*.tmp plain*.more*
  "$program" --threads 1 pack long.npy $packed --append >"$logs/out" 2>"$logs/err" &
  child=$!
  for ((i = 0; i < 500; ++i)); do
    [ -n "$(find . -name '*.tmp' -size +1M 2>/dev/null)" ] && break
    sleep 0.02
  done
  kill -9 $child
  wait $child 2>/dev/null || true
  [ -n "$(find . -name '*.tmp')" ] || fail "appending never began: $(cat "$logs/err")"
  /usr/bin/python3 read.py $packed | cmp - before.txt
  expect_ok data verify $packed
  expect_ok pack 'long.npy#count=2' $packed --append
  expect_same "$(/usr/bin/python3 read.py $packed | wc -l)" 6
done
rm -rf plain* long.npy

# Checksums. A changed byte is found and named; a file of an older version has none.
expect_ok data verify one.poem set more.poem
expect_words "$logs/out" "complete   one.poem: 80 images, 1 block, checksums correct" "set/00003.poem" more.poem
flip() { printf "$(printf '\\x%02x' $(($(od -An -tu1 -j "$2" -N1 "$1") ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
expect_ok pack world:outliers:700 many.poem # more than one block
flip many.poem $((4096 + 1048576 + 5))
expect_damage() { # WORDS... -- PATHS...
  local words=() code=0
  while [ "$1" != -- ]; do words+=("$1") && shift; done
  poem data verify "${@:2}" >"$logs/out" 2>"$logs/err" || code=$?
  expect_same $code 2
  expect_same "$(wc -l <"$logs/err")" 1
  cat "$logs/err" >>"$logs/out"
  expect_words "$logs/out" "${words[@]}"
}
expect_damage "DAMAGED" "many.poem: block 1, images 341 to 682" "1 of 1 files are damaged" -- many.poem
flip set/00003.poem 5000
expect_damage "set/00003.poem: block 0, images 0 to 31, labels or names" "complete   set/00004.poem" \
  "complete   one.poem" "set: 1 of 3 files" -- set one.poem
flip set/00003.poem 5000
head -c 50000 one.poem >cut.poem
expect_damage "DAMAGED    cut.poem: is truncated" "complete   one.poem" -- cut.poem one.poem
mv set/00004.poem away
expect_damage "DAMAGED    set/00004.poem: is missing" "complete   set/00003.poem" "set: 1 of 3 files" -- set
expect_error "set/00004.poem" "is missing" -- train images.yaml --out bad --set data.outliers=set
mv away set/00004.poem
/usr/bin/python3 - <<'TEXT' # as poem wrote it before there were checksums
import struct
data = bytearray(open("more.poem", "rb").read())
end = struct.unpack_from("<Q", data, 64)[0]
data[64:88] = bytes(24)
struct.pack_into("<I", data, 8, 1)
open("old.poem", "wb").write(data[:end])
TEXT
expect_ok data verify old.poem
expect_words "$logs/out" "30 images, no checksums"
expect_ok pack old.poem new.poem
cmp new.poem more.poem

# A file that is cut short while it is mapped: one line.
expect_ok pack world:outliers:3000 pool.poem
"$program" train images.yaml --out cut --set data.outliers=pool.poem --set mining.pool=3000 --set train.epochs=500 \
  >"$logs/out" 2>"$logs/err" &
child=$!
for ((i = 0; i < 500; ++i)); do
  [ -s cut/metrics.jsonl ] && break
  sleep 0.02
done
truncate -s 8192 pool.poem
code=0
wait $child || code=$?
expect_same $code 2
expect_same "$(grep -c '^poem:' "$logs/err")" 1
grep '^poem:' "$logs/err" | grep -qE "pool.poem: (was changed while|a part of it is gone)" || fail "$(cat "$logs/err")"

# Tars of WebDataset: files with one key are a sample, the images are read.
/usr/bin/python3 "$sources/tests/cli/write_tars.py"
expect_ok pack all.tar all.poem
expect_words "$logs/err" "passed over 40 files: 40 .json"
expect_ok pack 'shards/pool-{000..001}.tar' braces.poem
cmp all.poem braces.poem
expect_ok pack shards folder.poem
cmp all.poem folder.poem
poem --quiet pack - piped.poem <all.tar
cmp all.poem piped.poem
cat shards/*.tar | poem --quiet pack - piped --shard-size 12K
same all.poem piped
gzip -c all.tar | poem --quiet pack - zipped.poem
cmp all.poem zipped.poem

# As outliers they are decoded on demand: the same run as from the images in memory, or packed.
run=(train images.yaml --set outliers.fit=resize --set data.size=20 --set train.epochs=2)
expect_ok "${run[@]}" --out lazy --set 'data.outliers=shards/pool-{000..001}.tar' --set data.test=world:test:8 --set 'data.ood=[x=world:digits:8]'
expect_words "$logs/err" "38 outliers" "is decoded on demand and not searched for ID and test images"
expect_words lazy/gallery/mined-0001.json '.png"'
expect_ok "${run[@]}" --out eager --set 'data.outliers=shards/pool-{000..001}.tar' --set data.skip_bad=true
expect_ok "${run[@]}" --out packed --set data.outliers=all.poem
cmp lazy/detector.safetensors eager/detector.safetensors
cmp lazy/detector.safetensors packed/detector.safetensors
expect_ok "${run[@]}" --out long --set 'data.outliers=[long-gnu.tar, long-pax.tar]'
expect_words long/gallery/mined-0001.json deep/deep/deep déép/déép/déép
expect_ok "${run[@]}" --out mixed --set "data.outliers=['shards/pool-{000..001}.tar#share=0.25', set#share=0.25, world:outliers:99]"
expect_words "$logs/err" "38 outliers, 25 % of each pool" "set: 80 outliers, 25 %"

# Their .cls files are labels: the tars can be trained on, and give the detector of the packed file.
labelled=(train images.yaml --set data.size=20 --set train.epochs=1 --set data.validation=0.2)
expect_ok "${labelled[@]}" --out tars --set 'data.train=shards/pool-{000..001}.tar'
expect_words "$logs/err" "38 ID images in 3 classes"
expect_ok "${labelled[@]}" --out labels --set data.train=all.poem
cmp tars/detector.safetensors labels/detector.safetensors

# Tars that are missing, cut short, or damaged.
expect_error "pool-002.tar" "no such file" -- "${run[@]}" --out bad --set 'data.outliers=shards/pool-{000..002}.tar'
expect_error "shards/pool-{a..b}.tar" "neither a range nor a list" -- pack 'shards/pool-{a..b}.tar' bad.poem
head -c 11192 all.tar >early.tar # in an image
expect_error early.tar "ends early, in 0002.png" -- "${run[@]}" --out bad --set data.outliers=early.tar
expect_error early.tar "archive" -- pack early.tar bad.poem
for bytes in 100 10000 11192 8704 8192; do # in a header, a text, an image, before one, between two samples
  before=$(snapshot)
  code=0
  head -c $bytes all.tar | poem --quiet pack - bad.poem >"$logs/out" 2>"$logs/err" || code=$?
  expect_same $code 2
  expect_same "$(wc -l <"$logs/err")" 1
  expect_words "$logs/err" "standard input"
  expect_same "$(snapshot)" "$before"
done
echo text | poem --quiet pack - bad.poem 2>"$logs/err" && fail "text is no tar"
expect_words "$logs/err" "standard input: is not a tar"
sed 's/IDAT/IDOT/' all.tar >damaged.tar
expect_error "damaged.tar:0000.png" "data.skip_bad: true" -- "${run[@]}" --out bad --set data.outliers=damaged.tar

# A disk that fills: one line, and nothing under the names of the outputs.
for output in full.poem "full --shard-size 60K"; do
  (
    trap '' XFSZ
    ulimit -f 16
    poem --quiet pack world:train:64 $output 2>&1 >/dev/null
  ) | cat >"$logs/err" || true
  expect_same "$(wc -l <"$logs/err")" 1
  expect_words "$logs/err" full "cannot write" "free some space"
  expect_same "$(find . -name 'full*')" ""
done
