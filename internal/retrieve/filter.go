package retrieve

import (
	"context"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/retrieve/walk"
)

// allowed is the induced subgraph of a query.
type allowed struct {
	generation *Generation
	ctx        context.Context //nolint:containedctx // it lives as long as its query
	filter     Filter
	without    Without
	lo, hi     int // documents by prefix
	all        bool
	cache      map[uint32]bool
	err        error
}

func (g *Generation) allow(ctx context.Context, query Query) *allowed {
	a := &allowed{
		generation: g,
		ctx:        ctx,
		filter:     query.Filter,
		without:    query.Without,
		hi:         len(g.Live.Documents),
		cache:      map[uint32]bool{},
	}
	a.all = query.Filter.Prefix == "" && len(query.Filter.Metadata) == 0 && query.Filter.From.IsZero() &&
		query.Filter.To.IsZero() &&
		len(query.Without.Documents) == 0
	if query.Filter.Prefix != "" {
		a.lo = g.Live.DocumentFrom(query.Filter.Prefix)
		a.hi = a.lo + sort.Search(
			len(g.Live.Documents)-a.lo,
			func(i int) bool { return !strings.HasPrefix(g.Live.Key(a.lo+i), query.Filter.Prefix) },
		)
	}
	return a
}

func (a *allowed) chunk(chunk *live.Chunk) bool {
	if a.all {
		return true
	}
	ok, known := a.cache[chunk.Document]
	if !known {
		ok = a.document(int(chunk.Document))
		a.cache[chunk.Document] = ok
	}
	return ok
}

func (a *allowed) document(i int) bool {
	if i < a.lo || i >= a.hi || a.without.Documents[a.generation.Live.Key(i)] {
		return false
	}
	if len(a.filter.Metadata) == 0 && a.filter.From.IsZero() && a.filter.To.IsZero() {
		return true
	}
	meta, modified, err := a.generation.metaOf(a.ctx, i)
	if err != nil {
		a.err = err
		return false
	}
	for k, v := range a.filter.Metadata {
		if meta[k] != v {
			return false
		}
	}
	from, to := a.filter.From, a.filter.To
	return (from.IsZero() || !modified.Before(from)) && (to.IsZero() || modified.Before(to))
}

// numbers is the test of chunk numbers; nil when every chunk is allowed.
func (a *allowed) numbers() func(uint32) bool {
	if a.all {
		return nil
	}
	return func(n uint32) bool { return a.chunk(a.generation.Live.ByNumber(int(n))) }
}

// places is the test of classes by place: a class is allowed with one allowed chunk; nil when every class is.
func (a *allowed) places() func(uint32) bool {
	if a.all && len(a.without.Entities) == 0 {
		return nil
	}
	return func(p uint32) bool {
		if a.without.Entities[a.generation.Live.Classes[p].ID] {
			return false
		}
		if a.all {
			return true
		}
		for _, n := range a.generation.Search.Graph.ChunksOf(p) {
			if a.chunk(a.generation.Live.ByNumber(int(n))) {
				return true
			}
		}
		return false
	}
}

// view is the induced subgraph for a walk.
func (a *allowed) view() walk.View {
	view := walk.View{Chunk: a.numbers()}
	if len(a.without.Entities) > 0 {
		view.Class = func(p uint32) bool { return !a.without.Entities[a.generation.Live.Classes[p].ID] }
	}
	return view
}
