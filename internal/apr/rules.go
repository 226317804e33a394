package apr

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/lang/names"
	"github.com/unweaver/unweaver/internal/lang/text"
)

// maxLink bounds the words of a relation that a rule finds: more between two names is seldom about both.
const maxLink = 8

// ByRule finds triples without a model: two names of one sentence that follow each other, with the words between them
// as relation. It is what stands in where there is no model, and finds no pronoun, no passive and no list. Names are
// those that were found in the chunk.
func ByRule(language *text.Language, chunk, content string, found []string) []Triple {
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
