//go:build !race

package pipeline_test

// raced tells that the race detector slows the tests down.
const raced = false
