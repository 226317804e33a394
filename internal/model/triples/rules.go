package triples

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Source is where a triple was read: the sentence of a chunk, counted from 0.
type Source struct {
	Chunk    string
	Sentence int
}

// Triple is what a sentence says, in its own words.
type Triple struct {
	Head, Relation, Tail string
	Source               Source
}

// MaxPart bounds a head, a relation and a tail, in bytes: what is longer is a passage, and would be sent as one.
const MaxPart = 512

// MaxChunkTriples bounds the triples of one chunk: a chunk of some hundred words that says more has been read wrongly.
const MaxChunkTriples = 256

// maxLink bounds the words of a relation that a rule finds: more between two names is seldom about both.
const maxLink = 8

// FindByRule finds triples without a model: two names of one sentence that follow each other, with the words between
// them as relation. It is what stands in where there is no model, and finds no pronoun, no passive and no list. Names
// are those that were found in the chunk.
func FindByRule(language *text.Language, chunk, content string, found []string) []Triple {
	keys := map[string]bool{}
	var searched []string
	for _, name := range found {
		if key := names.Key(name, false); key != "" && !keys[key] {
			keys[key] = true
			searched = append(searched, key)
		}
	}
	var out []Triple
	for n, sentence := range language.Sentences(content) {
		places := placesOf(language, sentence, searched)
		for i := 1; i < len(places); i++ {
			left, right := places[i-1], places[i]
			link := strings.Join(text.Words(sentence[left.to:right.from]), " ")
			if link == "" || strings.Count(link, " ") >= maxLink || left.key == right.key ||
				strings.ContainsAny(sentence[left.to:right.from], ";:()") {
				continue
			}
			out = append(out, Triple{
				strings.TrimSpace(sentence[left.from:left.to]), link,
				strings.TrimSpace(sentence[right.from:right.to]), Source{chunk, n},
			})
		}
	}
	return out
}

// place of a name in a sentence, in bytes.
type place struct {
	from, to int
	key      string
}

// placesOf names in a sentence, in order; of those that overlap the one that begins first, then the longest.
func placesOf(language *text.Language, sentence string, keys []string) []place {
	folded := names.NewTextOf(language, sentence)
	var offsets []int // of code points, in bytes
	for i := range sentence {
		offsets = append(offsets, i)
	}
	offsets = append(offsets, len(sentence))
	var all []place
	for _, key := range keys {
		for _, span := range folded.Spans(key, utf8.RuneCountInString(sentence)) {
			all = append(all, place{offsets[span[0]], offsets[span[1]], key})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(a.key, b.key))
	})
	end := 0
	return slices.DeleteFunc(all, func(p place) bool {
		if p.from < end {
			return true
		}
		end = p.to
		return false
	})
}
