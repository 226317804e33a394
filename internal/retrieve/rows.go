package retrieve

import (
	"context"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// maxFrameBytes of unpacked frames are kept, of all generations that are open in this process: what is asked for is
// asked for again.
const maxFrameBytes = 64 << 20

// unpacked is shared by all generations, so that a replica with a thousand indexes keeps no more than one with one.
var unpacked = artifact.NewFrames(maxFrameBytes)

// ReadDocument reads the row of document i.
func (g *Generation) ReadDocument(ctx context.Context, i int) (rows.Document, error) {
	key := g.Live.Key(i)
	reader := g.docs[g.Live.DocumentAt(i).Part]
	if reader == nil {
		return rows.Document{}, g.newDamageError("documents")
	}
	row, err := g.readRow(ctx, "documents", reader, reader.Find(key), key)
	if err != nil {
		return rows.Document{}, err
	}
	return rows.DecodeDocument(row)
}

func (g *Generation) newDamageError(kind string) error {
	return fault.SegmentDamage.At("read "+kind+" of generation", g.Manifest.Generation).
		Because("a row that a split refers to is missing").
		Advise("publish another generation, or rebuild the index")
}

// ReadText reads the text of a chunk.
func (g *Generation) ReadText(ctx context.Context, chunk *liveset.Chunk) (string, error) {
	reader := g.texts[chunk.Text]
	if reader == nil {
		return "", g.newDamageError("text")
	}
	key := g.Live.Key(int(chunk.Document))
	return reader.WithFrames(unpacked.Read).Slice(ctx, key, int(chunk.TextFrame), int(chunk.Start), int(chunk.End))
}

// DocumentText reads [start, end) of a document's decoded text, in code points; end < 0 means its end.
func (g *Generation) DocumentText(ctx context.Context, i, start, end int) (string, error) {
	document, err := g.ReadDocument(ctx, i)
	if err != nil {
		return "", err
	}
	reader := g.texts[g.Live.DocumentAt(i).Part]
	if reader == nil {
		return "", g.newDamageError("text")
	}
	if start >= document.Runes {
		return "", nil
	}
	return reader.Clone().Slice(ctx, g.Live.Key(i), document.Frame, start, end) // it may be all that there is
}

// ReadExtraction reads what a model said about a chunk.
func (g *Generation) ReadExtraction(ctx context.Context, chunk *liveset.Chunk) (rows.Extract, error) {
	reader := g.extracts[chunk.Extract]
	if reader == nil {
		return rows.Extract{}, g.newDamageError("extract")
	}
	row, err := g.readRow(ctx, "extract", reader, int(chunk.ExtFrame), string(chunk.ID[:]))
	if err != nil {
		return rows.Extract{}, err
	}
	return rows.DecodeExtract(row)
}

// readRow returns the row of a key in a frame of a file, which is negative where no frame can have it.
func (g *Generation) readRow(
	ctx context.Context, kind string, file *artifact.Reader, frame int, key string,
) ([]byte, error) {
	if frame < 0 {
		return nil, g.newDamageError(kind)
	}
	raw, err := unpacked.Read(ctx, file, frame)
	if err != nil {
		return nil, err
	}
	for {
		have, value, rest, ok := rowfile.NextRow(raw)
		if !ok {
			return nil, g.newDamageError(kind)
		}
		if string(have) == key {
			return value, nil
		}
		raw = rest
	}
}

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
