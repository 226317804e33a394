package split

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/index/title"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// MaxRows is how many documents, chunks or classes a split has, at most: they are numbered in 32 bits, and there is
// room for a bit beside them.
const MaxRows = 1 << 31

// Writer makes a split of documents that are given in the order of keys, each followed by its chunks. Its memory does
// not grow with them but for four bytes a chunk; equal input gives equal bytes. Close it always.
type Writer struct {
	limit     uint64 // of rows
	last      string // key
	document  Document
	pending   bool // document was not written yet
	documents uint64
	chunks    uint64
	err       error

	docs, keys, meta, chunk mapped.Column
	titles                  mapped.Column
	byID, mentions          extsort.Sorter
	words                   *postings.Builder
	classes                 uint64
	labels                  []core.LabelSet
	labelAt                 map[core.LabelSet]uint32 // number of each
	labelBytes              int                      // of these
}

// NewWriter makes one.
func NewWriter() *Writer { return &Writer{limit: MaxRows, words: postings.NewBuilder()} }

// Close removes temporary files.
func (w *Writer) Close() {
	for _, column := range []*mapped.Column{&w.docs, &w.keys, &w.meta, &w.chunk, &w.titles} {
		column.Close()
	}
	w.byID.Close()
	w.mentions.Close()
	w.words.Close()
}

// Row is a document as it is given.
type Row struct {
	Key      string
	Part     uint32 // see Document
	Frame    uint32
	Modified time.Time
	Meta     map[string]string
	Title    title.Named
	Labels   core.LabelSet
}

// BeginDocument begins the next document; its key is greater than those before.
func (w *Writer) BeginDocument(row Row) error {
	if w.err != nil {
		return w.err
	}
	if w.documents > 0 && row.Key <= w.last {
		w.err = fault.Internal.At("write split", fault.QuoteName(row.Key)).
			Because("it comes after " + fault.QuoteName(w.last) + ", documents are given in the order of keys")
		return w.err
	}
	if w.err = w.checkRoom("documents", w.documents); w.err != nil {
		return w.err
	}
	var raw []byte
	if len(row.Meta) > 0 {
		if raw, w.err = json.Marshal(row.Meta); w.err != nil {
			return w.err
		}
	}
	if w.err = w.endDocument(); w.err != nil {
		return w.err
	}
	var label uint32
	if label, w.err = w.numberLabels(row); w.err != nil {
		return w.err
	}
	w.document = Document{
		Label: label,
		Key:   w.document.Key + uint64(len(row.Key)), Meta: w.document.Meta + uint64(len(raw)),
		Modified: row.Modified.UnixMilli(), Part: row.Part, Frame: row.Frame, Chunks: uint32(w.chunks),
	}
	w.last, w.pending = row.Key, true
	w.documents++
	w.err = errors.Join(w.keys.Put([]byte(row.Key)), w.meta.Put(raw), mapped.PutRecord(&w.titles, row.Title))
	return w.err
}

// TooManyLabels returns the fault of a document whose set of labels is one more than an index may have.
func TooManyLabels(key string, labels core.LabelSet) error {
	return fault.TooLarge.At("number the labels of", fault.QuoteName(key)).
		Because(fmt.Sprintf("the documents of an index have at most %d different sets of labels, of %d KiB together",
			core.MaxLabelSets, core.MaxLabelBytes>>10)).
		Advise("give its labels (" + labels.Describe() + ") and those of others fewer combinations: a label for each " +
			"group of readers rather than for each reader")
}

// numberLabels returns the number of the labels of a document: 0 where everybody may read it.
func (w *Writer) numberLabels(row Row) (uint32, error) {
	if row.Labels == core.Everybody {
		return 0, nil
	}
	if number := w.labelAt[row.Labels]; number > 0 {
		return number, nil
	}
	if w.labelBytes += len(row.Labels); len(w.labels) == core.MaxLabelSets || w.labelBytes > core.MaxLabelBytes {
		return 0, TooManyLabels(row.Key, row.Labels)
	}
	if w.labelAt == nil {
		w.labelAt = map[core.LabelSet]uint32{}
	}
	w.labels = append(w.labels, row.Labels)
	w.labelAt[row.Labels] = uint32(len(w.labels))
	return w.labelAt[row.Labels], nil
}

func (w *Writer) endDocument() error {
	if !w.pending {
		return nil
	}
	w.pending = false
	return mapped.PutRecord(&w.docs, w.document)
}

// AddChunk takes the next chunk of the document at hand with the terms of its text. Document, Ordinal and Label of the
// record are set here.
func (w *Writer) AddChunk(chunk Chunk, terms []string) error {
	if w.err != nil {
		return w.err
	}
	if !w.pending {
		w.err = fault.Internal.At("write split", "a chunk").Because("no document was given before it")
		return w.err
	}
	if w.err = w.checkRoom("chunks", w.chunks); w.err != nil {
		return w.err
	}
	place := binary.BigEndian.AppendUint32(nil, uint32(w.chunks))
	chunk.Document, chunk.Ordinal, chunk.Label = uint32(w.documents-1), w.document.Count, w.document.Label
	w.byID.Add(chunk.ID[:], place)
	w.chunks++
	w.document.Count++
	w.err = errors.Join(mapped.PutRecord(&w.chunk, chunk), w.words.Add(terms))
	return w.err
}

