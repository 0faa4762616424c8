# poem data: the data sets by name, downloads against a server of our own.
source "$(dirname "$0")/common.sh"

# ---- list
expect_ok data list
for set in cifar-10 cifar-100 svhn dtd places365 lsun-crop lsun-resize isun imagenet-32 imagenet-64 tiny-images; do
  expect_words "$logs/out" "$set "
done
expect_words "$logs/out" "170052171" "unknown" "withdrawn"
expect_ok data list cifar-10
expect_words "$logs/out" "60000" "170052171" "sha256:c4a38c50" "https://www.cs.toronto.edu" "https://cave.cs.toronto.edu" test_batch.bin
expect_ok data list isun
expect_words "$logs/out" "bytes    unknown" "md5:be77b0f2"
expect_error "cifar10" "nearest is 'cifar-10'" "known: " "tiny-images" -- data list cifar10
expect_error "cifar10" "nearest is 'cifar-10'" "known: " "tiny-images" -- data fetch cifar10
expect_error "tiny-images" "withdr" -- data fetch tiny-images
expect_error "subcommand is required" -- data
expect_error "name is required" -- data fetch

# ---- a server, and a manifest of what it has
mkdir "$top/served"
printf '%0100000d' 7 >"$top/served/one.bin"
printf '%09000000d' 8 >"$top/served/two.bin"
sum() { sha256sum "$top/served/$1" | cut -d' ' -f1; }
python3 "$sources/tests/cli/server.py" "$top/served" "$logs/requests" >"$logs/port" 2>"$logs/server" &
for ((i = 0; i < 500; ++i)); do
  [ -s "$logs/port" ] && break
  sleep 0.02
done
at=http://127.0.0.1:$(cat "$logs/port")
cat >sets.yaml <<TEXT
pair:
  title: two files
  images: 2
  downloads:
    - {file: one.bin, bytes: 100000, sha256: $(sum one.bin), sources: ["$at/none/one.bin", "$at/good/one.bin"]}
    - {file: two.bin, md5: $(md5sum "$top/served/two.bin" | cut -d' ' -f1), sources: ["$at/moved/two.bin"]}
one:
  title: one file
  images: 1
  downloads:
    - {file: one.bin, bytes: 100000, sha256: $(sum one.bin), sources: ["$at/wrong/one.bin", "$at/drop/one.bin"]}
bare:
  title: of which nothing is known
  downloads: [{file: two.bin}]
TEXT
data() { echo data --manifest sets.yaml "$@"; }
requests() { wc -l <"$logs/requests"; }

# Both files; a dead source, a redirection.
expect_ok $(data fetch pair --out pair)
cmp pair/one.bin "$top/served/one.bin"
cmp pair/two.bin "$top/served/two.bin"
expect_words "$logs/err" "none/one.bin" "404"
expect_same "$(find pair -type f | wc -l)" 2
before=$(requests) # what is there is not downloaded again
expect_ok $(data fetch pair --out pair)
expect_same "$(requests)" "$before"
expect_ok $(data verify pair)
expect_words "$logs/out" "pair           complete" "one.bin: 100000 bytes, sha256 correct" "two.bin: 9000000 bytes, md5 correct"

# Wrong content is removed and the next source tried, which drops the connection again and again.
: >"$logs/requests"
expect_ok $(data fetch one --out one)
cmp one/one.bin "$top/served/one.bin"
expect_words "$logs/err" "wrong/one.bin" "sha256:"
expect_words "$logs/requests" "/drop/one.bin bytes=50000-" "/drop/one.bin bytes=75000-"
expect_same "$(ls one)" one.bin

# A part is taken up where it ends; from a server without ranges the whole file comes.
for kind in good plain; do
  mkdir $kind
  head -c 40000 "$top/served/one.bin" >$kind/one.bin.part
  : >"$logs/requests"
  expect_ok $(data fetch one --out $kind --source $at/$kind/)
  expect_words "$logs/requests" "/$kind/one.bin bytes=40000-"
  cmp $kind/one.bin "$top/served/one.bin"
  expect_same "$(ls $kind)" one.bin
done
# A part of something else, too long a part, a complete part.
for size in 30000 100000 150000; do
  rm -rf other && mkdir other
  head -c $size /dev/zero >other/one.bin.part
  expect_ok $(data fetch one --out other --source $at/good/one.bin)
  cmp other/one.bin "$top/served/one.bin"
done
rm other/one.bin
cp "$top/served/one.bin" other/one.bin.part
before=$(requests)
expect_ok $(data fetch one --out other)
expect_same "$(requests)" "$before"
# Nothing known to compare with: taken, with a warning.
expect_ok $(data fetch bare --out bare --source $at/good/)
expect_words "$logs/err" "checksum is unknown"

# ---- what cannot be had
mkdir there blocked
expect_error one.bin "could not be downloaded" "$at/none/one.bin" "404" "$at/wrong/one.bin" "sha256:" "--source" -- \
  $(data fetch one --out there --source $at/none/ --source $at/wrong/one.bin)
