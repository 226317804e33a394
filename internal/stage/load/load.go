// Package load writes what queries read from the stores: vector rows and class records. It also writes the vectors and
// classes segments, from which the stores can be restored. Every key is made from content, so an activity may be
// repeated.
package load

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// In is what one activity works on. OnProgress receives rows done and what was written; nil is allowed.
type In struct {
	Env        join.Env
	Scratch    string
	Part       stage.Part
	Classes    records.Store
	Vectors    vectors.Store
	Source     embed.Source
	Import     bool   // the vectors segment is imported afterwards: rows are not written here
	Night      *Night // classes of a build that makes a part of a generation; nil: all of it is made
	OnProgress func(core.Progress)
}

// Night is what a build that makes a part of a generation finds of the rest: the classes of a partition are those alone
// that changed. Counts and hashes are by how much there is more than the parent has, or less.
type Night struct {
	Table *segments.Table // of the parent
	Gone  string          // key of the ids of the partition's classes that no mention is left of
}

// Result of one partition or shard.
type Result struct {
	Rows     core.Segment  `json:"rows"`    // classes segment; zero for chunks
	Vectors  core.Segment  `json:"vectors"` // zero when nothing was new
	Counts   core.Counts   `json:"counts"`
	Hashes   core.Hashes   `json:"hashes"`
	Progress core.Progress `json:"progress"`
	Chunks   core.Segment  `json:"chunks,omitzero"` // that the split of a shard is made from
	Ended    string        `json:"ended,omitempty"` // of the one at join.EndedKey
}

// Run loads one part: its segments, then its vectors.
func Run(ctx context.Context, in In) (Result, error) {
	l := &loader{In: in}
	l.res.Progress.Stage = "load"
	var err error
	if in.Part.Kind == stage.Classes {
		l.collection, l.dimension = in.Env.Collections.Classes, in.Env.Class.Dimension
		err = l.writeClasses(ctx)
	} else {
		l.collection, l.dimension = in.Env.Collections.Chunks, in.Env.Chunk.Dimension
		err = l.writeChunks(ctx)
	}
	if err == nil {
		err = l.writeVectors(ctx)
	}
	return l.res, err
}

type loader struct {
	In
	collection string
	dimension  int
	changed    []core.ID // In.Night: classes, in order
	res        Result
}

func (l *loader) reportProgress() { stage.ReportProgress(l.OnProgress, l.res.Progress) }

func (l *loader) countDone() {
	if l.res.Progress.Done++; l.res.Progress.Done%256 == 0 {
		l.reportProgress()
	}
}

func (l *loader) countSegment(fresh bool) {
	if fresh {
		l.res.Progress.Written.Segments++
	}
}

// recordBatch is how many records go to the store at once.
const recordBatch = 1000

// recordBatches are on their way side by side.
const recordBatches = 8

// writeClasses writes the records that the parent does not have and the classes segment.
func (l *loader) writeClasses(ctx context.Context) error {
	segment, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer segment.Discard()
	var batch []records.Record
	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(recordBatches)
	var written atomic.Int64
	defer func() {
		_ = writes.Wait()
		l.res.Progress.Written.Records += written.Load()
	}()
	flush := func() {
		full := batch
		batch = nil
		if len(full) == 0 {
			return
		}
		writes.Go(func() (err error) {
			defer parallel.CatchPanic(&err)
			if err = l.Classes.PutRecords(writing, full); err == nil {
				written.Add(int64(len(full)))
			}
			return err
		})
		l.reportProgress()
	}
	for class, err := range l.Part.StreamClasses(ctx, l.Env) {
		if err != nil {
			return err
		}
		if l.Night != nil {
			l.changed = append(l.changed, class.ID)
		}
		if !class.HasRecord {
			key := core.RecordKey(l.Env.Store, l.Env.RecordsIndex(), class.ID, rows.RecordDigest(class.Record))
			batch = append(batch, records.Record{Key: key, Value: class.Record})
			if len(batch) == recordBatch {
				if flush(); writing.Err() != nil {
					return writes.Wait()
				}
			}
		}
		segment.Append(string(class.ID[:]), l.classRow(class))
		l.res.Hashes.Text.Add(core.Sum("class", class.ID.String(), class.Final))
		l.res.Hashes.Vector.Add(core.Sum("class", class.ID.String(), class.Vector.String()))
		l.res.Counts.Classes++
		l.countDone()
	}
	flush()
	if err := writes.Wait(); err != nil {
		return err
	}
	if err := l.endParentRows(ctx); err != nil {
		return err
	}
	var fresh bool
	l.res.Rows, fresh, err = segment.StoreSegment(ctx, l.Env.Artifacts, l.Part.Number)
	l.countSegment(fresh)
	return err
}

func (l *loader) classRow(class join.Class) []byte {
	return rows.Class{
		Record: class.Record, Vector: class.Vector, Text: class.Text, Keys: class.Keys,
		Mentions: class.Mentions, Chunks: class.ChunkTotal,
	}.Encode()
}

// writeChunks writes the shard's chunks, which its split is made from.
func (l *loader) writeChunks(ctx context.Context) error {
	out, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer out.Discard()
	for chunk, err := range l.Part.StreamChunks(ctx, l.Env, l.Scratch) {
		if err != nil {
			return err
		}
		out.Append(string(chunk.ID[:]), splitRow(chunk))
		l.res.Hashes.Vector.Add(core.Sum("chunk", chunk.ID.String(), chunk.Digest.String()))
		l.res.Counts.Chunks++
		l.res.Counts.Windows += int64(len(chunk.Windows))
		l.countDone()
	}
	l.res.Chunks, _, err = out.StoreSegment(ctx, l.Env.Artifacts, l.Part.Number)
	return err
}

func splitRow(chunk join.Chunk) []byte {
	return rows.SplitChunk{
		Document:  chunk.Document,
		Digest:    chunk.Digest,
		Ordinal:   chunk.Ordinal,
		Start:     chunk.Start,
		End:       chunk.End,
		Tokens:    chunk.Tokens,
		TextFrame: chunk.Frame,
		ExtFrame:  chunk.ExtFrame,
		Windows:   len(chunk.Windows),
	}.Encode()
}
