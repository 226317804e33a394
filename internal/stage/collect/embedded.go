package collect

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
)

// embeddedChunks gives the digests of the texts that chunks of an index's generations were embedded as. The rows of
// chunks do not hold them, so they are made as they were made then: from title, text and the embedder's limit.
func embeddedChunks(ctx context.Context, index artifact.Index) iter.Seq2[core.Digest, error] {
	return func(yield func(core.Digest, error) bool) {
		manifests, err := listManifests(ctx, index)
		if err != nil {
			yield(core.Digest{}, err)
			return
		}
		type made struct{ documents, text, fingerprint string }
		seen := map[made]bool{}
		for _, manifest := range manifests {
			if manifest.Chunk.Provider == "" || manifest.Chunk.Provider == "builtin" { // nothing was paid for
				continue
			}
			spec, err := index.Spec(ctx, manifest.Spec)
			if err != nil {
				yield(core.Digest{}, err)
				return
			}
			texts := map[int]core.Segment{}
			for _, segment := range manifest.Segments.Text {
				texts[segment.Part] = segment
			}
			for _, documents := range manifest.Segments.Documents {
				part := made{documents.SHA256, texts[documents.Part].SHA256, manifest.Chunk.Digest().String()}
				if seen[part] {
					continue
				}
				seen[part] = true
				if !chunkTexts(ctx, index, part.documents, part.text, spec, manifest.Chunk.Digest(), yield) {
					return
				}
			}
		}
	}
}

// chunkTexts goes through one segment of documents; it reports whether to go on.
func chunkTexts(
	ctx context.Context, index artifact.Index, documents, text string, spec core.Spec, fingerprint core.Digest,
	yield func(core.Digest, error) bool,
) bool {
	fail := func(err error) bool {
		yield(core.Digest{}, err)
		return false
	}
	var reader *textseg.Reader
	for row, err := range artifact.ScanAll(ctx, index.Store, index.SegmentKey(documents)) {
		if err != nil {
			return fail(err)
		}
		document, err := rows.DecodeDocument(row.Value)
		if err != nil {
			return fail(err)
		}
		if len(document.Chunks) == 0 {
			continue
		}
		if reader == nil {
			if reader, err = textseg.Open(ctx, index.Store, index.SegmentKey(text)); err != nil {
				return fail(err)
			}
		}
		title := document.Title
		if spec.Parity {
			title = ""
		}
		for _, chunk := range document.Chunks {
			content, err := reader.Slice(ctx, string(row.Key), document.Frame, chunk.Start, chunk.End)
			if err != nil {
				return fail(err)
			}
			for _, window := range embed.CutWindows(title, content, spec.Embedding.MaxInputTokens) {
				if !yield(embed.Digest(window, fingerprint), nil) {
					return false
				}
			}
		}
	}
	return true
}
