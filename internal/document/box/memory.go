//go:build !race

package box

// boundsMemory tells whether the system bounds a child's memory.
const boundsMemory = true
