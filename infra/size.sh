#!/usr/bin/env bash
# Prints how large each room is: lines of Go without tests against its budget, lines of its tests, and the words of the
# docs. Nothing fails by it. Generated files (.pb.go) and test data do not count.
set -euo pipefail
cd "$(dirname "$0")/.."

# lines FILES... prints the lines of Go files read from standard input, one name a line.
lines() { xargs -r cat | wc -l; }
source_files() { git ls-files "$1/*.go" | grep -v -e '_test\.go$' -e '\.pb\.go$' || true; }
test_files() { git ls-files "$1/*_test.go"; }

total=0 budgets=0 tests=0
printf '%-22s %8s %8s %8s\n' room lines budget tests
while read -r room budget; do
  n=$(source_files "$room" | lines)
  t=$(test_files "$room" | lines)
  mark=''
  if [ "$n" -gt "$budget" ]; then mark=" over by $((n - budget))"; fi
  printf '%-22s %8d %8d %8d%s\n' "$room" "$n" "$budget" "$t" "$mark"
  total=$((total + n)) budgets=$((budgets + budget)) tests=$((tests + t))
done <<'ROOMS'
workflows 2500
activities 1200
worker 900
starter 8000
query-api 7000
infra 1400
internal/core 2300
internal/config 3000
internal/fault 600
internal/telemetry 1500
internal/app 1100
internal/document 5500
internal/text 1300
internal/model 7000
internal/ledger 2700
internal/store 8300
internal/artifact 4400
internal/index 7400
internal/stage 11000
internal/pipeline 13500
internal/retrieve 5600
internal/answer 1500
internal/methods 10000
internal/control 3900
internal/access 1100
internal/stream 700
ROOMS
printf '%-22s %8d %8d %8d\n' together "$total" "$budgets" "$tests"
printf '%-22s %8d %8d %8d\n' internal/testkit "$(source_files internal/testkit | lines)" 7500 "$(test_files internal/testkit | lines)"

echo
printf '%-22s %8s %8s\n' docs words pages
count() { # count NAME FILES... prints the words (with a letter or digit) and the number of files read from standard input.
  local files; files=$(cat)
  printf '%-22s %8d %8d\n' "$1" "$(printf '%s\n' "$files" | xargs -r cat | tr -s '[:space:]' '\n' | grep -c '[[:alnum:]]' || true)" \
    "$(printf '%s\n' "$files" | grep -c . || true)"
}
generated='docs/reference/(cli|configuration|metrics|api|errors|routes)\.md'
git ls-files README.md | count README.md
git ls-files 'docs/*.md' | grep -vE "^$generated$" | count 'docs, by hand'
git ls-files 'docs/*.md' | grep -E "^$generated$" | count 'docs, generated'
