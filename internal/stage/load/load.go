// Package load writes what queries read from stores: vector rows, class records, and the segments that the stores can
// be restored from. Everything is written under content keys, so an activity may be repeated.
package load

import (
	"context"
	"iter"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embed"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/par"
)

// In is what one activity works on. OnProgress is told of rows done.
type In struct {
	Env        items.Env
	Scratch    string
	Classes    records.Store
	Vectors    vectors.Store
	Source     embed.Source
	Import     bool // the vectors segment is imported afterwards: rows are not written here
	OnProgress func(corpus.Progress)
}

// Result of one partition or shard.
type Result struct {
	Rows     corpus.Segment  `json:"rows"`    // classes segment; zero for chunks
	Vectors  corpus.Segment  `json:"vectors"` // zero when nothing was new
	Counts   corpus.Counts   `json:"counts"`
	Hashes   corpus.Hashes   `json:"hashes"`
	Progress corpus.Progress `json:"progress"`
}

// VectorRow is a row of a vectors segment: Parquet with the columns that a bulk import needs.
type VectorRow struct {
	Key    string    `parquet:"key"`
	Vector []float32 `parquet:"vector,list"`
}

// recordBatch is how many records go to the store at once (DESIGN: pipelines of 500 to 1,000).
const recordBatch = 1000

// Classes loads a partition.
func Classes(ctx context.Context, in In, partition int, reduced, short, from string) (Result, error) {
	l := loader{In: in, collection: in.Env.Collections.Classes, dim: in.Env.Class.Dimension}
	l.res.Progress.Stage = "load"
	seg, err := artifact.NewRows()
	if err != nil {
		return l.res, err
	}
	defer seg.Discard()
	var batch []records.Record
	flush := func() error {
		err := in.Classes.PutRecords(ctx, batch)
		l.res.Progress.Written.Records += int64(len(batch))
		batch = batch[:0]
		return err
	}
	for class, err := range in.Env.Classes(ctx, reduced, short, from) {
		if err != nil {
			return l.res, err
		}
		d := rows.RecordDigest(class.Record)
		if !class.HasRecord {
			batch = append(
				batch,
				records.Record{
					Key:   corpus.RecordKey(in.Env.Store, in.Env.Spec.Index, class.ID, d),
					Value: class.Record,
				},
			)
			if len(batch) == recordBatch {
				if err := flush(); err != nil {
					return l.res, err
				}
			}
		}
		seg.Append(
			string(class.ID[:]),
			rows.Class{
				Record:     class.Record,
				Vector:     class.Vector,
				Text:       class.Reduced.Text,
				Keys:       class.Keys,
				FirstChunk: class.FirstChunk,
				FirstPos:   class.FirstPos,
			}.Encode(),
		)
		l.res.Hashes.Text.Add(corpus.Sum("class", class.ID.String(), class.Final))
		l.res.Hashes.Vector.Add(corpus.Sum("class", class.ID.String(), class.Vector.String()))
		l.res.Counts.Classes++
		l.done(1)
	}
	if err := flush(); err != nil {
		return l.res, err
	}
	var fresh bool
	if l.res.Rows, fresh, err = seg.Segment(ctx, in.Env.Artifacts, partition); err != nil {
		return l.res, err
	}
	l.segment(fresh)
	return l.res, l.vectors(ctx, partition, func(yield func(embed.Item, error) bool) {
		for c, err := range in.Env.Classes(ctx, reduced, short, from) {
			if err == nil && c.HasVector {
				continue
			}
			if !yield(c.Item(), err) || err != nil {
				return
			}
		}
	})
}

