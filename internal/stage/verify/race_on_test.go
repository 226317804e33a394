//go:build race

package verify_test

// raced reports whether the race detector runs along.
const raced = true
