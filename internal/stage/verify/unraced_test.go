//go:build !race

package verify_test

// raced tells whether the race detector runs along.
const raced = false
