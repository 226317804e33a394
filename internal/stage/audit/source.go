package audit

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// Source is where the mentions and the rows of classes lie: each segment is in the order of class ids.
type Source struct {
	Mentions []Part
	Classes  []Part
}

// Part is one segment. Dead says which of its rows do not count: of classes by the number of the row, of mentions by
// that of the chunk in the segment; nil of all none.
type Part struct {
	core.Segment
	Dead func(number int64) bool
}

type mention struct {
	class core.ID
	rows.Mention
}

// inOrder compares two mentions of a class, wherever they lie, by their order.
func inOrder(a, b mention) int {
	return cmp.Or(
		bytes.Compare(a.class[:], b.class[:]), strings.Compare(a.Document, b.Document),
		cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Position, b.Position),
	)
}

// mergeMentions gives those that count of classes in [from, to), in order.
func (s Source) mergeMentions(ctx context.Context, index artifact.Index, from, to string) iter.Seq2[mention, error] {
	streams := make([]iter.Seq2[mention, error], len(s.Mentions))
	for i, part := range s.Mentions {
		streams[i] = part.streamMentions(ctx, index, from, to)
	}
	return merge.MergeStreams(ctx, inOrder, streams...)
}

func (p Part) streamMentions(ctx context.Context, index artifact.Index, from, to string) iter.Seq2[mention, error] {
	return func(yield func(mention, error) bool) {
		for row, err := range p.streamNumbered(ctx, index, from, to) {
			var m mention
			if err == nil {
				m.class = core.ID(row.Key)
				m.Mention, err = rows.DecodeMention(row.Value)
			}
			if err == nil && p.Dead != nil && p.Dead(m.Number) {
				continue
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// mergeRows gives those of classes in [from, to) that count, in order.
func (s Source) mergeRows(ctx context.Context, index artifact.Index, from, to string) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		streams := make([]iter.Seq2[artifact.Row, error], len(s.Classes))
		for i, part := range s.Classes {
			streams[i] = part.streamClasses(ctx, index, from, to)
		}
		for row, err := range merge.MergeStreams(ctx, artifact.Row.CompareKeys, streams...) {
			if err == nil { // it is looked at after the next one is read
				row = artifact.Row{Key: slices.Clone(row.Key), Value: slices.Clone(row.Value), Frame: row.Frame}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (p Part) streamClasses(ctx context.Context, index artifact.Index, from, to string) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		for row, err := range p.streamNumbered(ctx, index, from, to) {
			if err == nil && p.Dead != nil && p.Dead(row.number) {
				continue
			}
			if !yield(row.Row, err) || err != nil {
				return
			}
		}
	}
}

// numberedRow is a row with its number in the segment.
type numberedRow struct {
	artifact.Row
	number int64
}

// streamNumbered streams the rows whose keys lie in [from, to).
func (p Part) streamNumbered(ctx context.Context, index artifact.Index, from, to string) iter.Seq2[numberedRow, error] {
	return func(yield func(numberedRow, error) bool) {
		reader, err := artifact.OpenRows(ctx, index.Store, index.SegmentKey(p.SHA256))
		if err != nil {
			yield(numberedRow{}, err)
			return
		}
		first, end := reader.FrameRange(from, to)
		number := int64(-1)
		for _, frame := range reader.Frames[:first] {
			number += frame.Rows
		}
		for row, err := range reader.Scan(ctx, first, end) {
			number++
			if err == nil && string(row.Key) < from {
				continue
			}
			if err == nil && to != "" && string(row.Key) >= to {
				return
			}
			if !yield(numberedRow{row, number}, err) || err != nil {
				return
			}
		}
	}
}
