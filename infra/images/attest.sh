#!/bin/sh
# Signs an image, then attaches to the digest of each platform its bill of materials, signed, as a referrer in the
# registry: attest.sh NAME@sha256:… Needs cosign, syft, docker with buildx, and the identity of the job that runs it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cosign sign --yes "$1"
docker buildx imagetools inspect "$1" >"$dir/platforms" \
  --format '{{range .Manifest.Manifests}}{{if ne .Platform.OS "unknown"}}{{.Digest}}{{"\n"}}{{end}}{{end}}'
[ -s "$dir/platforms" ] || { echo "attest.sh: $1 names no platform" >&2; exit 1; }
for digest in $(cat "$dir/platforms"); do
  syft "registry:${1%@*}@$digest" --output "cyclonedx-json=$dir/sbom.json"
  cosign attest --yes --type cyclonedx --predicate "$dir/sbom.json" "${1%@*}@$digest"
done
