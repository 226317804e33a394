package segment

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/stream/merge"
)

// MergeIn names what is merged: some splits, or some class runs, of a generation.
type MergeIn struct {
	Artifacts  artifact.Index
	Cache      *localfile.Cache
	Spec       core.Spec
	Listed     core.Segments
	Files      *segments.Files // of Listed
	Which      []int           // splits, or class runs, by their place in the list
	OnProgress func(done int64)
}

// MergedSplit takes the place of some splits: it has their documents that count, in files of one part each, whose
// number is 0.
type MergedSplit struct {
	Split                                      core.Split
	Documents, Text, Extract, Mentions, Chunks core.Segment
	Fresh                                      int64 // files that the store did not have
}

// MergeSplits writes the documents of splits that count into one new split, with everything that belongs to them:
//
//  1. It copies the documents in the order of their keys, each with its text, its chunks and their extractions. This
//     numbers the chunks.
//  2. It copies the mentions in those chunks, in the order of their classes, with the new numbers.
//  3. It stores these files, and writes the split from them.
//  4. It reads the split back from the store, and refuses one that is not the sum of what was copied.
func MergeSplits(ctx context.Context, in MergeIn) (out MergedSplit, err error) {
	m := &splitMerge{MergeIn: in, numbers: map[int][]uint32{}}
	files := []struct {
		rows    **artifact.Rows
		segment *core.Segment
	}{
		{&m.documents, &out.Documents}, {&m.text, &out.Text}, {&m.extract, &out.Extract},
		{&m.mentions, &out.Mentions}, {&m.chunks, &out.Chunks},
	}
	for _, file := range files {
		if *file.rows, err = artifact.NewRows(); err != nil {
			return out, err
		}
		defer (*file.rows).Discard()
	}
	if err := m.copyDocuments(ctx); err != nil {
		return out, err
	}
	if err := m.copyMentions(ctx); err != nil {
		return out, err
	}
	var fresh bool
	for _, file := range files {
		if *file.segment, fresh, err = (*file.rows).StoreSegment(ctx, in.Artifacts, 0); err != nil {
			return out, err
		}
		if fresh {
			out.Fresh++
		}
	}
	made, expect, fresh, err := WriteSplit(ctx, SplitIn{
		Artifacts: in.Artifacts, Spec: in.Spec, OnProgress: in.OnProgress,
		Units: []SplitUnit{{Documents: out.Documents, Text: out.Text, Shards: []SplitShard{{
			Chunks:   in.Artifacts.SegmentKey(out.Chunks.SHA256),
			Mentions: in.Artifacts.SegmentKey(out.Mentions.SHA256),
		}}}},
	})
	if err != nil {
		return out, err
	}
	if fresh {
		out.Fresh++
	}
	made.Rows = int64(expect.Chunks)
	out.Split = core.Split{
		Segment: made, Documents: int64(expect.Documents), Chunks: int64(expect.Chunks), Classes: int64(expect.Classes),
		Texts: 1, Extracts: 1,
	}
	return out, m.compareSplit(ctx, out.Split)
}

// splitMerge is a merge of splits under way.
type splitMerge struct {
	MergeIn
	documents, text, extract, mentions, chunks *artifact.Rows
	numbers                                    map[int][]uint32 // by split: the new number of each chunk, or deadNumber
	sum                                        core.SetHash     // of what was copied: documents, chunks, mentions
	done                                       int64
}

// deadNumber stands for a chunk that does not count.
const deadNumber = math.MaxUint32

func (m *splitMerge) tickProgress() {
	if m.done++; m.done%256 == 0 {
		m.OnProgress(m.done)
	}
}

// sourceSplit is a split that is copied from. Its texts and extractions are read once, beside its documents, whose
// order they follow; a frame of them holds those of many small documents.
type sourceSplit struct {
	*splitWalk
	dead     func(document int) bool // nil: none
	numbers  []uint32
	texts    merge.Next[artifact.Row]
	text     artifact.Row // the next piece of text; without a key: the next is still to be read
	extracts merge.Next[artifact.Row]
}

// sourceDocument is a document with the split that it comes from.
type sourceDocument struct {
	standing
	from *sourceSplit
}

