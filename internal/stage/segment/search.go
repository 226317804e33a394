package segment

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/graph"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/search"
	"github.com/unweaver/unweaver/internal/index/title"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// SearchIn is what the search segment is made from: other segments and nothing else, so that restore makes it again.
type SearchIn struct {
	Artifacts  artifact.Index
	Segments   core.Segments
	Live       *live.File
	Spec       core.Spec
	OnProgress func(done int64)
}

// Search writes the search segment and says whether it was new.
func Search(ctx context.Context, in SearchIn) (core.Segment, bool, error) {
	if err := graph.Room(in.Artifacts.Name, len(in.Live.Classes), len(in.Live.Chunks)); err != nil {
		return core.Segment{}, false, err
	}
	b := &searcher{SearchIn: in, chunkSide: postings.NewBuilder(), classSide: postings.NewBuilder()}
	b.byChunk.Run = edgeBytes
	defer b.close()
	// The sides have nothing in common, and neither has the graph with them: one core is not left to wait.
	parts := []func(context.Context) error{b.chunks, b.classes, b.graph}
	if err := parallel.Each(ctx, len(parts), len(parts), func(ctx context.Context, part int) error {
		return parts[part](ctx)
	}); err != nil {
		return core.Segment{}, false, err
	}
	return b.write(ctx)
}

// edgeBytes is how much of the edges, some 260,000 of them, is sorted in memory at once, while the sides are made.
const edgeBytes = 8 << 20

