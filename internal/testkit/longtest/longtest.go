// Package longtest sets how much a test does: a sample, which is what `go test` and `make test` run, or all of it, where
// the variable UNWEAVER_TEST_NIGHTLY is set, as `make nightly` does.
package longtest

import (
	"os"
	"testing"
)

// On reports whether tests do all that they can.
func On() bool { return os.Getenv("UNWEAVER_TEST_NIGHTLY") != "" }

// Nightly skips a test, or a subtest, whose sample another one takes already.
func Nightly(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("runs in make nightly alone")
	}
}

// Count returns how often, or how large: short in a sample, long in all.
func Count(short, long int) int {
	if On() {
		return long
	}
	return short
}
