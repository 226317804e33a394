//go:build race

package build_test

// raced tells that the race detector slows the tests down, some tenfold.
const raced = true
