package gemstage

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/methods/gem/themes"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/text"
)

// Enrichment makes the memory of a generation.
var Enrichment = enrich.Enrichment{
	Name: gem.Name, Asks: "chunks", Role: core.RoleExtraction, DigestRules: digestRules, ListChanges: listChanges,
	Seal: seal,
	Pay: func(ctx context.Context, of *enrich.Build, n, parts int) error {
		return newIn(of).Pay(ctx, of.Chunks(ctx, n, parts))
	},
	Notes: []enrich.Note{{
		Count: enrich.Failed,
		Text: "passages have no questions, as the model gave no answer of use: they are compared by their texts." +
			enrich.AsksAgain,
	}},
}

func settingsOf(spec core.Spec) gem.Settings {
	return enrich.ReadSettings(spec, gem.Name, gem.DefaultSettings)
}

func digestRules(spec core.Spec, models model.Set) string {
	info, set := models.Extractor().Info(), settingsOf(spec)
	parts := []string{
		DigestPrompts().String(), info.Provider, info.Model, info.Parameters,
		strconv.Itoa(set.Questions), strconv.Itoa(set.Themes), strconv.Itoa(set.Neighbours),
	}
	if own := models.ChatOf(core.RoleShortening).Info(); own != info {
		parts = append(parts, own.Provider, own.Model, own.Parameters)
	}
	return core.Sum(parts...).String()
}

func listChanges(was, now core.Spec) (out []string) {
	before, set := settingsOf(was), settingsOf(now)
	changed := func(name string, a, b int, costs string) {
		if a != b {
			out = append(out, fmt.Sprintf("gem.%s %d → %d: %s", name, a, b, costs))
		}
	}
	const spectrum = "graph, spectrum and summaries are rebuilt; no question is generated again"
	changed("questions", before.Questions, set.Questions, "questions are generated again for every passage")
	changed("themes", before.Themes, set.Themes, spectrum)
	changed("neighbours", before.Neighbours, set.Neighbours, spectrum)
	return out
}

func newIn(of *enrich.Build) In {
	return In{
		Language: text.LanguageOf(of.Spec.Retrieval.Language), Chat: of.Models.Extractor(),
		Health:     of.HealthOf(model.Extract),
		Summarizer: of.Models.ChatOf(core.RoleShortening), Shortens: of.HealthOf(model.Shorten),
		Ledger: of.Ledger, Embedder: of.Models.Chunks, Fingerprint: of.Manifest.Chunk.Digest(),
		MaxTokens: of.Spec.Embedding.MaxInputTokens, Attempt: of.Attempt, Settings: settingsOf(of.Spec),
	}
}

func seal(ctx context.Context, of *enrich.Build) (out enrich.Made, err error) {
	done, err := of.TakePlace(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	var sealed Sealed
	err = out.AddFile(ctx, of.Index, gem.Name, questions.Kind, func(file io.Writer) (int64, error) {
		sealed, err = newIn(of).Seal(ctx, of.Chunks(ctx, 0, 1), file)
		return sealed.Counts.Chunks, err
	})
	if err != nil {
		return out, err
	}
	counts := sealed.Counts
	err = out.AddFile(ctx, of.Index, gem.Name, spectral.Kind, func(file io.Writer) (int64, error) {
		return counts.Chunks, sealed.Graph.Write(file)
	})
	if err == nil && sealed.Themes != nil {
		err = out.AddFile(ctx, of.Index, gem.Name, themes.Kind, func(file io.Writer) (int64, error) {
			content, err := sealed.Themes.Encode()
			if err == nil {
				_, err = file.Write(content)
			}
			return counts.Themes, err
		})
	}
	out.Enrichment = core.Enrichment{Hash: sealed.Hash, Counts: map[string]int64{
		"chunks": counts.Chunks, "questions": counts.Questions, "by_text": counts.Fallbacks, enrich.Failed: counts.Failed,
		"themes": counts.Themes, "spectrum": counts.Nodes, "not_converged": counts.Missing,
	}}
	return out, err
}
