package unit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

func init() { Enrichments[pairstage.Enrichment] = likelyPairs{} } //nolint:gochecknoinits // the registry refers to it

// likelyPairs makes the enrichment aliases: pairs of names that may be one, and what a model says of them.
type likelyPairs struct{}

// DigestRules implements enrichment. The embedder of classes is not in it: another one is a reason of its own to make
// all again.
func (likelyPairs) DigestRules(r *Run) (string, error) {
	models, err := r.Models(r.Settings, r.Book)
	if err != nil {
		return "", err
	}
	chat, set := models.Chat.Info(), r.Settings.PairSettings()
	return core.Sum(
		pairstage.Rules, pairstage.Prompt, pairstage.Schema, chat.Provider, chat.Model, chat.Parameters, chat.Domain,
		strconv.Itoa(set.Ask), strconv.Itoa(set.Classes), strconv.FormatFloat(set.Cosine, 'g', -1, 64),
	).String(), nil
}

// ListChanges implements explained.
func (likelyPairs) ListChanges(was, now core.Spec) []string {
	before, set := was.PairSettings(), now.PairSettings()
	var out []string
	changed := func(name string, a, b any, costs string) {
		if a != b {
			out = append(out, fmt.Sprintf("pairs.%s %v → %v: %s", name, a, b, costs))
		}
	}
	changed("ask", before.Ask, set.Ask, "pairs that were asked for before are not asked again")
	changed("classes", before.Classes, set.Classes, "what was not compared before is")
	changed("cosine", before.Cosine, set.Cosine, "all are compared again, and pairs that are new are asked for")
	return out
}

// Pay implements enrichment: which pairs there are shows when all classes are there.
func (likelyPairs) Pay(context.Context, *Run, *core.Manifest, int, int) error { return nil }

// Seal implements enrichment.
func (p likelyPairs) Seal(ctx context.Context, r *Run, manifest *core.Manifest) (Enriched, error) {
	var out Enriched
	models, err := r.ModelSet()
	if err != nil {
		return out, err
	}
	fixed, err := r.ReadPlan(ctx)
	if err != nil {
		return out, err
	}
	release, err := r.weighEmbedders(ctx, fixed.Frozen, &models)
	if err != nil {
		return out, err
	}
	defer release()
	rules, err := p.DigestRules(r)
	if err != nil {
		return out, err
	}
	before, err := p.readParentPairs(ctx, r, fixed, manifest)
	if err != nil {
		return out, err
	}
	set := r.Settings.PairSettings()
	found, err := p.findPairs(ctx, r, models, pairstage.In{
		Cache: r.Cache, Index: r.Index, Manifest: manifest, Vectors: r.Vectors, Classes: set.Classes, Cosine: set.Cosine,
		Before: before, Touch: r.Progress.Touch,
	})
	if err != nil {
		return out, err
	}
	asker := pairstage.Asker{
		Chat: models.Chat, Health: r.Book.HealthOf(model.Pairs), Ledger: r.Ledger, Attempt: r.Attempt,
		Touch: r.Progress.Touch,
	}
	decided, counts, err := asker.Decide(ctx, pairstage.OrderPairs(found.Suggested)[:min(len(found.Suggested), set.Ask)])
	if err != nil {
		return out, err
	}
	file := pairstage.FileOf(found, set.Cosine, decided)
	near := int64(len(found.Compared.Near))
	if err := out.writeFile(ctx, r, pairstage.Enrichment, pairstage.Kind, near, file.Write); err != nil {
		return out, err
	}
	out.Enrichment = core.Enrichment{
		Name: pairstage.Enrichment, Rules: rules, Hash: file.Hash(), Models: models.Chat.Info().Label(),
		Counts: map[string]int64{
			"classes": int64(len(found.Compared.Classes)), "pairs": int64(len(found.Suggested)), "asked": counts.Asked,
			"same": counts.Same, "different": counts.Different, "failed": counts.Failed,
		},
	}
	return out, nil
}

// findPairs finds pairs while the processor is this unit's. What it asks for of vectors is listed by others.
func (likelyPairs) findPairs(ctx context.Context, r *Run, models model.Set, in pairstage.In) (pairstage.Found, error) {
	done, err := r.TakePlace(ctx)
	if err != nil {
		return pairstage.Found{}, err
	}
	defer done()
	source := embed.Source{Embedder: models.Classes, Ledger: r.Ledger}
	in.Lost = func(ctx context.Context, texts []embed.Item) ([][]float32, error) {
		for i := range texts {
			texts[i].Text = embed.Fit(texts[i].Text, r.Settings.Embedding.MaxInputTokens)
		}
		return source.Vectors(ctx, texts)
	}
	return pairstage.Find(ledger.WithNote(ctx, nil), in)
}

// readParentPairs returns what the generation that the build re-uses compared, where its classes have vectors of the
// same embedder. One that is damaged, or was collected, is none.
func (likelyPairs) readParentPairs(
	ctx context.Context, r *Run, fixed run.Plan, manifest *core.Manifest,
) (*pairstage.File, error) {
	parent, err := r.ReadParent(ctx, fixed.Source())
	if err != nil || parent == nil || parent.Class.Digest() != manifest.Class.Digest() {
		return nil, err
	}
	file, err := pairstage.LoadFile(ctx, r.Cache, r.Index, parent)
	if artifact.IsDamage(err) {
		return nil, nil
	}
	return file, err
}
