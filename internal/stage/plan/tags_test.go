package plan_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// lateTags gives the tags of later objects alone.
type lateTags struct {
	blob.Store
	asked int
}

func (l *lateTags) ReadTags(_ context.Context, key string) (map[string]string, error) {
	if l.asked++; key < "1500" {
		return nil, blob.ErrTagsRefused
	}
	return nil, nil
}

// Many objects whose tags are refused hide no others behind them.
func TestTagsAreAskedForBehindRefusedOnes(t *testing.T) {
	found := 0
	for run := range 20 {
		ask, corpus, given := plan.AskTags(t.Context(), fmt.Sprint(run)), &lateTags{}, false
		for i := range 1000 {
			given = ask(corpus, fmt.Sprint(1000+i)) == nil || given
		}
		if given {
			found++
		}
		assert.Less(t, corpus.asked, 100)
	}
	assert.Greater(t, found, 15)
}
