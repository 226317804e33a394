package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/join"
)

// ReadWindows returns the texts of chunks as they are embedded.
func (r *Run) ReadWindows(
	ctx context.Context, chunked chunk.Result, unit, from, to int, fingerprint core.Fingerprint,
) ([]embed.Item, error) {
	texts, err := textseg.Open(ctx, r.Artifacts, r.Index.SegmentKey(chunked.Text.SHA256))
	if err != nil {
		return nil, err
	}
	var wanted []embed.Item
	for ref, err := range join.StreamRefs(ctx, r.Artifacts, r.ChunksKey(unit, chunked), from, to) {
		if err != nil {
			return nil, err
		}
		text, err := texts.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
		if err != nil {
			return nil, err
		}
		title := ref.Title
		if r.Settings.Parity {
			title = ""
		}
		for _, window := range embed.CutWindows(title, text, r.Settings.Embedding.MaxInputTokens) {
			wanted = append(wanted, embed.Item{Digest: embed.Digest(window, fingerprint.Digest()), Text: window})
		}
	}
	return wanted, nil
}