// copyDocuments copies the documents that count, with their texts, chunks and extractions, and numbers the chunks.
func (m *splitMerge) copyDocuments(ctx context.Context) error {
	var streams []iter.Seq2[sourceDocument, error]
	for _, number := range m.Which {
		listed, file := m.Listed.Splits[number], m.Files.Splits[number]
		walk, err := openSplit(m.Artifacts, m.Listed, number, file)
		if err != nil {
			return err
		}
		extracts, err := segments.SelectParts(m.Listed.Extract, "extractions", listed.Extract, listed.Extracts)
		if err != nil {
			return err
		}
		m.numbers[number] = slices.Repeat([]uint32{deadNumber}, len(file.Chunks))
		from := &sourceSplit{splitWalk: walk, dead: m.Files.DeadRows(listed.SHA256), numbers: m.numbers[number]}
		var stop func()
		from.texts, stop = merge.Pull(scanSegments(ctx, m.Artifacts, walk.texts))
		defer stop()
		from.extracts, stop = merge.Pull(scanSegments(ctx, m.Artifacts, extracts))
		defer stop()
		streams = append(streams, from.liveDocuments(ctx))
	}
	count := uint32(0) // chunks that were copied
	byKey := func(a, b sourceDocument) int { return strings.Compare(a.key, b.key) }
	for document, err := range merge.MergeStreams(ctx, byKey, streams...) {
		if err != nil {
			return err
		}
		row, from := document.Document, document.from
		pieces, err := m.copyText(document)
		if err != nil {
			return err
		}
		if row.Frame = -1; len(pieces) > 0 {
			row.Frame = pieces[0].frame
		}
		m.documents.Append(document.key, row.Encode())
		m.sum.Add(documentEntry(document.key, from.file.LabelsOf(document.row)))
		for i, chunk := range document.chunks {
			extraction, err := from.findExtraction(chunk.ID)
			if err != nil {
				return err
			}
			copied := rows.SplitChunk{
				Document: document.key, Digest: chunk.Digest, Ordinal: int(chunk.Ordinal), Start: int(chunk.Start),
				End: int(chunk.End), Tokens: int(chunk.Tokens), TextFrame: frameOf(pieces, int(chunk.Start)),
				ExtFrame: m.extract.Append(string(chunk.ID[:]), extraction), Windows: int(chunk.Windows),
			}
			m.chunks.Append(string(chunk.ID[:]), copied.Encode())
			m.sum.Add(chunkEntry(document.key, chunk))
			from.numbers[from.file.Documents[document.row].Chunks+uint32(i)] = count
			count++
		}
		m.tickProgress()
	}
	return nil
}

