#!/usr/bin/env bash
# Runs suites of tests as one run, with one summary (docs/testing.md): test.sh SUITE...
#
#   unit      every package on stores in memory and on disk; with RACE=1 those of RACED under the race detector
#   programs  the built programs end to end
#   servers   tests that ask a real server (.servers/env names them), the clients, the Helm chart, and beside them the
#             pipeline on embedded and real servers
#   clients   clients of other people, the API against its description, the page in a browser
#   race      every package under the race detector
#   long      every package with its full counts, storms and power loss
#
# The Makefile sets GO, BIN, TOOLS, PIPELINE (the folder of the embedded stack), PROGRAMS and RACED.
set -uo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != --events ]; then
  export EVENTS=$BIN/tests.json
  mkdir -p "$BIN"
  case " $* " in *" unit "*) hide=skipped ;; *) hide=none ;; esac # without servers many are: docs/testing.md
  exec "$TOOLS/gotestsum" --format pkgname --format-hide-empty-pkg --hide-summary $hide --jsonfile "$EVENTS" \
    --post-run-command infra/testsum.sh --raw-command -- "$0" --events "$@"
fi
shift
rm -f "$EVENTS.nochart"

KILLS_SERVERS='^TestKilledPartsOfACluster' # it ends the S3 and the Milvus that all share
failed=0 beside=
# run_beside starts one part in the background; join_beside waits for it and prints what it did.
run_beside() { (failed=0; "$@"; exit $failed) >"$EVENTS.beside" & beside=$!; }
join_beside() { wait $beside || failed=1; cat "$EVENTS.beside"; }
run() { "$GO" test -json "$@" || failed=1; }
pipeline() { (cd "$PIPELINE" && UNWEAVER_TEST_BIN=$BIN "$GO" test -json "$@" ./...) || failed=1; }

# chart tests the Helm chart by modules that no other part needs: without them it is skipped, and testsum.sh says so.
chart() {
  local said
  if said=$(cd infra/chart/test && "$GO" mod download 2>&1) || grep -q 'checksum mismatch' <<<"$said"; then
    (cd infra/chart/test && UNWEAVER_TEST_BIN=$BIN "$GO" test -json -count=1 ./...) || failed=1
  else
    tail -1 <<<"$said" >"$EVENTS.nochart"
  fi
}

units() { "$GO" list ./... | grep -v "/$PIPELINE"; }

# run_files runs the tests that stand in some files, one package after another: run_files "FILE..." FLAG...
run_files() {
  local files=$1 folder names
  shift
  for folder in $(dirname $files | sort -u); do
    names=$(grep -xE "$folder/[^/]+" <<<"$files" | xargs grep -hoE '^func Test\w+' | sed 's/func //' | paste -sd '|')
    [ -z "$names" ] || run -run "^($names)\$" "$@" "./$folder"
  done
}

# on_servers runs the tests of each file that names the address of a server: they share it.
on_servers() {
  run_files "$(git grep -lE 'Getenv\("UNWEAVER_TEST_(REDIS|S3|MILVUS)|redistest\.(Server|Start|Cluster)' -- '*_test.go' \
    ":!$PIPELINE")" -count=1 -timeout 20m
}

# units_beside_race runs what the race detector does not: other packages, and files that leave it out.
units_beside_race() {
  run -timeout 30m $(units | grep -vxF -f <("$GO" list $RACED))
  run_files "$(git grep -lE '^//go:build !race$' -- '*_test.go')" -timeout 30m
}

clients() {
  export UNWEAVER_TEST_CLIENTS=$TOOLS/clients UNWEAVER_TEST_SCHEMATHESIS=$TOOLS/schemathesis/bin/schemathesis
  [ -x "$UNWEAVER_TEST_SCHEMATHESIS" ] || unset UNWEAVER_TEST_SCHEMATHESIS
  UNWEAVER_TEST_BROWSER=1 run -count=1 -timeout 20m -run 'ThePythonClient|TheInspector|Schemathesis|Browser|TheBuiltFiles' \
    ./query-api/...
}

for suite; do
  case $suite in
  unit)
    if [ -n "${RACE:-}" ]; then # the largest package is a single process for minutes
      run_beside units_beside_race
      run -race -timeout 30m $RACED
      join_beside
    else
      run -timeout 30m $(units)
    fi
    ;;
  programs) UNWEAVER_TEST_BIN=$BIN run -count=1 -timeout 20m $PROGRAMS ;;
  servers) # the pipeline waits more than it works, and has databases, buckets and collections of its own
    [ ! -f .servers/env ] || { set -a; . ./.servers/env; set +a; }
    run_beside pipeline -count=1 -timeout 60m -parallel 4 -skip "$KILLS_SERVERS"
    [ ! -f .servers/env ] || UNWEAVER_TEST_BIN=$BIN on_servers
    chart
    join_beside
    run_beside pipeline -count=1 -timeout 20m -run "$KILLS_SERVERS" # now that nothing else asks them
    clients
    join_beside
    ;;
  clients) clients ;;
  race) run -race -timeout 60m $(units) ;;
  long)
    export UNWEAVER_TEST_NIGHTLY=1
    run -timeout 120m $(units)
    [ ! -f .servers/env ] || { set -a; . ./.servers/env; set +a; UNWEAVER_TEST_BIN=$BIN on_servers; }
    pipeline -count=1 -timeout 180m
    UNWEAVER_TEST_BIN=$BIN run -count=1 -timeout 180m $PROGRAMS
    ;;
  *) echo "test.sh: no suite is called $suite" >&2; exit 2 ;;
  esac
done
exit $failed
