package retrieve

import (
	"slices"

	"github.com/unweaver/unweaver/internal/retrieve/confidence"
	"github.com/unweaver/unweaver/internal/retrieve/fuse"
	"github.com/unweaver/unweaver/internal/text"
)

// judged is how many of the first chunks confidence speaks of.
const judged = 5

// tenth is the place that leads are measured against.
const tenth = 10

// measureSignals returns the signals of a result, before chunks are filled up.
func (r *Request) measureSignals(found lists) confidence.Signals {
	var out confidence.Signals
	words := r.Generation.chunkWords
	terms := slices.DeleteFunc(slices.Clone(r.terms), text.IsExact)
	slices.Sort(terms)
	terms = slices.Compact(terms)
	out.Terms = len(terms)
	first := r.Result.Chunks[:min(judged, len(r.Result.Chunks))]
	numbers := make([]uint32, len(first))
	for i, chunk := range first {
		numbers[i] = chunk.Live.Number
	}
	total := 0.0
	for i, holds := range words.Holds(terms, numbers) {
		weight := words.index.Weight(terms[i])
		if weight > 0 {
			out.Known += weight
		} else {
			weight = words.index.UnknownWeight()
		}
		if slices.Contains(holds, true) {
			out.Together += weight
		}
		total += weight
	}
	if total > 0 {
		out.Known /= total
		out.Together /= total
	}
	out.Lead = measureLead(found.chunkBM25.Hits)
	if r.Query.Vector != nil && r.Generation.isBuiltin() {
		best := 0.0
		if hits := found.classDense.Hits; len(hits) > 0 {
			best = hits[0].Score
		}
		out.Similarity = &best
	}
	return out
}

// measureLead returns the lead of the best score of a list over the tenth, as a share of it; what a shorter list lacks
// has score 0.
func measureLead(hits []fuse.Hit) float64 {
	switch {
	case len(hits) == 0:
		return 0
	case len(hits) < tenth:
		return 1
	}
	return 1 - hits[tenth-1].Score/hits[0].Score
}

// isBuiltin reports whether both embedders are the built-in one.
func (g *Generation) isBuiltin() bool {
	return g.Manifest.Class.Provider == "builtin" && g.Manifest.Chunk.Provider == "builtin"
}
