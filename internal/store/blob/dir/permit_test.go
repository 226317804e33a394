package dir_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
)

// late is a context whose deadline has passed and whose timer has not gone off: that of a process that just woke up.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

func TestDeletesEndWithTheirContextAndItsDeadline(t *testing.T) {
	store, err := dir.Open(t.TempDir())
	require.NoError(t, err)
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprint("docs/segments/", i))
		must(blob.Write(t.Context(), store, keys[i], []byte("x"), blob.Cond{}))
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"cancelled": cancelled, "late": late{t.Context()}} {
		for _, err := range []error{store.DeleteAll(ctx, keys), store.Delete(ctx, keys[0])} {
			assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%s: %v", name, err)
		}
	}
	for _, key := range keys {
		_, err := store.Stat(t.Context(), key)
		assert.NoError(t, err)
	}
}
