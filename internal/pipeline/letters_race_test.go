package pipeline_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// vanishing is a store of which letters go at the moment in which one is written.
type vanishing struct{ blob.Store }

func (v vanishing) Put(ctx context.Context, key string, body io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	if strings.Contains(key, "/generations/") {
		if err := v.Delete(ctx, key); err != nil {
			return blob.Info{}, err
		}
	}
	return v.Store.Put(ctx, key, body, n, c)
}

// A letter that a purge takes while somebody discards it does not come back: it holds what the model answered.
func TestALetterThatWentIsNotWrittenAgainByADiscard(t *testing.T) {
	var better atomic.Bool
	s := lettersSite(t, &better)
	generation := s.night(t).manifest.Generation
	letters := s.letters(t, generation)
	twice := []string{letters[0].Chunk, letters[0].Chunk}
	index := artifact.Index{Store: vanishing{s.Artifacts}, Name: "docs"}
	err := run.DiscardLetters(t.Context(), index, generation, twice, "why")
	assert.True(t, fault.Is(err, fault.GenBusy), "%v", err)
	if left := s.letters(t, generation); len(left) != len(letters)-1 {
		t.Errorf("%d of %d letters are left", len(left), len(letters))
	}
	twice = []string{letters[1].Chunk, letters[1].Chunk}
	assert.NoError(t, run.DiscardLetters(t.Context(), s.index(), generation, twice, "why"), "named twice")
}
