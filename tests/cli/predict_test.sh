# poem predict: one row per image, in order, whatever the images are; its formats; standard input; the contact sheet.
source "$(dirname "$0")/common.sh"
write_image_config image.yaml
expect_ok train image.yaml --out run --set train.epochs=1 --set data.train=world:train:80 --set data.validation=0.5 --set mining.select=32
columns="path,verdict,predicted,probability,score,threshold,p_value,error"

# expect_incomplete ARGUMENTS...: exit code 3, results on stdout, one line on stderr.
expect_incomplete() {
  local code=0
  poem --quiet "$@" >"$logs/out" 2>"$logs/err" || code=$?
  [ $code = 3 ] || fail "poem $*: exit code $code, expected 3: $(cat "$logs/err")"
  expect_same "$(wc -l <"$logs/err")" 1
}
# What a row says beside its path.
said() { grep "^$1," "$logs/out" | cut -d , -f 2-; }

# Scores, classes and verdicts are those of poem eval; blocks of other sizes round differently.
expect_ok world photos --train 8 --test 16 --outliers 24 --ood 4
expect_ok eval run --id photos/test --ood digits=photos/ood/digits --out results
expect_ok predict run photos/test photos/ood/digits
expect_same "$(head -1 "$logs/out")" "$columns"
python3 - "$logs/out" results/scores.csv <<'PYTHON' || fail "predict and eval differ"
import csv, sys
ours, evals = (list(csv.DictReader(open(path))) for path in sys.argv[1:])
assert len(ours) == len(evals) == 20
for one, other in zip(ours, evals):
    assert one["path"].endswith(other["name"]) and one["predicted"] == other["predicted"]
    assert abs(float(one["score"]) - float(other["energy"])) < 1e-5
    assert (one["verdict"] == "unknown") == (other["verdict"] == "unknown")
PYTHON
expect_words "$logs/err" "20 images: " " known, " " unknown, 0 unreadable"

# One photo is enough, with the run or its detector; whatever sort of PNG it is, the verdict is the same.
python3 "$sources/tests/cli/image_files.py" all
expect_ok predict run/detector.safetensors all/plain.png
expect_same "$(wc -l <"$logs/out")" 2
plain=$(said all/plain.png)
expect_incomplete predict run all
expect_words "$logs/err" "4 of 10 images could not be read"
expect_same "$(tail -n +2 "$logs/out" | cut -d , -f 1 | paste -sd ' ')" \
  "$(cd all && ls | LC_ALL=C sort | sed 's,^,all/,' | paste -sd ' ')"
for name in alpha.png deep.png grey.png turned.png mislabelled.jpg; do expect_same "$(said all/$name)" "$plain"; done
expect_words "$logs/out" "all/bomb.png,,,,,,,cannot be decoded: it claims 60000×60000 pixels" "all/cut.png,,,,,,,cannot be decoded" \
  "all/text.jpg,,,,,,,\"cannot be decoded: it is not a JPEG, PNG, WebP or BMP file\"" "all/empty.jpg,,,,,,,cannot be decoded: it is empty"

# Files, folders, archives, arrays and drawn images in one call, in their order.
mkdir mixed mixed/sub
cp all/plain.png mixed/b.png
cp all/grey.png mixed/sub/a.png # not a class: images may lie anywhere
cp all/plain.png upload         # no extension: the content decides
tar --sort=name -cf mixed.tar mixed
npy array.npy '|u1' '1, 3, 1, 2' '\x00\x10\x20\x30\x40\x50'
expect_ok predict run upload mixed mixed.tar array.npy world:test:1 all/plain.png
expect_same "$(tail -n +2 "$logs/out" | cut -d , -f 1 | paste -sd ' ')" \
  "upload mixed/b.png mixed/sub/a.png mixed.tar:mixed/b.png mixed.tar:mixed/sub/a.png array.npy:0 world:test:1:0 all/plain.png"
for name in upload mixed/b.png mixed/sub/a.png mixed.tar:mixed/sub/a.png; do expect_same "$(said $name)" "$plain"; done

# An image without a name has the number of the whole source, whatever part of it is asked for.
expect_ok predict run world:test:20
cp "$logs/out" whole.csv
printf '1 2 5' >left-out.txt
for part in '#count=3' '#count=3#seed=1' '#exclude=left-out.txt'; do
  expect_ok predict run "world:test:20$part"
  python3 - whole.csv "$logs/out" <<'PYTHON' || fail "$part: $(cat "$logs/out")"
