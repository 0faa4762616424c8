# Help texts, version, and command lines that cannot be understood.
source "$(dirname "$0")/common.sh"

expect_ok --version
expect_words "$logs/out" "poem "
expect_ok --help
expect_same "$(grep -E '^[A-Z].*:$' "$logs/out" | paste -sd ' ')" "Options: Train: Use: Judge: Study: Plan: Look into: Data:"
commands="demo train launch predict calibrate eval report study toy theory plan bench features metrics posthoc export serve mine data pack world info config"
for command in $commands; do
  expect_words "$logs/out" "  $command "
done
for command in $commands; do
  expect_ok "$command" --help
  expect_words "$logs/out" "Example" "  poem $command"
done
for command in list verify fetch check; do
  expect_ok data "$command" --help
  expect_words "$logs/out" "Example" "  poem data $command"
done

expect_error "subcommand is required" "poem --help" --
expect_error "'trian'" "nearest is 'train'" -- trian
expect_error "unknown command 'frobnicate' (see poem --help)" -- frobnicate
expect_error "unknown command 'lst'" "nearest is 'list'" "poem data --help" -- data lst
expect_error "unknown option '--bogus' (see poem --help)" -- --bogus
expect_error "unknown option '--bogus' (see poem config --help)" -- config --bogus
expect_error "unknown option '--ot' (nearest is '--out'; see poem data fetch --help)" -- data fetch svhn --ot=here
expect_error "unknown option '--theads'" "nearest is '--threads'" -- --theads 2 config
expect_error "unknown option '--sed'" "nearest is '--seed'" -- mine --sed 1 # before what is missing
expect_error "unexpected argument 'more' (see poem config --help)" -- config more
expect_error "--threads" "abc" -- config --threads abc
expect_error "--threads" "'0'" "from 1 to 1024" "poem config --help" -- config --threads 0
expect_error "--threads" "'99999999999999999999'" -- config --threads 99999999999999999999
expect_error "--seed" "'-1'" "whole number of at least 0" -- toy --seed -1 --out toy
expect_error "--seed" "'-1'" "whole number of at least 0" -- train x.yaml --seed -1 --out run
expect_error "--seed" "'1.5'" "whole number" -- theory --seed 1.5 --out theory
expect_error "--samples" "'0'" "from 1 to 100000" -- theory --samples 0 --out theory
expect_error "--sigma" "'x'" "from 0.01 to 100" -- theory --sigma x --out theory
expect_error "--jobs" "'0'" "from 1 to 1024" -- study x.yaml --out study --jobs 0
expect_error "--size" "'big'" "from 0 to 4096" -- info x --size big
expect_error "device gpu" "auto, cpu and cuda" -- train --device gpu x.yaml --out run
expect_error "CONFIG" "--resume" "poem train --help" -- train
expect_error "--resume" "leave out" -- train --resume run --out other
expect_error "--id is required" "poem metrics --help" -- metrics
expect_error "out is required" "poem pack --help" -- pack world:train:4
expect_error "too long" -- info "$(printf 'a%.0s' {1..5000})"
expect_error "there is no such file" -- info $'two\nlines'

# A result that cannot be written is an error.
code=0
poem config >/dev/full 2>"$logs/err" || code=$?
expect_same $code 2
expect_words "$logs/err" "standard output" "No space left"
