// Package segment writes what queries map into memory: the live segment, and the search
// segment. Both are made from other segments alone, and equal input gives equal bytes.
package segment

import (
	"context"
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/live"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/text/names"
)

// In is what the stage works on. OnProgress is told of rows done.
type In struct {
	Artifacts  artifact.Index
	Scratch    string
	Segments   core.Segments // documents and classes are read
	Shards     int
	Live       []string // names of the shards' files at join.LiveKey; nil: see artifact.ScratchKey
	OnProgress func(done int64)
}

// Live writes the live segment and says whether it was new.
func Live(ctx context.Context, in In) (core.Segment, bool, error) {
	b := &builder{In: in}
	defer b.close()
	if err := b.documents(ctx); err != nil {
		return core.Segment{}, false, err
	}
	if err := b.chunks(ctx); err != nil {
		return core.Segment{}, false, err
	}
	if err := b.classes(ctx); err != nil {
		return core.Segment{}, false, err
	}
	return b.write(ctx)
}

type builder struct {
	In
	docs, keys                  mapped.Column
	chunk, order                mapped.Column
	class                       mapped.Column
	names, nameEnds, nameClass  mapped.Column
	byID, byNumber, byName, byC extsort.Sorter
	done                        int64
	keyEnd                      uint64
}

func (b *builder) columns() []*mapped.Column {
	return []*mapped.Column{&b.docs, &b.keys, &b.chunk, &b.order, &b.class, &b.names, &b.nameEnds, &b.nameClass}
}

func (b *builder) close() {
	for _, c := range b.columns() {
		c.Close()
	}
	for _, s := range []*extsort.Sorter{&b.byID, &b.byNumber, &b.byName, &b.byC} {
		s.Close()
	}
}

func (b *builder) tick() {
	if b.done++; b.done%1024 == 0 {
		b.OnProgress(b.done)
	}
}

// record views a fixed-width record as bytes.
func record[T any](r *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)) }

// documents writes the table of documents; chunk numbers run through them.
func (b *builder) documents(ctx context.Context) error {
	number := uint32(0)
	for _, segment := range b.Segments.Documents {
		for row, err := range artifact.ScanAll(ctx, b.Artifacts.Store, b.Artifacts.SegmentKey(segment.SHA256)) {
			if err != nil {
				return err
			}
			document, err := rows.DecodeDocument(row.Value)
			if err != nil {
				return err
			}
			b.keyEnd += uint64(len(row.Key))
			rec := live.Document{
				Key:    b.keyEnd,
				Part:   uint32(segment.Part),
				Frame:  uint32(row.Frame),
				Chunks: number,
				Count:  uint32(len(document.Chunks)),
			}
			number += uint32(len(document.Chunks))
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
		key := join.LiveKey(b.Scratch, sh)
		if b.Live != nil {
			key = artifact.ScratchKey(key, b.Live[sh])
		}
		for row, err := range artifact.ScanAll(ctx, b.Artifacts.Store, key) {
			if err != nil {
				return err
			}
			chunk, err := rows.DecodeLiveChunk(row.Value)
			if err != nil {
				return err
			}
			if doc < 0 || chunk.Document != last {
				if doc, err = known.seek(chunk.Document); err != nil {
					return err
				}
				last = chunk.Document
			}
			rec := live.Chunk{
				ID:       core.ID(row.Key),
				Digest:   chunk.Digest,
				Number:   uint32(chunk.Number),
				Document: uint32(doc),
				Ordinal:  uint32(chunk.Ordinal),
				Start: uint32(
					chunk.Start,
				),
				End:       uint32(chunk.End),
				Tokens:    uint32(chunk.Tokens),
				Text:      uint32(chunk.Text),
				TextFrame: uint32(chunk.TextFrame),
				Extract:   uint32(chunk.Extract),
				ExtFrame:  uint32(chunk.ExtFrame),
				Windows:   uint32(chunk.Windows),
			}
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
	b.byID.Close() // a sorter holds what it sorts at once until it is closed
	for kv, err := range b.byNumber.Sorted() {
		if err != nil {
			return err
		}
		if err := b.order.Put(kv[1]); err != nil {
			return err
		}
	}
	b.byNumber.Close()
	return nil
}

// classes writes the table of classes, and their names in order.
func (b *builder) classes(ctx context.Context) error {
	place := uint32(0)
	for _, s := range b.Segments.Classes {
		for row, err := range artifact.ScanAll(ctx, b.Artifacts.Store, b.Artifacts.SegmentKey(s.SHA256)) {
			if err != nil {
				return err
			}
			class, err := rows.DecodeClass(row.Value)
			if err != nil {
				return err
			}
			r, err := rows.DecodeRecord(class.Record)
			if err != nil {
				return err
			}
			if class.First == nil || r.Listed == nil {
				return fault.Internal.At("write live segment", "class "+r.ID.String()).
					Because("its row does not say what mentions it").Advise("report this")
			}
			rec := live.Class{
				ID:         r.ID,
				Vector:     class.Vector,
				Record:     rows.RecordDigest(class.Record),
				FirstChunk: uint32(class.First.Chunk),
				FirstPos:   int32(class.First.Pos),
				Chunks:     uint32(r.Listed.ChunkTotal),
			}
			key := names.Key(r.Name, false)
			b.byName.Add(
				append(append([]byte(key), 0), row.Key...),
				append(append([]byte(nil), record(&rec)...), binary.LittleEndian.AppendUint32(nil, place)...),
			)
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
		if err := errors.Join(
			b.names.Put(name),
			b.nameEnds.Put(binary.LittleEndian.AppendUint64(nil, end)),
			b.nameClass.Put(kv[1][n:]),
		); err != nil {
			return err
		}
	}
	b.byName.Close()
	for kv, err := range b.byC.Sorted() {
		if err != nil {
			return err
		}
		if err := b.class.Put(kv[1]); err != nil {
			return err
		}
		b.tick()
	}
	b.byC.Close()
	return nil
}

func (b *builder) write(ctx context.Context) (core.Segment, bool, error) {
	file, err := artifact.NewFile()
	if err != nil {
		return core.Segment{}, false, err
	}
	defer file.Discard()
	writer := mapped.NewWriter(file, live.Kind, live.Version, nil)
	for i, name := range []string{"documents", "keys", "chunks", "order", "classes", "names", "name_ends", "name_class"} {
		writer.Section(name)
		if err := b.columns()[i].CopyTo(writer); err != nil {
			return core.Segment{}, false, err
		}
	}
	if err := writer.Close(); err != nil {
		return core.Segment{}, false, err
	}
	return file.PutSegment(ctx, b.Artifacts)
}
