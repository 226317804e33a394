package retrieve

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// allowed is the induced subgraph of a query.
type allowed struct {
	generation *Generation
	filter     Filter
	without    Without
	lo, hi     int // documents by prefix
	all        bool
	cache      map[uint32]bool
}

func (g *Generation) newAllowed(query Query) *allowed {
	documents, _, _ := g.Live.Counts()
	a := &allowed{
		generation: g,
		filter:     query.Filter,
		without:    query.Without,
		hi:         documents,
		cache:      map[uint32]bool{},
	}
	a.all = query.Filter.Prefix == "" && len(query.Filter.Metadata) == 0 && query.Filter.From.IsZero() &&
		query.Filter.To.IsZero() &&
		len(query.Without.Documents) == 0
	if query.Filter.Prefix != "" {
		a.lo = g.Live.DocumentFrom(query.Filter.Prefix)
		a.hi = a.lo + sort.Search(
			documents-a.lo,
			func(i int) bool { return !strings.HasPrefix(g.Live.Key(a.lo+i), query.Filter.Prefix) },
		)
	}
	return a
}

func (a *allowed) allowsChunk(chunk *liveset.Chunk) bool {
	return a.all || a.ofDocument(chunk.Document)
}

// allowsNumber reports whether the chunk of a number is allowed.
func (a *allowed) allowsNumber(n uint32) bool {
	return a.all || a.ofDocument(a.generation.Live.DocumentOf(n))
}

func (a *allowed) ofDocument(i uint32) bool {
	ok, known := a.cache[i]
	if !known {
		ok = a.allowsDocument(int(i))
		a.cache[i] = ok
	}
	return ok
}

func (a *allowed) allowsDocument(i int) bool {
	if i < a.lo || i >= a.hi || a.without.Documents[a.generation.Live.Key(i)] {
		return false
	}
	if len(a.filter.Metadata) == 0 && a.filter.From.IsZero() && a.filter.To.IsZero() {
		return true
	}
	meta, modified := a.generation.Live.FilterFields(i)
	for name, values := range a.filter.Metadata {
		listed := ", " + meta[name] + ", " // a list is stored with commas between its elements
		if !slices.ContainsFunc(values, func(one string) bool { return strings.Contains(listed, ", "+one+", ") }) {
			return false
		}
	}
	from, to := a.filter.From, a.filter.To
	return (from.IsZero() || !modified.Before(from)) && (to.IsZero() || modified.Before(to))
}

// allowsNone reports whether no document is left in.
func (a *allowed) allowsNone() bool {
	for i := a.lo; i < a.hi; i++ {
		if a.all || a.ofDocument(uint32(i)) { //nolint:gosec // documents are counted in 32 bits
			return false
		}
	}
	return true
}

// explainNone returns why no document is left in, as a reason and in words. A field of metadata that no document has
// is probably a wrong name, so the words name those there are.
func (a *allowed) explainNone() (reason, words string) {
	documents, _, _ := a.generation.Live.Counts()
	unknown, known := maps.Clone(a.filter.Metadata), map[string]bool{}
	for i := 0; i < documents && len(unknown) > 0; i++ {
		meta, _ := a.generation.Live.FilterFields(i)
		for name := range meta {
			delete(unknown, name)
			known[name] = true
		}
	}
	if len(unknown) == 0 {
		return NoDocument, "No document passes filter and without."
	}
	names := slices.Sorted(maps.Keys(known))
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], ", …"
	}
	words = fmt.Sprintf("No document has a field of metadata %.80q", slices.Min(slices.Collect(maps.Keys(unknown))))
	if len(names) == 0 {
		return UnknownField, words + "; none has any field."
	}
	return UnknownField, words + "; known: " + strings.Join(names, ", ") + more + "."
}

// mostNamed fields of metadata are named.
const mostNamed = 20

// testNumbers returns the test of chunk numbers; nil when every chunk is allowed.
func (a *allowed) testNumbers() func(uint32) bool {
	if a.all {
		return nil
	}
	return a.allowsNumber
}

// testPlaces returns the test of classes by place: a class is allowed with one allowed chunk; nil when every class is.
func (a *allowed) testPlaces() func(uint32) bool {
	if a.all && len(a.without.Entities) == 0 {
		return nil
	}
	return func(p uint32) bool {
		if a.without.Entities[a.generation.Live.ClassID(p)] {
			return false
		}
		if a.all {
			return true
		}
		for _, n := range a.generation.Live.Graph.ChunksOf(p) {
			if a.allowsNumber(n) {
				return true
			}
		}
		return false
	}
}

// toView returns the induced subgraph for a walk.
func (a *allowed) toView() walk.View {
	view := walk.View{Chunk: a.testNumbers()}
	if len(a.without.Entities) > 0 {
		view.Class = func(p uint32) bool { return !a.without.Entities[a.generation.Live.ClassID(p)] }
	}
	return view
}
