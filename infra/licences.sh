#!/bin/sh
# Writes the licences of all modules that the three programs are built from into one file: licences.sh FILE
# A module that has the code of others built into it, and not their licences, has those in licences-*.txt.
set -eu
cd "$(dirname "$0")/.."
mkdir -p "$(dirname "$1")"

modules() {
  for system in linux darwin; do
    GOOS=$system CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{.Path}} {{.Version}} {{.Dir}}{{end}}' \
      ./starter ./worker ./query-api
  done | sort -u | grep -v '^github.com/unweaver/unweaver '
}

{
  printf '==== Go ====\n\n'
  cat "$(go env GOROOT)/LICENSE"
  modules | while read -r path version folder; do
    printf '\n==== %s %s ====\n\n' "$path" "$version"
    files=$(find "$folder" -maxdepth 1 -type f | grep -iE '/(licen[cs]e|copying|notice|patents)[^/]*$' | sort)
    if [ -n "$files" ]; then printf '%s\n' "$files" | xargs cat; else echo "The licence is that of its repository."; fi
    if [ "$path" = github.com/klippa-app/go-pdfium ]; then echo && cat infra/licences-pdfium.txt; fi
  done
} >"$1"
