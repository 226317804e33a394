package retrieve

import (
	"math"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Names chooses classes for a list, and its order.
type Names struct {
	Prefix, Part string // a name starts with one and contains the other, whatever the case
	ByChunks     bool   // those with the most chunks first; else in the order of names
	Type         string // whatever the case; empty: of any type, or none
	Document     int    // place of a document that mentions them, from 1; 0: any
}

// ListClasses returns at most limit classes from a place of their list on; 0 is the first. next is the place behind
// them, or 0 where they are the last.
func (g *Generation) ListClasses(of Names, at, limit int) (found []*liveset.Class, next int) {
	prefix, part := names.Key(of.Prefix, false), names.Key(of.Part, false)
	mentioned := g.classesIn(of.Document)
	first := g.Live.NamedFrom(prefix)
	if !of.ByChunks {
		first = max(at, first)
	}
	var ranks []uint64 // by chunks, then by name
	for i := first; i < g.Live.Names(); i++ {
		if prefix != "" || part != "" { // a name is unpacked only where it decides
			name := g.Live.Name(i)
			if !strings.HasPrefix(name, prefix) {
				break
			}
			if !strings.Contains(name, part) {
				continue
			}
		}
		if of.Type != "" || mentioned != nil {
			place := g.Live.PlaceByName(i)
			if of.Type != "" && !strings.EqualFold(g.Live.TypeAt(place), of.Type) || mentioned != nil && !mentioned[place] {
				continue
			}
		}
		switch class := g.Live.ByName(i); {
		case of.ByChunks:
			ranks = append(ranks, uint64(math.MaxUint32-class.Chunks)<<32|uint64(i))
		case len(found) == limit:
			return found, i
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
	return found, next
}

// ListTypes returns the types that entities of the generation may have, sorted: those of its settings, and those that
// its class runs have.
func (g *Generation) ListTypes() []string {
	types := slices.Clone(g.Spec.OwnRequest().Types)
	for _, run := range g.Live.Runs() {
		types = append(types, run.File.Meta.Types...)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// classesIn returns the places of the classes that a document mentions; nil: any document is meant.
func (g *Generation) classesIn(document int) map[uint32]bool {
	if document == 0 {
		return nil
	}
	out := map[uint32]bool{}
	row := g.Live.DocumentAt(document - 1)
	for number := row.Chunks; number < row.Chunks+row.Count; number++ {
		for _, place := range g.Live.Graph.ClassesOf(number) {
			out[place] = true
		}
	}
	return out
}
