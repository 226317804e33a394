// Package segment writes the files that queries map into memory: splits, class runs, deletion bitmaps, and the
// statistics of the deleted rows. It also merges small splits and class runs into larger ones. It reads other segments
// alone, and the same input gives the same bytes.
package segment

import (
	"context"
	"fmt"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/index/title"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// textsPerBatch are cut into terms at once.
const textsPerBatch = 256

// SplitIn is what a split is made from.
type SplitIn struct {
	Artifacts  artifact.Index
	Spec       core.Spec
	Units      []SplitUnit // whose keys follow each other
	OnProgress func(done int64)
}

// SplitUnit is one unit of documents: a part of the split's documents and texts.
type SplitUnit struct {
	Documents, Text core.Segment
	From, To        string // keys of documents: the first that is taken, and the one behind the last; "" is the end
	Shards          []SplitShard
}

// SplitShard is a part of the split's extractions.
type SplitShard struct {
	Chunks   string // where the shard's chunks are stored
	Mentions string // and its mentions, by class, whose numbers are places among those chunks
}

// WriteSplit writes a split, says what to expect of it, and whether it was new. Its memory does not grow with the
// documents but for four bytes a chunk.
func WriteSplit(ctx context.Context, in SplitIn) (core.Segment, split.Expect, bool, error) {
	s := splitter{SplitIn: in, writer: split.NewWriter()}
	defer s.writer.Close()
	if err := s.writeChunks(ctx); err != nil {
		return core.Segment{}, split.Expect{}, false, err
	}
	if err := s.addMentions(ctx); err != nil {
		return core.Segment{}, split.Expect{}, false, err
	}
	file, err := artifact.NewFile()
	if err != nil {
		return core.Segment{}, split.Expect{}, false, err
	}
	defer file.Discard()
	expect, err := s.writer.Write(file, languageOf(in.Spec).Analyser(), in.Spec.Retrieval.Language)
	if err != nil {
		return core.Segment{}, expect, false, err
	}
	made, fresh, err := file.PutSegment(ctx, in.Artifacts)
	return made, expect, fresh, err
}

type splitter struct {
	SplitIn
	writer  *split.Writer
	done    int64
	written int64   // chunks
	bases   []int64 // number of the first chunk of each shard
}

func (s *splitter) tickProgress() {
	if s.done++; s.done%1024 == 0 {
		s.OnProgress(s.done)
	}
}

// piece is a document, or a chunk of the one before it.
type piece struct {
	document *split.Row
	chunk    split.Chunk
	text     string
}

// writeChunks writes documents and chunks: their terms are made on two cores, and added in order.
func (s *splitter) writeChunks(ctx context.Context) error {
	type cut struct {
		pieces []piece
		terms  [][]string
	}
	batches := parallel.Batch(s.streamPieces(ctx), textsPerBatch)
	for batch, err := range parallel.MapOrdered(ctx, 2, batches, func(_ context.Context, pieces []piece) (cut, error) {
		out, words := cut{pieces, make([][]string, len(pieces))}, languageOf(s.Spec)
		for i := range pieces {
			if pieces[i].document == nil {
				out.terms[i] = words.Terms(pieces[i].text)
			}
		}
		return out, nil
	}) {
		if err != nil {
			return err
		}
		for i, piece := range batch.pieces {
			if piece.document != nil {
				err = s.writer.BeginDocument(*piece.document)
			} else {
				err = s.writer.AddChunk(piece.chunk, batch.terms[i])
			}
			if err != nil {
				return err
			}
			s.tickProgress()
		}
	}
	return nil
}

// streamPieces walks the documents of all units beside the chunks, which follow the same order.
func (s *splitter) streamPieces(ctx context.Context) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		extract := 0
		for part := range s.Units {
			u := unit{splitter: s, SplitUnit: &s.Units[part], part: part, extract: extract}
			for one, err := range u.walkDocuments(ctx) {
				if !yield(one, err) || err != nil {
					return
				}
			}
			extract += len(s.Units[part].Shards)
		}
	}
}

// unit is the walk through one.
type unit struct {
	*splitter
	*SplitUnit
	part    int // of documents and texts, in the split
	extract int // part of the extractions that the first shard is
	next    func() (sharded, error, bool)
	texts   *textseg.Reader
}

// sharded is a chunk's row, and which shard of the unit it is of.
type sharded struct {
	artifact.Row
	shard int
}

func (u *unit) scanShards(ctx context.Context) iter.Seq2[sharded, error] {
	return func(yield func(sharded, error) bool) {
		for shard := range u.Shards {
			u.bases = append(u.bases, u.written)
			for row, err := range artifact.ScanAll(ctx, u.Artifacts.Store, u.Shards[shard].Chunks) {
				u.written++
				if !yield(sharded{row, shard}, err) || err != nil {
					return
				}
			}
		}
	}
}

