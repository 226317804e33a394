package s3_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
)

// A store that asks to be asked less is one that time mends: runs wait for it, and status says its word.
func TestAThrottlingStoreIsOneThatDoesNotAnswerNow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
	}{{http.StatusServiceUnavailable, "SlowDown"}, {http.StatusTooManyRequests, "TooManyRequests"}} {
		seen := 0
		store := must(s3.Open(t.Context(), answering(t, c.status, c.code, &seen)))
		_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true})
		if !fault.Is(err, fault.StoreDown) || fault.KindOf(err) != fault.Transient || !strings.Contains(err.Error(), c.code) {
			t.Errorf("%d %s: a write says %v", c.status, c.code, err)
		}
		_, _, err = blob.Read(t.Context(), store, "k")
		assert.True(t, fault.Is(err, fault.StoreDown) && strings.Contains(err.Error(), c.code),
			"%d %s: a read says %v", c.status, c.code, err)
	}
}
