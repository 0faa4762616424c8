# What the documentation shows is what the sources hold.
source "$(dirname "$0")/common.sh"

# docs/config.md is generated; `make docs` writes it.
diff <(bash "$sources/scripts/write-config-reference" "$program") "$sources/docs/config.md" ||
  fail "docs/config.md is not what poem config --markdown prints: run make docs"

# The worked example stands in the text as it is compiled by the tests.
diff <(sed -n '/^```cpp logit_norm.cpp$/,/^```$/p' "$sources/docs/extending.md" | sed '1d;$d') \
  "$sources/examples/extending/logit_norm.cpp" || fail "docs/extending.md shows another example than examples/extending"
