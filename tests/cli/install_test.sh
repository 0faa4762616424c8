# Installs into a folder of its own, builds examples/classify through find_package(poem) and runs it.
source "$(dirname "$0")/common.sh"
cmake --install "$(dirname "$program")" --prefix "$PWD/installed" >"$logs/cmake" || fail "$(cat "$logs/cmake")"
for file in bin/poem include/poem/detector.h share/poem/configs/demo.yaml; do
  [ -e "installed/$file" ] || fail "not installed: $file"
done
cmake -G Ninja -S "$sources/examples/classify" -B example -DCMAKE_PREFIX_PATH="$PWD/installed" >"$logs/cmake" 2>&1 &&
  cmake --build example >>"$logs/cmake" 2>&1 || fail "$(cat "$logs/cmake")"

write_image_config image.yaml
installed/bin/poem --quiet train image.yaml --out run --set train.epochs=1 >"$logs/out" || fail "the installed program"
example/classify run/detector.safetensors world:test:5 >verdicts
expect_same "$(wc -l <verdicts)" 5
code=0
example/classify nowhere world:test:5 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" nowhere
