package postings

import "encoding/binary"

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
	postings, ok := e.readEntry()
	if !ok {
		return false
	}
	e.list = List{side: e.side, postings: postings, start: e.start, first: e.first}
	e.start += e.size
	if postings > BlockSize {
		e.first += uint64(e.list.Blocks())
	}
	e.place++
	return true
}

// readEntry takes the numbers of an entry.
func (e *entries) readEntry() (postings int, ok bool) {
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
