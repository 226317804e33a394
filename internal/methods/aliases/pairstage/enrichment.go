package pairstage

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
)

// Enrichment finds pairs of names that may be one, and what a model says of them. All is paid when all classes are
// there: only then it shows which pairs there are.
var Enrichment = enrich.Enrichment{
	Name: aliases.Enrichment, Asks: "pairs", DigestRules: digestRules, ListChanges: listChanges, Seal: seal,
	Notes: []enrich.Note{
		{Count: enrich.Failed, Text: "pairs of names are undecided, as the model gave no answer of use." + enrich.AsksAgain},
		{Count: Same, Text: "of them may be one entity less each: unweaver aliases suggest prints them as lines of a file " +
			"to be read."},
	},
}

func settingsOf(spec core.Spec) aliases.Settings {
	return enrich.ReadSettings(spec, aliases.Enrichment, aliases.DefaultSettings)
}

func digestRules(spec core.Spec, models model.Set) string {
	chat, set := models.Chat.Info(), settingsOf(spec)
	return core.Sum(
		Rules, Prompt, Schema, chat.Provider, chat.Model, chat.Parameters, chat.Domain,
		strconv.Itoa(set.Ask), strconv.Itoa(set.Classes), strconv.FormatFloat(set.Cosine, 'g', -1, 64),
	).String()
}

func listChanges(was, now core.Spec) (out []string) {
	before, set := settingsOf(was), settingsOf(now)
	changed := func(name string, a, b any, costs string) {
		if a != b {
			out = append(out, fmt.Sprintf("pairs.%s %v → %v: %s", name, a, b, costs))
		}
	}
	changed("ask", before.Ask, set.Ask, "pairs that the model already decided are not sent again")
	changed("classes", before.Classes, set.Classes, "new combinations are compared")
	changed("cosine", before.Cosine, set.Cosine, "all are compared again, and only new pairs are sent to the model")
	return out
}

func seal(ctx context.Context, of *enrich.Build) (out enrich.Made, err error) {
	set := settingsOf(of.Spec)
	found, err := findPairs(ctx, of, set)
	if err != nil {
		return out, err
	}
	asker := Asker{
		Chat: of.Models.Chat, Health: of.HealthOf(model.Pairs), Ledger: of.Ledger, Attempt: of.Attempt, Touch: of.Touch,
	}
	decided, counts, err := asker.Decide(ctx, OrderPairs(found.Suggested)[:min(len(found.Suggested), set.Ask)])
	if err != nil {
		return out, err
	}
	file := FileOf(found, set.Cosine, decided)
	out.Enrichment = core.Enrichment{Hash: file.Hash(), Counts: map[string]int64{
		"classes": int64(len(found.Compared.Classes)), "pairs": int64(len(found.Suggested)), "asked": counts.Asked,
		Same: counts.Same, Different: counts.Different, enrich.Failed: counts.Failed,
	}}
	return out, out.AddFile(ctx, of.Index, aliases.Enrichment, Kind, func(to io.Writer) (int64, error) {
		return int64(len(found.Compared.Near)), file.Write(to)
	})
}

// findPairs finds pairs while the processor is this unit's. What it asks for of vectors is listed by others.
func findPairs(ctx context.Context, of *enrich.Build, set aliases.Settings) (Found, error) {
	before, err := readParentPairs(ctx, of)
	if err != nil {
		return Found{}, err
	}
	done, err := of.TakePlace(ctx)
	if err != nil {
		return Found{}, err
	}
	defer done()
	source := embed.Source{Embedder: of.Models.Classes, Ledger: of.Ledger}
	return Find(ledger.WithNote(ctx, nil), In{
		Cache: of.Cache, Index: of.Index, Manifest: of.Manifest, Vectors: of.Vectors, Classes: set.Classes,
		Cosine: set.Cosine, Before: before, Touch: of.Touch,
		Lost: func(ctx context.Context, texts []embed.Item) ([][]float32, error) {
			for i := range texts {
				texts[i].Text = embed.Fit(texts[i].Text, of.Spec.Embedding.MaxInputTokens)
			}
			return source.Vectors(ctx, texts)
		},
	})
}

// readParentPairs returns what the generation that the build re-uses compared, where its classes have vectors of the
// same embedder. One that is damaged, or was collected, is none.
func readParentPairs(ctx context.Context, of *enrich.Build) (*File, error) {
	parent, err := of.ReadParent(ctx)
	if err != nil || parent == nil || parent.Class.Digest() != of.Manifest.Class.Digest() {
		return nil, err
	}
	file, err := LoadFile(ctx, of.Cache, of.Index, parent)
	if artifact.IsDamage(err) {
		return nil, nil
	}
	return file, err
}
