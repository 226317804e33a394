// Package join reads what earlier stages wrote and yields what has to be embedded and loaded: the classes of a
// partition with their final text, and the chunks of a shard with their text. It marks those that the parent generation
// already has. It finds them in the parent's segments, and never asks a store.
package join

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/text/classtext"
)

// Env is what the joins need to know about the build.
type Env struct {
	Spec        core.Spec
	Artifacts   artifact.Index
	Store       string // store id
	Family      string // the index that records are named after; empty: that of Spec
	Class       core.Fingerprint
	Chunk       core.Fingerprint
	Collections core.Collections
	Parent      *core.Manifest // nil: none
	Table       Table          // of the parent; nil: none
}

// Table says what counts in a generation, by id; see segments.Table.
type Table interface {
	FindClass(id core.ID) (segments.Class, bool)
	FindChunk(id core.ID) (segments.Chunk, bool)
}

// RecordsIndex returns the index that records are named after.
func (e Env) RecordsIndex() string { return cmp.Or(e.Family, e.Spec.Index) }

// sameClasses reports whether the parent's class vectors are in the collection that this build writes to.
func (e Env) sameClasses() bool {
	return e.Table != nil && e.Parent.Collections.Classes == e.Collections.Classes
}

func (e Env) sameChunks() bool {
	return e.Table != nil && e.Parent.Collections.Chunks == e.Collections.Chunks
}

// Class is one class of a partition.
type Class struct {
	rows.Reduced
	ID        core.ID
	Final     string // embedded and shown text, cut to the embedder's input for embedding
	Embedded  string
	Keys      []core.Digest
	Vector    core.Digest
	HasVector bool // the parent's row serves
	HasRecord bool // the parent's record serves
	Record    []byte
}

// EmbedItem returns the class's text as an embedding request.
func (c Class) EmbedItem() embed.Item {
	return embed.Item{Key: core.ClassRow(c.ID, c.Vector), Digest: c.Vector, Text: c.Embedded}
}

// pull walks a row file in key order.
type pull struct {
	next func() (artifact.Row, error, bool)
	stop func()
	row  artifact.Row
	key  string
	ok   bool
	err  error
}

func newPull(src iter.Seq2[artifact.Row, error]) *pull {
	p := &pull{}
	p.next, p.stop = iter.Pull2(src)
	p.advanceRow()
	return p
}

func (p *pull) advanceRow() {
	var err error
	p.row, err, p.ok = p.next()
	if err != nil {
		p.err, p.ok = err, false
	}
	if p.ok {
		p.key = string(p.row.Key)
	}
}

// seekKey gives the value under key, or nil; keys must not decrease.
func (p *pull) seekKey(key string) []byte {
	for p.ok && p.key < key {
		p.advanceRow()
	}
	if p.ok && p.key == key {
		return p.row.Value
	}
	return nil
}

// JoinClasses joins the reduced and the shortened rows of a partition with what the parent has of its classes.
func (e Env) JoinClasses(ctx context.Context, reduced, short string) iter.Seq2[Class, error] {
	return func(yield func(Class, error) bool) {
		shorts := newPull(artifact.ScanAll(ctx, e.Artifacts.Store, short))
		defer shorts.stop()
		fp := e.Class.Digest()
		for row, err := range artifact.ScanAll(ctx, e.Artifacts.Store, reduced) {
			if err != nil {
				yield(Class{}, err)
				return
			}
			class, err := e.decodeClass(
				string(row.Key),
				row.Value,
				shorts.seekKey(string(row.Key)),
				fp,
			)
			if err == nil {
				err = shorts.err
			}
			if !yield(class, err) || err != nil {
				return
			}
		}
	}
}