// Chunks loads a shard; base is the number of its first chunk, textPart and extPart its segments' places.
func Chunks(ctx context.Context, in In, shard int, sh items.Shard, base int64) (Result, error) {
	l := loader{In: in, collection: in.Env.Collections.Chunks, dim: in.Env.Chunk.Dimension}
	l.res.Progress.Stage = "load"
	out, err := artifact.NewRows()
	if err != nil {
		return l.res, err
	}
	defer out.Discard()
	fp := in.Env.Chunk.Digest()
	refs := func() iter.Seq2[items.Chunk, error] {
		return in.Env.Chunks(ctx, sh, items.Refs(ctx, in.Env.Artifacts.Store, in.Scratch, sh.Unit, sh.From, sh.To))
	}
	for chunk, err := range refs() {
		if err != nil {
			return l.res, err
		}
		out.Append(
			string(chunk.ID[:]),
			rows.LiveChunk{
				Document:  chunk.Document,
				Digest:    chunk.Digest,
				Number:    base + l.res.Counts.Chunks,
				Ordinal:   chunk.Ordinal,
				Start:     chunk.Start,
				End:       chunk.End,
				Tokens:    chunk.Tokens,
				Text:      sh.Unit,
				TextFrame: chunk.Frame,
				Extract:   shard,
				ExtFrame:  chunk.ExtFrame,
				Windows:   len(chunk.Windows),
			}.Encode(),
		)
		l.res.Hashes.Vector.Add(corpus.Sum("chunk", chunk.ID.String(), chunk.Digest.String()))
		l.res.Counts.Chunks++
		l.res.Counts.Windows += int64(len(chunk.Windows))
		l.done(1)
	}
	if err := out.Scratch(ctx, in.Env.Artifacts.Store, items.LiveKey(in.Scratch, shard)); err != nil {
		return l.res, err
	}
	return l.res, l.vectors(ctx, shard, func(yield func(embed.Item, error) bool) {
		for c, err := range refs() {
			if err == nil && c.HasVector {
				continue
			}
			if err != nil {
				yield(embed.Item{}, err)
				return
			}
			for _, it := range c.Items(fp) {
				if !yield(it, nil) {
					return
				}
			}
		}
	})
}

type loader struct {
	In
	collection string
	dim        int
	res        Result
}

func (l *loader) done(n int64) {
	l.res.Progress.Done += n
	if l.res.Progress.Done%256 == 0 {
		l.OnProgress(l.res.Progress)
	}
}

func (l *loader) segment(fresh bool) {
	if fresh {
		l.res.Progress.Written.Segments++
	}
}

// upsertBytes bounds one write (notes: 20 to 40 MB).
const upsertBytes = 24 << 20

type embedded struct {
	items []embed.Item
	vs    [][]float32
	p     corpus.Progress
}

// vectors embeds (from the ledger, or for nothing), writes the rows and the segment.
func (l *loader) vectors(ctx context.Context, part int, src iter.Seq2[embed.Item, error]) error {
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	writer := parquet.NewGenericWriter[VectorRow](
		file,
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}),
		parquet.CreatedBy("unweaver", "1", ""),
		parquet.PageBufferSize(256<<10),
		parquet.MaxRowsPerRowGroup(8192),
	)
	var pend []vectors.Row
	size := 0
	n := int64(0)
	flush := func() error {
		if len(pend) == 0 {
			return nil
		}
		out := make([]VectorRow, len(pend))
		for i, r := range pend {
			out[i] = VectorRow(r)
		}
		if _, err := writer.Write(out); err != nil {
			return err
		}
		var err error
		if !l.Import {
			err = l.Vectors.Upsert(ctx, l.collection, pend)
		}
		pend, size = pend[:0], 0
		return err
	}
	for e, err := range par.Ordered(ctx, 4, embed.Batches(src), func(ctx context.Context, b []embed.Item) (embedded, error) {
		vs, p, err := l.Source.Vectors(ctx, b)
		return embedded{b, vs, p}, err
	}) {
		if err != nil {
			return err
		}
		l.res.Progress.Calls.Embed += e.p.Calls.Embed // paid here only when a ledger object was lost
		l.res.Progress.Tokens.Embedding += e.p.Tokens.Embedding
		l.res.Progress.Cost += e.p.Cost
		for i, it := range e.items {
			if err := vectors.Check(e.vs[i], l.dim, it.Key); err != nil {
				return err
			}
			pend = append(pend, vectors.Row{Key: it.Key, Vector: e.vs[i]})
			size += len(it.Key) + 4*l.dim
			n++
		}
		l.res.Progress.Written.Rows += int64(len(e.items))
		l.OnProgress(l.res.Progress)
		if size >= upsertBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if err := writer.Close(); err != nil || n == 0 {
		return err
	}
	var fresh bool
	l.res.Vectors, fresh, err = file.PutSegment(ctx, l.Env.Artifacts)
	l.res.Vectors.Rows, l.res.Vectors.Part = n, part
	l.segment(fresh)
	return err
}
