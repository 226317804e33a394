//go:build race

package sandbox

// boundsMemory: the race detector takes more memory for itself than a document may.
const boundsMemory = false
