# What the tests of several processes share.
source "$(dirname "$0")/common.sh"

# Ends the test if this poem cannot work on several processes.
need_teams() {
  write_flat_config need.yaml
  if ! poem launch --nproc 2 train need.yaml --out need >"$logs/out" 2>"$logs/err" && grep -q "built without" "$logs/err"; then
    echo "this poem was built without c10d: skipped"
    exit 0
  fi
  rm -rf need need.yaml
}

figure() { # RUN NAME: of the last epoch
  tail -1 "$1/metrics.jsonl" | grep -o "\"$2\":[-0-9.e]*" | head -1 | cut -d : -f 2
}
expect_near() { # A B: up to rounding
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d * d < 1e-6 * (1 + a * a)) }' || fail "$1 is not near $2"
}
expect_like() { # RUN REFERENCE
  local name file
  for name in loss id_energy mined_abs_logit validation_accuracy; do
    expect_near "$(figure "$1" $name)" "$(figure "$2" $name)"
  done
  for file in detector.safetensors results.json report.html; do
    [ -s "$1/$file" ] || fail "$1 has no $file"
  done
}
expect_one_line() { # WORDS...: in one line of stderr, and nothing else there
  expect_same "$(grep -c . "$logs/err")" 1
  expect_words "$logs/err" "$@"
}
