package postings

import (
	"encoding/binary"
	"math"
	"slices"
)

// Lists of up to fewPostings postings are a sequence of varints, without a maximum: to decode them costs less than to
// keep one.
const fewPostings = 16

// singleHead is how many bytes stand before a list of one block: widths of documents and counts, and its maximum.
const singleHead = 4

// maxStep is the unit of stored maxima, a power of two: a weight is less than K1+1, so that 16 bits hold it.
const maxStep = 0x1p-14

// roundMax returns a maximum in units of maxStep, rounded up: a bound may be too high, never too low.
func roundMax(largest float32) uint16 { return uint16(math.Ceil(float64(largest) / maxStep)) }

// block is a record of the blocks section: one of a list that has more than one.
type block struct {
	Last      uint32 // document
	End       uint32 // of its bytes in those of the list
	Largest   uint16
	DocBits   uint8
	CountBits uint8
}

// List is the postings of one term, in blocks of BlockSize and a last one of fewer. It is a view: the zero value has
// none. A Cursor reads it.
type List struct {
	side     *Side
	postings int
	start    uint64 // of its bytes
	first    uint64 // block
}

// Len returns how many documents hold the term.
func (l List) Len() int { return l.postings }

// Blocks returns how many there are.
func (l List) Blocks() int { return (l.postings + BlockSize - 1) / BlockSize }

// countIn returns how many postings a block has.
func (l List) countIn(block int) int { return min(BlockSize, l.postings-block*BlockSize) }

// HasBounds says whether Last and Largest are there to be read: of a list of one block they are not, its postings give
// them.
func (l List) HasBounds() bool { return l.postings > BlockSize }

// LastDoc returns the last document of a block of a list that is Bounded.
func (l List) LastDoc(block int) uint32 { return l.side.blocks[l.first+uint64(block)].Last }

// MaxWeight returns at least the weight without idf of every posting in a block, by the average length of the side's
// own documents (see Raise); 0 of a list whose postings are so few that none is kept.
func (l List) MaxWeight(block int) float32 {
	switch {
	case l.postings > BlockSize:
		return float32(l.side.blocks[l.first+uint64(block)].Largest) * maxStep
	case l.postings > fewPostings:
		return float32(binary.LittleEndian.Uint16(l.side.lists[l.start+2:])) * maxStep
	}
	return 0
}

// Cursor decodes a list, a block at a time, into memory of its own: it allocates nothing. The zero value is ready for
// Reset.
type Cursor struct {
	Docs []uint32 // of the block at hand, increasing

	list      List
	block     int     // at hand; -1 = none
	counted   []uint8 // counts of the block; nil = not decoded, or once in each
	packed    []byte  // counts that were not decoded, in countBits each; 0: once in each
	countBits int
	docs      [BlockSize]uint32
	counts    [BlockSize]uint8
}

// Reset takes a list up. Nothing is decoded yet.
func (c *Cursor) Reset(list List) { c.list, c.block, c.Docs = list, -1, nil }

// Load makes a block the one at hand.
func (c *Cursor) Load(number int) {
	if number == c.block {
		return
	}
	c.block = number
	side, n := c.list.side, c.list.countIn(number)
	switch {
	case c.list.postings > BlockSize:
		raw, record := side.lists[c.list.start:], &side.blocks[c.list.first+uint64(number)]
		before := ^uint32(0)
		if number > 0 {
			former := &side.blocks[c.list.first+uint64(number)-1]
			raw, before = raw[former.End:], former.Last
		}
		c.unpackBlock(raw, n, int(record.DocBits), int(record.CountBits), before)
	case c.list.postings > fewPostings:
		raw := side.lists[c.list.start:]
		c.unpackBlock(raw[singleHead:], n, int(raw[0]), int(raw[1]), ^uint32(0))
	default:
		c.decodeShort(side.lists[c.list.start:], n)
	}
}

func (c *Cursor) unpackBlock(raw []byte, n, docBits, countBits int, before uint32) {
	unpackRising(&c.docs, raw, n, docBits, before)
	c.Docs, c.counted, c.packed, c.countBits = c.docs[:n], nil, raw[packedSize(n, docBits):], countBits
}

// Counts returns the counts of the term in each document of the block at hand, 255 = at least; nil = once in each.
func (c *Cursor) Counts() []uint8 {
	if c.counted == nil && c.countBits > 0 {
		unpackCounts(&c.counts, c.packed, len(c.Docs), c.countBits)
		c.counted = c.counts[:len(c.Docs)]
	}
	return c.counted
}

// Count returns one of them, without the others.
func (c *Cursor) Count(at int) uint8 {
	switch {
	case c.counted != nil:
		return c.counted[at]
	case c.countBits == 0:
		return 1
	}
	bit := at * c.countBits
	return 1 + uint8(binary.LittleEndian.Uint16(c.packed[bit>>3:])>>(bit&7)&(1<<c.countBits-1))
}

// decodeShort decodes a list of few postings: differences, each less one and with a bit that says whether a count
// follows. It gives how many bytes they took; 0 where they are none.
func (c *Cursor) decodeShort(raw []byte, n int) int {
	doc, at, many := ^uint32(0), 0, false
	for i := range n {
		value, size := binary.Uvarint(raw[at:])
		if size <= 0 || value>>1 > math.MaxUint32 || at+size >= len(raw) {
			return 0
		}
		at += size
		doc += 1 + uint32(value>>1)
		c.docs[i], c.counts[i] = doc, 1
		if value&1 != 0 {
			c.counts[i], many = raw[at], true
			at++
		}
	}
	c.Docs, c.counted, c.countBits = c.docs[:n], nil, 0
	if many {
		c.counted = c.counts[:n]
	}
	return at
}

// Seek says how often the term is in a document; false where it is not. Documents may be asked for in any order; those
// of one block cost its decoding once.
func (c *Cursor) Seek(doc uint32) (count uint8, held bool) {
	lo, hi := 0, c.list.Blocks()
	if hi == 0 {
		return 0, false
	}
	for last := hi - 1; lo < last; {
		if middle := int(uint(lo+last) >> 1); c.list.LastDoc(middle) < doc {
			lo = middle + 1
		} else {
			last = middle
		}
	}
	c.Load(lo)
	at, held := slices.BinarySearch(c.Docs, doc)
	if !held {
		return 0, false
	}
	return c.Count(at), true
}

// All decodes a list: documents, and how often each holds the term. It is for those who read one whole.
func (l List) All() (docs []uint32, counts []uint8) {
	var cursor Cursor
	cursor.Reset(l)
	for number := range l.Blocks() {
		cursor.Load(number)
		docs = append(docs, cursor.Docs...)
		for at := range cursor.Docs {
			counts = append(counts, cursor.Count(at))
		}
	}
	return docs, counts
}
