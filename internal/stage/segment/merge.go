package segment

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
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

// MergeIn is what is merged: some splits, or some class runs, of a generation.
type MergeIn struct {
	Artifacts  artifact.Index
	Cache      *localfile.Cache
	Spec       core.Spec
	Listed     core.Segments
	Files      *segments.Files // of Listed
	Which      []int           // splits, or class runs, by their place in the list
	OnProgress func(done int64)
}

// MergedSplit is what takes the place of some splits: one of the documents of them that count, with files of one part
// each, whose number is 0.
type MergedSplit struct {
	Split                                      core.Split
	Documents, Text, Extract, Mentions, Chunks core.Segment
	Fresh                                      int64
}

// MergeSplits writes the documents of splits that count into one, with everything that is theirs. What was merged is
// read back and compared: a split that is not the sum of the others is refused.
func MergeSplits(ctx context.Context, in MergeIn) (MergedSplit, error) {
	m := &splitMerge{MergeIn: in, numbers: map[int][]uint32{}}
	defer m.close()
	for _, writer := range []**artifact.Rows{&m.documents, &m.text, &m.extract, &m.mentions, &m.chunks} {
		made, err := artifact.NewRows()
		if err != nil {
			return m.out, err
		}
		*writer = made
	}
	steps := []func(context.Context) error{m.mergeDocuments, m.mergeMentions, m.storeFiles, m.writeSplit, m.compareSplit}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return m.out, err
		}
	}
	return m.out, nil
}

type splitMerge struct {
	MergeIn
	documents, text, extract, mentions, chunks *artifact.Rows
	numbers                                    map[int][]uint32 // of each split: old number of a chunk -> new one, or dead
	count                                      uint32           // chunks
	sum                                        core.SetHash     // of documents, of chunks, and of who mentions what
	done                                       int64
	out                                        MergedSplit
}

// deadNumber is that of a chunk that does not count.
const deadNumber = math.MaxUint32

func (m *splitMerge) close() {
	for _, writer := range []*artifact.Rows{m.documents, m.text, m.extract, m.mentions, m.chunks} {
		if writer != nil {
			writer.Discard()
		}
	}
}

func (m *splitMerge) tickProgress() {
	if m.done++; m.done%256 == 0 {
		m.OnProgress(m.done)
	}
}

// moving is a document on its way from one split to another.
type moving struct {
	standing
	from *movingSplit
}

// movingSplit is a split that is being read, in order.
type movingSplit struct {
	*splitWalk
	number   int
	numbers  []uint32
	dead     func(document int) bool
	extracts func() (artifact.Row, error, bool)
	pieces   func() (artifact.Row, error, bool)
	piece    artifact.Row // that was read last; none: its key is nil
}

func (m *splitMerge) mergeDocuments(ctx context.Context) error {
	var sources []merge.Next[moving]
	for _, number := range m.Which {
		walk, err := openSplit(m.Artifacts, m.Listed, number, m.Files.Splits[number])
		if err != nil {
			return err
		}
		one := m.Listed.Splits[number]
		extracts, err := segments.Parts(m.Listed.Extract, "extractions", one.Extract, one.Extracts)
		if err != nil {
			return err
		}
		from := &movingSplit{
			splitWalk: walk, number: number, dead: m.Files.DeadRows(one.SHA256),
			numbers: make([]uint32, len(m.Files.Splits[number].Chunks)),
		}
		for i := range from.numbers {
			from.numbers[i] = deadNumber
		}
		m.numbers[number] = from.numbers
		next, stop := iter.Pull2(m.streamRows(ctx, extracts))
		defer stop()
		from.extracts = next
		next, stop = iter.Pull2(m.streamRows(ctx, walk.texts))
		defer stop()
		from.pieces = next
		source, end := merge.Pull(from.streamCounting(ctx))
		defer end()
		sources = append(sources, source)
	}
	byKey := func(a, b moving) int { return strings.Compare(a.key, b.key) }
	for document, err := range merge.Sorted(byKey, sources...) {
		if err == nil {
			err = m.moveDocument(ctx, document)
		}
		if err != nil {
			return err
		}
		m.tickProgress()
	}
	return nil
}

