# poem pack and poem info on image sources.
source "$(dirname "$0")/common.sh"

expect_ok pack world:train:16 train.poem
expect_words "$logs/out" "train.poem" "16 images"
expect_ok info train.poem
expect_words "$logs/out" "count      16" "3 channels, 32x32" "classes    8" mushroom
expect_ok pack world:digits:4 small.poem --size 16
expect_ok info small.poem
expect_words "$logs/out" "count      4" "16x16" "labels     none"
expect_ok pack train.poem copy.poem # the same images, the same bytes
cmp train.poem copy.poem
expect_ok pack copy.poem copy.poem --force
cmp train.poem copy.poem

head -c 20000 train.poem >cut.poem
head -c 7 train.poem >seven.poem
: >empty.poem
printf 'something else entirely, and long enough for a header of any kind ....' >other.poem
mkdir folder taken.poem
printf 'text' >folder/readme.txt
expect_error train.poem "exists already" "--force" -- pack world:train:4 train.poem
expect_error taken.poem "is a folder" -- pack world:train:4 taken.poem --force
for file in other.poem empty.poem folder/readme.txt; do
  expect_error $file "not a packed file of poem" "never replaced" "another name" -- pack world:train:4 $file --force
done
cp cut.poem mended.poem # what was packed once may be packed again
expect_ok pack world:train:16 mended.poem --force
cmp train.poem mended.poem
expect_error nowhere/new.poem "folder does not exist" -- pack world:train:4 nowhere/new.poem
expect_error "/proc/nowhere/new.poem" "folder does not exist" -- pack world:train:4 /proc/nowhere/new.poem
expect_error world:bogus "use one of" -- pack world:bogus new.poem
expect_error missing "no such file" -- pack missing new.poem
expect_error "--size" "0 to 4096" -- pack world:train:4 new.poem --size -1
expect_error folder "image" -- pack folder new.poem
for file in cut seven empty other; do
  expect_error "$file.poem" -- info "$file.poem"
  expect_error "$file.poem" -- pack "$file.poem" new.poem
done
(
  trap '' XFSZ
  ulimit -f 16 # KiB or half of it: the file does not fit
  poem pack world:train:64 full.poem 2>&1 >/dev/null
) | cat >"$logs/err" || true
expect_words "$logs/err" full.poem "cannot write" "File too large" "free some space"
expect_same "$(find . -name 'full*')" ""

# Ctrl-C leaves nothing behind. The source is large only by name: a hole of 5 GB.
npy long.npy '|u1' '400000, 3, 64, 64' ''
truncate -s $((128 + 400000 * 3 * 64 * 64)) long.npy
expect_clean_stop long.npy --size 8
