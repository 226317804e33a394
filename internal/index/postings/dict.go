package postings

import (
	"encoding/binary"
	"math/bits"
)

// groupTerms is how many terms share a record of the dictionary; the first of them is written whole.
const groupTerms = 16

// group is a record of the dict_at section: where the first term of a group stands, its list, and the first block.
type group struct {
	Terms, Lists, Blocks uint64
}

// entries goes through the terms of a side, from the first of a group on.
type entries struct {
	side   *Side
	at     int // in the bytes of the dictionary
	place  int // of the next term, in its group
	shared int // bytes that the term at hand begins with as the one before does
	suffix []byte
	size   uint64 // of its list
	list   List
	start  uint64 // of the next list
	first  uint64 // block of the next list
}

func (s *Side) entriesFrom(from group) entries {
	return entries{side: s, at: int(from.Terms), start: from.Lists, first: from.Blocks}
}

// next goes to the next term; false at the end, or where the bytes are no entry.
func (e *entries) next() bool {
	postings, ok := e.read()
	if !ok {
		if postings, ok = e.readAny(); !ok {
			return false
		}
	}
	e.list = List{side: e.side, postings: postings, start: e.start, first: e.first}
	e.start += e.size
	if postings > BlockSize {
		e.first += uint64(e.list.Blocks())
	}
	e.place++
	return true
}

// read takes the numbers of an entry from words of eight bytes, as nearly all can be; false, and nothing is read, where
// the dictionary ends too soon for that or a number is too long. A look-up goes through half a group in the mean.
func (e *entries) read() (postings int, ok bool) {
	dict, at := e.side.dict, e.at
	if len(dict)-at < 8 {
		return 0, false
	}
	word := binary.LittleEndian.Uint64(dict[at:])
	if e.place%groupTerms == 0 { // the first of a group shares nothing, and does not say so
		word, at = word<<8, at-1
	}
	shared, length := int(word&0xff), int(word>>8&0xff)
	at += 2
	if (shared|length)&0x80 != 0 || len(dict)-at < length+8 {
		return 0, false
	}
	end := at + length
	word = binary.LittleEndian.Uint64(dict[end:])
	ends := ^word & 0x8080808080808080 // the last byte of each number
	width := bits.TrailingZeros64(ends) + 1
	if width > 32 {
		return 0, false
	}
	size := decodeVarint(word & (1<<width - 1))
	postings = 1
	if size&1 != 0 {
		more := bits.TrailingZeros64(ends>>width) + 1
		if more > 32 {
			return 0, false
		}
		postings = 2 + int(decodeVarint(word>>width&(1<<more-1)))
		width += more
	}
	e.shared, e.suffix, e.size, e.at = shared, dict[at:end:end], size>>1, end+width/8
	return postings, true
}

// decodeVarint returns the number that a varint of up to four bytes is.
func decodeVarint(raw uint64) uint64 {
	return raw&0x7f | raw>>1&0x3f80 | raw>>2&0x1fc000 | raw>>3&0xfe00000
}

// readAny takes the numbers of an entry byte by byte.
func (e *entries) readAny() (postings int, ok bool) {
	dict := e.side.dict
	e.shared = 0
	if e.place%groupTerms != 0 && !e.readNumber(&e.shared) {
		return 0, false
	}
	var length, size int
	if !e.readNumber(&length) || length > len(dict)-e.at {
		return 0, false
	}
	e.suffix = dict[e.at : e.at+length]
	e.at += length
	if !e.readNumber(&size) {
		return 0, false
	}
	if size&1 == 0 {
		postings = 1
	} else if !e.readNumber(&postings) {
		return 0, false
	} else {
		postings += 2
	}
	e.size = uint64(size >> 1)
	return postings, true
}

// readNumber reads a varint of 48 bits at most, so that sums of a few do not wrap.
func (e *entries) readNumber(to *int) bool {
	dict := e.side.dict
	if e.at < len(dict) && dict[e.at] < 0x80 {
		*to = int(dict[e.at])
		e.at++
		return true
	}
	value, size := binary.Uvarint(dict[min(e.at, len(dict)):])
	if size <= 0 || value >= 1<<48 {
		return false
	}
	*to = int(value)
	e.at += size
	return true
}

// firstTerm returns the first term of a group.
func (s *Side) firstTerm(of int) []byte {
	at := s.groups[of].Terms
	length, size := binary.Uvarint(s.dict[at:])
	return s.dict[at+uint64(size) : at+uint64(size)+length]
}
