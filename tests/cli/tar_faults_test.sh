# Tars from which images could be lost without a word.
source "$(dirname "$0")/common.sh"

/usr/bin/python3 "$sources/tests/cli/write_tars.py"
mkdir photos
tar -xf all.tar -C photos --wildcards '*.png'
tar -cf a.tar -C photos $(cd photos && ls | head -30)
tar -cf b.tar -C photos $(cd photos && ls | tail -8)
expect_ok pack photos photos.poem
write_image_config images.yaml
lazy=(train images.yaml --set outliers.fit=resize --set data.size=20 --set train.epochs=1)
count() { od -An -tu8 -j24 -N8 "$1" | tr -d ' '; } # of a packed file

# A tar that is cut between two of its members.
/usr/bin/python3 - <<'TEXT'
import tarfile
tar = tarfile.open("a.tar")
member = tar.getmembers()[20]
open("cut.tar", "wb").write(open("a.tar", "rb").read(member.offset))
TEXT
expect_error cut.tar "ends before the tar is complete" -- pack cut.tar cut.poem
expect_error cut.tar "ends before the tar is complete" -- "${lazy[@]}" --out cut --set data.outliers=cut.tar
gzip -k cut.tar # as if the program that wrote the tar was killed, and gzip was not
xz -k cut.tar
for file in cut.tar.gz cut.tar.xz; do
  expect_error $file "ends before the tar is complete" -- pack $file cut.poem
  expect_error "standard input" "ends before the tar is complete" -- pack - cut.poem <$file
done

# Tars in a row: all of them, from a file as from standard input, at once and on demand.
cat a.tar b.tar >both.tar
expect_ok pack both.tar both.poem
cmp both.poem photos.poem
poem --quiet pack - piped.poem <both.tar >"$logs/out"
cmp piped.poem photos.poem
gzip -c both.tar >both.tar.gz
expect_ok pack both.tar.gz zipped.poem
cmp zipped.poem photos.poem
expect_ok "${lazy[@]}" --out both --set data.outliers=both.tar
expect_words "$logs/err" "38 outliers"
expect_ok "${lazy[@]}" --out photos-run --set data.outliers=photos.poem
cmp both/detector.safetensors photos-run/detector.safetensors

# A sparse member that is not an image has fewer bytes in the tar than it has on disk.
mkdir sparse
truncate -s 100M sparse/notes.bin
cp photos/0000.png photos/0001.png sparse
tar -cSf sparse.tar -C sparse notes.bin 0000.png 0001.png
expect_ok pack sparse.tar sparse.poem
expect_same "$(count sparse.poem)" 2
expect_ok "${lazy[@]}" --out sparse-run --set data.outliers=sparse.tar
expect_words "$logs/err" "2 outliers"

# A folder of archives of several kinds: all are read.
mkdir kinds
cp a.tar kinds/0.tar
gzip -c b.tar >kinds/1.tar.gz
echo text >kinds/readme.txt
expect_ok pack kinds kinds.poem
cmp kinds.poem photos.poem
expect_ok "${lazy[@]}" --out kinds-run --set data.outliers=kinds
expect_words "$logs/err" "38 outliers"

# Links have no pixels of their own: they are counted.
mkdir links
cp photos/0000.png photos/0001.png links
ln links/0000.png links/0002.png
ln -s 0000.png links/0003.png
tar -cf links.tar -C links 0000.png 0001.png 0002.png 0003.png
expect_ok pack links.tar links.poem
expect_words "$logs/err" "passed over 2 files: 2 .png (a link)"
expect_same "$(count links.poem)" 2

# Names that begin with "..".
tar -cPf above.tar -C kinds ../photos/0000.png ../photos/0001.png
tar -tPf above.tar >names.txt
grep -q '^\.\./photos' names.txt || fail "$(cat names.txt)"
expect_ok pack above.tar above.poem
expect_same "$(count above.poem)" 2
grep -aq photos/0001.png above.poem || fail "no name"
