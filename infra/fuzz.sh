#!/usr/bin/env bash
# Runs every fuzz target of the module: each package is built for fuzzing once, and its targets run from that binary,
# two at a time with one worker each. An input that fails is kept in the package's testdata/fuzz and fails the run.
#
#   FUZZTIME=60     seconds for each target, at most
#   FUZZTOTAL=720   seconds for all of them together, builds aside: with many targets each gets less than FUZZTIME;
#                   0: no search (tests replay what targets are seeded with)
#   FUZZONLY=regexp the targets to run, by package and name: './internal/document FuzzDecodedTextIsValid'
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
FUZZTIME=${FUZZTIME:-60}
FUZZTOTAL=${FUZZTOTAL:-720}
[ "$FUZZTOTAL" != 0 ] || { echo "SKIPPED: no search for new inputs (FUZZTOTAL=0)"; exit 0; }
AT_ONCE=2

work=$(mktemp -d)
children=()
finish() {
  local pid
  for pid in "${children[@]:-}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

mapfile -t targets < <(git grep -oE --untracked '^func Fuzz[A-Za-z0-9_]+\(' -- '*_test.go' ':!infra/embedded' |
  sed -E 's#^(.*)/[^/]+_test\.go:func (Fuzz[A-Za-z0-9_]+)\(#./\1 \2#' | sort -u | grep -E -- "${FUZZONLY:-.}")
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no target"; exit 1; }

each=$((FUZZTOTAL * AT_ONCE / ${#targets[@]}))
[ "$each" -lt "$FUZZTIME" ] || each=$FUZZTIME
[ "$each" -ge 1 ] || each=1
packages=$(printf '%s\n' "${targets[@]}" | cut -d ' ' -f 1 | sort -u)
echo "fuzz: ${#targets[@]} targets in $(wc -w <<<"$packages") packages, $each s each, $AT_ONCE at a time"

binary() { echo "$work/$(tr -c 'A-Za-z0-9\n' _ <<<"$1").test"; }

for package in $packages; do
  echo "fuzz: building $package"
  # Any name of a target will do: what it asks for is the instrumentation.
  "$GO" test -c -fuzz . -o "$(binary "$package")" "$package"
done

# out_of_time: whether a run failed by nothing but the end of its time. Go before 1.27 may report the end that was asked
# for as a failure, without an input (go.dev/issue/75804); whatever is found has more lines than this one.
out_of_time() {
  [ "$(sed -n '/^--- FAIL/,$p' "$1" | sed -E '/^--- FAIL|^FAIL$|^exit status 1$/d; s/^ +//')" = "context deadline exceeded" ]
}

# one target: in its package's folder, as go test would, so that what it finds lands in testdata/fuzz. Where coverage
# differs from run to run, as with parsers of several goroutines, an input is made smaller for a minute: ten tries do.
one() {
  local package=$1 name=$2 log
  log="$work/$(tr -c 'A-Za-z0-9\n' _ <<<"$package $name").log"
  if (cd "$package" && "$(binary "$package")" -test.run "^$name\$" -test.fuzz "^$name\$" -test.fuzztime "${each}s" \
    -test.fuzzminimizetime 10x -test.fuzzcachedir "$cache/$package" -test.parallel 1 -test.timeout "$((each + 120))s") >"$log" 2>&1; then
    echo "fuzz: ok $package $name: $(grep -oE 'execs: [0-9]+' "$log" | tail -1)"
  elif out_of_time "$log"; then
    echo "fuzz: ok $package $name, ended by its time: $(grep -oE 'execs: [0-9]+' "$log" | tail -1)"
  else
    echo "fuzz: FAILED $package $name:"
    tail -25 "$log" | sed 's/^/    /'
    echo "$package $name" >>"$work/failed"
  fi
}
cache=$("$GO" env GOCACHE)/fuzz-unweaver

for target in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$AT_ONCE" ]; do wait -n || true; done
  # shellcheck disable=SC2086 # package and name
  one $target &
  children+=($!)
done
wait

if [ -e "$work/failed" ]; then
  echo "fuzz: these failed; their inputs are in testdata/fuzz of the package, for a test to keep:"
  sed 's/^/  /' "$work/failed"
  exit 1
fi