import csv, sys
whole, part = ({row["path"]: float(row["score"]) for row in csv.DictReader(open(path))} for path in sys.argv[1:])
assert len(whole) == 20 and len(part) in (3, 17) and "world:test:20:0" in whole
assert all(abs(whole[path] - score) < 1e-4 for path, score in part.items())
PYTHON
done

# What is wrong with an entry of an archive is in its row: of a, its password; b is as it should be.
python3 - <<'PYTHON'
import zipfile
with zipfile.ZipFile("locked.zip", "w") as archive:
    archive.write("all/plain.png", "a.png")
    archive.write("all/plain.png", "b.png")
data = bytearray(open("locked.zip", "rb").read())
data[data.find(b"PK\3\4") + 6] |= 1
data[data.find(b"PK\1\2") + 8] |= 1
open("locked.zip", "wb").write(data)
PYTHON
expect_incomplete predict run locked.zip
expect_words "$logs/out" "locked.zip:a.png,,,,,,,is encrypted"
expect_same "$(said locked.zip:b.png)" "$plain"

# Standard input: a list, with what cannot be read in its place; a list with zero bytes; a tar.
printf 'all/plain.png\nmissing.png\n\nmixed\nnothing#here\n' >list
expect_incomplete predict run - <list
expect_same "$(tail -n +2 "$logs/out" | cut -d , -f 1 | paste -sd ' ')" "all/plain.png missing.png mixed/b.png mixed/sub/a.png nothing#here"
expect_words "$logs/out" "missing.png,,,,,,,cannot open: No such file or directory"
cp all/plain.png $'a, "b"\nc.png'
expect_ok predict run - --format csv < <(printf 'all/plain.png\0a, "b"\nc.png\0')
python3 - "$logs/out" <<'PYTHON' || fail "a path is not escaped: $(cat "$logs/out")"
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
assert [row["path"] for row in rows] == ["all/plain.png", 'a, "b"\nc.png'] and rows[0]["score"] == rows[1]["score"]
PYTHON
for kind in c cz cJ; do
  tar --sort=name -$kind mixed >stream
  expect_ok predict run - <stream
  expect_same "$(tail -n +2 "$logs/out" | cut -d , -f 1 | paste -sd ' ')" "mixed/b.png mixed/sub/a.png"
done
# A tar that ends in its second image: the first has its row.
blocks=$((($(stat -c %s mixed/b.png) + 511) / 512))
head -c $(((4 + blocks) * 512 + 50)) mixed.tar >cut.tar
expect_incomplete predict run - all/plain.png <cut.tar
expect_same "$(said mixed/b.png)" "$plain"
expect_words "$logs/out" "standard input,,,,,,,cannot be read as an archive" "all/plain.png,"

# A source without images has a row with the reason, but is not an image.
mkdir empty
code=0
poem predict run empty all/plain.png empty >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 3
expect_same "$(grep -c "^empty,,,,,,,.*contains no image" "$logs/out")" 2
expect_words "$logs/err" "1 image: " "0 unreadable" "2 sources could not be read"
expect_incomplete predict run empty all
expect_words "$logs/err" "4 of 10 images and 1 source could not be read: see their errors"

# All formats have the same columns.
cat >"$logs/reader" <<'PYTHON'
import ast, json, struct, sys
def load(path):
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:start].decode())
    assert start % 64 == 0 and not header["fortran_order"]
    form = "<" + "".join("d" if kind == "<f8" else kind[2:] + "s" for _, kind in header["descr"])
    rows = list(struct.iter_unpack(form, data[start:]))
    assert header["shape"] == (len(rows),)
    names = [name for name, _ in header["descr"]]
    return [dict(zip(names, (v.rstrip(b"\0").decode() if isinstance(v, bytes) else v for v in row))) for row in rows]
