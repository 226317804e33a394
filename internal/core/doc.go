// Package core holds the nouns that two or more stages share: identities, documents, chunks, mentions, classes,
// manifests and reports. It imports the standard library only; what a noun means is fixed in docs/reference/formats.md,
// Identity and Artifacts.
//
// Order. Chunk order is (document key in byte order, chunk ordinal, position in the extractor's list). Class order is
// the chunk order of a class's first mention. Every tie that is broken "by id" is broken by this order.
package core