// scanSegments yields the rows of segments, one segment after the other.
func scanSegments(ctx context.Context, index artifact.Index, list []core.Segment) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		for _, segment := range list {
			for row, err := range artifact.ScanAll(ctx, index.Store, index.SegmentKey(segment.SHA256)) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// liveDocuments yields the documents of the split that count.
func (s *sourceSplit) liveDocuments(ctx context.Context) iter.Seq2[sourceDocument, error] {
	return func(yield func(sourceDocument, error) bool) {
		place := -1
		for row, err := range scanSegments(ctx, s.index, s.rows) {
			document := sourceDocument{from: s}
			if place++; err == nil {
				if s.dead != nil && place < len(s.file.Documents) && s.dead(place) {
					continue
				}
				document.standing, err = s.decodeStanding(row)
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}

// textPiece says where a piece of a document's text begins, and in which frame it was written.
type textPiece struct{ start, frame int }

// copyText copies the pieces of a document's text, and passes over those of documents that do not count.
func (m *splitMerge) copyText(document sourceDocument) (out []textPiece, err error) {
	if document.Frame < 0 {
		return nil, nil
	}
	for from := document.from; ; from.text.Key = nil {
		if from.text.Key == nil {
			var more bool
			if from.text, more, err = from.texts(); err != nil || !more {
				return out, err
			}
		}
		switch strings.Compare(string(from.text.Key), document.key) {
		case 1:
			return out, nil
		case 0:
			start, err := textseg.DecodeStart(from.text.Value)
			if err != nil {
				return nil, err
			}
			out = append(out, textPiece{start, m.text.Append(document.key, from.text.Value)})
		}
	}
}

// frameOf returns the frame of the piece that a place of a text is in.
func frameOf(pieces []textPiece, place int) int {
	after := sort.Search(len(pieces), func(i int) bool { return pieces[i].start > place })
	if after == 0 {
		return 0
	}
	return pieces[after-1].frame
}

// findExtraction returns the extraction of a chunk. It reads on from the one that it returned last.
func (s *sourceSplit) findExtraction(id core.ID) ([]byte, error) {
	for {
		row, more, err := s.extracts()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, s.toFault("its extractions do not follow its chunks: there is none of " + id.String())
		}
		if core.ID(row.Key) == id {
			return row.Value, nil
		}
	}
}

// classMention is a mention with the class that it belongs to.
type classMention struct {
	class core.ID
	rows.Mention
}

// copyMentions copies the mentions in chunks that count, in the order of classes and then of chunks.
func (m *splitMerge) copyMentions(ctx context.Context) error {
	var streams []iter.Seq2[classMention, error]
	for _, number := range m.Which {
		listed := m.Listed.Splits[number]
		parts, err := segments.SelectParts(m.Listed.Mentions, "mentions", listed.Extract, listed.Extracts)
		if err != nil {
			return err
		}
		for part, segment := range parts {
			streams = append(streams, m.liveMentions(ctx, number, part, segment))
		}
	}
	inOrder := func(a, b classMention) int {
		return cmp.Or(bytes.Compare(a.class[:], b.class[:]), cmp.Compare(a.Number, b.Number),
			cmp.Compare(a.Position, b.Position))
	}
	class, chunk := core.ID{}, int64(-1)
	for mention, err := range merge.MergeStreams(ctx, inOrder, streams...) {
		if err != nil {
			return err
		}
		m.mentions.Append(string(mention.class[:]), mention.Encode())
		if mention.class != class || mention.Number != chunk {
			class, chunk = mention.class, mention.Number
			m.sum.Add(core.Sum("mention", class.String(), mention.Chunk.String()))
		}
		m.tickProgress()
	}
	return nil
}

// liveMentions yields the mentions of a part in chunks that count, with the new numbers of these.
func (m *splitMerge) liveMentions(
	ctx context.Context, number, part int, segment core.Segment,
) iter.Seq2[classMention, error] {
	key, numbers := m.Artifacts.SegmentKey(segment.SHA256), m.numbers[number]
	first := int64(FirstChunk(m.Files.Splits[number], part))
	return func(yield func(classMention, error) bool) {
		for row, err := range artifact.ScanAll(ctx, m.Artifacts.Store, key) {
			var found classMention
			if err == nil {
				found.class = core.ID(row.Key)
				found.Mention, err = rows.DecodeMention(row.Value)
			}
			if place := first + found.Number; err == nil {
				if place < 0 || place >= int64(len(numbers)) {
					err = fault.SegmentDamage.At("read mentions", key).
						Because(fmt.Sprintf("one is by chunk %d of %d", place, len(numbers))).Advise(m.Artifacts.AdviseRebuild())
				} else if numbers[place] == deadNumber {
					continue
				} else {
					found.Number = int64(numbers[place])
				}
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// compareSplit reads the split back from the store and compares it with what was copied.
func (m *splitMerge) compareSplit(ctx context.Context, made core.Split) error {
	file, done, err := m.readSplit(ctx, made)
	if err != nil {
		return err
	}
	defer done()
	var sum core.SetHash
	for _, chunk := range file.Chunks {
		sum.Add(chunkEntry(string(file.KeyBytes(int(chunk.Document))), chunk))
	}
	for document := range file.Documents {
		sum.Add(documentEntry(string(file.KeyBytes(document)), file.LabelsOf(document)))
	}
	for class, id := range file.ClassIDs {
		for _, chunk := range file.ChunksOf(class) {
			sum.Add(core.Sum("mention", id.String(), file.Chunks[chunk].ID.String()))
		}
	}
	if sum != m.sum {
		return refusedMerge("splits", made.SHA256, m.Artifacts)
	}
	return nil
}

// documentEntry returns what is compared of a document: one without chunks has nothing else.
func documentEntry(key string, labels core.LabelSet) core.Digest {
	return core.Sum("document", key, string(labels))
}

// chunkEntry returns what is compared of a chunk.
func chunkEntry(document string, chunk split.Chunk) core.Digest {
	return core.Sum("chunk", document, chunk.ID.String(), chunk.Digest.String(), fmt.Sprint(chunk.Ordinal, chunk.Start,
		chunk.End, chunk.Tokens, chunk.Windows))
}

// refusedMerge returns the error of a merge whose result is not the sum of what was merged.
func refusedMerge(of, sha string, index artifact.Index) error {
	return fault.Internal.At("merge "+of, sha).
		Because("what came of it is not the sum of what was merged").
		Advise("report this; " + index.AdviseRebuild())
}

// FirstChunk returns the number of the first chunk of a part of a split's extractions.
func FirstChunk(file *split.File, part int) int {
	at, _ := slices.BinarySearchFunc(file.Chunks, part, func(chunk split.Chunk, part int) int {
		return cmp.Compare(int(chunk.Extract), part)
	})
	return at
}
