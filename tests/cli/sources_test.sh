# Sources of images: part of them, TinyImages, the folder they start from, and what is told before the first is read.
source "$(dirname "$0")/common.sh"
write_image_config image.yaml
mkdir data
seq 1 20000 >data/tiny_images.bin
truncate -s $((20 * 3072)) data/tiny_images.bin
printf '1\n7\n20\n' >data/list.txt
tiny=data/tiny_images.bin

# Part of a source, wherever a source is taken.
expect_ok info "$tiny"
expect_words "$logs/out" "count      20" "3 channels, 32x32" "labels     none"
expect_ok info "$tiny#exclude=data/list.txt"
expect_words "$logs/out" "count      17"
expect_ok info "$tiny#exclude=data/list.txt#count=5#seed=2"
expect_words "$logs/out" "count      5"
expect_ok info "world:train:80#per_class=3"
expect_words "$logs/out" "count      24" "       3   mushroom"
expect_ok pack "$tiny#exclude=data/list.txt" rest.poem
expect_words "$logs/out" "17 images"
expect_ok pack "$tiny" all.poem # turned, so the bytes are others; the second image is the first of the rest
cmp -i $((4096 + 3072)):4096 -n 3072 all.poem rest.poem

expect_error "tiny_images.bin#cuont=3" "nearest is 'count'" -- info "$tiny#cuont=3"
expect_error "contains 20 images, but #count asks for 21" -- info "$tiny#count=21"
expect_error "no classes" -- info "$tiny#per_class=3"
expect_error missing.txt "No such file" -- pack "$tiny#exclude=missing.txt" new.poem
printf '21\n' >wrong.txt
expect_error wrong.txt "names image 21" "1 to 20" -- pack "$tiny#exclude=wrong.txt" new.poem
head -c 5000 "$tiny" >tiny_cut.bin
expect_error tiny_cut.bin "5000 bytes" "3072" -- pack tiny_cut.bin new.poem
rm tiny_cut.bin wrong.txt rest.poem all.poem

# TinyImages as outliers; the bytes do not depend on where poem is started, nor on how the folder is named.
outliers="data.outliers=$tiny#exclude=data/list.txt"
expect_ok train image.yaml --out run --set "$outliers"
expect_ok train image.yaml --out named --set "data.outliers=tiny_images.bin#exclude=list.txt" --set data.folder=data
cmp run/detector.safetensors named/detector.safetensors
cp data/tiny_images.bin outside.bin
printf 'x%.0s' {1..3072} | dd of=data/tiny_images.bin bs=3072 seek=6 conv=notrunc status=none # the seventh, which is left out
expect_ok train image.yaml --out other --set "$outliers"
cmp run/detector.safetensors other/detector.safetensors
mv outside.bin data/tiny_images.bin

# A run goes on and is evaluated from any folder, and may move with its data.
expect_words run/config.yaml "folder: $PWD" "outliers: data/tiny_images.bin"
rm -r run/detector.safetensors run/checkpoint run/metrics.jsonl
mkdir elsewhere
(cd elsewhere && expect_ok train --resume ../run && expect_ok eval ../run --id world:test:8 --ood a=world:digits:8 --score knn)
cmp run/detector.safetensors other/detector.safetensors
cp -r run moved
mkdir new-place
mv data new-place
expect_error moved/config.yaml "/data/" "no such file" "data.folder" -- train --resume moved
sed -i "s|folder: .*|folder: $PWD/new-place|" moved/config.yaml
expect_ok train --resume moved
mv new-place/data .
rm -r moved new-place elsewhere

# Told before the first image is read: a damaged file of images is not looked into.
printf 'no array' >damaged.npy
bad=(train image.yaml --out new --set data.train=damaged.npy --set)
expect_error "damaged.npy" -- "${bad[@]}" seed=1
expect_error "network.depth" "11 is not 6n+4" "the nearest valid depths are 10 and 16" -- "${bad[@]}" network.depth=11
expect_error missing.poem "no such file" -- "${bad[@]}" data.outliers=missing.poem
expect_error "world:trian" "use one of" -- "${bad[@]}" data.outliers=world:trian
expect_error missing.poem "no such file" -- "${bad[@]}" data.test=world:test:8 --set "data.ood=[a=missing.poem]"
expect_error "'a'" twice -- "${bad[@]}" data.test=world:test:8 --set "data.ood=[a=world:digits:8, a=world:scenes:8]"
expect_error "'reject'" "beyond the classes" -- "${bad[@]}" score=reject
expect_error "'mahalanobis'" "data.validation" -- "${bad[@]}" score=mahalanobis --set data.validation=0
expect_error world:train:1 "one class only" -- "${bad[@]}" data.train=world:train:1
expect_error "cross_entropy ignores outliers" "has no effect" "mining.miner: none" -- "${bad[@]}" objective.name=cross_entropy
evaluate=(eval run --id damaged.npy --ood)
expect_error "damaged.npy" -- "${evaluate[@]}" a=world:digits:8
expect_error missing "no such file" -- "${evaluate[@]}" a=missing
expect_error "'a'" twice -- "${evaluate[@]}" a=world:digits:8 --ood a=world:scenes:8
expect_error "'mps'" "msp" -- "${evaluate[@]}" a=world:digits:8 --score mps
expect_error "--balance" "'2'" "ID:OOD" -- "${evaluate[@]}" a=world:digits:8 --balance 2
expect_error missing "no such file" -- "${evaluate[@]}" a=world:digits:8 --train missing --score knn

# --balance: counts beside the figures, the accuracy of all ID images.
sets=(--id world:test:24 --ood "a=world:digits:40#count=16" --ood b=world:scenes:6)
expect_ok eval run "${sets[@]}" --json
accuracy=$(grep id_accuracy "$logs/out")
expect_same "$(grep -o '_count": [0-9]*' "$logs/out" | tr -dc '0-9 ')" " 24 16 24 6"
expect_ok eval run "${sets[@]}" --json --balance 1:2
expect_same "$(grep -o '_count": [0-9]*' "$logs/out" | tr -dc '0-9 ')" " 8 16 3 6"
expect_same "$(grep id_accuracy "$logs/out")" "$accuracy"
cp "$logs/out" "$logs/first"
expect_ok eval run "${sets[@]}" --json --balance 1:2 --seed 0
cmp "$logs/out" "$logs/first"
expect_ok eval run "${sets[@]}" --balance 1:2 --score msp,energy
expect_words "$logs/out" "8 ID against a 16, 3 ID against b 6"
expect_error "24 ID and 6 OOD" "1:7" -- eval run "${sets[@]}" --balance 1:7

# Ctrl-C while a world is drawn leaves nothing behind.
expect_clean_stop world:train:400000
