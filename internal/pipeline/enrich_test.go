package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
)

// Listing is an enrichment that lists the chunks and the lengths of their texts.
type Listing struct {
	Version string
	mu      sync.Mutex
	Paid    []string // ids, in the order in which they were paid for
}

// Register makes it known for one test.
func (l *Listing) Register(t *testing.T) {
	t.Helper()
	methods.Enrichments["listing"] = enrich.Enrichment{
		Name: "listing", Pay: l.Pay, Seal: l.Seal,
		DigestRules: func(core.Spec, model.Set) string { return l.Version },
	}
	t.Cleanup(func() { delete(methods.Enrichments, "listing") })
}

func (l *Listing) Pay(ctx context.Context, of *enrich.Build, n, parts int) error {
	for chunk, err := range of.Chunks(ctx, n, parts) {
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.Paid = append(l.Paid, chunk.ID.String())
		l.mu.Unlock()
	}
	return nil
}

func (l *Listing) Seal(ctx context.Context, of *enrich.Build) (enrich.Made, error) {
	var lines []string
	for chunk, err := range of.Chunks(ctx, 0, 1) {
		if err != nil {
			return enrich.Made{}, err
		}
		lines = append(lines, chunk.ID.String()+" "+chunk.Text)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	rows, err := artifact.NewRows()
	if err != nil {
		return enrich.Made{}, err
	}
	defer rows.Discard()
	for _, line := range lines {
		id, text, _ := strings.Cut(line, " ")
		rows.Append(id, []byte(text))
	}
	made, fresh, err := rows.StoreSegment(ctx, of.Index, 0)
	out := enrich.Made{
		Enrichment: core.Enrichment{
			Hash: core.Sum(lines...), Counts: map[string]int64{"chunks": int64(len(lines))},
		},
		Files: []core.EnrichedFile{{Segment: made, Of: "listing", Kind: "list"}},
	}
	if fresh {
		out.Fresh = 1
	}
	return out, err
}
