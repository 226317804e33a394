package aprmethod

import (
	"context"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/model"
	rules "github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// openFacts returns the index over the generation's facts. fault.InvalidParam: the generation has none.
func openFacts(ctx context.Context, g *retrieve.Generation) (*apr.Index, error) {
	segments := g.Manifest.Segments.FilesOf(facts.Enrichment, facts.Kind)
	if len(segments) == 0 {
		return nil, fault.InvalidParam.At("read query", "method").
			Because("generation " + g.Manifest.Generation + " has no facts").
			Advise("set indexes." + g.Manifest.Index + ".enrich: [facts] and build it with: unweaver index, " +
				"or use another method")
	}
	return retrieve.OpenPart(g, facts.Enrichment, func() (*apr.Index, func(), error) {
		sha := segments[0].SHA256
		cache, index := g.FileSource()
		open := func(path string) (*facts.File, error) { return facts.Open(path, facts.Of{}) }
		file, release, err := localfile.Acquire(ctx, cache, index.Store, index.SegmentKey(sha), sha, open)
		if fault.Is(err, fault.NotFound) {
			err = fault.SegmentDamage.At("open facts of", g.Manifest.Generation).Because(err).
				Advise("build the index again with: unweaver index --rebuild --index " + g.Manifest.Index + "")
		}
		if err != nil {
			return nil, nil, err
		}
		out, err := apr.NewIndex(file.Book, file.Entities, file.Relations, file.Lines)
		if err != nil {
			release()
		}
		return out, release, err
	})
}

// mostNames of a question are looked for among the facts.
const mostNames = 16

// readNames returns the names that rules find in a question, which are compared with the entities of facts.
func readNames(g *retrieve.Generation, question string) (out retrieve.Reading) {
	for _, entity := range rules.EntitiesIn(g.Language(), question) {
		if out.Texts = append(out.Texts, entity.Name); len(out.Texts) == mostNames {
			break
		}
	}
	return out
}

// askTriples returns the call for the triples of a question, and what reads its reply.
func askTriples(
	g *retrieve.Generation, question string,
) (model.Call, func(reply string) (retrieve.Reading, bool)) {
	part := triples.QuestionPart(g.Language(), question)
	return part.QuestionCall(), func(reply string) (out retrieve.Reading, ok bool) {
		said, ok := part.Read(reply)
		if asks := apr.AsksOf(said.Triples); len(asks.Words) > 0 {
			out = retrieve.Reading{Texts: slices.Concat(asks.Entities, asks.Relations, asks.Lines), Value: asks}
		}
		return out, ok
	}
}

// readAsked returns what of a question is compared: the rows of its triples' entities, relations and lines where a
// model found any, else those of its names.
func readAsked(query retrieve.Query) apr.Asked {
	asks, byChat := query.Reading.Value.(apr.Asks)
	names, relations := len(query.Reading.Rows), 0
	if byChat {
		names, relations = len(asks.Entities), len(asks.Relations)
	}
	rest := query.Reading.Rows[names:]
	return apr.Asked{
		Words: asks.Words, Lines: rest[relations:],
		Query: apr.Query{Entities: query.Reading.Rows[:names], Relations: rest[:relations], Whole: query.Vector},
	}
}

// chunkOf returns the id that a source of facts names.
func chunkOf(source string) (id core.ID) {
	copy(id[:], source)
	return id
}
