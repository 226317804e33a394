package segment

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/embedding"
	"github.com/unweaver/unweaver/internal/live"
	"github.com/unweaver/unweaver/internal/par"
	"github.com/unweaver/unweaver/internal/retrieve/lexical"
	"github.com/unweaver/unweaver/internal/rows"
	"github.com/unweaver/unweaver/internal/search"
	"github.com/unweaver/unweaver/internal/sections"
	"github.com/unweaver/unweaver/internal/spill"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/textseg"
)

// SearchIn is what the search segment is made from: other segments and nothing else, so that restore makes it again.
type SearchIn struct {
	Art      artifact.Index
	Segments corpus.Segments
	Live     *live.File
	Spec     corpus.Spec
	Beat     func(done int64)
}

// Search writes the search segment and says whether it was new.
func Search(ctx context.Context, in SearchIn) (corpus.Segment, bool, error) {
	b := &searcher{SearchIn: in, chunkSide: lexical.NewBuilder(), classSide: lexical.NewBuilder()}
	defer b.close()
	for _, f := range []func(context.Context) error{b.chunks, b.classes, b.order, b.edges, b.transpose} {
		if err := f(ctx); err != nil {
			return corpus.Segment{}, false, err
		}
	}
	return b.write(ctx)
}

type searcher struct {
	SearchIn
	chunkSide, classSide *lexical.Builder
	modified             sections.Column
	meta, metaEnd        sections.Column
	rank, place          sections.Column
	classOff, classTo    sections.Column
	chunkOff, chunkTo    sections.Column
	byChunk              spill.Sorter
	metaAt               uint64
	done                 int64
}

func (b *searcher) columns() map[string]*sections.Column {
	return map[string]*sections.Column{"modified": &b.modified, "meta": &b.meta, "meta_end": &b.metaEnd, "rank": &b.rank, "place": &b.place,
		"class_off": &b.classOff, "class_to": &b.classTo, "chunk_off": &b.chunkOff, "chunk_to": &b.chunkTo}
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
	if b.done++; b.done%1024 == 0 {
		b.Beat(b.done)
	}
}

// texts is a batch to be analysed.
const textsPerBatch = 256

