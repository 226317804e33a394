package lexical

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/index/postings"
)

const (
	// fewSides are asked again for each term: that costs little, and an index of them takes no memory for it.
	fewSides = 4
	// rememberedLists of all sides together are remembered at most, and rememberedWords: together 2 MiB or less.
	rememberedLists = 1 << 15
	rememberedWords = 1 << 10
)

// word is what all sides have of a term.
type word struct {
	term  string
	lists []postings.List // of each side; empty where it has none
	live  uint64          // rows that hold it
}

// remembered are words that were looked up lately, each where its hash says; one that comes to the same place takes
// it. Sides never change, so that a word is right as long as its index is open. One query looks its terms up several
// times (search, scores, confidence), and most of what questions ask for is in other questions too: each of many sides
// is not gone through for it again.
type remembered struct {
	seed  maphash.Seed
	slots []atomic.Pointer[word]
}

// newRemembered makes room for the words of an index of so many sides.
func newRemembered(sides int) remembered {
	if sides < fewSides {
		return remembered{}
	}
	words := max(1, min(rememberedWords, rememberedLists/sides))
	return remembered{maphash.MakeSeed(), make([]atomic.Pointer[word], words)}
}

// slotOf returns the slot of a term.
func (r *remembered) slotOf(term string) *atomic.Pointer[word] {
	return &r.slots[maphash.String(r.seed, term)%uint64(len(r.slots))]
}

// lookUpWords gives what all sides have of terms, in their order.
func (x *Index) lookUpWords(terms []string) []*word {
	out := make([]*word, len(terms))
	if len(x.known.slots) == 0 {
		x.findWords(terms, func(i int) **word { return &out[i] })
		return out
	}
	var missing []string
	var places []int
	for i, term := range terms {
		if one := x.known.slotOf(term).Load(); one != nil && one.term == term {
			out[i] = one
		} else {
			missing, places = append(missing, strings.Clone(term)), append(places, i)
		}
	}
	if len(missing) == 0 {
		return out
	}
	x.findWords(missing, func(i int) **word { return &out[places[i]] })
	for _, place := range places {
		x.known.slotOf(out[place].term).Store(out[place])
	}
	return out
}

// findWords looks terms up in all sides, and puts each where at says.
func (x *Index) findWords(terms []string, at func(int) **word) {
	finder, sides := postings.NewFinder(terms), len(x.parts)
	found := make([]postings.List, 0, len(terms)*sides)
	for i := range x.parts {
		found = finder.AppendLists(x.parts[i].Side, found)
	}
	for j, term := range terms {
		one := &word{term: term}
		if sides == 1 {
			one.lists = found[j : j+1]
		} else {
			one.lists = make([]postings.List, sides)
			for i := range one.lists {
				one.lists[i] = found[i*len(terms)+j]
			}
		}
		for i := range one.lists {
			one.live += uint64(one.lists[i].Len())
		}
		if one.live > 0 && x.dead != nil {
			one.live -= min(one.live, x.dead.Frequency(term))
		}
		*at(j) = one
	}
}
