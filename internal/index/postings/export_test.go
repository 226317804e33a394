package postings

import "bytes"

// Fits reports whether the dictionary, the lists and their blocks fit each other: each is where the one before
// ends, terms rise, and every list decodes to documents of the side that rise. Readers rely on it.
func (s *Side) Fits() bool {
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
	return all.start == end && all.first == uint64(len(s.blocks)) && len(s.groups) == (all.place+groupTerms-1)/groupTerms
}

// follows reports whether a term that shares so much with the one before is greater, and shares no more. The first of a
// group shares nothing, whatever it begins with.
func follows(suffix, before []byte, shared int, first bool) bool {
	if first {
		return bytes.Compare(suffix, before) > 0
	}
	return len(suffix) > 0 && (shared == len(before) || suffix[0] > before[shared])
}

// fitsList reports whether a list of so many bytes is one, and names documents of the side. What it takes beside its
// bytes is slack.
func (s *Side) fitsList(cursor *Cursor, list List, size uint64) bool {
	cursor.Reset(list)
	raw := s.lists[list.start : list.start+size]
	switch {
	case list.postings <= fewPostings:
		if cursor.decodeShort(s.lists[list.start:], list.postings) != len(raw) {
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
		record, n := &s.blocks[list.first+uint64(number)], list.countIn(number)
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

// rising reports whether the documents of the block at hand are each greater than the one before and below a limit, and
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

// SpillAt sets how many bytes are gathered in memory before they are written out; 16 MiB unless it is called.
func (b *Builder) SpillAt(bytes int) { b.limit = bytes }
