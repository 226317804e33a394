package unit

import (
	"bytes"
	"context"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stream/extsort"
)

// sealEnrichment lets an enrichment seal what it wrote, and lists the ledger entries that it asks for: as long as a
// generation names the list they stay, and a purge knows by it what goes. Where nothing is paid for there is no list.
func (r *Run) sealEnrichment(
	ctx context.Context, made enrich.Enrichment, build *enrich.Build,
) (out enrich.Made, err error) {
	models, err := r.Models(r.Settings, r.Book)
	if err != nil {
		return out, err
	}
	defer func() {
		out.Enrichment.Name, out.Enrichment.Rules = made.Name, made.DigestRules(r.Settings, models)
		out.Enrichment.Models = models.ChatOf(made.Role).Info().Label()
	}()
	pays := func(embedder model.Embedder) bool { return embedder != nil && embedder.Info().Paid }
	if !models.PaysChat() && !pays(models.Classes) && !pays(models.Chunks) {
		return made.Seal(ctx, build)
	}
	var mu sync.Mutex
	var sorter extsort.Sorter
	defer sorter.Close()
	out, err = made.Seal(ledger.WithNote(ctx, func(task string, key core.Digest) {
		mu.Lock()
		defer mu.Unlock()
		sorter.Add([]byte(ledger.EncodeLine(task, key)), nil)
	}), build)
	if err != nil {
		return out, err
	}
	list, err := artifact.NewRows()
	if err != nil {
		return out, err
	}
	defer list.Discard()
	var last []byte
	for row, err := range sorter.StreamSorted() {
		if err != nil {
			return out, err
		}
		if !bytes.Equal(row[0], last) {
			last = append(last[:0], row[0]...)
			list.Append(string(last), nil)
		}
	}
	segment, fresh, err := list.StoreSegment(ctx, r.Index, 0)
	if fresh {
		out.Fresh++
	}
	out.Files = append(out.Files, core.EnrichedFile{Segment: segment, Of: made.Name, Kind: core.EnrichedLedger})
	return out, err
}

// Whose list a row is of.
var (
	OfHolder = []byte("goes")
	OfOther  = []byte("stays")
)