func (u *unit) walkDocuments(ctx context.Context) iter.Seq2[piece, error] {
	return func(yield func(piece, error) bool) {
		var err error
		u.texts, err = textseg.Open(ctx, u.Artifacts.Store, u.Artifacts.SegmentKey(u.Text.SHA256))
		if err != nil {
			yield(piece{}, err)
			return
		}
		next, stop := iter.Pull2(u.scanShards(ctx))
		defer stop()
		u.next = next
		for row, err := range artifact.ScanAll(ctx, u.Artifacts.Store, u.Artifacts.SegmentKey(u.Documents.SHA256)) {
			if err != nil {
				yield(piece{}, err)
				return
			}
			key := string(row.Key)
			if key < u.From {
				continue
			}
			if u.To != "" && key >= u.To {
				break
			}
			document, err := rows.DecodeDocument(row.Value)
			if err != nil {
				yield(piece{}, err)
				return
			}
			labels, _ := stage.LabelsOf(u.Spec, key, document.Meta) // what is wrong was reported when it was read
			if !yield(piece{document: &split.Row{
				Labels: labels, Key: key, Part: uint32(u.part), Frame: uint32(row.Frame), Modified: document.Modified,
				Meta:  document.Meta,
				Title: title.ParseTitle(document.Title, u.Spec.Parity, u.Spec.Names),
			}}, nil) {
				return
			}
			for range document.Chunks {
				one, err := u.nextChunk(ctx, key, document.Title)
				if !yield(one, err) || err != nil {
					return
				}
			}
		}
		if row, err, more := next(); more {
			if err == nil {
				err = mismatchFault(fmt.Sprintf("%x", row.Key), "no document has it")
			}
			yield(piece{}, err)
		}
	}
}

// nextChunk returns the next of the unit's chunks, which a document has.
func (u *unit) nextChunk(ctx context.Context, document, title string) (piece, error) {
	row, err, more := u.next()
	if err != nil {
		return piece{}, err
	}
	if !more {
		return piece{}, mismatchFault("of "+fault.QuoteName(document), "it is missing")
	}
	chunk, err := rows.DecodeSplitChunk(row.Value)
	if err != nil {
		return piece{}, err
	}
	if chunk.Document != document {
		return piece{}, mismatchFault(fmt.Sprintf("%x", row.Key), "it is not of "+fault.QuoteName(document))
	}
	passage, err := u.texts.Slice(ctx, document, chunk.TextFrame, chunk.Start, chunk.End)
	if err != nil {
		return piece{}, err
	}
	if u.Spec.Parity {
		title = ""
	}
	return piece{text: embed.ChunkText(title, passage), chunk: split.Chunk{
		ID: core.ID(row.Key), Digest: chunk.Digest, Start: uint32(chunk.Start), End: uint32(chunk.End),
		Tokens: uint32(chunk.Tokens), Text: uint32(u.part), TextFrame: uint32(chunk.TextFrame),
		Extract: uint32(u.extract + row.shard), ExtFrame: uint32(chunk.ExtFrame), Windows: uint32(chunk.Windows),
	}}, nil
}

func mismatchFault(chunk, why string) error {
	return fault.Internal.At("write split", "chunk "+chunk).Because(why + ": chunks do not follow documents").
		Advise("report this")
}

// addMentions adds to the split which classes its chunks mention.
func (s *splitter) addMentions(ctx context.Context) error {
	shard := 0
	for _, unit := range s.Units {
		for _, one := range unit.Shards {
			if err := s.mentionsOf(ctx, one.Mentions, s.bases[shard]); err != nil {
				return err
			}
			shard++
		}
	}
	return nil
}

func (s *splitter) mentionsOf(ctx context.Context, key string, base int64) error {
	for row, err := range artifact.ScanAll(ctx, s.Artifacts.Store, key) {
		if err != nil {
			return err
		}
		mention, err := rows.DecodeMention(row.Value)
		if err != nil {
			return err
		}
		number := base + mention.Number
		if mention.Number < 0 || number >= split.MaxRows {
			return fault.Internal.At("write split", fmt.Sprintf("mention by chunk %d", mention.Number)).
				Because("there is no such number").Advise("report this")
		}
		if err := s.writer.AddMention(core.ID(row.Key), uint32(number), mention.Position); err != nil {
			return err
		}
		s.tickProgress()
	}
	return nil
}

// ClassRunIn is what a class run is made from.
type ClassRunIn struct {
	Artifacts  artifact.Index
	Spec       core.Spec
	Classes    []core.Segment // in the order of ids
	OnProgress func(done int64)
}

// ClassRun writes the run of the classes of some segments, says what to expect of it, and whether it was new.
func ClassRun(ctx context.Context, in ClassRunIn) (core.Segment, classrun.Expect, bool, error) {
	writer := classrun.NewWriter()
	defer writer.Close()
	done := int64(0)
	for row, err := range scanSegments(ctx, in.Artifacts, in.Classes) {
		if err == nil {
			err = addClass(writer, row.Value, languageOf(in.Spec))
		}
		if err != nil {
			return core.Segment{}, classrun.Expect{}, false, err
		}
		if done++; done%1024 == 0 {
			in.OnProgress(done)
		}
	}
	file, err := artifact.NewFile()
	if err != nil {
		return core.Segment{}, classrun.Expect{}, false, err
	}
	defer file.Discard()
	expect, err := writer.Write(file, languageOf(in.Spec).Analyser(), in.Spec.Retrieval.Language)
	if err != nil {
		return core.Segment{}, expect, false, err
	}
	made, fresh, err := file.PutSegment(ctx, in.Artifacts)
	return made, expect, fresh, err
}

func addClass(writer *classrun.Writer, raw []byte, words *text.Language) error {
	class, err := rows.DecodeClass(raw)
	if err != nil {
		return err
	}
	record, err := rows.DecodeRecord(class.Record)
	if err != nil {
		return err
	}
	return writer.Add(classrun.Row{
		ID: record.ID, Vector: class.Vector.Prefix(), Record: rows.RecordDigest(class.Record),
	}, names.Key(record.Name, false), record.Type, words.SurfaceWords(record.Text))
}
