// Package musttest ends a test at the first result that is not the required one.
package musttest

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// Get2 returns what ends the test on an error, and returns both values otherwise.
func Get2[T, U any](first T, second U, err error) func(testing.TB) (T, U) {
	return func(t testing.TB) (T, U) {
		t.Helper()
		require.NoError(t, err)
		return first, second
	}
}

// All yields the values of a sequence, and ends the test on its first error.
func All[T any](t testing.TB, sequence iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		t.Helper()
		for value, err := range sequence {
			require.NoError(t, err)
			if !yield(value) {
				return
			}
		}
	}
}

// Err returns the error of a call.
func Err[T any](_ T, err error) error { return err }

// Err2 returns the error of a call with two values.
func Err2[T, U any](_ T, _ U, err error) error { return err }

// Code checks that an error has a code; the test goes on. The label is a format and its values.
func Code(t testing.TB, err error, code fault.Code, label ...any) {
	t.Helper()
	if !fault.Is(err, code) {
		assert.Fail(t, fmt.Sprintf("got %v (%s), not %s", err, fault.CodeOf(err), code), label...)
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

// FreePort returns a port of loopback that nothing listens on. The system hands out no port below 32768 by itself, so
// it stays free until a server starts there, and while that server restarts.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20_000 + rand.IntN(12_000)
		if listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no free port between 20000 and 32000")
	return 0
}
