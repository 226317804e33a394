#!/usr/bin/env bash
# Pins every image of docker-compose.yml and of both Dockerfiles to the digest that its tag has today, and writes the list
# infra/images/digests. A registry is asked, so this is for a maintainer: look at the change, then commit it. From then
# on infra/compose_test.go refuses an image without its digest. Needs docker with buildx, crane or skopeo.
set -euo pipefail
ROOT=${PIN_ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
FILES=("$ROOT/docker-compose.yml" "$ROOT/infra/images/Dockerfile" "$ROOT/infra/images/release.Dockerfile")

digest() {
  if command -v crane >/dev/null; then crane digest "$1"
  elif command -v skopeo >/dev/null; then skopeo inspect --format '{{.Digest}}' "docker://$1"
  else docker buildx imagetools inspect "$1" --format '{{.Manifest.Digest}}'
  fi
}

images=$(sed -nE 's/^ *image: ([^ ]+).*/\1/p; s/^FROM ([^ ]+) AS .*/\1/p' "${FILES[@]}" |
  sed 's/@sha256:.*//' | grep -E '[:/]' | grep -v '^unweaver-' | sort -u)
new=$(mktemp)
trap 'rm -f "$new"' EXIT
for image in $images; do
  found=$(digest "$image")
  [[ $found =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "pin.sh: $image: no digest but '$found'" >&2; exit 1; }
  echo "$image@$found" >>"$new"
done
while IFS=@ read -r image found; do
  quoted=$(printf %s "$image" | sed 's/[.[\*^$/]/\\&/g')
  sed -i -E "s/^( *image: |FROM )$quoted(@sha256:[0-9a-f]+)?( |\$)/\1$quoted@$found\3/" "${FILES[@]}"
done <"$new"
cp "$new" "$ROOT/infra/images/digests"
cat "$ROOT/infra/images/digests"
