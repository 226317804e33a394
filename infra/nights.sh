#!/usr/bin/env bash
# Five nights of an index on the embedded stack, as docs/guides/nights.md tells them: nights.sh [FOLDER]. The stack
# listens on loopback, takes the built-in models, and is stopped at the end; with a FOLDER, which must be new, everything
# stays there, else it is removed. UNWEAVER names the program (bin/unweaver).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
unweaver=${UNWEAVER:-$root/bin/unweaver}
[ -x "$unweaver" ] || { echo "nights.sh: there is no program $unweaver: make build-embedded, or set UNWEAVER" >&2; exit 2; }

keep=
if [ $# -gt 0 ]; then
  mkdir "$1" && place=$(cd "$1" && pwd) && keep=1
else
  place=$(mktemp -d "${TMPDIR:-/tmp}/unweaver-nights-XXXXXX")
fi
stack=
finish() {
  if [ -n "$stack" ]; then
    kill -INT "$stack" 2>/dev/null || true
    for _ in $(seq 300); do kill -0 "$stack" 2>/dev/null || break; sleep 0.1; done
    kill -KILL "$stack" 2>/dev/null || true
    wait "$stack" 2>/dev/null || true
  fi
  [ -n "$keep" ] || rm -rf "$place"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { if [ -t 1 ]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi; }
# run shows a command and what it prints. Exit code 4, of a run that a gate held, is told by those who expect it.
run() {
  printf '\n$ unweaver'
  for word; do case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac; done
  echo
  timeout 300 "$unweaver" "$@"
}
must_hold() {
  local code=0
  run "$@" || code=$?
  [ $code = 4 ] || { echo "nights.sh: it ended with $code, and 4 (held by a gate) was expected" >&2; exit 1; }
}
# built names the generation of the newest build of the index. The exit code of status is that of the build.
built() {
  local status code=0
  status=$("$unweaver" status nights --json) || code=$?
  [ $code = 0 ] || [ $code = 4 ] || return $code
  sed -n '0,/^ *"generation": /s/^ *"generation": "\(.*\)",\{0,1\}$/\1/p' <<<"$status"
}
report() {
  echo
  cat "data/artifacts/nights/generations/$1/report.md"
}

# --- the corpus and the configuration -------------------------------------------------------------------------------
cd "$place"
export UNWEAVER_CONFIG=$place/unweaver.yaml UNWEAVER_DATA_DIR=$place/data
mkdir -p corpus aside
passages=$root/infra/embedded/sample/wiki/corpus.jsonl # 120 passages of Wikipedia, a line each
cp "$passages" corpus/passages.jsonl
cat >probes.jsonl <<'PROBES'
{"question": "Which professional organization publishes the Journal of Psychotherapy Integration?", "documents": ["passages.jsonl#mt00006"]}
{"question": "In which county is Johnnycake, West Virginia located?", "documents": ["passages.jsonl#mt00087"]}
PROBES
cat >unweaver.yaml <<YAML
indexes:
  nights:
    corpus: $place/corpus
    gate: { probes: $place/probes.jsonl, max_recall_drop: 0.1 }
YAML

say "Starting the embedded stack in $place"
"$unweaver" dev --http-port 0 --temporal-port 0 >dev.log 2>&1 &
stack=$!
for _ in $(seq 1200); do
  grep -q '^ready' dev.log && break
  kill -0 "$stack" 2>/dev/null || { cat dev.log >&2; exit 1; }
  sleep 0.1
done
grep '^ready' dev.log || { cat dev.log >&2; exit 1; }

# --- night 1 --------------------------------------------------------------------------------------------------------
say "Night 1: the first build. First what it would take, which asks nobody; then the build."
run estimate --index nights
run index --index nights --wait

# --- night 2 --------------------------------------------------------------------------------------------------------
say "Night 2: one passage of 120 changed, two are gone. The plan is kept, and the night must be what it says."
sed -i -e '/"mt00002"/s/The editor-in-chief is/Since this spring the editor-in-chief is/' -e '/"mt00003"/d' -e '/"mt00004"/d' \
  corpus/passages.jsonl
run estimate --index nights --out plan.json
run index --index nights --plan plan.json --wait
second=$(built)
report "$second" # the reports of the other nights are shown by: unweaver show
run diff --index nights

# --- night 3 --------------------------------------------------------------------------------------------------------
say "Night 3: an export wrote an error page over a passage. A probe question loses its answer, and a gate holds the night."
cp corpus/passages.jsonl aside/good.jsonl
sed -i '/"mt00087"/s/"title": .*/"title": "Error", "text": "503 Service Unavailable. Please try again later."}/' \
  corpus/passages.jsonl
must_hold index --index nights --wait
third=$(built)
run diff "$third" --index nights --questions probes.jsonl
run query "In which county is Johnnycake, West Virginia located?" --index nights --top-chunks 1
echo "(that is generation $second: what was held is not served)"

# --- night 4 --------------------------------------------------------------------------------------------------------
say "Night 4: somebody approves it all the same, which builds nothing; that was a mistake, and it is taken back."
run publish "$third" --index nights --reason "the page was meant to go"
run query "In which county is Johnnycake, West Virginia located?" --index nights --top-chunks 1
run rollback "$second" --index nights --reason "it was an error page"
cp aside/good.jsonl corpus/passages.jsonl
sed -i '/"mt00007"/s/"text": "/"text": "Revised. /' corpus/passages.jsonl
run index --index nights --wait
run operations --index nights

# --- night 5 --------------------------------------------------------------------------------------------------------
say "Night 5: an archive came in bulk. A backfill brings it slowly, and the night goes on beside it."
mkdir corpus/archive
sed -n '1,60{s/"id": "mt/"id": "old/; s/"text": "/"text": "From the archive. /; p}' "$passages" >corpus/archive/2019.jsonl
run backfill start archive --index nights --prefix archive/ --concurrency 1 --reason "the archive of 2019"
sed -i '/"mt00008"/s/"text": "/"text": "Revised. /' corpus/passages.jsonl
run index --index nights --wait
run backfill status archive --index nights --wait
run generations --index nights
run index --index nights --wait
echo "(it was unchanged: the backfill and the night brought everything)"

say "The nights, side by side"
run trends nights
echo
if [ -n "$keep" ]; then
  echo "Stopping the stack. The reports: $place/data/artifacts/nights/generations/*/report.md"
else
  echo "Stopping the stack, and removing $place"
fi
