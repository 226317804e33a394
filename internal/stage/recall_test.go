package stage_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// Be it loose or in a pack: what is paid for again is found from then on.
func TestADamagedEntryIsAskedForAgainOnce(t *testing.T) {
	damaged := []byte("{no JSON")
	for place, store := range map[string]func(book *ledger.Ledger, key core.Digest) error{
		"loose": func(book *ledger.Ledger, key core.Digest) error {
			_, err := book.Put(t.Context(), ledger.Shorten, key, 0, ledger.Result{Value: damaged})
			return err
		},
		"packed": func(book *ledger.Ledger, key core.Digest) error {
			last := core.Digest(bytes.Repeat([]byte{0xff}, len(key)))
			_, err := book.PackEntries(t.Context(), ledger.Shorten, parallel.Items([]ledger.Stored{
				{Key: key, Value: damaged}, {Key: last, Value: damaged},
			}))
			return err
		},
	} {
		book, key, asked := ledger.New(blobmemory.New(), memory.NewClaims()), core.Sum("a text"), 0
		require.NoError(t, store(book, key))
		for try := range 2 {
			var found string
			fresh, passing, err := stage.RecallOrAsk(t.Context(), book, ledger.Shorten, key, 0,
				func(context.Context) (stage.Answer[string], error) {
					asked++
					return stage.Answer[string]{Value: "short"}, nil
				}, func(answer stage.Answer[string]) string { return answer.Value }, &found)
			assert.True(t, err == nil && !passing && fresh == (try == 0) && found == "short" && asked == 1,
				"%s, try %d: %v, %v, %q, asked %d times, %v", place, try, fresh, passing, found, asked, err)
		}
	}
}
