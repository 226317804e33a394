package factstage

import (
	"context"
	"io"
	"strconv"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/apr"
	format "github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text"
)

// Enrichment makes the facts of a generation.
var Enrichment = enrich.Enrichment{
	Name: format.Enrichment, Asks: "chunks", Role: core.RoleTriples, DigestRules: digestRules, Seal: seal,
	Pay: func(ctx context.Context, of *enrich.Build, n, parts int) error {
		return newIn(of).Pay(ctx, of.Chunks(ctx, n, parts))
	},
}

func digestRules(spec core.Spec, models model.Set) string {
	chat, embedder := models.ChatOf(core.RoleTriples).Info(), models.Classes.Info()
	return core.Sum(
		Rules, triples.Prompt, triples.SchemaVersion, spec.Retrieval.Language,
		chat.Provider, chat.Model, chat.Parameters, chat.Domain,
		embedder.Provider, embedder.Model, embedder.Parameters, embedder.Domain,
		strconv.Itoa(spec.Embedding.Dimension),
	).String()
}

func newIn(of *enrich.Build) In {
	return In{
		Language: text.LanguageOf(of.Spec.Retrieval.Language), Chat: of.Models.ChatOf(core.RoleTriples),
		Health: of.HealthOf(model.Triples), Ledger: of.Ledger, Embedder: of.Models.Classes,
		Fingerprint: of.Manifest.Class.Digest(), Segmenter: apr.DefaultSegmenter,
		Attempt: of.Attempt,
	}
}

func seal(ctx context.Context, of *enrich.Build) (out enrich.Made, err error) {
	done, err := of.TakePlace(ctx)
	if err != nil {
		return out, err
	}
	defer done()
	var counts Counts
	err = out.AddFile(ctx, of.Index, format.Enrichment, format.Kind, func(file io.Writer) (int64, error) {
		counts, err = newIn(of).Seal(ctx, of.Chunks(ctx, 0, 1), file)
		return counts.Edges, err
	})
	if err != nil {
		return out, err
	}
	out.Enrichment.Hash = core.Sum(out.Files[0].SHA256)
	out.Enrichment.Counts = map[string]int64{ // what a build from nothing counts, too
		"chunks": counts.Chunks, "triples": counts.Triples, "left": counts.Left, "fallbacks": counts.Fallbacks,
		"entities": counts.Entities, "relations": counts.Relations, "edges": counts.Edges, "runs": counts.Runs,
	}
	return out, nil
}