// AddMention reports a mention of a class at a position of a chunk, which was given before. They come in any order.
func (w *Writer) AddMention(class core.ID, chunk uint32, position int) error {
	if w.err == nil && uint64(chunk) >= w.chunks {
		w.err = fault.Internal.At("write split", "class "+class.String()).
			Because(fmt.Sprintf("it is mentioned by chunk %d of %d", chunk, w.chunks))
	}
	if w.err == nil {
		key := binary.BigEndian.AppendUint32(class[:len(class):len(class)], chunk)
		w.mentions.Add(binary.BigEndian.AppendUint16(key, placeOf(position)), nil)
	}
	return w.err
}

func (w *Writer) checkRoom(of string, have uint64) error {
	if have < w.limit {
		return nil
	}
	return tooLarge(of, w.limit)
}

func tooLarge(of string, limit uint64) error {
	return fault.TooLarge.At("number the "+of+" of", "a split").
		Because(fmt.Sprintf("the limit is %d", limit)).
		Advise("split the corpus into several indexes")
}

// Write ends the split and writes the file, whose terms an analyser made for a language. It gives what Open is to
// expect.
func (w *Writer) Write(to io.Writer, analyser, language string) (Expect, error) {
	if err := errors.Join(w.err, w.endDocument()); err != nil {
		return Expect{}, err
	}
	out := mapped.NewWriter(to, Kind, Version, nil)
	if err := errors.Join(
		w.docs.WriteSection(out, "documents"), w.keys.WriteSection(out, "keys"), w.meta.WriteSection(out, "meta"),
		w.titles.WriteSection(out, title.Section), w.chunk.WriteSection(out, "chunks"),
		w.writeByID(out), w.writeClasses(out),
	); err != nil {
		return Expect{}, err
	}
	meta := Meta{Analyser: analyser, Language: language}
	var err error
	if meta.Words, err = w.words.Write(out, Side); err != nil {
		return Expect{}, err
	}
	raw, err := json.Marshal(meta)
	if err != nil {
		return Expect{}, err
	}
	out.BeginSection(metaSection)
	_, _ = out.Write(raw) // Close reports errors
	if len(w.labels) > 0 {
		if raw, err = json.Marshal(w.labels); err != nil {
			return Expect{}, err
		}
		out.BeginSection(labelSection)
		_, _ = out.Write(raw)
	}
	return Expect{
		Analyser: analyser, Documents: int(w.documents), Chunks: int(w.chunks), Classes: int(w.classes),
	}, out.Close()
}

func (w *Writer) writeByID(out *mapped.Writer) error {
	defer w.byID.Close()
	var column mapped.Column
	defer column.Close()
	for row, err := range w.byID.StreamSorted() {
		if err != nil {
			return err
		}
		if err := mapped.PutRecord(&column, binary.BigEndian.Uint32(row[1])); err != nil {
			return err
		}
	}
	return column.WriteSection(out, "by_id")
}

// writeClasses writes which chunks mention which classes, where first, and how often.
func (w *Writer) writeClasses(out *mapped.Writer) error {
	defer w.mentions.Close()
	var classes classWriter
	defer classes.close()
	for row, err := range w.mentions.StreamSorted() {
		if err != nil {
			return err
		}
		id, rest := core.ID(row[0][:len(core.ID{})]), row[0][len(core.ID{}):]
		if w.classes == 0 || id != classes.id {
			if err := errors.Join(w.checkRoom("classes", w.classes), classes.beginClass(id)); err != nil {
				return err
			}
			w.classes++
		}
		if err := classes.addChunk(binary.BigEndian.Uint32(rest), binary.BigEndian.Uint16(rest[4:])); err != nil {
			return err
		}
	}
	return classes.writeSections(out)
}

// classWriter takes mentions in the order of classes, of chunks, and of places.
type classWriter struct {
	id                         core.ID
	chunk                      uint32
	times                      uint32 // that it mentions the class; 0: none does yet
	edges                      uint32
	ids, offsets, chunks, more mapped.Column
	places                     mapped.Column
}

func (c *classWriter) close() {
	for _, column := range []*mapped.Column{&c.ids, &c.offsets, &c.chunks, &c.places, &c.more} {
		column.Close()
	}
}

func (c *classWriter) beginClass(id core.ID) error {
	err := c.endChunk()
	c.id = id
	return errors.Join(err, c.ids.Put(id[:]), mapped.PutRecord(&c.offsets, c.edges))
}

// endChunk ends a chunk of a class.
func (c *classWriter) endChunk() error {
	times := c.times
	c.times = 0
	if times > 1 {
		return mapped.PutRecord(&c.more, More{Edge: c.edges - 1, Count: times})
	}
	return nil
}

func (c *classWriter) addChunk(chunk uint32, place uint16) error {
	if c.times > 0 && chunk == c.chunk {
		c.times++
		return nil
	}
	if c.edges == math.MaxUint32 {
		return tooLarge("mentions", math.MaxUint32)
	}
	err := c.endChunk()
	c.chunk, c.times = chunk, 1
	c.edges++
	return errors.Join(err, mapped.PutRecord(&c.chunks, chunk), mapped.PutRecord(&c.places, place))
}

func (c *classWriter) writeSections(out *mapped.Writer) error {
	return errors.Join(
		c.endChunk(), mapped.PutRecord(&c.offsets, c.edges),
		c.ids.WriteSection(out, "class_ids"), c.offsets.WriteSection(out, "class_off"),
		c.chunks.WriteSection(out, "class_to"), c.places.WriteSection(out, "class_at"), c.more.WriteSection(out, "more"),
	)
}
