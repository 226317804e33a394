#!/bin/sh
# Builds the website of the documentation: docs.sh MKDOCS FOLDER. The README is its first page. Broken links fail.
set -eu
cd "$(dirname "$0")/.."
DOCS=$(mktemp -d)
export DOCS SITE="$2" NO_MKDOCS_2_WARNING=1
trap 'rm -rf "$DOCS"' EXIT
cp -R docs/. "$DOCS"
cp README.md "$DOCS/index.md"
cp SECURITY.md CHANGELOG.md RELEASES.md CONTRIBUTING.md "$DOCS"
here=https://github.com/unweaver/unweaver/blob/main
find "$DOCS" -name '*.md' -exec sed -i.bak -E -e 's/^```sh no-run$/```sh/' \
  -e 's#\]\(\.\./README\.md#](index.md#g' -e 's#\]\(\.\./\.\./README\.md#](../index.md#g' \
  -e 's#\]\(\.\./\.\./(SECURITY|CHANGELOG|RELEASES)\.md#](../\1.md#g' \
  -e 's#([(/])decisions\)#\1decisions/README.md)#g' {} +
for page in index SECURITY CHANGELOG RELEASES CONTRIBUTING; do
  sed -i.bak -E -e "s#\]\(((infra|testdata)/[^)]*|LICENSE)\)#]($here/\1)#g" \
    -e 's#\]\(docs/#](#g' -e 's#(src|srcset)="docs/#\1="#g' "$DOCS/$page.md"
done
find "$DOCS" -name '*.bak' -delete
"$1" build --strict --config-file mkdocs.yml
