//go:build !race

package sandbox

// boundsMemory tells whether the system bounds a child's memory.
const boundsMemory = true