func (e Env) decodeClass(key string, reduced, short []byte, fp core.Digest) (Class, error) {
	r, err := rows.DecodeReduced(reduced)
	if err != nil {
		return Class{}, err
	}
	class := Class{Reduced: r, ID: core.ID([]byte(key))}
	text := ""
	if short != nil {
		s, err := rows.DecodeShort(short)
		if err != nil {
			return class, err
		}
		text, class.Keys = s.Text, s.Keys
	}
	class.Final = classtext.FinalText(r.Name, r.Descriptions, text, e.Spec.Parity)
	class.Embedded = embed.Fit(class.Final, e.Spec.Embedding.MaxInputTokens)
	class.Vector = embed.Digest(class.Embedded, fp)
	class.Record = rows.Record{ID: class.ID, Name: r.Name, Text: class.Final, Type: r.Type}.Encode()
	if e.Table == nil {
		return class, nil
	}
	if parent, ok := e.Table.FindClass(class.ID); ok {
		class.HasVector = e.sameClasses() && parent.Vector == class.Vector.Prefix() // its row has the very key
		class.HasRecord = parent.Record == rows.RecordDigest(class.Record)
	}
	return class, nil
}

// Chunk is one chunk of a shard.
type Chunk struct {
	rows.Chunk
	Document  string
	Text      string
	Digest    core.Digest
	Windows   []string
	ExtFrame  int
	HasVector bool
}

// EmbedItems returns the chunk's windows as embedding requests.
func (c Chunk) EmbedItems(fp core.Digest) []embed.Item {
	out := make([]embed.Item, len(c.Windows))
	for i, w := range c.Windows {
		out[i] = embed.Item{Key: core.ChunkRow(c.ID, i, c.Digest), Digest: embed.Digest(w, fp), Text: w, Window: i}
	}
	return out
}

// Shard is a range of a unit's chunks with its segments.
type Shard struct {
	Unit     int
	Rows     string // key of the unit's chunks; empty: ChunksKey
	From, To int
	Text     core.Segment
	Extract  core.Segment
}

// JoinChunks joins the chunks of a shard with their text, their extract frame and the parent.
func (e Env) JoinChunks(ctx context.Context, sh Shard, refs iter.Seq2[Ref, error]) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		texts, err := textseg.Open(ctx, e.Artifacts.Store, e.Artifacts.SegmentKey(sh.Text.SHA256))
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		frames := newPull(artifact.ScanAll(ctx, e.Artifacts.Store, e.Artifacts.SegmentKey(sh.Extract.SHA256)))
		defer frames.stop()
		fp := e.Chunk.Digest()
		for ref, err := range refs {
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			chunk := Chunk{Chunk: ref.Chunk, Document: ref.Document}
			if frames.err != nil {
				yield(chunk, frames.err)
				return
			}
			if !frames.ok || core.ID([]byte(frames.key)) != chunk.ID {
				yield(chunk, fault.SegmentDamage.At("read extract segment", e.Artifacts.SegmentKey(sh.Extract.SHA256)).
					Because(fmt.Sprintf("it does not follow the chunks of unit %d", sh.Unit)).Advise(e.Artifacts.AdviseRebuild()))
				return
			}
			chunk.ExtFrame = frames.row.Frame
			frames.advanceRow()
			if chunk.Text, err = texts.Slice(ctx, chunk.Document, chunk.Frame, chunk.Start, chunk.End); err != nil {
				yield(chunk, err)
				return
			}
			chunk.Digest = embed.ChunkDigest(e.chunkTitle(chunk.Title), chunk.Text, fp)
			chunk.Windows = embed.CutWindows(e.chunkTitle(chunk.Title), chunk.Text, e.Spec.Embedding.MaxInputTokens)
			if e.sameChunks() {
				parent, ok := e.Table.FindChunk(chunk.ID)
				chunk.HasVector = ok && parent.Digest == chunk.Digest && parent.Windows == len(chunk.Windows)
			}
			if !yield(chunk, nil) {
				return
			}
		}
	}
}

// chunkTitle returns the title that is embedded with a chunk. It is empty under parity: the reference code embeds the
// text alone.
func (e Env) chunkTitle(t string) string {
	if e.Spec.Parity {
		return ""
	}
	return t
}

// Ref is a chunk with its document's key.
type Ref struct {
	Document string
	rows.Chunk
}
