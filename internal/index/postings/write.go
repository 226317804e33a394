package postings

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// listWriter writes the lists of terms, one after another, and their dictionary. A block is gathered until another
// posting follows it or the list ends, since how it is written depends on how many there are.
type listWriter struct {
	cols    *columns
	lens    []uint32
	average float64

	place  int    // of the term in its group
	term   []byte // before
	inDict uint64 // bytes of terms
	bytes  uint64 // of all lists
	blocks uint64 // of all lists

	start    uint64 // of the list at hand
	first    uint64 // block of it
	postings uint64 // of it, that were written
	last     uint32 // document of them
	docs     [BlockSize]uint32
	counts   [BlockSize]uint32
	held     int // postings of the block at hand

	out []byte
}

// addPostings takes the postings of one run: differences of documents, from 0, each with its count.
func (w *listWriter) addPostings(posts []byte) error {
	doc := uint32(0)
	for len(posts) > 0 {
		delta, n := binary.Uvarint(posts)
		doc += uint32(delta)
		if w.held == BlockSize {
			if err := w.putBlock(); err != nil {
				return err
			}
		}
		w.docs[w.held], w.counts[w.held] = doc, uint32(posts[n])
		w.held++
		posts = posts[n+1:]
	}
	return nil
}

// maxWeight returns the highest weight in the block at hand.
func (w *listWriter) maxWeight() (weight float32) {
	for i, doc := range w.docs[:w.held] {
		weight = max(weight, Weight(uint8(w.counts[i]), w.lens[doc], w.average))
	}
	return weight
}

// takeDifferences puts those between the documents of the block at hand in their place, and takes one from each count.
func (w *listWriter) takeDifferences() {
	before := ^uint32(0)
	if w.postings > 0 {
		before = w.last
	}
	for i, doc := range w.docs[:w.held] {
		w.docs[i], before = doc-before-1, doc
		w.counts[i]--
	}
}

// packBlock appends the block at hand to a head.
func (w *listWriter) packBlock(head []byte, docBits, countBits int) []byte {
	return packValues(packValues(head, w.docs[:w.held], docBits), w.counts[:w.held], countBits)
}

// putBlock writes the block at hand as one of several.
func (w *listWriter) putBlock() error {
	record := block{Last: w.docs[w.held-1], Largest: roundMax(w.maxWeight())}
	w.takeDifferences()
	docBits, countBits := bitWidth(w.docs[:w.held]), bitWidth(w.counts[:w.held])
	w.out = w.packBlock(w.out[:0], docBits, countBits)
	w.bytes += uint64(len(w.out))
	if w.bytes-w.start > math.MaxUint32 {
		return fault.TooLarge.At("write postings of", fmt.Sprintf("%d documents", len(w.lens))).
			Because("those of one term take 4 GiB").Advise("divide the corpus among several indexes")
	}
	record.End, record.DocBits, record.CountBits = uint32(w.bytes-w.start), uint8(docBits), uint8(countBits)
	w.last = record.Last
	w.postings += uint64(w.held)
	w.blocks++
	w.held = 0
	return errors.Join(w.cols.lists.Put(w.out), mapped.PutRecord(&w.cols.blocks, record))
}

// finishList ends the list, which is that of a term.
func (w *listWriter) finishList(term string) error {
	if err := w.endList(); err != nil {
		return err
	}
	w.out = w.out[:0]
	if w.place%groupTerms == 0 {
		w.term = w.term[:0]
		err := mapped.PutRecord(&w.cols.groups, group{w.inDict, w.start, w.first})
		if err != nil {
			return err
		}
	}
	shared := commonPrefix(w.term, term)
	if w.place%groupTerms != 0 {
		w.out = binary.AppendUvarint(w.out, uint64(shared))
	}
	w.out = binary.AppendUvarint(w.out, uint64(len(term)-shared))
	w.out = append(w.out, term[shared:]...)
	if size := w.bytes - w.start; w.postings == 1 {
		w.out = binary.AppendUvarint(w.out, size<<1)
	} else {
		w.out = binary.AppendUvarint(binary.AppendUvarint(w.out, size<<1|1), w.postings-2)
	}
	w.term = append(w.term[:shared], term[shared:]...)
	w.place++
	w.inDict += uint64(len(w.out))
	w.start, w.first, w.postings = w.bytes, w.blocks, 0
	return w.cols.dict.Put(w.out)
}

// endList writes what is left of a list.
func (w *listWriter) endList() error {
	if w.postings > 0 {
		return w.putBlock()
	}
	w.out = w.out[:0]
	if w.held <= fewPostings {
		w.takeDifferences()
		for i, difference := range w.docs[:w.held] {
			if count := w.counts[i] + 1; count == 1 {
				w.out = binary.AppendUvarint(w.out, uint64(difference)<<1)
			} else {
				w.out = append(binary.AppendUvarint(w.out, uint64(difference)<<1|1), byte(count))
			}
		}
	} else {
		largest := roundMax(w.maxWeight())
		w.takeDifferences()
		docBits, countBits := bitWidth(w.docs[:w.held]), bitWidth(w.counts[:w.held])
		w.out = binary.LittleEndian.AppendUint16(append(w.out, byte(docBits), byte(countBits)), largest)
		w.out = w.packBlock(w.out, docBits, countBits)
	}
	w.bytes += uint64(len(w.out))
	w.postings, w.held = uint64(w.held), 0
	return w.cols.lists.Put(w.out)
}
