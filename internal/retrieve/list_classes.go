package retrieve

import (
	"context"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/text/entitytype"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Names chooses classes for a list, and its order.
type Names struct {
	Prefix, Part string // a name starts with one and contains the other, whatever the case
	ByChunks     bool   // those with the most chunks first; else in the order of names
	Type         string // as entitytype.Key compares it; empty: of any type, or none
	Document     int    // place of a document that mentions them, from 1; 0: any
}

// ctxEvery is how many names are looked at between two looks at a context.
const ctxEvery = 4096

// ListClasses returns at most limit classes from a place of their list on; 0 is the first. next is the place behind
// them, or 0 where they are the last. It ends with the context.
func (g *Generation) ListClasses(ctx context.Context, of Names, at, limit int) (
	found []*liveset.Class, next int, err error,
) {
	prefix, part, types := names.Key(of.Prefix, false), names.Key(of.Part, false), g.FindTypes(of.Type)
	first, seen := g.Live.NamedFrom(prefix), 0
	if !of.ByChunks {
		first = max(at, first)
	}
	var ranks []uint64 // by chunks, then by name
	for i := range g.streamNames(first, of.Document) {
		if seen++; seen%ctxEvery == 0 && ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		if prefix != "" || part != "" { // a name is unpacked only where it decides
			name := g.Live.Name(i)
			if !strings.HasPrefix(name, prefix) {
				break
			}
			if !strings.Contains(name, part) {
				continue
			}
		}
		if of.Type != "" && !slices.Contains(types, g.Live.TypeAt(g.Live.PlaceByName(i))) {
			continue
		}
		switch class := g.Live.ByName(i); {
		case of.ByChunks:
			ranks = append(ranks, uint64(math.MaxUint32-class.Chunks)<<32|uint64(i))
		case len(found) == limit:
			return found, i, nil
		default:
			found = append(found, class)
		}
	}
	slices.Sort(ranks)
	end := min(at+limit, len(ranks))
	for _, rank := range ranks[min(at, end):end] {
		found = append(found, g.Live.ByName(int(uint32(rank))))
	}
	if end < len(ranks) {
		next = end
	}
	return found, next, nil
}

// ListTypes returns the types that entities of the generation may have, sorted: those of its settings, and those that
// its class runs have.
func (g *Generation) ListTypes() []string {
	types := append(slices.Clone(g.Spec.OwnRequest().Types), g.Live.Types()...)
	slices.Sort(types)
	return slices.Compact(types)
}

// FindTypes returns the spellings of a type that the generation has; none: it has no such type.
func (g *Generation) FindTypes(name string) []string {
	return slices.DeleteFunc(g.ListTypes(), func(one string) bool { return entitytype.Key(one) != entitytype.Key(name) })
}

// streamNames streams places of the order of names from one on: of all classes, or of those that a document mentions.
func (g *Generation) streamNames(first, document int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if document == 0 {
			for i := first; i < g.Live.Names() && yield(i); i++ { //nolint:revive // yield is the body
			}
			return
		}
		var mentioned []int
		row := g.Live.DocumentAt(document - 1)
		for number := row.Chunks; number < row.Chunks+row.Count; number++ {
			for _, place := range g.Live.Graph.ClassesOf(number) {
				mentioned = append(mentioned, g.Live.NameAt(place))
			}
		}
		slices.Sort(mentioned)
		for _, i := range slices.Compact(mentioned) {
			if i >= first && !yield(i) {
				return
			}
		}
	}
}
