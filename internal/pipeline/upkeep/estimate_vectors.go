package upkeep

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/stage/join"
)

// chunkVectors counts the texts of new chunks that nobody has paid for. Those of classes are not known before chunks
// are extracted.
type chunkVectors struct {
	spec        core.Spec
	fingerprint core.Digest
	source      embed.Source
	pending     []embed.Item
	found       estimate.Texts
}

// lookTexts is how many texts are looked up at once.
const lookTexts = 1024

// newChunkVectors gives nil where the embedder costs nothing, or where its dimension, which is part of what names a
// vector, cannot be known without asking it.
func (e *estimating) newChunkVectors(ctx context.Context) (*chunkVectors, error) {
	info := e.models.Chunks.Info()
	if !info.Paid {
		return nil, nil
	}
	dimension := e.models.Chunks.Dimension()
	if dimension == 0 {
		var err error
		if dimension, err = unit.ServedDimension(ctx, e.Artifacts, info, e.Settings.Embedding); err != nil || dimension == 0 {
			return nil, err
		}
	}
	template := embed.ChunkTemplate
	if e.Settings.Parity {
		template = unit.ParityChunks
	}
	fingerprint := core.Fingerprint{
		Provider: info.Provider, Model: info.Model, Dimension: dimension, Template: template, Windows: embed.WindowRule,
	}
	return &chunkVectors{
		spec: e.Settings, fingerprint: fingerprint.Digest(),
		source: embed.Source{Embedder: e.models.Chunks, Ledger: e.Ledger},
	}, nil
}

// add counts the new chunks of a unit.
func (c *chunkVectors) add(
	ctx context.Context, run *Run, unit int, chunked chunk.Result, known func(core.ID) bool,
) error {
	if c == nil {
		return nil
	}
	texts, err := textseg.Open(ctx, run.Artifacts, run.Index.SegmentKey(chunked.Text.SHA256))
	if err != nil {
		return err
	}
	for ref, err := range join.Refs(ctx, run.Artifacts, run.ChunksKey(unit, chunked), 0, int(chunked.Counts.Chunks)) {
		if err != nil {
			return err
		}
		if known(ref.ID) {
			continue
		}
		text, err := texts.Slice(ctx, ref.Document, ref.Frame, ref.Start, ref.End)
		if err != nil {
			return err
		}
		title := ref.Title
		if c.spec.Parity {
			title = ""
		}
		for _, window := range embed.Windows(title, text, c.spec.Embedding.MaxInputTokens) {
			c.pending = append(c.pending, embed.Item{Digest: embed.Digest(window, c.fingerprint), Text: window})
		}
		if len(c.pending) >= lookTexts {
			if err := c.look(ctx); err != nil {
				return err
			}
		}
	}
	return c.look(ctx)
}

func (c *chunkVectors) look(ctx context.Context) error {
	if len(c.pending) == 0 {
		return nil
	}
	missing, err := c.source.Missing(ctx, c.pending)
	c.pending = c.pending[:0]
	for _, text := range missing {
		c.found.Count++
		c.found.Runes += int64(len(text.Text))
	}
	return err
}

func (c *chunkVectors) missing() *estimate.Texts {
	if c == nil {
		return nil
	}
	return &c.found
}
