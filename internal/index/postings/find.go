package postings

import "encoding/binary"

// headBytes is how many bytes of a term are compared as one number.
const headBytes = 8

// prefixOf returns what a term begins with, as a number: where two differ, they are in the order of their terms.
func prefixOf[T string | []byte](term T) uint64 {
	var raw [headBytes]byte
	copy(raw[:], term)
	return binary.BigEndian.Uint64(raw[:])
}

// loadHeads returns the heads of the terms that groups begin with. They lie side by side in memory, 8 bytes for each
// groupTerms terms, from the first look-up on: a question looks each of its terms up in every side.
func (s *Side) loadHeads() []uint64 {
	s.headsOnce.Do(func() {
		s.heads = make([]uint64, len(s.groups))
		for i := range s.heads {
			s.heads[i] = prefixOf(s.firstTerm(i))
		}
	})
	return s.heads
}

// Finder looks the terms of a question up in one side after another. What a look-up waits for is memory that no cache
// holds: the heads of the groups, the record of a group, its terms. So all terms take each of these steps together, and
// what one waits for the others wait for at the same time. It is for one goroutine.
type Finder struct {
	terms  []string
	heads  []uint64
	at     []int   // of each term in a side: how many groups begin with a lesser or equal term
	groups []group // the last of these
	warm   byte    // what was read ahead; nothing depends on it
}

// NewFinder looks for terms.
func NewFinder(terms []string) *Finder {
	f := &Finder{
		terms: terms, heads: make([]uint64, len(terms)),
		at: make([]int, len(terms)), groups: make([]group, len(terms)),
	}
	for i, term := range terms {
		f.heads[i] = prefixOf(term)
	}
	return f
}

// AppendLists appends the postings that a side has of each term, in their order; of a term that no document holds an
// empty list.
func (f *Finder) AppendLists(side *Side, lists []List) []List {
	f.locateTerms(side.loadHeads())
	for i, at := range f.at {
		if f.at[i] = side.lastGroup(f.terms[i], f.heads[i], at); f.at[i] > 0 {
			f.groups[i] = side.groups[f.at[i]-1]
		}
	}
	for i, at := range f.at {
		if at > 0 {
			f.warm += side.dict[f.groups[i].Terms] + side.dict[min(f.groups[i].Terms+64, uint64(len(side.dict)-1))]
		}
	}
	for i, at := range f.at {
		list := List{}
		if at > 0 {
			list = side.findFrom(f.groups[i], f.terms[i])
		}
		lists = append(lists, list)
	}
	return lists
}

// locateTerms finds for each term how many heads are less than its own. All take as many steps, without a jump that
// depends on what they find.
func (f *Finder) locateTerms(heads []uint64) {
	clear(f.at)
	for left := len(heads); left > 0; {
		half := (left + 1) / 2
		for i, wanted := range f.heads {
			at := f.at[i]
			if heads[at+half-1] < wanted {
				at += half
			}
			f.at[i] = at
		}
		left -= half
	}
}

// lastGroup returns how many groups begin with a term that is not greater, where so many have a lesser head.
func (s *Side) lastGroup(term string, wanted uint64, less int) int {
	heads := s.loadHeads()
	if less == len(heads) || heads[less] != wanted {
		return less
	}
	lo, hi := less, len(heads)
	for lo < hi {
		if middle := int(uint(lo+hi) >> 1); heads[middle] == wanted && string(s.firstTerm(middle)) <= term {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	return lo
}

// Find gives the postings of a term; false when no document holds it.
func (s *Side) Find(term string) (List, bool) {
	list := NewFinder([]string{term}).AppendLists(s, nil)[0]
	return list, list.Len() > 0
}

// findFrom looks for a term in its group; the list is empty where it is not there. Terms are compared where they lie.
func (s *Side) findFrom(of group, term string) List {
	all := s.entriesFrom(of)
	equal := 0 // bytes that the term before, which is less, and the one that is looked for begin with
	for range groupTerms {
		if !all.next() || all.shared < equal {
			return List{} // it is greater
		}
		if all.shared > equal {
			continue // it is less, as the one before
		}
		rest := term[equal:]
		same := commonPrefix(all.suffix, rest)
		equal += same
		if same == len(all.suffix) && same == len(rest) {
			return all.list
		}
		if same == len(rest) || (same < len(all.suffix) && all.suffix[same] > rest[same]) {
			return List{}
		}
	}
	return List{}
}

// commonPrefix returns how many first bytes two strings share.
func commonPrefix(a []byte, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
