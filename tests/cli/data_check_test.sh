# poem data check: duplicates in and between sets, class balance, sizes, unreadable files; the warning of poem train.
source "$(dirname "$0")/common.sh"

# expect_findings ARGUMENTS...: exit code 3, results on stdout, one line on stderr.
expect_findings() {
  local code=0
  poem --quiet data check "$@" >"$logs/out" 2>"$logs/err" || code=$?
  [ $code = 3 ] || fail "poem data check $*: exit code $code, expected 3: $(cat "$logs/err")"
  expect_same "$(wc -l <"$logs/err")" 1
}
# The row of a table without its runs of spaces.
row() { grep "^$1 " "$logs/out" | tr -s ' ' | sed 's/ $//'; }

# Pictures of random waves: 20 in a.npy; in b.npy 18 others, one of the same and one that is brighter.
python3 - <<'PYTHON'
import math, random
def picture(seed, brighter=0):
    r = random.Random(seed)
    waves = [(u, v, 40 * (r.random() - .5) / (1 + u + v), 6.3 * r.random()) for u in range(6) for v in range(6)]
    return bytes(max(0, min(255, round(128 + brighter + sum(a * math.cos(u * x / 8 + v * y / 8 + p) for u, v, a, p in waves))))
                 for y in range(24) for x in range(24))
def write(path, pictures):
    head = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, 24, 24), }" % len(pictures)
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + b"".join(pictures))
write("a.npy", [picture(seed) for seed in range(20)])
write("b.npy", [picture(seed) for seed in range(100, 118)] + [picture(7), picture(3, brighter=15)])
PYTHON
expect_ok data check 'a.npy#count=5'
expect_same "$(row 'a.npy#count=5')" "a.npy#count=5 5 5 24×24 - - - 0"
expect_ok data check a.npy
expect_words "$logs/out" "no duplicates"
expect_same "$(row a.npy)" "a.npy 20 20 24×24 - - - 0"
expect_findings first=a.npy second=b.npy
expect_same "$(row first | tail -1)" "first second 7 = 18 1 1"
expect_same "$(row second | tail -1)" "second first 18 = 7 1 1"
expect_words "$logs/err" "found images in common (first with second)"

# Folders: sizes, classes, unreadable files, and different labels on the same picture.
expect_ok world photos --train 16 --test 8 --outliers 24 --ood 4
python3 "$sources/tests/cli/image_files.py" files
mapfile -t classes < <(ls photos/train)
one=$(ls photos/train/"${classes[0]}" | head -1)
cp photos/train/"${classes[0]}/$one" photos/train/"${classes[1]}/twin.png"
family=$(ls photos/outliers | head -1)
cp photos/train/"${classes[0]}/$one" photos/outliers/"$family"/leak.png
cp files/cut.png photos/train/"${classes[2]}/cut.png"
cp files/plain.png photos/train/"${classes[2]}/other-size.png"
cat >photos.yaml <<'TEXT'
data: {train: photos/train, test: photos/test, outliers: photos/outliers, ood: [digits=photos/ood/digits], size: 16}
network: {name: wideresnet, depth: 10, width: 1}
mining: {pool: 16, select: 16}
train: {epochs: 1, batch: 8, outlier_batch: 8}
TEXT
expect_findings photos.yaml --json --sheet pairs.html
python3 - "$logs/out" "${classes[@]}" <<'PYTHON' || fail "$(cat "$logs/out")"
import json, sys
found, classes = json.load(open(sys.argv[1])), sys.argv[2:]
sets = {one["name"]: one for one in found["sets"]}
assert list(sets) == ["train", "test", "ood digits", "outliers"], list(sets)
train = sets["train"]
assert train["images"] == 18 and train["different"] == 17 and len(train["sizes"]) == 2, train
assert train["classes"] == dict(zip(classes, [2, 3, 3] + [2] * 5)), train["classes"]
assert [one["path"].split("/")[-1] for one in train["unreadable"]] == ["cut.png"]
pairs = {(one["set"], one["other"]): one for one in found["duplicates"]}
inside, leak = pairs["train", "train"], pairs["train", "outliers"]
assert inside["exact"]["images"] == inside["relabelled"]["images"] == 2, inside
assert inside["relabelled"]["pairs"][0][1].endswith("twin.png") and inside["relabelled"]["pairs"][0][2] == 1
assert leak["exact"]["images"] == 2 and leak["exact"]["others"] == 1 and leak["exact"]["pairs"][0][1].endswith("leak.png")
PYTHON
expect_words "$logs/err" "images in common (train with outliers)" "2 duplicates with different labels" "1 unreadable file"
expect_words pairs.html "With different labels" "twin.png" "leak.png" "cut.png" "data:image/png;base64," "default-src 'none'"
expect_findings photos.yaml
expect_words "$logs/out" "2 sizes, 20×20 to 32×32" "train: 2 images have a duplicate with another label" "(${classes[0]})" \
  "unreadable: photos/train/${classes[2]}/cut.png: cannot be decoded"
# The keys of the config decide what is read.
expect_findings photos.yaml --set mining.miner=none --json
! grep -q '"outliers"' "$logs/out" || fail "outliers are read, although no miner uses them"

# Training goes on, with a warning of what it tests and trains on.
rm photos/train/"${classes[2]}/cut.png" photos/train/"${classes[1]}/twin.png"
expect_ok train photos.yaml --out clean --set data.validation=0.2
! grep -q "also trained on" "$logs/err" || fail "a warning without a cause: $(cat "$logs/err")"
cp photos/train/"${classes[0]}/$one" photos/test/"${classes[0]}/seen.png"
cp photos/ood/digits/"$(ls photos/ood/digits | head -1)" photos/outliers/"$family"/more.png
expect_ok train photos.yaml --out warned --set data.validation=0.2 --set outliers.fit=resize
expect_same "$(grep -c "also trained on" "$logs/err")" 1
expect_words "$logs/err" "images to test with are also trained on: 1 of photos/test in photos/train, 1 of photos/test in photos/outliers and 1 of photos/ood/digits in photos/outliers (such as ${classes[0]}/seen.png = ${classes[0]}/$one)"

# A large world is checked in part, and the log says so.
code=0
poem data check big=world:digits:30000 >"$logs/out" 2>"$logs/err" || code=$?
expect_words "$logs/err" "big: checked the first 20000 of 30000 images that poem draws"

# A set of which nothing can be read is one of no images; the others are checked.
mkdir broken
printf 'no image' >broken/a.png
expect_findings photos/test broken
expect_words "$logs/out" "broken" "unreadable: broken/a.png: cannot be decoded"

# Bad input: exit code 2, one line, nothing written.
expect_error "missing" "no such file" -- data check missing
expect_error "source" "'a' is given twice" -- data check a=a.npy a=b.npy
expect_error "missing.yaml" -- data check missing.yaml
expect_error "--set" "is for a config" -- data check a.npy --set seed=1
expect_error "pairs.html" "exists already" "--force" -- data check a.npy --sheet pairs.html
expect_error "points" -- data check world2d:test
expect_error "source is required" -- data check
