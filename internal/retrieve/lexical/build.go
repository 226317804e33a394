// Package lexical is the inverted index of the search segment: BM25 over the stems of chunks and of classes, with block
// maxima, mapped into memory (specs/hybrid.md §2, DESIGN §7).
//
// A side (chunks or classes) has these sections, each under its prefix:
//
//	terms      bytes of all terms in order        term_end  u64 end of each term
//	post       u64 first posting of each term, and the end        block     u64 first block of each term, and the end
//	doc        u32 of each posting, increasing in a term          tf        u8 of each posting (255 = at least)
//	max        f32 of each block of 128 postings: its largest weight without idf
//	len        u32 terms of each document
package lexical

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sort"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/mapped"
)

// Parameters of BM25.
const (
	K1 = 1.2
	B  = 0.75
)

// blockSize is how many postings share a maximum.
const blockSize = 128

// runBytes is how much is gathered in memory before it is written out.
const runBytes = 48 << 20

// Builder gathers documents, given in increasing order, and writes a side. Its memory does not grow with the corpus.
type Builder struct {
	posts map[string][]byte
	last  map[string]uint32
	size  int
	runs  []*os.File
	len   mapped.Column
	docs  uint32
	total uint64
	tf    map[string]int
	err   error
}

// NewBuilder makes one; Close it.
func NewBuilder() *Builder {
	return &Builder{posts: map[string][]byte{}, last: map[string]uint32{}, tf: map[string]int{}}
}