PYTHON
code=0
poem --quiet predict run all --out all.npy 2>"$logs/err" || code=$?
expect_same $code 3
expect_incomplete predict run all --format jsonl
cp "$logs/out" all.jsonl
expect_incomplete predict run all
python3 - "$logs/reader" "$logs/out" <<'PYTHON' || fail "the formats differ"
import csv, json, sys
exec(open(sys.argv[1]).read())
records, rows = load("all.npy"), list(csv.DictReader(open(sys.argv[2], newline="")))
objects = [json.loads(line) for line in open("all.jsonl")]
assert list(records[0]) == list(rows[0]) and len(records) == len(rows) == len(objects) == 10
for record, row, one in zip(records, rows, objects):
    for name in ("path", "verdict", "predicted", "error"):
        assert record[name] == row[name] == one.get(name, ""), name
    for name in ("probability", "score", "threshold", "p_value"):
        if row["error"]:
            assert row[name] == "" and name not in one
        else:
            assert abs(record[name] - float(row[name])) < 1e-5 and abs(one[name] - float(row[name])) < 1e-5, name
PYTHON
expect_ok predict run all/plain.png --format table
expect_words "$logs/out" "path           verdict" "probability" "threshold" "all/plain.png"
python3 "$sources/tests/cli/terminal.py" -- "$program" --quiet predict run all/plain.png >"$logs/terminal" || fail "on a terminal: $(cat "$logs/terminal")"
expect_words "$logs/terminal" "verdict" "probability"

# The contact sheet contains its pictures and fetches nothing.
expect_incomplete predict run all photos/ood/digits --out rows.csv --sheet sheet.html
expect_same "$(wc -l <rows.csv)" 15
expect_same "$(cat "$logs/out")" ""
expect_words sheet.html "Rejected" "Kept" "Unreadable" "all/cut.png" "data:image/png;base64," "default-src 'none'"
! grep -qE 'src="http|href="http' sheet.html || fail "the sheet fetches something"

# Bad input: exit code 2, one line, nothing written.
expect_error "missing.png" "no such file" -- predict run all/plain.png missing.png
expect_error "mixed#cout=1" "nearest is 'count'" -- predict run mixed#cout=1
expect_error "missing" "No such file" -- predict missing all/plain.png
expect_error "all/plain.png: is an image, not a detector" "the detector comes first" -- predict all/plain.png run
expect_error "photos/test: is a folder of images, not a detector" "the detector comes first" -- predict photos/test run
expect_error ".: is a folder of runs, not a detector" "such as ./" -- predict . all/plain.png
expect_error "image.yaml: is a config, not a detector" -- predict image.yaml all/plain.png
expect_error "-: is given twice" -- predict run - - </dev/null
expect_error "standard input" "contains no path" -- predict run - </dev/null
expect_error "standard input" "neither a list of paths nor a tar" -- predict run - <all/plain.png
expect_error "rows.csv" "exists already" "--force" -- predict run all/plain.png --out rows.csv
expect_error "rows.json" "ends in none of .csv, .jsonl and .npy" "--format" -- predict run all/plain.png --out rows.json
expect_error "rows.csv" "two outputs" -- predict run all/plain.png --out rows.csv --sheet rows.csv --force
expect_error "--format" "xml" -- predict run all/plain.png --format xml
expect_error "source is required" -- predict run
sed 's/poem-detector-2/poem-detector-3/' run/detector.safetensors >newer.safetensors
expect_error newer.safetensors "poem-detector-3" "this poem reads poem-detector-2" -- predict newer.safetensors all/plain.png
expect_ok predict run all/plain.png --out rows.csv --force
expect_same "$(wc -l <rows.csv)" 2

# A list with zero bytes may name any file; a tar that was cut short is no list.
cp all/plain.png $'esc\x1b.png'
printf 'esc\x1b.png\0all/plain.png\0' | expect_ok predict run - --format csv
expect_same "$(wc -l <"$logs/out")" 3
tar -cf cut.tar all/plain.png
for bytes in 30 100 256; do
  head -c "$bytes" cut.tar | expect_error "standard input" "neither a list of paths nor a tar" -- predict run -
done

# No image is an error of the source, whatever its kind.
mkdir nothing
python3 - <<'PYTHON'
head = "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 32, 32, 3), }"
open("none.npy", "wb").write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n")
PYTHON
expect_incomplete predict run nothing none.npy all/plain.png --format csv
expect_same "$(grep -c "contains no image" "$logs/out")" 2
expect_same "$(wc -l <"$logs/out")" 4