// streamRows gives the rows of segments, one after another.
func (m *splitMerge) streamRows(ctx context.Context, list []core.Segment) iter.Seq2[artifact.Row, error] {
	return func(yield func(artifact.Row, error) bool) {
		for _, segment := range list {
			for row, err := range artifact.ScanAll(ctx, m.Artifacts.Store, m.Artifacts.SegmentKey(segment.SHA256)) {
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

// streamCounting gives the documents of the split that count.
func (s *movingSplit) streamCounting(ctx context.Context) iter.Seq2[moving, error] {
	return func(yield func(moving, error) bool) {
		number := 0
		for part, segment := range s.rows {
			for row, err := range artifact.ScanAll(ctx, s.index.Store, s.index.SegmentKey(segment.SHA256)) {
				if err != nil {
					yield(moving{}, err)
					return
				}
				if number++; s.dead != nil && number <= len(s.file.Documents) && s.dead(number-1) {
					continue
				}
				found, err := s.decodeStanding(part, row)
				if !yield(moving{found, s}, err) || err != nil {
					return
				}
			}
		}
	}
}

// moveDocument writes a document with its text, its chunks and their extractions.
func (m *splitMerge) moveDocument(ctx context.Context, document moving) error {
	pieces, err := m.moveText(document)
	if err != nil {
		return err
	}
	first := document.from.file.Documents[document.row].Chunks
	for i, chunk := range document.chunks {
		extracted, err := document.from.findExtraction(chunk.ID)
		if err != nil {
			return err
		}
		frame := m.extract.Append(string(chunk.ID[:]), extracted)
		moved := rows.SplitChunk{
			Document: document.key, Digest: chunk.Digest, Ordinal: int(chunk.Ordinal), Start: int(chunk.Start),
			End: int(chunk.End), Tokens: int(chunk.Tokens), TextFrame: pieces.frameOf(int(chunk.Start)), ExtFrame: frame,
			Windows: int(chunk.Windows),
		}
		m.chunks.Append(string(chunk.ID[:]), moved.Encode())
		m.sum.Add(chunkEntry(document.key, chunk))
		document.from.numbers[first+uint32(i)] = m.count
		m.count++
	}
	row := document.Document
	row.Frame = pieces.firstFrame()
	m.documents.Append(document.key, row.Encode())
	m.sum.Add(documentEntry(document.key))
	return nil
}

// documentEntry is what is compared of a document: one without chunks has nothing else.
func documentEntry(key string) core.Digest { return core.Sum("document", key) }

// chunkEntry is what is compared of a chunk.
func chunkEntry(document string, chunk split.Chunk) core.Digest {
	return core.Sum("chunk", document, chunk.ID.String(), chunk.Digest.String(), fmt.Sprint(chunk.Ordinal, chunk.Start,
		chunk.End, chunk.Tokens, chunk.Windows))
}

// pieces are where the pieces of a document's text lie, in order.
type pieces []struct{ start, frame int }

// firstFrame is the frame of the first; -1 where there is no text.
func (p pieces) firstFrame() int {
	if len(p) == 0 {
		return -1
	}
	return p[0].frame
}

// frameOf is the frame of the piece that a place is in.
func (p pieces) frameOf(start int) int {
	frame := 0
	for _, piece := range p {
		if piece.start > start {
			break
		}
		frame = piece.frame
	}
	return frame
}

// moveText writes the pieces of a document's text. Texts are read once, beside the documents, whose order they follow:
// a frame holds those of many small documents.
func (m *splitMerge) moveText(document moving) (pieces, error) {
	if document.Frame < 0 {
		return nil, nil
	}
	var out pieces
	for from := document.from; ; from.piece.Key = nil {
		if from.piece.Key == nil {
			row, err, more := from.pieces()
			if err != nil || !more {
				return out, err
			}
			from.piece = row
		}
		key := string(from.piece.Key)
		switch {
		case key > document.key:
			return out, nil
		case key < document.key: // of one that does not count
			continue
		}
		start, err := textseg.Start(from.piece.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, struct{ start, frame int }{start, m.text.Append(document.key, from.piece.Value)})
	}
}

// findExtraction is that of a chunk; chunks are asked for in their order.
func (s *movingSplit) findExtraction(id core.ID) ([]byte, error) {
	for {
		row, err, more := s.extracts()
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, s.toFault("its extractions do not follow its chunks: there is none of " + id.String())
		}
		if core.ID(row.Key) == id {
			return slices.Clone(row.Value), nil
		}
	}
}

// moved is a mention with the class that it is of.
type moved struct {
	class core.ID
	rows.Mention
}

func (m *splitMerge) mergeMentions(ctx context.Context) error {
	var sources []merge.Next[moved]
	for _, number := range m.Which {
		one := m.Listed.Splits[number]
		parts, err := segments.Parts(m.Listed.Mentions, "mentions", one.Extract, one.Extracts)
		if err != nil {
			return err
		}
		for part, segment := range parts {
			next, stop := merge.Pull(m.mentionsOf(ctx, number, part, segment))
			defer stop()
			sources = append(sources, next)
		}
	}
	inOrder := func(a, b moved) int {
		return cmp.Or(bytes.Compare(a.class[:], b.class[:]), cmp.Compare(a.Number, b.Number),
			cmp.Compare(a.Position, b.Position))
	}
	class, chunk := core.ID{}, int64(-1)
	for mention, err := range merge.Sorted(inOrder, sources...) {
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

func (m *splitMerge) mentionsOf(
	ctx context.Context, number, part int, segment core.Segment,
) iter.Seq2[moved, error] {
	file, numbers := m.Files.Splits[number], m.numbers[number]
	base := int64(FirstChunk(file, part))
	return func(yield func(moved, error) bool) {
		for row, err := range artifact.ScanAll(ctx, m.Artifacts.Store, m.Artifacts.SegmentKey(segment.SHA256)) {
			var found moved
			if err == nil {
				found.class = core.ID(row.Key)
				found.Mention, err = rows.DecodeMention(row.Value)
			}
			if at := base + found.Number; err == nil {
				if at < 0 || at >= int64(len(numbers)) {
					err = fault.SegmentDamage.At("read mentions", m.Artifacts.SegmentKey(segment.SHA256)).
						Because(fmt.Sprintf("one is by chunk %d of %d", at, len(numbers))).Advise(m.Artifacts.Rebuild())
				} else if numbers[at] == deadNumber {
					continue
				} else {
					found.Number = int64(numbers[at])
				}
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// FirstChunk is the number of the first chunk of a part of a split's extractions.
func FirstChunk(file *split.File, part int) int {
	at, _ := slices.BinarySearchFunc(file.Chunks, part, func(chunk split.Chunk, part int) int {
		return cmp.Compare(int(chunk.Extract), part)
	})
	return at
}

func (m *splitMerge) storeFiles(ctx context.Context) error {
	for _, file := range []struct {
		rows *artifact.Rows
		made *core.Segment
	}{
		{m.documents, &m.out.Documents}, {m.text, &m.out.Text}, {m.extract, &m.out.Extract},
		{m.mentions, &m.out.Mentions}, {m.chunks, &m.out.Chunks},
	} {
		made, fresh, err := file.rows.Segment(ctx, m.Artifacts, 0)
		if err != nil {
			return err
		}
		*file.made = made
		if fresh {
			m.out.Fresh++
		}
	}
	return nil
}

func (m *splitMerge) writeSplit(ctx context.Context) error {
	made, expect, fresh, err := Split(ctx, SplitIn{
		Artifacts: m.Artifacts, Spec: m.Spec, OnProgress: m.OnProgress,
		Units: []SplitUnit{{Documents: m.out.Documents, Text: m.out.Text, Shards: []SplitShard{{
			Chunks:   m.Artifacts.SegmentKey(m.out.Chunks.SHA256),
			Mentions: m.Artifacts.SegmentKey(m.out.Mentions.SHA256),
		}}}},
	})
	if err != nil {
		return err
	}
	if fresh {
		m.out.Fresh++
	}
	made.Rows = int64(expect.Chunks)
	m.out.Split = core.Split{
		Segment: made, Documents: int64(expect.Documents), Chunks: int64(expect.Chunks), Classes: int64(expect.Classes),
		Texts: 1, Extracts: 1,
	}
	return nil
}

// compareSplit reads the split back from the store.
func (m *splitMerge) compareSplit(ctx context.Context) error {
	file, done, err := m.readSplit(ctx, m.out.Split)
	if err != nil {
		return err
	}
	defer done()
	var sum core.SetHash
	for _, chunk := range file.Chunks {
		sum.Add(chunkEntry(string(file.KeyBytes(int(chunk.Document))), chunk))
	}
	for document := range file.Documents {
		sum.Add(documentEntry(string(file.KeyBytes(document))))
	}
	for class, id := range file.ClassIDs {
		for _, chunk := range file.ChunksOf(class) {
			sum.Add(core.Sum("mention", id.String(), file.Chunks[chunk].ID.String()))
		}
	}
	if sum != m.sum {
		return refusedMerge("splits", m.out.Split.SHA256, m.Artifacts)
	}
	return nil
}

func refusedMerge(of, sha string, index artifact.Index) error {
	return fault.Internal.At("merge "+of, sha).
		Because("what came of it is not the sum of what was merged").
		Advise("report this; " + index.Rebuild())
}