// Close removes temporary files.
func (b *Builder) Close() {
	b.len.Close()
	for _, f := range b.runs {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	b.runs = nil
}

// Add takes the next document's terms.
func (b *Builder) Add(terms []string) error {
	if b.err != nil {
		return b.err
	}
	doc := b.docs
	b.docs++
	b.total += uint64(len(terms))
	clear(b.tf)
	for _, t := range terms {
		b.tf[t]++
	}
	for t, n := range b.tf {
		raw, known := b.posts[t]
		if !known {
			b.size += len(t) + 48
		}
		before := len(raw)
		raw = binary.AppendUvarint(raw, uint64(doc-b.last[t]))
		raw = append(raw, byte(min(n, 255)))
		b.posts[t] = raw
		b.last[t] = doc
		b.size += len(raw) - before
	}
	if b.err = mapped.PutRecord(&b.len, uint32(len(terms))); b.err == nil && b.size > runBytes {
		b.err = b.spill()
	}
	return b.err
}

// spill writes what is gathered as a sorted run; deltas of a run begin at 0.
func (b *Builder) spill() error {
	file, err := os.CreateTemp("", "unweaver-terms-*")
	if err != nil {
		return fault.StoreFull.At("write in", os.TempDir()).Because(err).Advise("free space or set TMPDIR")
	}
	b.runs = append(b.runs, file)
	writer := bufio.NewWriterSize(file, 1<<20)
	terms := make([]string, 0, len(b.posts))
	for t := range b.posts {
		terms = append(terms, t)
	}
	sort.Strings(terms)
	var n [2 * binary.MaxVarintLen64]byte
	for _, t := range terms {
		raw := b.posts[t]
		k := binary.PutUvarint(n[:], uint64(len(t)))
		k += binary.PutUvarint(n[k:], uint64(len(raw)))
		_, _ = writer.Write(n[:k]) // Flush tells
		_, _ = writer.WriteString(t)
		_, _ = writer.Write(raw)
	}
	if err := writer.Flush(); err != nil {
		return fault.StoreFull.At("write", file.Name()).Because(err).Advise("free space or set TMPDIR")
	}
	b.posts, b.last, b.size = map[string][]byte{}, map[string]uint32{}, 0
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// runReader walks a run.
type runReader struct {
	r     *bufio.Reader
	order int
	term  string
	posts []byte
}

func (r *runReader) next() error {
	n, err := binary.ReadUvarint(r.r)
	if err != nil {
		return err
	}
	m, err := binary.ReadUvarint(r.r)
	if err != nil {
		return err
	}
	buf := make([]byte, n+m)
	if _, err := io.ReadFull(r.r, buf); err != nil {
		return err
	}
	r.term, r.posts = string(buf[:n]), buf[n:]
	return nil
}

type runHeap []*runReader

func (h runHeap) Len() int { return len(h) }
func (h runHeap) Less(i, j int) bool {
	return h[i].term < h[j].term || (h[i].term == h[j].term && h[i].order < h[j].order)
}
func (h runHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)   { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any     { o := *h; x := o[len(o)-1]; *h = o[:len(o)-1]; return x }

// Stats of a side.
type Stats struct {
	Documents uint32
	Terms     uint64 // of all documents together
}

type columns struct {
	terms, termEnd, post, block, doc, tf, max mapped.Column
}

func (c *columns) all() []*mapped.Column {
	return []*mapped.Column{&c.terms, &c.termEnd, &c.post, &c.block, &c.doc, &c.tf, &c.max}
}

// Write ends the side and writes its sections.
func (b *Builder) Write(writer *mapped.Writer, prefix string) (Stats, error) {
	st := Stats{b.docs, b.total}
	if b.err != nil {
		return st, b.err
	}
	if err := b.spill(); err != nil {
		return st, err
	}
	lens, err := b.lengths()
	if err != nil {
		return st, err
	}
	var c columns
	defer func() {
		for _, x := range c.all() {
			x.Close()
		}
	}()
	if err := b.merge(&c, lens, st); err != nil {
		return st, err
	}
	for i, name := range []string{"terms", "term_end", "post", "block", "doc", "tf", "max"} {
		writer.Section(prefix + name)
		if err := c.all()[i].CopyTo(writer); err != nil {
			return st, err
		}
	}
	writer.Section(prefix + "len")
	return st, b.len.CopyTo(writer)
}

// lengths reads the documents' lengths back: four bytes a document.
func (b *Builder) lengths() ([]uint32, error) {
	var sink lenSink
	err := b.len.CopyTo(&sink)
	return sink.out, err
}

type lenSink struct {
	out  []uint32
	rest []byte
}

func (s *lenSink) Write(raw []byte) (int, error) {
	s.rest = append(s.rest, raw...)
	for len(s.rest) >= 4 {
		s.out = append(s.out, binary.LittleEndian.Uint32(s.rest))
		s.rest = s.rest[4:]
	}
	return len(raw), nil
}

// merge joins the runs term by term.
func (b *Builder) merge(c *columns, lens []uint32, st Stats) error {
	var h runHeap
	for i, f := range b.runs {
		r := &runReader{r: bufio.NewReaderSize(f, 1<<18), order: i}
		if err := r.next(); err == nil {
			h = append(h, r)
		} else if !errors.Is(err, io.EOF) {
			return err
		}
	}
	heap.Init(&h)
	avg := Average(st)
	var end, posts, blocks uint64
	for len(h) > 0 {
		term := h[0].term
		end += uint64(len(term))
		if err := errors.Join(c.terms.Put([]byte(term)), mapped.PutRecord(&c.termEnd, end), mapped.PutRecord(&c.post, posts), mapped.PutRecord(&c.block, blocks)); err != nil {
			return err
		}
		in, most := 0, float32(0)
		for len(h) > 0 && h[0].term == term {
			reader := h[0]
			doc := uint32(0)
			for raw := reader.posts; len(raw) > 0; {
				d, n := binary.Uvarint(raw)
				doc += uint32(d)
				tf := raw[n]
				raw = raw[n+1:]
				if err := errors.Join(mapped.PutRecord(&c.doc, doc), c.tf.Put([]byte{tf})); err != nil {
					return err
				}
				posts++
				most = max(most, weight(tf, lens[doc], avg))
				if in++; in == blockSize {
					if err := mapped.PutRecord(&c.max, most); err != nil {
						return err
					}
					blocks++
					in, most = 0, 0
				}
			}
			if err := reader.next(); errors.Is(err, io.EOF) {
				heap.Pop(&h)
			} else if err != nil {
				return err
			} else {
				heap.Fix(&h, 0)
			}
		}
		if in > 0 {
			if err := mapped.PutRecord(&c.max, most); err != nil {
				return err
			}
			blocks++
		}
	}
	return errors.Join(mapped.PutRecord(&c.post, posts), mapped.PutRecord(&c.block, blocks))
}

// Average length of a side's documents.
func Average(stats Stats) float64 {
	if stats.Documents == 0 || stats.Terms == 0 {
		return 1
	}
	return float64(stats.Terms) / float64(stats.Documents)
}

// weight is BM25's factor of a term without its idf.
func weight(tf uint8, length uint32, avg float64) float32 {
	t := float64(tf)
	return float32(t * (K1 + 1) / (t + K1*(1-B+B*float64(length)/avg)))
}
