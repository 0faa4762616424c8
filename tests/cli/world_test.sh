# poem world: the embedded world as folders of PNG files.
source "$(dirname "$0")/common.sh"

small="--train 24 --test 16 --outliers 48 --ood 5"
expect_ok world photos $small
expect_words "$logs/out" "photos/train            24 images in 8 sub-folders" "photos/ood/textures      5 images"
expect_same "$(ls photos)" $'ood\noutliers\ntest\ntrain'
expect_same "$(ls photos/ood)" $'cropped\ndigits\npatches\nresized\nscenes\ntextures'
expect_same "$(ls photos/ood/digits)" $'000000.png\n000001.png\n000002.png\n000003.png\n000004.png'
expect_same "$(find photos/train -name '*.png' | wc -l) $(ls photos/train | wc -l)" "24 8"
expect_same "$(find photos/test -name '*.png' | wc -l) $(find photos/outliers -name '*.png' | wc -l)" "16 48"
expect_same "$(find photos/outliers -name '*.png' -printf '%f\n' | sort | uniq | wc -l)" 48

# The files hold the pixels of the sources, each in the folder of its class.
pixels() { tail -c +4097 "$1" | head -c $((5 * 3072)); } # of a packed file: the layout is in docs/data.md
expect_ok pack world:digits:5 drawn.poem
expect_ok pack photos/ood/digits written.poem
cmp <(pixels drawn.poem) <(pixels written.poem)
expect_ok pack world:train:24 drawn-train.poem
expect_ok pack photos/train written-train.poem
python3 - drawn-train.poem written-train.poem <<'PYTHON' || fail "classes or pixels differ"
import json, struct, sys
def images(path):  # (class, pixels) of each image
    data = open(path, 'rb').read()
    count, labels, names, size = struct.unpack('<QQQQ', data[24:56])
    names = json.loads(data[names:names + size])
    labels = struct.unpack(f'<{count}q', data[labels:labels + 8 * count])
    return [(names[label], data[4096 + 3072 * i:4096 + 3072 * (i + 1)]) for i, label in enumerate(labels)]
drawn, written = (images(path) for path in sys.argv[1:])
sys.exit(sorted(drawn, key=lambda image: image[0]) != written)
PYTHON
expect_ok world other $small --seed 1
expect_ok pack world:digits:5:1 drawn.poem --force
expect_ok pack other/ood/digits written.poem --force
cmp <(pixels drawn.poem) <(pixels written.poem)

# Nothing is ever replaced, and a folder that cannot be filled is not left behind.
: >file
mkdir empty
expect_error photos "exists already" "choose another" -- world photos $small
expect_error file "exists already" -- world file $small
expect_error "--train" "'0'" "from 1 to 1000000" -- world new --train 0
expect_error "dir is required" -- world
expect_ok world empty $small
(
  trap '' XFSZ
  ulimit -f 1 # KiB: less than an image
  poem world full $small 2>&1 >/dev/null
) | cat >"$logs/err" || true
expect_words "$logs/err" full "cannot write" "File too large"
[ ! -e full ] || fail "a part is left"

"$program" --threads 1 world stopped --outliers 1000000 >"$logs/out" 2>"$logs/err" &
child=$!
for ((i = 0; i < 500; ++i)); do
  [ -e stopped/test ] && break
  sleep 0.02
done
[ -e stopped/test ] || fail "writing never began: $(cat "$logs/err")"
kill -INT "$child"
code=0
wait "$child" || code=$?
expect_same $code 130
[ ! -e stopped ] || fail "a part is left"
