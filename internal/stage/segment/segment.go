// Package segment writes what queries map into memory: the live segment (DESIGN §7).
package segment

import (
	"context"
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/items"
	"github.com/unweaver/unweaver/internal/live"
	"github.com/unweaver/unweaver/internal/names"
	"github.com/unweaver/unweaver/internal/rows"
	"github.com/unweaver/unweaver/internal/sections"
	"github.com/unweaver/unweaver/internal/spill"
)

// In is what the stage works on. Beat is told of rows done.
type In struct {
	Art      artifact.Index
	Scratch  string
	Segments corpus.Segments // documents and classes are read
	Shards   int
	Beat     func(done int64)
}

// Live writes the live segment and says whether it was new.
func Live(ctx context.Context, in In) (corpus.Segment, bool, error) {
	b := &builder{In: in}
	defer b.close()
	if err := b.documents(ctx); err != nil {
		return corpus.Segment{}, false, err
	}
	if err := b.chunks(ctx); err != nil {
		return corpus.Segment{}, false, err
	}
	if err := b.classes(ctx); err != nil {
		return corpus.Segment{}, false, err
	}
	return b.write(ctx)
}

type builder struct {
	In
	docs, keys                  sections.Column
	chunk, order                sections.Column
	class                       sections.Column
	names, nameEnds, nameClass  sections.Column
	byID, byNumber, byName, byC spill.Sorter
	done                        int64
	keyEnd                      uint64
}

func (b *builder) columns() []*sections.Column {
	return []*sections.Column{&b.docs, &b.keys, &b.chunk, &b.order, &b.class, &b.names, &b.nameEnds, &b.nameClass}
}

func (b *builder) close() {
	for _, c := range b.columns() {
		c.Close()
	}
	for _, s := range []*spill.Sorter{&b.byID, &b.byNumber, &b.byName, &b.byC} {
		s.Close()
	}
}

func (b *builder) tick() {
	if b.done++; b.done%1024 == 0 {
		b.Beat(b.done)
	}
}

// record views a fixed-width record as bytes.
func record[T any](r *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)) }

// documents writes the table of documents; chunk numbers run through them.
func (b *builder) documents(ctx context.Context) error {
	number := uint32(0)
	for _, s := range b.Segments.Documents {
		for row, err := range artifact.ScanAll(ctx, b.Art.Store, b.Art.SegmentKey(s.SHA256)) {
			if err != nil {
				return err
			}
			d, err := rows.DecodeDocument(row.Value)
			if err != nil {
				return err
			}
			b.keyEnd += uint64(len(row.Key))
			rec := live.Document{Key: b.keyEnd, Part: uint32(s.Part), Frame: uint32(row.Frame), Chunks: number, Count: uint32(len(d.Chunks))}
			number += uint32(len(d.Chunks))
			if err := b.keys.Put(row.Key); err != nil {
				return err
			}
			if err := b.docs.Put(record(&rec)); err != nil {
				return err
			}
			b.tick()
		}
	}
	return nil
}

// chunks sorts the shards' chunks by id and remembers the order.
func (b *builder) chunks(ctx context.Context) error {
	doc, last := -1, ""
	known := newDocs(ctx, b.In)
	defer known.stop()
	for sh := range b.Shards {
		for row, err := range artifact.ScanAll(ctx, b.Art.Store, items.LiveKey(b.Scratch, sh)) {
			if err != nil {
				return err
			}
			c, err := rows.DecodeLiveChunk(row.Value)
			if err != nil {
				return err
			}
			if doc < 0 || c.Document != last {
				if doc, err = known.seek(c.Document); err != nil {
					return err
				}
				last = c.Document
			}
			rec := live.Chunk{ID: corpus.ID(row.Key), Digest: c.Digest, Number: uint32(c.Number), Document: uint32(doc), Ordinal: uint32(c.Ordinal),
				Start: uint32(c.Start), End: uint32(c.End), Tokens: uint32(c.Tokens), Text: uint32(c.Text), TextFrame: uint32(c.TextFrame),
				Extract: uint32(c.Extract), ExtFrame: uint32(c.ExtFrame), Windows: uint32(c.Windows)}
			b.byID.Add(row.Key, record(&rec))
			b.tick()
		}
	}
	at := uint32(0)
	for kv, err := range b.byID.Sorted() {
		if err != nil {
			return err
		}
		if err := b.chunk.Put(kv[1]); err != nil {
			return err
		}
		var rec live.Chunk
		copy(record(&rec), kv[1])
		b.byNumber.Add(binary.BigEndian.AppendUint32(nil, rec.Number), binary.LittleEndian.AppendUint32(nil, at))
		at++
		b.tick()
	}
	for kv, err := range b.byNumber.Sorted() {
		if err != nil {
			return err
		}
		if err := b.order.Put(kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// classes writes the table of classes, and their names in order.
func (b *builder) classes(ctx context.Context) error {
	place := uint32(0)
	for _, s := range b.Segments.Classes {
		for row, err := range artifact.ScanAll(ctx, b.Art.Store, b.Art.SegmentKey(s.SHA256)) {
			if err != nil {
				return err
			}
			c, err := rows.DecodeClass(row.Value)
			if err != nil {
				return err
			}
			r, err := rows.DecodeRecord(c.Record)
			if err != nil {
				return err
			}
			rec := live.Class{ID: r.ID, Vector: c.Vector, Record: rows.RecordDigest(c.Record), FirstChunk: uint32(c.FirstChunk), FirstPos: int32(c.FirstPos), Chunks: uint32(r.ChunkTotal)}
			key := names.Key(r.Name, false)
			b.byName.Add(append(append([]byte(key), 0), row.Key...), append(append([]byte(nil), record(&rec)...), binary.LittleEndian.AppendUint32(nil, place)...))
			place++
			b.tick()
		}
	}
	end, rank := uint64(0), uint32(0)
	for kv, err := range b.byName.Sorted() {
		if err != nil {
			return err
		}
		name := kv[0][:len(kv[0])-17]
		end += uint64(len(name))
		n := int(unsafe.Sizeof(live.Class{}))
		var rec live.Class
		copy(record(&rec), kv[1][:n])
		rec.Name = rank
		rank++
		b.byC.Add(rec.ID[:], record(&rec))
		if err := errors.Join(b.names.Put(name), b.nameEnds.Put(binary.LittleEndian.AppendUint64(nil, end)), b.nameClass.Put(kv[1][n:])); err != nil {
			return err
		}
	}
	for kv, err := range b.byC.Sorted() {
		if err != nil {
			return err
		}
		if err := b.class.Put(kv[1]); err != nil {
			return err
		}
		b.tick()
	}
	return nil
}

func (b *builder) write(ctx context.Context) (corpus.Segment, bool, error) {
	f, err := artifact.NewFile()
	if err != nil {
		return corpus.Segment{}, false, err
	}
	defer f.Discard()
	w := sections.NewWriter(f, live.Kind, live.Version, nil)
	for i, name := range []string{"documents", "keys", "chunks", "order", "classes", "names", "name_ends", "name_class"} {
		w.Section(name)
		if err := b.columns()[i].CopyTo(w); err != nil {
			return corpus.Segment{}, false, err
		}
	}
	if err := w.Close(); err != nil {
		return corpus.Segment{}, false, err
	}
	return f.PutSegment(ctx, b.Art)
}
