package retrieve

import (
	"context"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/methods/apr/facts"
	rules "github.com/unweaver/unweaver/internal/model/builtin"
)

// EnrichedFacts is the name of the enrichment that method apr needs.
const EnrichedFacts = "facts"

// factsOf is what a generation's facts are opened with, and once they are, what they are.
type factsOf struct {
	cache   *localfile.Cache
	mu      sync.Mutex
	release func() // lets go of the file; nil: it is not open
	index   *apr.Index
}

func (f *factsOf) close() {
	if f.release != nil {
		f.release()
	}
}

// OpenFacts gives the index over the generation's facts, which the first who asks has copied and mapped; others wait
// for it. fault.InvalidParam: the generation has none.
func (g *Generation) OpenFacts(ctx context.Context) (*apr.Index, error) {
	segments := g.Manifest.Segments.FilesOf(EnrichedFacts, facts.Kind)
	if len(segments) == 0 {
		return nil, newInvalid("method", "generation "+g.Manifest.Generation+" has no facts",
			"set indexes."+g.Manifest.Index+".enrich: [facts] and build it with: unweaver index, or use another method")
	}
	g.facts.mu.Lock()
	defer g.facts.mu.Unlock()
	if g.facts.index != nil {
		return g.facts.index, nil
	}
	sha := segments[0].SHA256
	open := func(path string) (*facts.File, error) { return facts.Open(path, facts.Of{}) }
	file, release, err := localfile.Acquire(ctx, g.facts.cache, g.art.Store, g.art.SegmentKey(sha), sha, open)
	if fault.Is(err, fault.NotFound) {
		err = fault.SegmentDamage.At("open facts of", g.Manifest.Generation).Because(err).
			Advise("build the index again with: unweaver index --rebuild")
	}
	if err != nil {
		return nil, err
	}
	index, err := apr.NewIndex(file.Book, file.Entities, file.Relations, file.Lines)
	if err != nil {
		release()
		return nil, err
	}
	g.facts.release, g.facts.index = release, index
	return index, nil
}

// mostNames of a question are looked for among the facts.
const mostNames = 16

// QuestionNames returns the names that rules find in a question, which method apr compares with the entities of facts.
// They are embedded as the question is.
func (g *Generation) QuestionNames(question string) []string {
	var out []string
	for _, entity := range rules.EntitiesIn(g.Language(), question) {
		if out = append(out, entity.Name); len(out) == mostNames {
			break
		}
	}
	return out
}

// chunkOf returns the id that a source of facts names.
func chunkOf(source string) (id core.ID) {
	copy(id[:], source)
	return id
}
