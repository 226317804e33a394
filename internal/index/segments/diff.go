package segments

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// OpenDiffering opens of two generations what they do not share: a split or class run that both have, with the same
// dead rows, is left out of either table, which is then none of the whole generation. The caller releases both.
func OpenDiffering(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, one, other *core.Manifest,
) (a, b *Table, err error) {
	manifests, tables := []*core.Manifest{one, other}, make([]*Table, 2)
	err = parallel.Each(ctx, len(tables), len(tables), func(ctx context.Context, i int) (err error) {
		tables[i], err = openTable(ctx, cache, index, DiffSegments(manifests[i].Segments, manifests[1-i].Segments))
		return err
	})
	if err != nil {
		for _, table := range tables {
			table.Release()
		}
		return nil, nil, err
	}
	return tables[0], tables[1], nil
}

// DiffSegments returns the splits and class runs, with what is dead in them, that another generation does not have in
// the very same way.
func DiffSegments(listed, other core.Segments) core.Segments {
	dead := func(of core.Segments, sha string) string {
		for _, one := range of.Tombs {
			if one.Of == sha {
				return one.SHA256
			}
		}
		return ""
	}
	has := func(sha string) bool { return listsFile(other, sha) && dead(listed, sha) == dead(other, sha) }
	out := core.Segments{
		Splits: slices.DeleteFunc(slices.Clone(listed.Splits), func(one core.Split) bool { return has(one.SHA256) }),
		Runs:   slices.DeleteFunc(slices.Clone(listed.Runs), func(one core.Run) bool { return has(one.SHA256) }),
	}
	out.Tombs = tombsOf(out, listed.Tombs)
	return out
}

// ClassesApart yields the classes that count, but for those that count in another generation by the very same
// row, in the order of ids.
func (t *Table) ClassesApart(other *Table) iter.Seq2[ClassLeft, error] {
	return t.streamClasses(core.ID{}, []*Table{other})
}

// ChunksApart does what ClassesApart does, for chunks.
func (t *Table) ChunksApart(other *Table) iter.Seq2[ChunkLeft, error] {
	sources := make([]merge.Next[ChunkLeft], len(t.Splits))
	for number, file := range t.Splits {
		shared, at := t.findSharing(t.listed.Splits[number].SHA256, []*Table{other}), 0
		sources[number] = func() (ChunkLeft, bool, error) {
			for ; at < len(file.ByID); at++ {
				found := &file.Chunks[file.ByID[at]]
				if t.documentCounts(number, int(found.Document)) && !shared.isCounted(int(found.Document)) {
					at++
					return ChunkLeft{ID: found.ID, Chunk: chunkOf(found)}, true, nil
				}
			}
			return ChunkLeft{}, false, nil
		}
	}
	return merge.MergeSorted(func(a, b ChunkLeft) int { return bytes.Compare(a.ID[:], b.ID[:]) }, sources...)
}

// DocumentLeft is a document of a generation.
type DocumentLeft struct {
	Key string
	rows.Document
}

// DocumentsApart yields the documents that count, but for those that count in another generation by the very same
// row, in the order of keys. listed are the documents segments of the manifest; frames that hold none are not read.
func (t *Table) DocumentsApart(
	ctx context.Context, index artifact.Index, listed []core.Segment, other *Table,
) iter.Seq2[DocumentLeft, error] {
	streams := make([]iter.Seq2[DocumentLeft, error], len(t.Splits))
	for number := range t.Splits {
		streams[number] = t.documentsOf(ctx, index, listed, number, other)
	}
	return merge.MergeStreams(ctx, func(a, b DocumentLeft) int { return strings.Compare(a.Key, b.Key) }, streams...)
}

// documentsOf gives those of one split.
func (t *Table) documentsOf(
	ctx context.Context, index artifact.Index, listed []core.Segment, number int, other *Table,
) iter.Seq2[DocumentLeft, error] {
	return func(yield func(DocumentLeft, error) bool) {
		one, file := t.listed.Splits[number], t.Splits[number]
		parts, err := SelectParts(listed, "documents", one.Text, one.Texts)
		if err != nil {
			yield(DocumentLeft{}, err)
			return
		}
		shared := t.findSharing(one.SHA256, []*Table{other})
		for part, segment := range parts {
			var keys []string // of one unit's documents
			for row := range file.Documents {
				if int(file.Documents[row].Part) == part && t.documentCounts(number, row) && !shared.isCounted(row) {
					keys = append(keys, string(file.KeyBytes(row)))
				}
			}
			if len(keys) == 0 {
				continue
			}
			key := index.SegmentKey(segment.SHA256)
			found := artifact.RowsUnder(ctx, index.Store, key, segment.Bytes, slices.Values(keys))
			for document, err := range decodeDocuments(found) {
				if !yield(document, err) || err != nil {
					return
				}
			}
		}
	}
}

func decodeDocuments(stored iter.Seq2[artifact.Row, error]) iter.Seq2[DocumentLeft, error] {
	return func(yield func(DocumentLeft, error) bool) {
		for row, err := range stored {
			var document DocumentLeft
			if err == nil {
				document.Key = string(row.Key)
				document.Document, err = rows.DecodeDocument(row.Value)
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}
