package load

import (
	"context"
	"sync/atomic"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	embedWidth  = 8        // requests of one activity in flight
	upsertBytes = 24 << 20 // at which rows are written: large writes are fast, and a store bounds a message
)

// batch is a request's texts with their vectors.
type batch struct {
	texts   []embed.Item
	vectors [][]float32
}

// writeVectors embeds the new texts (from the ledger, or for nothing), writes the rows and the vectors segment. It pays
// only where an object of the ledger was lost: the embed stage counted those texts as the ledger's, so that they are
// taken off.
func (l *loader) writeVectors(ctx context.Context) error {
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	out := l.newWriter(file)
	var lost atomic.Int64
	defer func() { l.res.Progress.Hits.Embed -= lost.Load() }()
	source := l.Source
	source.OnPaid = func(texts int) { lost.Add(int64(texts)) }
	texts := l.Part.NewTexts(ctx, l.Env, l.Scratch)
	embedded := func(ctx context.Context, texts []embed.Item) (batch, error) {
		got, err := source.Vectors(ctx, texts)
		return batch{texts, got}, err
	}
	for got, err := range parallel.MapOrdered(ctx, embedWidth, embed.CutBatches(texts), embedded) {
		if err == nil {
			err = out.addBatch(ctx, got)
		}
		if err != nil {
			return err
		}
	}
	if err := out.flushRows(ctx); err != nil {
		return err
	}
	if err := out.parquet.Close(); err != nil || out.rows == 0 {
		return err
	}
	var fresh bool
	l.res.Vectors, fresh, err = file.PutSegment(ctx, l.Env.Artifacts)
	l.res.Vectors.Rows, l.res.Vectors.Part = out.rows, l.Part.Number
	l.countSegment(fresh)
	return err
}

// rowWriter gathers rows until they are worth a write.
type rowWriter struct {
	*loader
	parquet *parquet.GenericWriter[stage.VectorRow]
	pending []vectors.Row
	bytes   int
	rows    int64
}

// newWriter compresses nothing: what is in a vector is as good as random. Files that are compressed are read as well.
func (l *loader) newWriter(file *artifact.File) *rowWriter {
	return &rowWriter{loader: l, parquet: newParquet(file)}
}

func newParquet(file *artifact.File) *parquet.GenericWriter[stage.VectorRow] {
	return parquet.NewGenericWriter[stage.VectorRow](
		file,
		parquet.SkipPageBounds("vector", "list", "element"),
		parquet.SkipPageStatistics("vector", "list", "element"),
		parquet.CreatedBy("unweaver", "1", ""),
		parquet.PageBufferSize(256<<10),
		parquet.MaxRowsPerRowGroup(8192),
	)
}

func (w *rowWriter) addBatch(ctx context.Context, got batch) error {
	for i, text := range got.texts {
		if err := vectors.Check(got.vectors[i], w.dimension, text.Key); err != nil {
			return err
		}
		w.pending = append(w.pending, vectors.Row{Key: text.Key, Vector: got.vectors[i]})
		w.bytes += len(text.Key) + 4*w.dimension
	}
	w.rows += int64(len(got.texts))
	if w.bytes < upsertBytes {
		w.reportProgress()
		return nil
	}
	return w.flushRows(ctx)
}

func (w *rowWriter) flushRows(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	out := make([]stage.VectorRow, len(w.pending))
	for i, row := range w.pending {
		out[i] = stage.VectorRow(row)
	}
	if _, err := w.parquet.Write(out); err != nil {
		return err
	}
	if !w.Import {
		if err := w.Vectors.Upsert(ctx, w.collection, w.pending); err != nil {
			return err
		}
	}
	w.res.Progress.Written.Rows += int64(len(w.pending))
	w.pending, w.bytes = w.pending[:0], 0
	w.reportProgress()
	return nil
}
