//go:build !race

package sandbox

// boundsMemory reports whether the system bounds a child's memory.
const boundsMemory = true
