package segments

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	// documentsAhead is how many segments of one split are fetched at once, so that a generation of hundreds is not read
	// one request after another; a segment of one unit of work is mostly below documentsWhole.
	documentsAhead = 8

	// documentsWhole is how large a segment may be that is fetched whole, ahead of its turn. Larger ones are read as they
	// are walked, with one frame in memory.
	documentsWhole = 2 << 20
)

// StreamDocuments gives the rows of the documents segments of a generation in the order of keys, those alone that
// count: dead reports a split which of its documents do not, nil of all none. Rows are valid until the next one.
func StreamDocuments(
	ctx context.Context, index artifact.Index, listed core.Segments, dead *Files,
) iter.Seq2[artifact.Row, error] {
	streams := make([]iter.Seq2[artifact.Row, error], len(listed.Splits))
	for i, one := range listed.Splits {
		streams[i] = splitDocuments(ctx, index, listed, one, dead.DeadRows(one.SHA256))
	}
	return merge.MergeStreams(ctx, artifact.Row.CompareKeys, streams...)
}

// splitDocuments gives those of one split.
func splitDocuments(
	ctx context.Context, index artifact.Index, listed core.Segments, one core.Split, dead func(row int) bool,
) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		parts, err := SelectParts(listed.Documents, "documents", one.Text, one.Texts)
		if err != nil {
			yield(artifact.Row{}, err)
			return
		}
		number := 0
		for row, err := range rowsOf(ctx, index, parts) {
			if err == nil && dead != nil && number < int(one.Documents) && dead(number) {
				number++
				continue
			}
			number++
			if !yield(row, err) || err != nil {
				return
			}
		}
		if number != int(one.Documents) {
			yield(artifact.Row{}, fault.SegmentDamage.At("read documents of split", index.SegmentKey(one.SHA256)).
				Because(fmt.Sprintf("they are %d, the manifest says %d", number, one.Documents)).
				Advise("publish another generation, or rebuild the index"))
		}
	}
}

// SelectParts returns the segments of a list with the given numbers, in order: the files of one split or of one class
// run.
func SelectParts(list []core.Segment, kind string, first, count int) ([]core.Segment, error) {
	from := slices.IndexFunc(list, func(segment core.Segment) bool { return segment.Part == first })
	if count == 0 {
		return nil, nil
	}
	if from < 0 || from+count > len(list) || list[from+count-1].Part != first+count-1 {
		return nil, notListed("find segments of "+kind, fmt.Sprintf("parts %d to %d", first, first+count-1),
			"the manifest does not list them")
	}
	return list[from : from+count], nil
}

// rowsOf gives the rows of segments, one after another.
func rowsOf(ctx context.Context, index artifact.Index, list []core.Segment) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		open := func(ctx context.Context, segment core.Segment) (iter.Seq2[artifact.Row, error], error) {
			return openSegment(ctx, index, segment)
		}
		for segment, err := range parallel.MapOrdered(ctx, documentsAhead, parallel.Items(list), open) {
			if err != nil {
				yield(artifact.Row{}, err)
				return
			}
			for row, err := range segment {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// openSegment gives the rows of one segment.
func openSegment(
	ctx context.Context, index artifact.Index, segment core.Segment,
) (iter.Seq2[artifact.Row, error], error) {
	key := index.SegmentKey(segment.SHA256)
	if segment.Bytes <= 0 || segment.Bytes > documentsWhole {
		return artifact.ScanAll(ctx, index.Store, key), nil
	}
	loaded, err := artifact.LoadOf(ctx, index.Store, key, segment.Bytes)
	switch {
	case err == nil:
		return loaded.Scan(ctx, 0, -1), nil
	case ctx.Err() != nil:
		return nil, err
	}
	return artifact.ScanAll(ctx, index.Store, key), nil // which says what is wrong with it
}
