# Installs into a folder of its own, builds the examples through find_package(poem) and runs them.
source "$(dirname "$0")/common.sh"
cmake --install "$(dirname "$program")" --prefix "$PWD/installed" >"$logs/cmake" || fail "$(cat "$logs/cmake")"
for file in bin/poem share/poem/configs/demo.yaml; do
  [ -e "installed/$file" ] || fail "not installed: $file"
done

# The public headers, and nothing else.
expect_same "$(ls installed/include)" poem
expect_same "$(ls installed/include/poem)" "$(ls "$sources/include/poem")"

# build FOLDER OUT: the project there, against what was installed.
build() {
  cmake -G Ninja -S "$1" -B "$2" -DCMAKE_PREFIX_PATH="$PWD/installed" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
    >"$logs/cmake" 2>&1 && cmake --build "$2" >>"$logs/cmake" 2>&1 || fail "$(cat "$logs/cmake")"
}

# Every header compiles. All in one file, which is quick; each source of the library includes its own header first.
mkdir headers
cp "$sources/examples/classify/CMakeLists.txt" headers
{
  for header in installed/include/poem/*.h; do echo "#include <poem/$(basename "$header")>"; done
  echo 'int main() { return poem::version() == nullptr; }'
} >headers/main.cpp
build headers headers/build

# A consumer's compiler sees the include folder, LibTorch's folders and flags, and nothing else of poem's.
command=$(sed -n 's/.*"command": "\(.*\)",/\1/p' headers/build/compile_commands.json)
for word in POEM_ FMT_ SPDLOG_ YAML -fopenmp; do
  if [[ $command == *"$word"* ]]; then fail "a consumer is compiled with $word: $command"; fi
done
expect_same "$(grep -oE '(-I|-isystem )[^ ]*installed[^ ]*' <<<"$command")" "-isystem $PWD/installed/include"

build "$sources/examples/classify" example
write_image_config image.yaml
installed/bin/poem --quiet train image.yaml --out run --set train.epochs=1 >"$logs/out" || fail "the installed program"
example/classify run/detector.safetensors world:test:5 >verdicts
expect_same "$(wc -l <verdicts)" 5
code=0
example/classify nowhere world:test:5 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" nowhere

# A program's own objective, miner, score and reader train, and the config that the run keeps names them.
build "$sources/examples/extending" extending
extending/extending "$sources/examples/extending/extending.yaml" extended >"$logs/out" 2>"$logs/err" ||
  fail "examples/extending: $(cat "$logs/err")"
expect_words "$logs/out" AUROC digits "score centre"
expect_words extended/config.yaml "name: fixed_length" "miner: confident" "score: centre" "outliers: outliers.ppm"
expect_same "$(wc -l <extended/metrics.jsonl)" 2
# poem itself does not know these parts, and says so.
expect_error score "'centre'" -- eval extended --id world:test:8 --ood a=world:digits:8
# On a terminal the library draws no progress: the program alone does.
script -qec "extending/extending $sources/examples/extending/extending.yaml again" "$logs/typescript" >"$logs/out" ||
  fail "examples/extending on a terminal"
if grep -q $'\033\[[JK]' "$logs/typescript"; then fail "the library draws on the terminal"; fi
