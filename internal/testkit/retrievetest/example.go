package retrievetest

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// Example stands in for a test where an example needs a fixture. It panics where a test would fail.
type Example struct {
	testing.TB
	cleanups []func()
}

// Helper does nothing.
func (e *Example) Helper() {}

// Context returns one that does not end.
func (e *Example) Context() context.Context { return context.Background() }

// Fatal panics: an example has no test to fail.
func (e *Example) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Cleanup has f called by Close.
func (e *Example) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

// TempDir makes a folder that Close removes.
func (e *Example) TempDir() string {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// Close runs the clean-ups, the last one first.
func (e *Example) Close() {
	for len(e.cleanups) > 0 {
		last := len(e.cleanups) - 1
		e.cleanups[last]()
		e.cleanups = e.cleanups[:last]
	}
}
