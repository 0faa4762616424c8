# docs/quickstart.md: its commands run as they stand there and print what it shows. Only sizes and epochs are smaller:
# the wrapper that stands in for build/poem adds them.
source "$(dirname "$0")/common.sh"

mkdir build
cat >build/poem <<TEXT
#!/bin/bash
case \$1 in
  world) set -- "\$@" --train 400 --test 48 --outliers 96 --ood 8 ;;
  train) set -- "\$@" --set train.epochs=2 --set data.validation=0.5 ;; # fewer than 200 held out: a warning
esac
exec "$program" --threads 2 "\$@"
TEXT
chmod +x build/poem
ln -s "$sources/configs" configs
classes="boat car fish house key mug mushroom tree" # which of them a verdict names depends on the training
python3 "$sources/tests/cli/console.py" "$sources/docs/quickstart.md" $classes known unknown || fail "see above"

# The template is for anyone's images: of the drawn world it names outliers only, and no weight.
! grep -q "world\|beta" <<<"$(grep -v "world:procedural" configs/my-images.yaml)" || fail "configs/my-images.yaml is for the user's own images"
