#!/bin/sh
# Installs the clients that other people's programs ask with, pinned, into a folder: OpenAI's for Python, LangChain,
# LlamaIndex, and the command line of the MCP inspector with the Node.js that it needs. What cannot be had is said and
# left out.
set -u
to=$1
here=$(dirname "$0")
inspector=2.12.0
node=22.23.3
mkdir -p "$to"

skipped() {
  echo "SKIPPED: $1 could not be installed here ($2); what it would try was not tried"
}

if ! cmp -s "$here/requirements.txt" "$to/requirements.txt"; then
  rm -rf "$to/venv"
  if python3 -m venv "$to/venv" >"$to/venv.log" 2>&1 &&
    "$to/venv/bin/pip" install -q -r "$here/requirements.txt" >>"$to/venv.log" 2>&1; then
    cp "$here/requirements.txt" "$to/requirements.txt"
  else
    rm -rf "$to/venv"
    skipped "the Python client of OpenAI" "see $to/venv.log"
  fi
fi

if [ "$(cat "$to/node.version" 2>/dev/null)" != "$inspector $node" ]; then
  rm -rf "$to/node"
  if npm install --prefix "$to/node" --no-fund --no-audit "@modelcontextprotocol/inspector@$inspector" "node@$node" \
    >"$to/node.log" 2>&1 && "$to/node/node_modules/.bin/node" --version >>"$to/node.log" 2>&1; then
    echo "$inspector $node" >"$to/node.version"
  else
    rm -rf "$to/node"
    skipped "the MCP inspector" "see $to/node.log"
  fi
fi

# The client of this repository, as a wheel in dist. It is built from a copy, as a build leaves files in its folder.
if [ -x "$to/venv/bin/pip" ] && ! diff -rq -x '__pycache__' "$here/python" "$to/python" >/dev/null 2>&1; then
  rm -rf "$to/python" "$to/dist" "$to/build"
  cp -R "$here/python" "$to/build" && cp -R "$here/python" "$to/python" || exit 1
  if ! "$to/venv/bin/pip" wheel -q --no-deps -w "$to/dist" "$to/build" >"$to/python.log" 2>&1; then
    rm -rf "$to/python" "$to/dist"
    skipped "the wheel of the Python client" "see $to/python.log"
  fi
  rm -rf "$to/build"
fi
