# Help texts, version, and command lines that cannot be understood.
source "$(dirname "$0")/common.sh"

expect_ok --version
expect_words "$logs/out" "poem "
expect_ok --help
commands="demo train eval report study toy theory metrics posthoc mine data pack info config"
for command in $commands; do
  expect_words "$logs/out" "  $command "
done
for command in $commands; do
  expect_ok "$command" --help
  expect_words "$logs/out" "Example" "  poem $command"
done

expect_error "subcommand is required" "poem --help" --
expect_error "'trian'" "nearest is 'train'" -- trian
expect_error "--bogus" "poem --help" -- --bogus
expect_error "--bogus" "poem config --help" -- config --bogus
expect_error "--threads" "abc" -- config --threads abc
expect_error "--threads" "1 to 1024" -- config --threads 0
expect_error "--device gpu" "auto, cpu and cuda" -- train --device gpu x.yaml --out run
expect_error "CONFIG" "--out" "poem train --help" -- train
expect_error "--resume" "leave out" -- train --resume run --set seed=1
expect_error "--id is required" "poem metrics --help" -- metrics
expect_error "out is required" "poem pack --help" -- pack world:train:4
expect_error "too long" -- info "$(printf 'a%.0s' {1..5000})"
expect_error "there is no such file" -- info $'two\nlines'

# A result that cannot be written is an error.
code=0
poem config >/dev/full 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" "standard output" "No space left"
