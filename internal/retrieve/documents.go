package retrieve

import (
	"context"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// framesWidth is how many frames are read at once for one page of documents, or one election.
const framesWidth = 8

// DocumentsFrom gives the places of the documents whose key starts with a prefix, in the order of keys, from a place
// on; 0 is the first. There are at most limit of them. next is the place behind them, or 0 where they are the last.
func (g *Generation) DocumentsFrom(prefix string, at, limit int) (from, to, next int) {
	first, end := g.findPrefix(prefix)
	from = min(max(at, first), end)
	if to = min(from+limit, end); to < end {
		next = to
	}
	return from, to, next
}

// findPrefix returns the places [from, to) of the documents whose key starts with a prefix.
func (g *Generation) findPrefix(prefix string) (from, to int) {
	documents, _, _ := g.Live.Counts()
	from = g.Live.DocumentFrom(prefix)
	return from, from + sort.Search(documents-from, func(i int) bool {
		return !strings.HasPrefix(g.Live.Key(from+i), prefix)
	})
}

// ReadDocuments reads the rows of the documents at [from, to).
func (g *Generation) ReadDocuments(ctx context.Context, from, to int) ([]rows.Document, error) {
	out := make([]rows.Document, max(0, to-from))
	err := parallel.Each(ctx, len(out), framesWidth, func(ctx context.Context, i int) (err error) {
		out[i], err = g.ReadDocument(ctx, from+i)
		return err
	})
	return out, err
}
