// Package musttest ends a test at the first result that is not the required one.
package musttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
)

// Get returns what ends the test on an error, and returns the value otherwise.
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// Refuse returns what requires the error of a call to be as Fail says.
func Refuse[T any](_ T, err error) func(t testing.TB, code fault.Code, parts ...string) {
	return func(t testing.TB, code fault.Code, parts ...string) {
		t.Helper()
		Fail(t, err, code, parts...)
	}
}

// Fail requires an error with a code, and each part in its message.
func Fail(t testing.TB, err error, code fault.Code, parts ...string) {
	t.Helper()
	require.True(t, fault.Is(err, code), "got %v (%s), not %s", err, fault.CodeOf(err), code)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}

// Reach waits until a condition holds, for three minutes at most.
func Reach(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for begin := time.Now(); !reached(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Since(begin) <= 3*time.Minute, "it did not come: %s", what)
	}
}

// EndedContext returns a context that is cancelled already.
func EndedContext(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
