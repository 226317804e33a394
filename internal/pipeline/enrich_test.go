package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
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
	unit.Enrichments["listing"] = l
	t.Cleanup(func() { delete(unit.Enrichments, "listing") })
}

func (l *Listing) DigestRules(*unit.Run) (string, error) { return l.Version, nil }

func (l *Listing) Pay(ctx context.Context, r *unit.Run, manifest *core.Manifest, n, parts int) error {
	for chunk, err := range r.ChunkTexts(ctx, manifest, n, parts) {
		if err != nil {
			return err
		}
		l.mu.Lock()
		l.Paid = append(l.Paid, chunk.ID.String())
		l.mu.Unlock()
	}
	return nil
}

func (l *Listing) Seal(ctx context.Context, r *unit.Run, manifest *core.Manifest) (unit.Enriched, error) {
	var lines []string
	for chunk, err := range r.ChunkTexts(ctx, manifest, 0, 1) {
		if err != nil {
			return unit.Enriched{}, err
		}
		lines = append(lines, chunk.ID.String()+" "+chunk.Text)
	}
	slices.Sort(lines)
	lines = slices.Compact(lines)
	rows, err := artifact.NewRows()
	if err != nil {
		return unit.Enriched{}, err
	}
	defer rows.Discard()
	for _, line := range lines {
		id, text, _ := strings.Cut(line, " ")
		rows.Append(id, []byte(text))
	}
	made, fresh, err := rows.StoreSegment(ctx, r.Index, 0)
	out := unit.Enriched{
		Enrichment: core.Enrichment{
			Name: "listing", Rules: l.Version, Hash: core.Sum(lines...),
			Counts: map[string]int64{"chunks": int64(len(lines))},
		},
		Files: []core.EnrichedFile{{Segment: made, Of: "listing", Kind: "list"}},
	}
	if fresh {
		out.Fresh = 1
	}
	return out, err
}
