package stage_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestADamagedEntryIsAskedForAgainOnce(t *testing.T) {
	book, key, asked := ledger.New(blobmemory.New(), memory.NewClaims()), core.Sum("a text"), 0
	musttest.Get(book.Put(t.Context(), ledger.Shorten, key, 0, ledger.Result{Value: []byte("{no JSON")}))(t)
	for try := range 2 {
		var found string
		fresh, passing, err := stage.RecallOrAsk(t.Context(), book, ledger.Shorten, key, 0,
			func(context.Context) (stage.Answer[string], error) {
				asked++
				return stage.Answer[string]{Value: "short"}, nil
			}, func(answer stage.Answer[string]) string { return answer.Value }, &found)
		assert.True(t, err == nil && !passing && fresh == (try == 0) && found == "short" && asked == 1,
			"try %d: %v, %v, %q, asked %d times, %v", try, fresh, passing, found, asked, err)
	}
}
