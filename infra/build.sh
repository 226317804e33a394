#!/bin/sh
# Builds binaries and says what it does and how long that takes: build.sh PATH..., where the name of each path is that
# of a program. Figures are of two cores that do nothing else, with modules that are there already.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
go=${GO:-go}
total=$#
step=0
began=$(date +%s)

# A name, its package, what it is, and how long it takes the first time.
programs='unweaver|./starter|the command line with the embedded stack|two minutes
unweaver-worker|./worker|builds indexes|half a minute
unweaver-query-api|./query-api|answers queries|half a minute'

for path in "$@"; do
  step=$((step + 1))
  name=$(basename "$path")
  line=$(printf '%s\n' "$programs" | grep "^$name|") || { echo "build.sh: no program is named $name" >&2; exit 2; }
  IFS='|' read -r name package about takes <<END
$line
END
  echo "[$step/$total] building $name: $about (about $takes the first time, seconds after that)"
  start=$(date +%s)
  mkdir -p "$(dirname "$path")"
  (cd "$root" && exec "$go" build -trimpath -ldflags "-s -w" -o "$path" "$package") &
  pid=$!
  # Ctrl-C reaches the compiler by itself; what ends this script alone must end it, too.
  trap 'kill "$pid" 2>/dev/null || true' EXIT
  waited=0
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    waited=$((waited + 1))
    [ $((waited % 30)) -ne 0 ] || echo "        still compiling after $waited s"
  done
  wait "$pid"
  trap - EXIT
  echo "        done in $(($(date +%s) - start)) s"
done
echo "built $total programs in $(($(date +%s) - began)) s"
