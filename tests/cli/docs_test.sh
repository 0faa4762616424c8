# What the documentation shows is what the sources hold.
source "$(dirname "$0")/common.sh"

# docs/config.md is generated; `make docs` writes it.
diff <(bash "$sources/scripts/write-config-reference" "$program") "$sources/docs/config.md" ||
  fail "docs/config.md is not what poem config --markdown prints: run make docs"

# The worked examples stand in the text as they are compiled by the tests.
for example in logit_norm.cpp centre.cpp; do
  diff <(sed -n "/^\`\`\`cpp $example\$/,/^\`\`\`\$/p" "$sources/docs/extending.md" | sed '1d;$d') \
    "$sources/examples/extending/$example" || fail "docs/extending.md shows another $example than examples/extending"
done
