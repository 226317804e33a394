package reduce

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"os"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/stream/scratch"
)

// fanIn is how many files are merged at once, each with its reader, its buffers and, far from the store, its
// connection. The shards of a larger generation are merged into runs first, so many at once, and those into fewer where
// they are too many themselves: what is held does not grow with the number of shards.
var fanIn = 128

// runBuffer is what of a run is read and written at once.
const runBuffer = 64 << 10

func byClass(a, b mention) int { return bytes.Compare(a.id[:], b.id[:]) }

// mergeMentions merges the partition's range of all shards; equal ids come in the order of the shards.
func mergeMentions(ctx context.Context, in In) iter.Seq2[mention, error] {
	return func(yield func(mention, error) bool) {
		if len(in.Shards) <= fanIn {
			relayMentions(mergeShards(ctx, in, in.Shards), yield)
			return
		}
		joined, err := joinShards(ctx, in)
		for err == nil && len(joined.runs) > fanIn {
			joined, err = joined.narrowRuns(ctx, in)
		}
		if err != nil {
			yield(mention{}, err)
			return
		}
		defer joined.close()
		relayMentions(joined.mergeRuns(ctx, joined.runs), yield)
	}
}

func relayMentions(source iter.Seq2[mention, error], yield func(mention, error) bool) {
	for m, err := range source {
		if !yield(m, err) || err != nil {
			return
		}
	}
}

// mergeShards merges shards that are open side by side: their number does not enter the chain of requests.
func mergeShards(ctx context.Context, in In, shards []string) iter.Seq2[mention, error] {
	return func(yield func(mention, error) bool) {
		from, to := PartitionBounds(in.Partition, in.Partitions)
		sources := make([]merge.Next[mention], len(shards))
		for i, shard := range shards {
			next, stop := merge.Pull(shardPart(ctx, in, shard, from, to))
			defer stop()
			sources[i] = next
		}
		err := parallel.Each(ctx, len(sources), openWidth, func(_ context.Context, i int) error {
			sources[i] = sources[i].Prefetch()
			return nil
		})
		if err != nil {
			yield(mention{}, err)
			return
		}
		relayMentions(merge.MergeSorted(byClass, sources...), yield)
	}
}

// joinShards merges the shards into runs, fanIn neighbours each.
func joinShards(ctx context.Context, in In) (*level, error) {
	out, err := newLevel()
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(in.Shards); from += fanIn {
		group := in.Shards[from:min(from+fanIn, len(in.Shards))]
		if err := out.addRun(mergeShards(ctx, in, group)); err != nil {
			out.close()
			return nil, err
		}
		in.OnProgress(0) // no class is done, but it goes on
	}
	return out, nil
}

// level is a temporary file of sorted runs, one behind the other, in the order of the shards.
type level struct {
	file   *os.File
	writer *bufio.Writer
	bytes  int64
	runs   []run
}

// run is the place of one.
type run struct{ from, to int64 }

func newLevel() (*level, error) {
	file, err := scratch.CreateFile()
	if err != nil {
		return nil, err
	}
	return &level{file: file, writer: bufio.NewWriterSize(file, runBuffer)}, nil
}

func (l *level) close() { _ = l.file.Close() }

func mergeFault(err error) error { return scratch.FullError("merge mentions", err) }

// addRun writes a run.
func (l *level) addRun(source iter.Seq2[mention, error]) error {
	begin := l.bytes
	var row []byte
	for m, err := range source {
		if err != nil {
			return err
		}
		value := m.Encode()
		row = append(row[:0], m.id[:]...)
		row = binary.AppendUvarint(row, uint64(len(value)))
		row = append(row, value...)
		l.bytes += int64(len(row))
		if _, err := l.writer.Write(row); err != nil {
			return mergeFault(err)
		}
	}
	if err := l.writer.Flush(); err != nil {
		return mergeFault(err)
	}
	l.runs = append(l.runs, run{begin, l.bytes})
	return nil
}

// mergeRuns reads runs back, in order.
func (l *level) mergeRuns(ctx context.Context, runs []run) iter.Seq2[mention, error] {
	sources := make([]merge.Next[mention], len(runs))
	for i, r := range runs {
		section := io.NewSectionReader(l.file, r.from, r.to-r.from)
		sources[i] = readRun(ctx, bufio.NewReaderSize(section, runBuffer))
	}
	return merge.MergeSorted(byClass, sources...)
}

// narrowRuns merges the runs into a level of fewer, and gives up this one.
func (l *level) narrowRuns(ctx context.Context, in In) (*level, error) {
	defer l.close()
	out, err := newLevel()
	if err != nil {
		return nil, err
	}
	for from := 0; from < len(l.runs); from += fanIn {
		if err := out.addRun(l.mergeRuns(ctx, l.runs[from:min(from+fanIn, len(l.runs))])); err != nil {
			out.close()
			return nil, err
		}
		in.OnProgress(0)
	}
	return out, nil
}

// readRun reads one run back.
func readRun(ctx context.Context, reader *bufio.Reader) merge.Next[mention] {
	var value []byte
	return func() (mention, bool, error) {
		var m mention
		if err := ctx.Err(); err != nil {
			return m, false, err
		}
		if _, err := io.ReadFull(reader, m.id[:]); errors.Is(err, io.EOF) {
			return m, false, nil
		} else if err != nil {
			return m, false, mergeFault(err)
		}
		size, err := binary.ReadUvarint(reader)
		if err != nil || size > 1<<30 {
			return m, false, fault.Internal.At("merge mentions of", core.ID(m.id).String()).Because("a run is torn")
		}
		if uint64(cap(value)) < size {
			value = make([]byte, size)
		}
		value = value[:size]
		if _, err := io.ReadFull(reader, value); err != nil {
			return m, false, mergeFault(err)
		}
		m.Mention, err = rows.DecodeMention(value)
		return m, true, err
	}
}