# Links: one that leads nowhere is an image that cannot be read, one that leads back is left out.
mkdir -p links/deep
cp all/plain.png links/deep
ln -s . links/back
ln -s .. links/deep/up
ln -s self links/self
ln -s self.png links/self.png
ln -s nowhere.png links/gone.png
ln -s deep links/again
expect_incomplete predict run links --format csv
expect_same "$(grep -c "deep/plain.png\|again/plain.png" "$logs/out")" 2
expect_words "$logs/out" "links/gone.png" "No such file" "links/self.png" "Too many levels"
expect_same "$(wc -l <"$logs/out")" 5

# What never ends is refused, and the detector is not written over.
mkfifo pipe.png
expect_incomplete predict run /dev/zero pipe.png all/plain.png --format csv
expect_same "$(grep -c "is not a regular file" "$logs/out")" 2
rm pipe.png
expect_error "standard input" "neither a list of paths nor a tar" -- predict run - </dev/zero

# A file that is too large, or for which there is no memory, is one image that cannot be read.
truncate -s 1025M huge.jpg
truncate -s 1000M large.jpg
code=0
(ulimit -v 1600000 && timeout 60 "$program" --threads 1 --quiet predict run huge.jpg large.jpg all/plain.png >"$logs/out" 2>"$logs/err") || code=$?
expect_same "$code $(cat "$logs/err")" "3 poem: 2 of 3 images could not be read: see their errors"
expect_words "$logs/out" "huge.jpg,,,,,,,\"is larger than 1 GiB, too much for an image\"" "large.jpg,,,,,,,does not fit into memory"
expect_same "$(said all/plain.png)" "$plain"
rm huge.jpg large.jpg

# The first signal ends a wait for standard input, and a list without an end: of a program that writes nothing, too
# little for a block, a tar that it does not finish, or paths for ever.
catches_signals() { (((0x$(awk '/^SigCgt/ { print $2 }' "/proc/$1/status") & 0x4000) != 0)); } # SIGTERM is bit 14
for writes in "sleep 60" "echo all/plain.png; exec sleep 60" "cat mixed.tar mixed.tar | head -c 70000; exec sleep 60" "yes all/plain.png"; do
  rm -f waiting && mkfifo waiting
  bash -c "exec >waiting; ${writes/#sleep/exec sleep}" &
  writer=$!
  "$program" --threads 1 predict run - <waiting >"$logs/out" 2>"$logs/err" &
  child=$!
  for ((i = 0; i < 500; ++i)); do
    catches_signals $child && break
    sleep 0.02
  done
  sleep 0.2
  kill -TERM $child
  for ((i = 0; i < 250; ++i)); do
    kill -0 $child 2>/dev/null || break
    sleep 0.02
  done
  kill -9 $child 2>/dev/null && fail "it goes on to wait: $writes"
  code=0
  wait $child || code=$?
  expect_same "$code" 143
  kill $writer 2>/dev/null || true
done

# Only one command at a time writes to a file; the other one is told so at once.
rm -f waiting && mkfifo waiting
"$program" --threads 1 --quiet predict run - --out both.csv --sheet both.html <waiting 2>"$logs/first" &
first=$!
exec 3>waiting
for ((i = 0; i < 500; ++i)); do
  [ -e both.html.tmp ] && break
  sleep 0.02
done
for output in "--out both.csv" "--out other.csv --sheet both.html"; do
  expect_error "${output##* }" "is being written by another process" -- predict run all/plain.png $output --force
done
echo all/plain.png >&3
exec 3>&-
wait $first || fail "the first command: $(cat "$logs/first")"
expect_same "$(tail -n +2 both.csv | cut -d , -f 1)" all/plain.png
expect_same "$(find . -name 'both*' | sort | paste -sd ' ')" "./both.csv ./both.html"

# What is not a file is never replaced by one.
mkfifo sink
expect_error sink "is a device or a pipe" -- predict run all/plain.png --out sink --force
expect_error "run/detector.safetensors" "is the detector itself" -- predict run all/plain.png --out run/detector.safetensors --force

# A class cannot have the name of a verdict.
mkdir -p named/boat named/unknown
cp all/plain.png named/boat
cp all/plain.png named/unknown
expect_error named "class 'unknown'" "rename" -- train image.yaml --out named-run --set data.train=named --set data.validation=0
