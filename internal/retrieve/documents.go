package retrieve

import (
	"context"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// framesWidth is how many frames are read at once for one page of documents, or one election.
const framesWidth = 8

// DocumentsFrom gives the places of the documents whose key starts with a prefix, in the order of keys, from a place
// on; 0 is the first. There are at most limit of them. next is the place behind them, or 0 where they are the last.
func (g *Generation) DocumentsFrom(prefix string, at, limit int) (from, to, next int) {
	first := g.Live.DocumentFrom(prefix)
	documents, _, _ := g.Live.Counts()
	rest := documents - first
	end := first + sort.Search(rest, func(i int) bool { return !strings.HasPrefix(g.Live.Key(first+i), prefix) })
	from = min(max(at, first), end)
	if to = min(from+limit, end); to < end {
		next = to
	}
	return from, to, next
}

// ReadDocuments reads the rows of the documents at [from, to). Neighbours lie in one frame, which is read once.
func (g *Generation) ReadDocuments(ctx context.Context, from, to int) ([]rows.Document, error) {
	frames := make([]artifact.FrameID, max(0, to-from))
	var distinct []artifact.FrameID
	for n := range frames {
		reader := g.docs[g.Live.DocumentAt(from+n).Part]
		if reader == nil {
			return nil, g.newDamageError("documents")
		}
		frames[n] = artifact.FrameID{File: reader, Number: max(0, reader.Find(g.Live.Key(from+n)))}
		if len(distinct) == 0 || distinct[len(distinct)-1] != frames[n] {
			distinct = append(distinct, frames[n])
		}
	}
	read := make([]*frame, len(distinct))
	if err := parallel.Each(ctx, len(distinct), framesWidth, func(ctx context.Context, i int) (err error) {
		read[i], err = unpacked.Read(ctx, distinct[i].File, distinct[i].Number)
		return err
	}); err != nil {
		return nil, err
	}
	out := make([]rows.Document, len(frames))
	at := 0
	for n, id := range frames {
		for distinct[at] != id {
			at++
		}
		row := read[at].valueOf(g.Live.Key(from + n))
		if row == nil {
			return nil, g.newDamageError("documents")
		}
		var err error
		if out[n], err = rows.DecodeDocument(row); err != nil {
			return nil, err
		}
	}
	return out, nil
}
