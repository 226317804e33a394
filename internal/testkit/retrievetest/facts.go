package retrievetest

import (
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/apr"
	format "github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/apr/factstage"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/text"
)

// writeFacts writes the enrichment facts: the triples that rules find in the chunks.
func (b *builder) writeFacts() {
	in := factstage.In{
		Language: text.LanguageOf("en"), Chat: builtin.Chat{}, Embedder: b.embedder,
		Fingerprint: b.manifest.Class.Digest(), Segmenter: apr.DefaultSegmenter,
	}
	file, err := artifact.NewFile()
	check(b.t, err)
	defer file.Discard()
	_, err = in.Seal(b.ctx, func(yield func(enrich.Chunk, error) bool) {
		for _, c := range b.chunks {
			document := b.documents[c.document].Key
			if !yield(enrich.Chunk{ID: c.id, Document: document, Ordinal: c.ordinal, Text: c.Text}, nil) {
				return
			}
		}
	}, file)
	check(b.t, err)
	segment, _, err := file.PutSegment(b.ctx, b.index)
	check(b.t, err)
	b.manifest.Segments.Enriched = append(b.manifest.Segments.Enriched,
		core.EnrichedFile{Segment: segment, Of: "facts", Kind: format.Kind})
	b.manifest.Enriched = append(b.manifest.Enriched, core.Enrichment{Name: "facts", Rules: "test"})
}
