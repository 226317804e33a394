package lexical

import (
	"math"

	"github.com/unweaver/unweaver/internal/index/postings"
)

// chain is the postings that all sides have of one term of a question, one side after another, by the numbers of rows.
// Searches beside each other read one.
type chain struct {
	pieces []piece
	idf    float64
}

// piece is what one side has; at least one posting.
type piece struct {
	postings.List
	lengths postings.Lengths // of the side's documents
	start   uint64           // number of its first row
	end     uint64           // no row of the last block is behind it
	blocks  int
	raise   float64 // of maxima
}

// chainsOf returns the chains of a question, in the order of its terms.
func (x *Index) chainsOf(asked question) []chain {
	held := 0
	for _, word := range asked.words {
		for i := range word.lists {
			if word.lists[i].Len() > 0 {
				held++
			}
		}
	}
	out, pieces := make([]chain, len(asked.words)), make([]piece, 0, held)
	for j, word := range asked.words {
		first := len(pieces)
		for i, list := range word.lists {
			if list.Len() == 0 {
				continue
			}
			one := piece{
				List: list, lengths: x.parts[i].Side.ShortLengths(), start: x.starts[i], end: x.starts[i+1] - 1,
				blocks: list.Blocks(), raise: x.raises[i],
			}
			if list.HasBounds() {
				one.end = one.start + uint64(list.LastDoc(one.blocks-1))
			}
			pieces = append(pieces, one)
		}
		out[j] = chain{pieces[first:], asked.idf[j]}
	}
	return out
}

// lastRow returns what no row of a block is behind.
func (p *piece) lastRow(block int) uint64 {
	if block == p.blocks-1 {
		return p.end
	}
	return p.start + uint64(p.LastDoc(block))
}

// firstRow returns what no row of a block is before.
func (p *piece) firstRow(block int) uint64 {
	if block == 0 {
		return p.start
	}
	return p.start + uint64(p.LastDoc(block-1)) + 1
}

// spot is a block of a chain.
type spot struct{ piece, block int }

func (s spot) isBefore(other spot) bool {
	return s.piece < other.piece || (s.piece == other.piece && s.block < other.block)
}

// nextSpot returns the block that follows one.
func (c *chain) nextSpot(at spot) spot {
	if at.block+1 < c.pieces[at.piece].blocks {
		return spot{at.piece, at.block + 1}
	}
	return spot{at.piece + 1, 0}
}

// list is a chain that is gone through.
type list struct {
	*chain
	cursor *postings.Cursor
	open   int // piece that the cursor has taken up; -1 = none

	piece, at int    // first block that was not gone through
	next      uint64 // the next row is not before; math.MaxUint64 = there is none
}

// loadBlock decodes a block.
func (l *list) loadBlock(at spot) *postings.Cursor {
	if l.open != at.piece {
		l.cursor.Reset(l.pieces[at.piece].List)
		l.open = at.piece
	}
	l.cursor.Load(at.block)
	return l.cursor
}

// seekRow goes to the first block that may have a row from one on. Where the rows of a block lie far apart, the next
// one is looked up: windows between them are not gone through.
func (l *list) seekRow(row uint64) {
	for at := (spot{l.piece, l.at}); at.piece < len(l.pieces); at = l.nextSpot(at) {
		piece := &l.pieces[at.piece]
		if piece.end < row {
			at.block = piece.blocks - 1 // the next one is that of another side
			continue
		}
		last := piece.lastRow(at.block)
		if last < row {
			continue
		}
		next := max(row, piece.firstRow(at.block))
		if last-next > windowDocs/8 {
			docs := l.loadBlock(at).Docs
			place := searchDoc(docs, uint32(next-piece.start))
			if place == len(docs) {
				continue
			}
			next = piece.start + uint64(docs[place])
		}
		l.piece, l.at, l.next = at.piece, at.block, next
		return
	}
	l.piece, l.at, l.next = len(l.pieces), 0, math.MaxUint64
}
