# network.init: weights of a file or of another run.
source "$(dirname "$0")/common.sh"
write_image_config image.yaml
short=(--set train.epochs=1 --set mining.select=32)
expect_ok world photos --train 32 --test 8 --outliers 8 --ood 4
expect_ok train image.yaml --out run "${short[@]}" --set data.train=photos/train

# A run folder stands for its detector.
expect_ok train image.yaml --out again "${short[@]}" --set data.train=photos/train --set network.init=run
expect_words "$logs/err" "network.init:" " tensors from run/detector.safetensors; not used: held_out.scores"
! grep -q "anew" "$logs/err" || fail "the classes are the same: $(cat "$logs/err")"

# As many classes, one of another name.
mv photos/train/boat photos/train/ship
expect_ok train image.yaml --out other "${short[@]}" --set data.train=photos/train --set network.init=run
expect_words "$logs/err" "the last layer starts anew: its class" "'boat', yours is '" "not used: "

rm again/detector.safetensors
expect_error "network.init" "'again', a run that has no detector yet" "again/checkpoint/state.safetensors" -- \
  train image.yaml --out bad --set network.init=again
expect_error "network.init" "'photos'" "nor a run" "data.folder" -- train image.yaml --out bad --set network.init=photos
expect_error "'network' is a section" "--set network.init=run" -- train image.yaml --out bad --set 'network={init: run}'

# A network for large images on small ones.
expect_ok train image.yaml --out large "${short[@]}" --set network.name=resnet18_224
expect_words "$logs/err" "data.size is 16: resnet18_224 is made for images of 224×224 pixels, not 16×16" "network.name to resnet18"
