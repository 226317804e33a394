#!/usr/bin/env bash
# What the tests of the web page need: its node packages, pinned by package-lock.json, and Chromium of the system. What
# cannot be had here is said, and is no failure: those tests are skipped then.
set -uo pipefail
cd "$(dirname "$0")/../query-api/page" || exit 0

say() { echo "browser: $*" >&2; }

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    say "installing chromium"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y \
      --no-install-recommends chromium; } >/dev/null 2>&1 || say "apt-get could not install chromium"
  else
    say "no chromium, and nobody here who may install it (Debian, Ubuntu: apt-get install chromium)"
  fi
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  say "no node (Debian, Ubuntu: apt-get install nodejs npm)"
elif [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
  say "installing the node packages of the page"
  npm ci --no-audit --no-fund --loglevel=error >&2 || say "npm could not install them"
fi
exit 0