// analyse adds texts to a side: terms are made on two cores, added in order.
func analyse(ctx context.Context, to *lexical.Builder, terms func(string) []string, src iter.Seq2[string, error]) error {
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
	for ts, err := range par.Ordered(ctx, 2, batches, func(_ context.Context, ss []string) ([][]string, error) {
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
	return analyse(ctx, b.chunkSide, text.Terms, func(yield func(string, error) bool) {
		readers := map[uint32]*textseg.Reader{}
		parts := map[uint32]corpus.Segment{}
		for _, s := range b.Segments.Text {
			parts[uint32(s.Part)] = s
		}
		doc := 0
		for _, s := range b.Segments.Documents {
			for row, err := range artifact.ScanAll(ctx, b.Art.Store, b.Art.SegmentKey(s.SHA256)) {
				var d rows.Document
				if err == nil {
					d, err = rows.DecodeDocument(row.Value)
				}
				if err == nil {
					err = b.document(d)
				}
				if err != nil {
					yield("", err)
					return
				}
				title := d.Title
				if b.Spec.Parity {
					title = ""
				}
				at := b.Live.Documents[doc]
				for n := range int(at.Count) {
					c := b.Live.ByNumber(int(at.Chunks) + n)
					r := readers[c.Text]
					if r == nil {
						clear(readers) // one part at a time
						if r, err = textseg.Open(ctx, b.Art.Store, b.Art.SegmentKey(parts[c.Text].SHA256)); err != nil {
							yield("", err)
							return
						}
						readers[c.Text] = r
					}
					t, err := r.Slice(ctx, string(row.Key), int(c.TextFrame), int(c.Start), int(c.End))
					if b.tick(); !yield(embedding.ChunkText(title, t), err) || err != nil {
						return
					}
				}
				doc++
			}
		}
	})
}

func (b *searcher) document(d rows.Document) error {
	var m []byte
	if len(d.Meta) > 0 {
		var err error
		if m, err = json.Marshal(d.Meta); err != nil {
			return err
		}
	}
	b.metaAt += uint64(len(m))
	return errors.Join(b.meta.Put(m), sections.PutRecord(&b.metaEnd, b.metaAt), sections.PutRecord(&b.modified, d.Modified.UnixMilli()))
}

// classes walks the classes in the order of their ids, which is their order in the live segment.
func (b *searcher) classes(ctx context.Context) error {
	place := 0
	return analyse(ctx, b.classSide, text.Surface, func(yield func(string, error) bool) {
		for _, s := range b.Segments.Classes {
			for row, err := range artifact.ScanAll(ctx, b.Art.Store, b.Art.SegmentKey(s.SHA256)) {
				var c rows.Class
				var r rows.Record
				if err == nil {
					c, err = rows.DecodeClass(row.Value)
				}
				if err == nil {
					r, err = rows.DecodeRecord(c.Record)
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
	var first, byPlace spill.Sorter
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
		if err := sections.PutRecord(&b.place, binary.BigEndian.Uint32(place)); err != nil {
			return err
		}
		byPlace.Add(append([]byte(nil), place...), binary.LittleEndian.AppendUint32(nil, rank))
		rank++
	}
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
	if err := sections.PutRecord(&b.classOff, at); err != nil {
		return err
	}
	for _, s := range b.Segments.Mentions {
		for row, err := range artifact.ScanAll(ctx, b.Art.Store, b.Art.SegmentKey(s.SHA256)) {
			if err != nil {
				return err
			}
			for place < len(b.Live.Classes) && b.Live.Classes[place].ID != corpus.ID(row.Key) {
				place++
				last = -1
				if err := sections.PutRecord(&b.classOff, at); err != nil {
					return err
				}
			}
			if place == len(b.Live.Classes) {
				return errors.New("mentions segments do not follow the live segment")
			}
			m, err := rows.DecodeMention(row.Value)
			if err != nil {
				return err
			}
			if b.tick(); m.Number == last {
				continue
			}
			last = m.Number
			at++
			if err := sections.PutRecord(&b.classTo, uint32(m.Number)); err != nil {
				return err
			}
			b.byChunk.Add(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(m.Number)), uint32(place)), nil)
		}
	}
	for range len(b.Live.Classes) - place {
		if err := sections.PutRecord(&b.classOff, at); err != nil {
			return err
		}
	}
	return nil
}

// transpose turns the edges round.
func (b *searcher) transpose(context.Context) error {
	next, at := uint32(0), uint64(0)
	if err := sections.PutRecord(&b.chunkOff, at); err != nil {
		return err
	}
	until := func(k uint32) error {
		for ; next < k; next++ {
			if err := sections.PutRecord(&b.chunkOff, at); err != nil {
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
		if err := sections.PutRecord(&b.chunkTo, binary.BigEndian.Uint32(kv[0][4:])); err != nil {
			return err
		}
	}
	return until(uint32(len(b.Live.Chunks)))
}

func (b *searcher) write(ctx context.Context) (corpus.Segment, bool, error) {
	f, err := artifact.NewFile()
	if err != nil {
		return corpus.Segment{}, false, err
	}
	defer f.Discard()
	w := sections.NewWriter(f, search.Kind, search.Version, nil)
	m := search.Meta{Analyser: text.Analyser, Language: b.Spec.Retrieval.Language}
	for _, name := range []string{"modified", "meta", "meta_end", "rank", "place", "class_off", "class_to", "chunk_off", "chunk_to"} {
		w.Section(name)
		if err := b.columns()[name].CopyTo(w); err != nil {
			return corpus.Segment{}, false, err
		}
	}
	if m.Chunks, err = b.chunkSide.Write(w, search.ChunkSide); err != nil {
		return corpus.Segment{}, false, err
	}
	if m.Classes, err = b.classSide.Write(w, search.ClassSide); err != nil {
		return corpus.Segment{}, false, err
	}
	stats, err := json.Marshal(m)
	if err != nil {
		return corpus.Segment{}, false, err
	}
	w.Section("stats")
	if _, err := w.Write(stats); err != nil {
		return corpus.Segment{}, false, err
	}
	if err := w.Close(); err != nil {
		return corpus.Segment{}, false, err
	}
	return f.PutSegment(ctx, b.Art)
}
