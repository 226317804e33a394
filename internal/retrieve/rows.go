package retrieve

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
)

// ReadDocument reads the row of document i.
func (g *Generation) ReadDocument(ctx context.Context, i int) (rows.Document, error) {
	key := g.Live.Key(i)
	reader := g.docs[g.Live.DocumentAt(i).Part]
	if reader == nil {
		return rows.Document{}, g.newDamageError("documents")
	}
	frame := reader.Find(key)
	if frame < 0 {
		return rows.Document{}, g.newDamageError("documents")
	}
	one, err := unpacked.Read(ctx, reader, frame)
	if err != nil {
		return rows.Document{}, err
	}
	row := one.valueOf(key)
	if row == nil {
		return rows.Document{}, g.newDamageError("documents")
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
	return reader.WithFrames(func(ctx context.Context, file *artifact.Reader, number int) ([]byte, error) {
		one, err := unpacked.Read(ctx, file, number)
		if err != nil {
			return nil, err
		}
		return one.rowsFrom(key), nil
	}).Slice(ctx, key, int(chunk.TextFrame), int(chunk.Start), int(chunk.End))
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
	one, err := unpacked.Read(ctx, reader, int(chunk.ExtFrame))
	if err != nil {
		return rows.Extract{}, err
	}
	row := one.valueOf(string(chunk.ID[:]))
	if row == nil {
		return rows.Extract{}, g.newDamageError("extract")
	}
	return rows.DecodeExtract(row)
}

// findRow gives the value of a key in the unpacked rows of a frame, or nil.
func findRow(raw []byte, key string) []byte {
	for {
		have, value, rest, ok := rowfile.NextRow(raw)
		if !ok {
			return nil
		}
		if string(have) == key {
			return value
		}
		raw = rest
	}
}
