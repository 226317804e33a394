package postings

import (
	"bytes"
	"encoding/binary"
)

// groupTerms is how many terms share a record of the dictionary; the first of them is written whole.
const groupTerms = 16

// group is a record of the dict_at section: where the first term of a group stands, its list, and the first block.
type group struct {
	Terms, Lists, Blocks uint64
}

// entries goes through the terms of a packed side, from the first of a group on.
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

func (s *Side) entries(of int) entries {
	from := s.groups[of]
	return entries{side: s, at: int(from.Terms), start: from.Lists, first: from.Blocks}
}

// next goes to the next term; false at the end, or where the bytes are no entry.
func (e *entries) next() bool {
	dict := e.side.dict
	e.shared = 0
	if e.place%groupTerms != 0 && !e.number(&e.shared) {
		return false
	}
	var length, size, postings int
	if !e.number(&length) || length > len(dict)-e.at {
		return false
	}
	e.suffix = dict[e.at : e.at+length]
	e.at += length
	if !e.number(&size) {
		return false
	}
	if size&1 == 0 {
		postings = 1
	} else if !e.number(&postings) {
		return false
	} else {
		postings += 2
	}
	e.size = uint64(size >> 1)
	e.list = List{side: e.side, postings: postings, start: e.start, first: e.first}
	e.start += e.size
	if postings > BlockSize {
		e.first += uint64(e.list.Blocks())
	}
	e.place++
	return true
}

// number reads a varint of 48 bits at most, so that sums of a few do not wrap.
func (e *entries) number(to *int) bool {
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

// leading is the first term of a group.
func (s *Side) leading(of int) []byte {
	at := s.groups[of].Terms
	length, size := binary.Uvarint(s.dict[at:])
	return s.dict[at+uint64(size) : at+uint64(size)+length]
}

// findPacked looks a term up: the last group that begins with a term that is not greater, then its terms, which are
// compared where they lie.
func (s *Side) findPacked(term string) (List, bool) {
	lo, hi := 0, len(s.groups)
	for lo < hi {
		if middle := int(uint(lo+hi) >> 1); string(s.leading(middle)) <= term {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	if lo == 0 {
		return List{}, false
	}
	all := s.entries(lo - 1)
	equal := 0 // bytes that the term before, which is less, and the one that is looked for begin with
	for range groupTerms {
		if !all.next() || all.shared < equal {
			return List{}, false // it is greater
		}
		if all.shared > equal {
			continue // it is less, as the one before
		}
		rest := term[equal:]
		same := common(all.suffix, rest)
		equal += same
		if same == len(all.suffix) && same == len(rest) {
			return all.list, true
		}
		if same == len(rest) || (same < len(all.suffix) && all.suffix[same] > rest[same]) {
			return List{}, false
		}
	}
	return List{}, false
}

// common is how many bytes two strings begin with alike.
func common(a []byte, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// fitsPacked tells whether the dictionary, the lists and their blocks fit each other: each is where the one before
// ends, terms rise, and every list decodes to documents of the side that rise. Readers rely on it.
func (s *Side) fitsPacked() bool {
	if len(s.Lengths) != s.Documents() || len(s.lists) < slack {
		return false
	}
	end := uint64(len(s.lists) - slack)
	all := entries{side: s}
	var cursor Cursor
	var term []byte
	for terms := 0; all.at < len(s.dict); terms++ {
		if of := terms / groupTerms; terms%groupTerms == 0 &&
			(of >= len(s.groups) || s.groups[of] != group{uint64(all.at), all.start, all.first}) {
			return false
		}
		if !all.next() || all.shared > len(term) || all.start > end || all.first > uint64(len(s.blocks)) ||
			all.list.postings > s.Documents() {
			return false
		}
		if terms > 0 && !follows(all.suffix, term, all.shared, terms%groupTerms == 0) {
			return false
		}
		term = append(term[:all.shared], all.suffix...)
		if !s.fitsList(&cursor, all.list, all.size) {
			return false
		}
	}
	return all.start == end && all.first == uint64(len(s.blocks)) &&
		len(s.groups) == (all.place+groupTerms-1)/groupTerms
}

// follows tells whether a term that shares so much with the one before is greater, and shares no more. The first of a
// group shares nothing, whatever it begins with.
func follows(suffix, before []byte, shared int, first bool) bool {
	if first {
		return bytes.Compare(suffix, before) > 0
	}
	return len(suffix) > 0 && (shared == len(before) || suffix[0] > before[shared])
}

// fitsList tells whether a list of so many bytes is one, and names documents of the side. What it takes beside its
// bytes is slack.
func (s *Side) fitsList(cursor *Cursor, list List, size uint64) bool {
	cursor.Reset(list)
	raw := s.lists[list.start : list.start+size]
	switch {
	case list.postings <= fewPostings:
		if cursor.short(s.lists[list.start:], list.postings) != len(raw) {
			return false
		}
		return rising(cursor, -1, s.Documents())
	case list.postings <= BlockSize:
		if len(raw) < singleHead || raw[0] > 32 || raw[1] > 8 ||
			singleHead+packedSize(list.postings, int(raw[0]))+packedSize(list.postings, int(raw[1])) != len(raw) {
			return false
		}
		cursor.Load(0)
		return rising(cursor, -1, s.Documents())
	}
	before, start := int64(-1), uint64(0)
	for number := range list.Blocks() {
		record, n := &s.blocks[list.first+uint64(number)], list.in(number)
		if record.DocBits > 32 || record.CountBits > 8 ||
			start+uint64(packedSize(n, int(record.DocBits))+packedSize(n, int(record.CountBits))) != uint64(record.End) ||
			uint64(record.End) > size {
			return false
		}
		cursor.Load(number)
		if !rising(cursor, before, s.Documents()) || cursor.Docs[n-1] != record.Last {
			return false
		}
		before, start = int64(record.Last), uint64(record.End)
	}
	return start == size
}

// rising tells whether the documents of the block at hand are each greater than the one before and below a limit, and
// whether each has a count. A difference that is too large wraps, and falls.
func rising(cursor *Cursor, before int64, limit int) bool {
	for _, doc := range cursor.Docs {
		if int64(doc) <= before {
			return false
		}
		before = int64(doc)
	}
	for _, count := range cursor.Counts() {
		if count == 0 {
			return false
		}
	}
	return before < int64(limit)
}
