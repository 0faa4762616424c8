# Photos as people have them: turned, of several formats, beside other files; one alone; their names in what poem writes.
source "$(dirname "$0")/common.sh"
for class in cat dog; do python3 "$sources/tests/cli/photos.py" photos/$class 10; done

# The same pixels whether they are turned or not, from a folder and from an archive.
expect_ok pack photos all.poem
for kind in bmp png; do
  mkdir $kind
  cp -r photos/cat photos/dog $kind
  find $kind -type f ! -name "*.$kind" -delete
  expect_ok pack $kind $kind.poem
  tail -c +4097 $kind.poem | head -c $((20 * 3 * 16 * 16)) >"$logs/$kind"
done
cmp "$logs/bmp" "$logs/png"
tar -cf png.tar png
expect_ok pack png.tar tar.poem
expect_ok info tar.poem
expect_words "$logs/out" "count      20" "      10   cat"

# What is not an image is counted, and a class that is left without one is named; training does not start.
cp -r bmp more
mkdir more/emu more/gnu
mkfifo more/dog/pipe.png # nobody ever writes into it
touch more/emu/{1,2}.heic more/notes.txt more/.DS_Store more/dog/Thumbs.db
expect_ok info more
expect_words "$logs/out" "count      20" "classes    2"
expect_words "$logs/err" "more: passed over 4 files: 2 .heic, 1 .png, 1 .txt" \
  "more has class folders without an image: emu (2 .heic) and gnu (empty)"
write_image_config image.yaml
expect_error more "class folders without an image: emu (2 .heic) and gnu (empty)" -- train image.yaml --out new --set data.train=more
expect_error more/emu "contains no image, only 2 files: 2 .heic" ".webp" -- info more/emu

# One image is a source of one, wherever a source is taken.
expect_ok info photos/cat/3.png
expect_words "$logs/out" "count      1" "3 channels, 16x16" "labels     none"
expect_error more/notes.txt "unknown format" -- info more/notes.txt

# Names go with their images into all that a run and an evaluation leave.
rm -r more
printf 'no image' >bmp/cat/5.bmp
# A remedy names the flag of a command that has one, and else the key.
expect_error bmp/cat/5.bmp "cannot be decoded" "skip such images with --skip-bad;" -- info bmp
expect_error bmp/cat/5.bmp "skip such images with data.skip_bad: true" -- train image.yaml --out new --set data.train=bmp
expect_ok train image.yaml --out runs/a --set data.train=png --set data.outliers=bmp --set data.test=bmp \
  --set "data.ood=[one=photos/cat/3.png]" --set data.skip_bad=true --set data.validation=0.2 --set train.epochs=1
expect_same "$(head -1 runs/a/scores.csv)" "set,name,class,predicted,verdict,energy"
expect_same "$(wc -l <runs/a/scores.csv)" 21 # 19 ID images, one OOD image and the header
expect_words runs/a/scores.csv "id,cat/4.bmp,cat," "id,cat/6.bmp,cat," "id,dog/10.bmp,dog," "one,3.png,,"
! grep -q "cat/5.bmp" runs/a/scores.csv || fail "a bad image has a score"
expect_words runs/a/gallery/mined-0001.json '"name": "'
expect_words runs/a/gallery/near-threshold.json '"name": "3.png"' '"name": "cat/'
expect_words runs/a/report.html "cat/4.bmp" "Accuracy by class" "Confusion matrix"
expect_words runs/a/results.json '"at_threshold": {' '"classes": [' '"confusion": ['
expect_ok eval runs/a --id bmp --ood one=photos/cat/3.png --skip-bad --out results
cmp results/scores.csv runs/a/scores.csv # the same images, the same detector
expect_words "$logs/out" "at threshold" kept rejected "most often mistaken for"
expect_words results/results.json '"kept":' '"confusion": ['
expect_error results "exists already" -- eval runs/a --id bmp --ood one=photos/cat/3.png --out results

# A folder of runs is no folder of images.
cp -r runs/a runs/b
rm runs/b/detector.safetensors
mkdir -p runs/deeper
cp -r runs/a runs/deeper/c
expect_ok info runs
expect_words "$logs/out" "runs       runs" "count      3, finished: 2" "finished   a" "unfinished b (epochs done: 1)" "finished   deeper/c"
! grep -q images "$logs/out" || fail "runs are called images"
