package plan

import (
	"context"
	"testing"

	"github.com/unweaver/unweaver/internal/store/blob"
)

// AskTags returns what asks for tags in a run.
func AskTags(ctx context.Context, run string) func(blob.Store, string) error {
	return (&askedTags{ctx: ctx, seed: run}).ask
}

// CutAt has the corpora of a test cut into ranges of so many documents of the parent.
func CutAt(t testing.TB, documents int64) {
	was := leastRange
	leastRange = documents
	t.Cleanup(func() { leastRange = was })
}
