package unit

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/join"
)

// Windowed is a chunk with its texts as they are embedded.
type Windowed struct {
	join.Ref
	Windows []embed.Item
}

// StreamWindows streams chunks [from, to) of a unit with their texts as they are embedded, without those that skip
// names; nil: all.
func (r *Run) StreamWindows(
	ctx context.Context, chunked chunk.Result, unit, from, to int, fingerprint core.Fingerprint, skip func(core.ID) bool,
) iter.Seq2[Windowed, error] {
	return func(yield func(Windowed, error) bool) {
		texts, err := textseg.Open(ctx, r.Artifacts, r.Index.SegmentKey(chunked.Text.SHA256))
		if err != nil {
			yield(Windowed{}, err)
			return
		}
		digest := fingerprint.Digest()
		for ref, err := range join.StreamRefs(ctx, r.Artifacts, r.ChunksKey(unit, chunked), from, to) {
			if err == nil && skip != nil && skip(ref.ID) {
				continue
			}
			var text string
			if err == nil {
				text, err = texts.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
			}
			if err != nil {
				yield(Windowed{}, err)
				return
			}
			title := ref.Title
			if r.Settings.Parity {
				title = ""
			}
			out := Windowed{Ref: ref}
			for _, window := range embed.CutWindows(title, text, r.Settings.Embedding.MaxInputTokens) {
				out.Windows = append(out.Windows, embed.Item{Digest: embed.Digest(window, digest), Text: window})
			}
			if !yield(out, nil) {
				return
			}
		}
	}
}

// ReadWindows returns the texts of chunks as they are embedded.
func (r *Run) ReadWindows(
	ctx context.Context, chunked chunk.Result, unit, from, to int, fingerprint core.Fingerprint,
) ([]embed.Item, error) {
	var wanted []embed.Item
	for one, err := range r.StreamWindows(ctx, chunked, unit, from, to, fingerprint, nil) {
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, one.Windows...)
	}
	return wanted, nil
}