expect_error one.bin "could not be downloaded" "127.0.0.1:9" -- $(data fetch one --out there --source http://127.0.0.1:9/one.bin)
expect_same "$(ls there)" ""
# The folder that was made for it does not stay either (expect_error sees to that), one that was there does.
expect_error one.bin "could not be downloaded" -- $(data fetch one --out new/deep/er/ --source $at/none/ --source $at/wrong/)
expect_error one.bin "could not be downloaded" -- $(data fetch one --out there/../new --source $at/none/)
expect_error "--source" "is '', not a URL" -- $(data fetch one --out new --source) ""
expect_error "--source" "not a URL" -- $(data fetch pair --out new --source $at/good/ --source) ""
expect_error "--source" "'good/one.bin', not a URL" "https://" -- $(data fetch one --out new --source good/one.bin)
expect_error two.bin "could not be downloaded" -- $(data fetch bare --out there)
printf 'mine' >there/one.bin
expect_error there/one.bin "has 4 bytes, expected 100000" "--out" -- $(data fetch one --out there)
expect_error sets.yaml "cannot create" -- $(data fetch one --out sets.yaml/below)
mkdir blocked/one.bin.part
expect_error blocked/one.bin.part "cannot be written" "another place" -- $(data fetch one --out blocked --source $at/good/)
if [ "$(id -u)" != 0 ]; then
  chmod a-w blocked
  expect_error blocked "write into" "permissions" -- $(data fetch one --out blocked --source $at/good/)
fi
(
  trap '' XFSZ
  ulimit -f 16 # KiB or half of it: the file does not fit
  poem $(data fetch one --out full --source $at/good/) 2>&1 >/dev/null
) | cat >"$logs/err" || true
expect_words "$logs/err" full/one.bin.part "cannot be written" "File too large" "free some space"

# Ctrl-C leaves a part that is taken up again.
"$program" data --manifest sets.yaml fetch one --out stopped --source $at/slow/ >"$logs/out" 2>"$logs/err" &
child=$!
for ((i = 0; i < 500; ++i)); do
  [ -s stopped/one.bin.part ] && break
  sleep 0.02
done
kill -INT "$child"
code=0
wait "$child" || code=$?
expect_same $code 130
expect_words "$logs/err" "one.bin.part" "the same command continues"
expect_same "$(ls stopped)" one.bin.part
got=$(stat -c %s stopped/one.bin.part)
[ "$got" -gt 0 ] && [ "$got" -lt 100000 ] || fail "$got bytes came before Ctrl-C"
code=0
poem $(data verify stopped) >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/out" "INCOMPLETE one.bin.part: download stopped at $got of 100000 bytes"
: >"$logs/requests"
expect_ok $(data fetch one --out stopped --source $at/good/)
expect_words "$logs/requests" "/good/one.bin bytes=$got-"
cmp stopped/one.bin "$top/served/one.bin"

# ---- from `fetch` to the places that configs name, by the commands of docs/data.md and with stand-ins for the data
mkdir "$top/study" "$top/stand_ins"
python3 "$sources/tests/cli/stand_ins.py" "$top/stand_ins"
(
  cd "$top/study"
  for set in cifar-10 cifar-100 svhn dtd places365 lsun-crop lsun-resize isun imagenet-64; do
    printf '%s:\n  title: a few images\n  downloads:\n' $set
    for file in $(sed -n "/^$set:/,/^$/s/^ *- file: //p" "$sources/src/catalogue/manifest.yaml"); do
      printf '    - {file: %s, sources: ["file://%s/%s"]}\n' $file "$top/stand_ins" $file
    done
  done >sets.yaml
  poem() {
    if [ "$1" = data ]; then set -- data --manifest sets.yaml "${@:2}"; fi
    "$program" "$@"
  }
  command -v unzip >/dev/null || unzip() { # -j FILE -d FOLDER
    python3 - "$2" "$4" <<'PYTHON'
import os, sys, zipfile
os.makedirs(sys.argv[2], exist_ok=True)
with zipfile.ZipFile(sys.argv[1]) as archive:
    for name in archive.namelist():
        with open(os.path.join(sys.argv[2], os.path.basename(name)), "wb") as out:
            out.write(archive.read(name))
PYTHON
  }
  sed -n '/^```sh data.sh$/,/^```$/p' "$sources/docs/data.md" | sed '1d;$d' >data.sh
  [ -s data.sh ] || fail "docs/data.md has no commands"
  trap '[ $? = 0 ] || tail -3 "$logs/err" >&2' EXIT
  source data.sh >"$logs/out" 2>"$logs/err"
  mkdir data/mnist # by hand, too
  cp "$top/stand_ins/t10k-images-idx3-ubyte.gz" data/mnist/
  truncate -s $((3072 * 9)) data/tiny_images.bin # nobody offers these two
  echo 3 >data/80mn_cifar_idxs.txt
  places=$(grep -hoE 'data/[^ ,}#]+' "$sources"/configs/cifar10-poem.yaml "$sources"/configs/cifar10.yaml "$sources"/configs/study/*.yaml | sort -u)
  expect_same "$(wc -w <<<"$places")" 14
  for place in $places; do
    case $place in
    *.txt) [ -e "$place" ] || fail "$place is missing" ;;
    *) "$program" --quiet info "$place" --size 32 >"$logs/out" || fail "$place cannot be read" ;;
    esac
  done
  "$program" info data/imagenet-64.poem >"$logs/out"
  expect_words "$logs/out" "count      20" "64x64"
)

# ---- verify: other folders than those of downloads
mkdir gone
ln -s ../nowhere gone/one.bin
cp "$top/served/two.bin" gone/
code=0
poem $(data verify gone) >"$logs/out" 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/out" "INCOMPLETE one.bin: is a link to a file that does not exist" "complete   two.bin: 9000000 bytes"
mkdir empty
expect_error empty "none of the known" -- data verify empty
expect_error missing "no such folder" -- data verify missing
expect_error sets.yaml "is a file" -- data verify sets.yaml
expect_error none.yaml "No such file" -- data --manifest none.yaml list
