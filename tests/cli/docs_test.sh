# The documentation shows what the sources contain, and its links work.
source "$(dirname "$0")/common.sh"

# docs/config.md is generated; `make docs` writes it.
diff <(bash "$sources/scripts/write-config-reference" "$program") "$sources/docs/config.md" ||
  fail "docs/config.md is not what poem config --markdown prints: run make docs"

# What a page shows as ```LANGUAGE FILE is a piece of the example's file, as the tests compile it.
for example in extending.md:extending library.md:classify python.md:python; do
  mkdir "$logs/$example"
  awk -v out="$logs/$example/" '/^```[a-z]+ ./ { file = out (++count) "-" $2; next } /^```$/ { file = "" } file { print > file }' \
    "$sources/docs/${example%:*}"
  for piece in "$logs/$example"/*; do
    [ -e "$piece" ] || fail "docs/${example%:*} shows no example"
    file=$sources/examples/${example#*:}/$(sed 's/.*-//' <<<"${piece##*/}")
    [[ $(cat "$file") == *"$(cat "$piece")"* ]] || fail "docs/${example%:*} shows what is not in $file: $(cat "$piece")"
  done
done

# README is readable in a terminal, and the commands it lists are those of the help.
if grep -nE '^.{101,}' "$sources/README.md"; then fail "README.md has lines of more than 100 characters"; fi
expect_ok --help
sed -n '/^Train:/,$s/^  \([a-z]\+\) .*/\1/p' "$logs/out" | sort >"$logs/commands"
sed -n '/^## Commands/,/^## /{/^| /p}' "$sources/README.md" | cut -d '|' -f 3 | grep -o '`[a-z]*`' | tr -d '`' | sort |
  diff "$logs/commands" - || fail "README.md lists other commands than poem --help"

# Every page is reachable from README, and every link leads to a file that is there.
for page in "$sources"/README.md "$sources"/CONTRIBUTING.md "$sources"/docs/*.md "$sources"/docs/notes/*.md; do
  for link in $(sed '/^```/,/^```$/d' "$page" | grep -oE '(\]\(|src(set)?=")[^)"# ]+' | sed -E 's/^(\]\(|src(set)?=")//' | grep -v '^https\?:'); do
    [ -e "$(dirname "$page")/$link" ] || fail "$page: $link is not there"
  done
done
for page in "$sources"/docs/*.md; do
  grep -qF "(docs/$(basename "$page"))" "$sources/README.md" || fail "README.md does not lead to $page"
done

# The map in docs/architecture.md lists every room, and a room includes only itself and the rooms above it. The room
# of a public header stands in docs/library.md.
rooms=$(sed -n 's/^| `\([a-z]*\)\/` .*/\1/p' "$sources/docs/architecture.md")
expect_same "$(sort <<<"$rooms")" "$(ls "$sources/src")"
headers=$(sed -n 's/^| `poem\/\([a-z_]*\).h` | `\([a-z]*\)\/` .*/\1 \2/p' "$sources/docs/library.md")
expect_same "$(cut -d ' ' -f 1 <<<"$headers" | sort)" "$(ls "$sources/include/poem" | sed 's/\.h$//' | sort)"
if ! [ "$(wc -l <<<"$headers")" -le 25 ]; then fail "there are more than 25 public headers"; fi
# A public header needs only others, the standard library and the core of LibTorch.
if grep -n '^#include' "$sources"/include/poem/*.h | grep -vE '#include ("poem/[a-z_]+\.h"|<[a-z_]+>|<(ATen/core|c10)/[^>]+>)$'; then
  fail "a public header includes what is not public"
fi
# The library does not name flags of the command line. (A study starts poem; reports tell a person what to type.)
if grep -rnE '"([^"]*[ (:])?--[a-z]' "$sources/src" --include=*.cpp --include=*.h | grep -vE ':[0-9]+: *//' |
  grep -vE '^[^:]*/src/(cli/|study/study_run.cpp|report/run_data.cpp)'; then
  fail "a message of the library names a flag"
fi
# Threads, the allocator, logging, progress bars and signals are the program's.
if grep -rnE '\b(catch_interrupts|set_up_runtime|set_up_logging|show_progress|mallopt|set_num_threads)\(' "$sources/src" |
  grep -vE '^[^:]*/src/(cli|core)/'; then
  fail "the library sets up the process"
fi
to_rooms=$(sed 's/\(.*\) \(.*\)/s|"poem\/\1.h"|"\2\/\1.h"|/' <<<"$headers")
above=
for room in $rooms; do
  above+=${above:+|}$room
  public=$(awk -v room="$room" '$2 == room { print $1 ".h" }' <<<"$headers")
  if (cd "$sources/include/poem" && grep -rn '^#include "' "$sources/src/$room" $public) | sed "$to_rooms" |
    grep -vE "#include \"($above)/"; then
    fail "src/$room includes a room below it in docs/architecture.md"
  fi
done
