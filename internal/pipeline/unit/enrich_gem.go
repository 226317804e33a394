package unit

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/gem/gemstage"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/text"
)

// memoryName is how indexes.*.enrich names it.
const memoryName = "gem"

func init() { Enrichments[memoryName] = memoryOf{} } //nolint:gochecknoinits // the registry refers to what refers to it

// memoryOf makes the enrichment gem: questions of chunks, and themes.
type memoryOf struct{}

// DigestRules implements enrichment. The embedder is not in it: another one is a reason of its own to make all again.
func (memoryOf) DigestRules(r *Run) (string, error) {
	models, err := r.Models(r.Settings, r.Book)
	if err != nil {
		return "", err
	}
	info, set := models.Extractor().Info(), r.Settings.GemSettings()
	parts := []string{
		gemstage.DigestPrompts().String(), info.Provider, info.Model, info.Parameters,
		strconv.Itoa(set.Questions), strconv.Itoa(set.Themes), strconv.Itoa(set.Neighbours),
	}
	if own := models.ChatOf(core.RoleShortening).Info(); own != info {
		parts = append(parts, own.Provider, own.Model, own.Parameters)
	}
	return core.Sum(parts...).String(), nil
}

// ListChanges implements explained.
func (memoryOf) ListChanges(was, now core.Spec) []string {
	before, set := was.GemSettings(), now.GemSettings()
	var out []string
	changed := func(name string, a, b int, costs string) {
		if a != b {
			out = append(out, fmt.Sprintf("gem.%s %d → %d: %s", name, a, b, costs))
		}
	}
	const spectrum = "graph, spectrum and summaries are made again, no passage is asked again"
	changed("questions", before.Questions, set.Questions, "every passage is asked again")
	changed("themes", before.Themes, set.Themes, spectrum)
	changed("neighbours", before.Neighbours, set.Neighbours, spectrum)
	return out
}

// Pay implements enrichment.
func (m memoryOf) Pay(ctx context.Context, r *Run, manifest *core.Manifest, n, parts int) error {
	in, release, err := m.prepareInput(ctx, r)
	defer release()
	if err != nil {
		return err
	}
	_, err = in.Pay(ctx, m.chunksOf(r.ChunkTexts(ctx, manifest, n, parts), r.Settings.Parity))
	return err
}

// Seal implements enrichment.
func (m memoryOf) Seal(ctx context.Context, r *Run, manifest *core.Manifest) (Enriched, error) {
	var out Enriched
	in, release, err := m.prepareInput(ctx, r)
	defer release()
	if err != nil {
		return out, err
	}
	done, err := r.TakePlace(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	file, err := artifact.NewFile()
	if err != nil {
		return out, err
	}
	defer file.Discard()
	rules, err := m.DigestRules(r)
	if err != nil {
		return out, err
	}
	sealed, err := in.Seal(ctx, m.chunksOf(r.ChunkTexts(ctx, manifest, 0, 1), r.Settings.Parity), file)
	if err != nil {
		return out, err
	}
	if err := out.keepFile(ctx, r, file, memoryName, "questions", sealed.Counts.Chunks); err != nil {
		return out, err
	}
	if err := out.writeFile(ctx, r, memoryName, spectral.Kind, sealed.Counts.Chunks, sealed.Graph.Write); err != nil {
		return out, err
	}
	if sealed.Themes != nil {
		err := out.writeFile(ctx, r, memoryName, "themes", sealed.Counts.Themes, func(writer io.Writer) error {
			content, err := sealed.Themes.Encode()
			if err == nil {
				_, err = writer.Write(content)
			}
			return err
		})
		if err != nil {
			return out, err
		}
	}
	out.Enrichment = core.Enrichment{
		Name: memoryName, Rules: rules, Hash: sealed.Hash, Models: in.Chat.Info().Label(),
		Counts: map[string]int64{
			"chunks": sealed.Counts.Chunks, "questions": sealed.Counts.Questions,
			"by_text": sealed.Counts.Fallbacks, "failed": sealed.Counts.Failed, "themes": sealed.Counts.Themes,
			"spectrum": sealed.Counts.Nodes, "not_converged": sealed.Counts.Missing,
		},
	}
	return out, nil
}

// writeFile stores what writes itself as a file of an enrichment.
func (e *Enriched) writeFile(
	ctx context.Context, r *Run, of, kind string, rows int64, content func(io.Writer) error,
) error {
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := content(file); err != nil {
		return err
	}
	return e.keepFile(ctx, r, file, of, kind, rows)
}

// keepFile stores a file of an enrichment.
func (e *Enriched) keepFile(ctx context.Context, r *Run, file *artifact.File, of, kind string, rows int64) error {
	segment, fresh, err := file.PutSegment(ctx, r.Index)
	if err != nil {
		return err
	}
	segment.Rows = rows
	e.Files = append(e.Files, core.EnrichedFile{Segment: segment, Of: of, Kind: kind})
	if fresh {
		e.Fresh++
	}
	return nil
}

// prepareInput returns what a memory is made of, with the embedder as the generation has it; release it.
func (memoryOf) prepareInput(ctx context.Context, r *Run) (in gemstage.In, release func(), err error) {
	release = func() {}
	models, err := r.ModelSet()
	if err != nil {
		return in, release, err
	}
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return in, release, err
	}
	if release, err = r.weighEmbedders(ctx, fixed.Frozen, &models); err != nil {
		return in, release, err
	}
	return gemstage.In{
		Language: text.LanguageOf(r.Settings.Retrieval.Language), Chat: models.Extractor(),
		Health:     r.Book.HealthOf(model.Extract),
		Summarizer: models.ChatOf(core.RoleShortening), Shortens: r.Book.HealthOf(model.Shorten),
		Ledger: r.Ledger, Embedder: models.Chunks, Fingerprint: fixed.Chunk.Digest(),
		MaxTokens: r.Settings.Embedding.MaxInputTokens, Attempt: r.Attempt,
		Settings: r.Settings.GemSettings(),
	}, release, nil
}

// chunksOf returns those of a draft as a memory takes them; under parity titles are not embedded.
func (memoryOf) chunksOf(texts iter.Seq2[ChunkText, error], parity bool) iter.Seq2[gemstage.Chunk, error] {
	return func(yield func(gemstage.Chunk, error) bool) {
		for one, err := range texts {
			if parity {
				one.Title = ""
			}
			chunk := gemstage.Chunk{ID: one.ID, Document: one.Document, Title: one.Title, Ordinal: one.Ordinal, Text: one.Text}
			if !yield(chunk, err) || err != nil {
				return
			}
		}
	}
}
