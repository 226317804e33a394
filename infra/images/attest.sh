#!/bin/sh
# Attaches to an image the bill of materials of each platform, signed, as a referrer in its registry:
# attest.sh NAME@sha256:… Needs syft and cosign, and the identity of the job that runs it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for platform in linux/amd64 linux/arm64; do
  syft "registry:$1" --platform "$platform" --output "cyclonedx-json=$dir/sbom.json"
  cosign attest --yes --type cyclonedx --predicate "$dir/sbom.json" "$1"
done
