package unit

import (
	"context"
	"iter"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/apr"
	format "github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/apr/factstage"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text"
)

// factsName is how indexes.*.enrich names the facts.
const factsName = "facts"

func init() { Enrichments[factsName] = factsEnrichment{} }

// factsEnrichment makes the facts of a generation: what its chunks say as triples.
type factsEnrichment struct{}

// DigestRules implements enrichment.
func (factsEnrichment) DigestRules(r *Run) (string, error) {
	models, err := r.Models(r.Settings, r.Book)
	if err != nil {
		return "", err
	}
	chat, embedder := models.ChatOf(core.RoleTriples).Info(), models.Classes.Info()
	return core.Sum(
		factstage.Rules, triples.Prompt, triples.SchemaVersion, r.Settings.Retrieval.Language,
		chat.Provider, chat.Model, chat.Parameters, chat.Domain,
		embedder.Provider, embedder.Model, embedder.Parameters, embedder.Domain,
		strconv.Itoa(r.Settings.Embedding.Dimension),
	).String(), nil
}

// Pay implements enrichment.
func (factsEnrichment) Pay(ctx context.Context, r *Run, manifest *core.Manifest, n, parts int) error {
	in, _, release, err := r.factsIn(ctx, manifest)
	if err != nil {
		return err
	}
	defer release()
	_, err = in.Pay(ctx, r.factChunks(ctx, manifest, n, parts))
	return err
}

// Seal implements enrichment.
func (factsEnrichment) Seal(ctx context.Context, r *Run, manifest *core.Manifest) (Enriched, error) {
	out := Enriched{Enrichment: core.Enrichment{Name: factsName}}
	place, err := r.TakePlace(ctx)
	if err != nil {
		return out, err
	}
	defer place()
	in, models, release, err := r.factsIn(ctx, manifest)
	if err != nil {
		return out, err
	}
	defer release()
	file, err := artifact.NewFile()
	if err != nil {
		return out, err
	}
	defer file.Discard()
	counts, err := in.Seal(ctx, r.factChunks(ctx, manifest, 0, 1), file)
	if err != nil {
		return out, err
	}
	made, fresh, err := file.PutSegment(ctx, r.Index)
	if err != nil {
		return out, err
	}
	made.Rows = counts.Edges
	if fresh {
		out.Fresh = 1
	}
	out.Files = []core.EnrichedFile{{Segment: made, Of: factsName, Kind: format.Kind}}
	out.Enrichment.Rules, err = factsEnrichment{}.DigestRules(r)
	out.Enrichment.Hash = core.Sum(made.SHA256)
	out.Enrichment.Models = models.ChatOf(core.RoleTriples).Info().Label()
	out.Enrichment.Counts = map[string]int64{ // what a build from nothing counts, too
		"chunks": counts.Chunks, "triples": counts.Triples, "left": counts.Left, "fallbacks": counts.Fallbacks,
		"entities": counts.Entities, "relations": counts.Relations, "edges": counts.Edges, "runs": counts.Runs,
	}
	return out, err
}

// factsIn returns what facts are made of in this run. Release it when the models are not used any more.
func (r *Run) factsIn(ctx context.Context, manifest *core.Manifest) (factstage.In, model.Set, func(), error) {
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return factstage.In{}, model.Set{}, nil, err
	}
	models, err := r.ModelSet()
	if err != nil {
		return factstage.In{}, models, nil, err
	}
	release, err := r.weighEmbedders(ctx, fixed.Frozen, &models)
	if err != nil {
		return factstage.In{}, models, nil, err
	}
	return factstage.In{
		Language: text.LanguageOf(r.Settings.Retrieval.Language), Chat: models.ChatOf(core.RoleTriples),
		Health: r.Book.HealthOf(model.Triples),
		Ledger: r.Ledger, Embedder: models.Classes, Fingerprint: manifest.Class.Digest(),
		Segmenter: apr.DefaultSegmenter, Attempt: r.Attempt,
	}, models, release, nil
}

// factChunks returns the chunks of a part of a draft.
func (r *Run) factChunks(
	ctx context.Context, manifest *core.Manifest, n, parts int,
) iter.Seq2[factstage.Chunk, error] {
	return func(yield func(factstage.Chunk, error) bool) {
		for chunk, err := range r.ChunkTexts(ctx, manifest, n, parts) {
			one := factstage.Chunk{ID: chunk.ID, Document: chunk.Document, Ordinal: chunk.Ordinal, Text: chunk.Text}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}
