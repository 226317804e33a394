#!/bin/sh
# Prints the end of a run of tests: the ten slowest, what could not be had, and how many passed, failed and were skipped.
echo
echo "the ten slowest tests:"
"$TOOLS/gotestsum" tool slowest --jsonfile "$EVENTS" --num 200 | awk '$2 !~ "/"' | head -10
if [ -f .servers/env ] && missing=$(sed -n 's/^UNWEAVER_TEST_MISSING=//p' .servers/env) && [ -n "$missing" ]; then
  echo "SKIPPED: no real $missing could be had here; what needs it was not tested (see the lines 'servers:' above)"
fi
if [ -f "$EVENTS.nochart" ]; then
  echo "SKIPPED: the Helm chart's modules could not be had here; the chart was not tested: $(cat "$EVENTS.nochart")"
fi
echo "$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) passed, $((TESTS_FAILED + TESTS_ERRORS)) failed, $TESTS_SKIPPED skipped"
