package aliases

import (
	"slices"

	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/text/names"
)

// aliasRelations are relations that say nothing any more where their ends have become one.
var aliasRelations = map[string]bool{
	"also known as": true, "known as": true, "alias": true, "alias of": true, "abbreviated as": true,
	"abbreviation of": true, "short for": true, "stands for": true,
}

// Remap gives a codebook with every entity replaced by its representative; the given one stays as it is, so that
// leaving the table out undoes it. Entities keep their numbers. Edges that became equal are one with the sources of
// both, a run has each edge once, and an edge of which both ends became one goes where it only said so.
func Remap(book *apr.Codebook, of []int) *apr.Codebook {
	out := &apr.Codebook{Entities: slices.Clone(book.Entities), Relations: slices.Clone(book.Relations)}
	const gone = ^uint32(0)
	to := make([]uint32, len(book.Edges))
	known := map[apr.Edge]uint32{}
	for i, edge := range book.Edges {
		mapped := apr.Edge{Head: uint32(of[edge.Head]), Relation: edge.Relation, Tail: uint32(of[edge.Tail])}
		if mapped.Head == mapped.Tail && edge.Head != edge.Tail &&
			aliasRelations[names.Key(book.Relations[edge.Relation], false)] {
			to[i] = gone
			continue
		}
		id, have := known[mapped]
		if !have {
			id = uint32(len(out.Edges))
			known[mapped] = id
			out.Edges, out.Sources = append(out.Edges, mapped), append(out.Sources, nil)
		}
		for _, source := range book.Sources[i] {
			if !slices.Contains(out.Sources[id], source) {
				out.Sources[id] = append(out.Sources[id], source)
			}
		}
		to[i] = id
	}
	for _, run := range book.Runs {
		var mapped []uint32
		for _, edge := range run {
			if id := to[edge]; id != gone && !slices.Contains(mapped, id) {
				mapped = append(mapped, id)
			}
		}
		if len(mapped) > 0 {
			out.Runs = append(out.Runs, mapped)
		}
	}
	return out
}