// graph ranks the classes and writes the edges, both ways.
func (b *searcher) graph(ctx context.Context) error {
	for _, part := range []func(context.Context) error{b.order, b.edges, b.transpose} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

type searcher struct {
	SearchIn
	chunkSide, classSide *postings.Builder
	modified             mapped.Column
	meta, metaEnd        mapped.Column
	titles               mapped.Column
	rank, place          mapped.Column
	classOff, classTo    mapped.Column
	chunkOff, chunkTo    mapped.Column
	byChunk              extsort.Sorter
	metaAt               uint64
	ticking              sync.Mutex // of done: the parts are made side by side
	done                 int64
}

func (b *searcher) columns() map[string]*mapped.Column {
	return map[string]*mapped.Column{
		"modified":    &b.modified,
		"meta":        &b.meta,
		"meta_end":    &b.metaEnd,
		title.Section: &b.titles,
		"rank":        &b.rank,
		"place":       &b.place,
		"class_off":   &b.classOff,
		"class_to":    &b.classTo,
		"chunk_off":   &b.chunkOff,
		"chunk_to":    &b.chunkTo,
	}
}

func (b *searcher) close() {
	for _, c := range b.columns() {
		c.Close()
	}
	b.byChunk.Close()
	b.chunkSide.Close()
	b.classSide.Close()
}

func (b *searcher) tick() {
	b.ticking.Lock()
	defer b.ticking.Unlock()
	if b.done++; b.done%1024 == 0 {
		b.OnProgress(b.done)
	}
}

// texts is a batch to be analysed.
const textsPerBatch = 256

// analyse adds texts to a side: terms are made on two cores, added in order.
func analyse(
	ctx context.Context,
	to *postings.Builder,
	terms func(string) []string,
	src iter.Seq2[string, error],
) error {
	batches := func(yield func([]string, error) bool) {
		var cur []string
		for s, err := range src {
			if err != nil {
				yield(nil, err)
				return
			}
			if cur = append(cur, s); len(cur) == textsPerBatch {
				if !yield(cur, nil) {
					return
				}
				cur = nil
			}
		}
		if len(cur) > 0 {
			yield(cur, nil)
		}
	}
	for ts, err := range parallel.Ordered(ctx, 2, batches, func(_ context.Context, ss []string) ([][]string, error) {
		out := make([][]string, len(ss))
		for i, s := range ss {
			out[i] = terms(s)
		}
		return out, nil
	}) {
		if err != nil {
			return err
		}
		for _, t := range ts {
			if err := to.Add(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// chunks walks documents and their chunks in chunk order.
func (b *searcher) chunks(ctx context.Context) error {
	return analyse(ctx, b.chunkSide, language(b.Spec).Terms, func(yield func(string, error) bool) {
		readers := map[uint32]*textseg.Reader{}
		parts := map[uint32]core.Segment{}
		for _, s := range b.Segments.Text {
			parts[uint32(s.Part)] = s
		}
		doc := 0
		for _, s := range b.Segments.Documents {
			for row, err := range artifact.ScanAll(ctx, b.Artifacts.Store, b.Artifacts.SegmentKey(s.SHA256)) {
				var document rows.Document
				if err == nil {
					document, err = rows.DecodeDocument(row.Value)
				}
				if err == nil {
					err = b.document(document)
				}
				if err != nil {
					yield("", err)
					return
				}
				title := document.Title
				if b.Spec.Parity {
					title = ""
				}
				at := b.Live.Documents[doc]
				for n := range int(at.Count) {
					chunk := b.Live.ByNumber(int(at.Chunks) + n)
					reader := readers[chunk.Text]
					if reader == nil {
						clear(readers) // one part at a time
						where := b.Artifacts.SegmentKey(parts[chunk.Text].SHA256)
						if reader, err = textseg.Open(ctx, b.Artifacts.Store, where); err != nil {
							yield("", err)
							return
						}
						readers[chunk.Text] = reader
					}
					t, err := reader.Slice(
						ctx,
						string(row.Key),
						int(chunk.TextFrame),
						int(chunk.Start),
						int(chunk.End),
					)
					if b.tick(); !yield(embed.ChunkText(title, t), err) || err != nil {
						return
					}
				}
				doc++
			}
		}
	})
}

func (b *searcher) document(document rows.Document) error {
	var raw []byte
	if len(document.Meta) > 0 {
		var err error
		if raw, err = json.Marshal(document.Meta); err != nil {
			return err
		}
	}
	b.metaAt += uint64(len(raw))
	return errors.Join(
		b.meta.Put(raw),
		mapped.PutRecord(&b.metaEnd, b.metaAt),
		mapped.PutRecord(&b.titles, title.Of(document.Title, b.Spec.Parity, b.Spec.Names)),
		mapped.PutRecord(&b.modified, document.Modified.UnixMilli()),
	)
}

// classes walks the classes in the order of their ids, which is their order in the live segment.
func (b *searcher) classes(ctx context.Context) error {
	place := 0
	return analyse(ctx, b.classSide, language(b.Spec).Surface, func(yield func(string, error) bool) {
		for _, s := range b.Segments.Classes {
			for row, err := range artifact.ScanAll(ctx, b.Artifacts.Store, b.Artifacts.SegmentKey(s.SHA256)) {
				var class rows.Class
				var r rows.Record
				if err == nil {
					class, err = rows.DecodeClass(row.Value)
				}
				if err == nil {
					r, err = rows.DecodeRecord(class.Record)
				}
				if err == nil && (place >= len(b.Live.Classes) || b.Live.Classes[place].ID != r.ID) {
					err = fmt.Errorf("classes segments do not follow the live segment at class %d", place)
				}
				place++
				if b.tick(); !yield(r.Text, err) || err != nil {
					return
				}
			}
		}
	})
}

// order ranks classes by chunk order of their first mention.
func (b *searcher) order(context.Context) error {
	var first, byPlace extsort.Sorter
	defer first.Close()
	defer byPlace.Close()
	for i, c := range b.Live.Classes {
		k := binary.BigEndian.AppendUint32(nil, c.FirstChunk)
		k = binary.BigEndian.AppendUint32(k, uint32(c.FirstPos)+1<<31)
		first.Add(binary.BigEndian.AppendUint32(k, uint32(i)), nil)
	}
	rank := uint32(0)
	for kv, err := range first.Sorted() {
		if err != nil {
			return err
		}
		place := kv[0][8:]
		if err := mapped.PutRecord(&b.place, binary.BigEndian.Uint32(place)); err != nil {
			return err
		}
		byPlace.Add(append([]byte(nil), place...), binary.LittleEndian.AppendUint32(nil, rank))
		rank++
	}
	first.Close() // a sorter holds what it sorts at once until it is closed
	for kv, err := range byPlace.Sorted() {
		if err != nil {
			return err
		}
		if err := b.rank.Put(kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// edges reads which chunks mention a class: all of them, also where the class record lists only the first.
func (b *searcher) edges(ctx context.Context) error {
	place, at, last := 0, uint64(0), int64(-1)
	if err := mapped.PutRecord(&b.classOff, at); err != nil {
		return err
	}
	for _, s := range b.Segments.Mentions {
		for row, err := range artifact.ScanAll(ctx, b.Artifacts.Store, b.Artifacts.SegmentKey(s.SHA256)) {
			if err != nil {
				return err
			}
			for place < len(b.Live.Classes) && b.Live.Classes[place].ID != core.ID(row.Key) {
				place++
				last = -1
				if err := mapped.PutRecord(&b.classOff, at); err != nil {
					return err
				}
			}
			if place == len(b.Live.Classes) {
				return errors.New("mentions segments do not follow the live segment")
			}
			mention, err := rows.DecodeMention(row.Value)
			if err != nil {
				return err
			}
			if b.tick(); mention.Number == last {
				continue
			}
			last = mention.Number
			at++
			if err := mapped.PutRecord(&b.classTo, uint32(mention.Number)); err != nil {
				return err
			}
			b.byChunk.Add(
				binary.BigEndian.AppendUint32(
					binary.BigEndian.AppendUint32(nil, uint32(mention.Number)),
					uint32(place),
				),
				nil,
			)
		}
	}
	for range len(b.Live.Classes) - place {
		if err := mapped.PutRecord(&b.classOff, at); err != nil {
			return err
		}
	}
	return nil
}

// transpose turns the edges round.
func (b *searcher) transpose(context.Context) error {
	next, at := uint32(0), uint64(0)
	if err := mapped.PutRecord(&b.chunkOff, at); err != nil {
		return err
	}
	until := func(k uint32) error {
		for ; next < k; next++ {
			if err := mapped.PutRecord(&b.chunkOff, at); err != nil {
				return err
			}
		}
		return nil
	}
	for kv, err := range b.byChunk.Sorted() {
		if err != nil {
			return err
		}
		if err := until(binary.BigEndian.Uint32(kv[0])); err != nil {
			return err
		}
		at++
		if err := mapped.PutRecord(&b.chunkTo, binary.BigEndian.Uint32(kv[0][4:])); err != nil {
			return err
		}
	}
	b.byChunk.Close()
	return until(uint32(len(b.Live.Chunks)))
}

func (b *searcher) write(ctx context.Context) (core.Segment, bool, error) {
	file, err := artifact.NewFile()
	if err != nil {
		return core.Segment{}, false, err
	}
	defer file.Discard()
	writer := mapped.NewWriter(file, search.Kind, search.Version, nil)
	meta := search.Meta{Analyser: language(b.Spec).Analyser(), Language: b.Spec.Retrieval.Language}
	for _, name := range []string{
		"modified", "meta", "meta_end", title.Section, "rank", "place", "class_off", "class_to", "chunk_off", "chunk_to",
	} {
		writer.Section(name)
		if err := b.columns()[name].CopyTo(writer); err != nil {
			return core.Segment{}, false, err
		}
	}
	if meta.Chunks, err = b.chunkSide.Write(writer, search.ChunkSide); err != nil {
		return core.Segment{}, false, err
	}
	if meta.Classes, err = b.classSide.Write(writer, search.ClassSide); err != nil {
		return core.Segment{}, false, err
	}
	stats, err := json.Marshal(meta)
	if err != nil {
		return core.Segment{}, false, err
	}
	writer.Section("stats")
	if _, err := writer.Write(stats); err != nil {
		return core.Segment{}, false, err
	}
	if err := writer.Close(); err != nil {
		return core.Segment{}, false, err
	}
	return file.PutSegment(ctx, b.Artifacts)
}
