// Package snippet returns the part of a chunk that is worth reading for a question: the run of sentences that holds
// most of what was asked, and the places of the words that matched. Places are counted in code points of the chunk's
// text.
package snippet

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
)

const (
	// Most code points of a snippet.
	Most = 280
	// enough code points: a shorter snippet takes in the sentences that follow, so that a heading does not stand alone.
	enough = 120
	// MostHighlights of a chunk; those in the snippet are always among them.
	MostHighlights = 500
	// nameShare of a word's weight is what a name counts that the question does not have: it says how the chunk was
	// found, while the question's own words tell what was asked.
	nameShare = 0.5
	// weakest is the share of the strongest seed's weight below which a name is left out.
	weakest = 0.1
)

// Span is a part of a text in code points, half open.
type Span struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// Name is an entity that led to the chunk, with its weight among them (any unit).
type Name struct {
	Text   string
	Weight float64
}

// Question is what is looked for. It is for one query at a time: it remembers the words that it has seen.
type Question struct {
	language *text.Language
	weight   map[string]float64 // of terms
	most     float64            // the largest of them
	words    map[string]word    // by the word as it stands in a text
}

// word is what is known of a word of a text.
type word struct {
	term  string // of the question; empty: none
	plain string
}

// NewQuestion reads a question to texts of a language. weigh gives the weight of a term in the index, 0 for one that it
// does not know; nil lets all weigh the same.
func NewQuestion(language *text.Language, question string, weigh func(term string) float64) *Question {
	out := &Question{language: language, weight: map[string]float64{}, words: map[string]word{}}
	for _, term := range language.Terms(question) {
		if language.IsStopWord(term) || text.IsExact(term) {
			continue // the index knows it, but no passage is read for it
		}
		weight := 1.0
		if weigh != nil {
			weight = weigh(term)
		}
		if weight > 0 {
			out.weight[term] = weight
			out.most = max(out.most, weight)
		}
	}
	if out.most == 0 {
		out.most = 1
	}
	return out
}

// Found is what was chosen of a text.
type Found struct {
	Span              // the snippet
	Highlights []Span // in order, apart from each other
}

// FindSnippet chooses the snippet of a text and marks what matched: the question's terms, and the names.
func (q *Question) FindSnippet(content string, names []Name) Found {
	matches := q.findMatches(content, names)
	pieces := cutPieces(q.language, content)
	first, last := chooseRun(pieces, matches)
	first, last = withText(content, pieces, first, last)
	var found Found
	if len(pieces) > 0 {
		start, end := pieces[first].start, pieces[last].end
		found.Span = Span{utf8.RuneCountInString(content[:start]), 0}
		found.End = found.Start + utf8.RuneCountInString(content[start:end])
	}
	found.Highlights = markSpans(content, matches, found.Span)
	return found
}

// CutAround returns the snippet that shows a part of a text, with as much before and then behind it as has a place.
func CutAround(language *text.Language, content string, part Span) Span {
	pieces := cutPieces(language, content)
	first, last := 0, len(pieces)-1
	for first < last && pieces[first].at+pieces[first].runes <= part.Start {
		first++
	}
	for last > first && pieces[last].at >= part.End {
		last--
	}
	for first > 0 && runLen(pieces, first-1, last) <= Most {
		first--
	}
	for last+1 < len(pieces) && runLen(pieces, first, last+1) <= Most {
		last++
	}
	return Span{pieces[first].at, min(pieces[last].at+pieces[last].runes, pieces[first].at+Most)}
}

// match is a place of a text, in bytes, that says something about the question.
type match struct {
	start, end int
	feature    string // what is counted once: a term, or a name
	weight     float64
}

// findMatches finds the terms and names of a text, in order.
func (q *Question) findMatches(content string, given []Name) []match {
	names := q.indexNames(given)
	var out []match
	var open []running
	for place := range q.language.Places(content) {
		seen := q.findWord(content[place.Start:place.End])
		if seen.term != "" {
			out = append(out, match{place.Start, place.End, seen.term, q.weight[seen.term]})
		}
		if len(names) == 0 {
			continue
		}
		kept := open[:0]
		for _, run := range open {
			if run.name.words[run.next] == seen.plain {
				run.next++
				if run.next < len(run.name.words) {
					kept = append(kept, run)
				} else {
					out = append(out, match{run.start, place.End, run.name.feature, run.name.weight})
				}
			}
		}
		open = kept
		for _, name := range names[seen.plain] {
			if len(name.words) == 1 {
				out = append(out, match{place.Start, place.End, name.feature, name.weight})
			} else {
				open = append(open, running{name, 1, place.Start})
			}
		}
	}
	slices.SortFunc(out, func(a, b match) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	return out
}

// named is a name as it is looked for: its words, folded.
type named struct {
	words   []string
	feature string
	weight  float64
}

// running is a name whose first words were met.
type running struct {
	name  named
	next  int
	start int
}

// indexNames groups names by their first word. Those of which the question has every word are found as its terms.
func (q *Question) indexNames(given []Name) map[string][]named {
	strongest := 0.0
	for _, name := range given {
		strongest = max(strongest, name.Weight)
	}
	if strongest <= 0 {
		return nil
	}
	out := map[string][]named{}
	for _, name := range given {
		share := name.Weight / strongest
		if share < weakest {
			continue
		}
		one, further := named{feature: "\x00" + name.Text}, false
		for place := range q.language.Places(name.Text) {
			seen := q.findWord(name.Text[place.Start:place.End])
			one.words = append(one.words, seen.plain)
			further = further || (seen.term == "" && !q.language.IsStopWord(seen.plain))
		}
		if len(one.words) == 0 || !further {
			continue
		}
		one.weight = nameShare * q.most * share
		out[one.words[0]] = append(out[one.words[0]], one)
	}
	return out
}

// findWord looks a word up, and remembers it: texts say the same words again and again.
func (q *Question) findWord(as string) word {
	seen, known := q.words[as]
	if !known {
		seen.plain = q.language.PlainForm(as)
		for _, term := range q.language.TermsOf(as) { // whole, then by its parts
			if q.weight[term] > q.weight[seen.term] {
				seen.term = term
			}
		}
		q.words[strings.Clone(as)] = seen
	}
	return seen
}

// piece is a sentence of a text without the white space around it, or a part of a long one. Bytes and code points.
type piece struct {
	start, end int
	at, runes  int // code points before it, and of it
}

// cutPieces gives the pieces of a text.
func cutPieces(language *text.Language, content string) []piece {
	var out []piece
	start, at := 0, 0
	for _, sentence := range language.Statements(content) {
		size := utf8.RuneCountInString(sentence)
		left := strings.TrimLeftFunc(sentence, unicode.IsSpace)
		body := strings.TrimRightFunc(left, unicode.IsSpace)
		if body != "" {
			from := len(sentence) - len(left)
			one := piece{start + from, start + from + len(body), 0, utf8.RuneCountInString(body)}
			one.at = at + utf8.RuneCountInString(sentence[:from])
			if one.runes <= Most {
				out = append(out, one)
			} else {
				out = append(out, splitSentence(content, one)...)
			}
		}
		start, at = start+len(sentence), at+size
	}
	return out
}

// splitSentence parts a long sentence between words into pieces of a quarter of a snippet. What has no words is parted
// anyway, between code points.
func splitSentence(content string, long piece) []piece {
	var out []piece
	start, at, runes, space := long.start, long.at, 0, false
	end := func(offset int) {
		body := strings.TrimFunc(content[start:offset], unicode.IsSpace)
		before := len(content[start:offset]) - len(strings.TrimLeftFunc(content[start:offset], unicode.IsSpace))
		if body != "" {
			out = append(out, piece{
				start + before, start + before + len(body),
				at + utf8.RuneCountInString(content[start:start+before]), utf8.RuneCountInString(body),
			})
		}
		start, at, runes = offset, at+runes, 0
	}
	for offset, char := range content[long.start:long.end] {
		after := space
		space = unicode.IsSpace(char)
		if (after && !space && runes >= Most/4) || (!unicode.Is(unicode.M, char) && runes >= Most/2) || runes >= Most {
			end(long.start + offset)
		}
		runes++
	}
	end(long.end)
	return out
}

// chooseRun chooses the run of pieces, at most a snippet long, whose matches weigh most, each counted once; of equals
// the shorter, then the earlier. A short one takes in what follows.
func chooseRun(pieces []piece, matches []match) (first, last int) {
	if len(pieces) == 0 {
		return 0, 0
	}
	inside := make([][]match, len(pieces)) // by the piece that a match begins in
	at := 0
	for i, piece := range pieces {
		from := at
		for at < len(matches) && matches[at].start < piece.end {
			at++
		}
		inside[i] = matches[from:at]
	}
	most, counted := 0.0, map[string]bool{}
	for i := range pieces {
		if len(inside[i]) == 0 {
			continue
		}
		clear(counted)
		weight := 0.0
		for j := i; j < len(pieces) && runLen(pieces, i, j) <= Most; j++ {
			for _, match := range inside[j] {
				if !counted[match.feature] {
					counted[match.feature] = true
					weight += match.weight
				}
			}
			if better := weight - most; better > 1e-9 || (better > -1e-9 && runLen(pieces, i, j) < runLen(pieces, first, last)) {
				most, first, last = max(most, weight), i, j
			}
		}
	}
	for last+1 < len(pieces) && runLen(pieces, first, last) < enough && runLen(pieces, first, last+1) <= Most {
		last++
	}
	return first, last
}

// withText extends a run that ends with a heading by what stands below it, which is what the heading matched for. What
// comes before the heading gives way where a snippet has no place for both.
func withText(content string, pieces []piece, first, last int) (int, int) {
	for last+1 < len(pieces) && isHeading(content[pieces[last].start:pieces[last].end]) {
		from := first
		for from < last && runLen(pieces, from, last+1) > Most {
			from++
		}
		if runLen(pieces, from, last+1) > Most {
			break
		}
		first, last = from, last+1
	}
	return first, last
}

// isHeading reports whether a piece is a heading of Markdown, or of a document that was read as if it were.
func isHeading(piece string) bool {
	level := len(piece) - len(strings.TrimLeft(piece, "#"))
	return level > 0 && strings.HasPrefix(piece[level:], " ")
}

// runLen returns the length of the run of pieces from i to j, in code points.
func runLen(pieces []piece, i, j int) int {
	return pieces[j].at + pieces[j].runes - pieces[i].at
}

// markSpans turns matches into spans of code points: those that touch or overlap are one, and of too many those from
// the snippet on are kept.
func markSpans(content string, matches []match, snippet Span) []Span {
	var out []Span
	at, runes := 0, 0
	count := func(to int) int { // to never falls
		runes += utf8.RuneCountInString(content[at:to])
		at = to
		return runes
	}
	for i := 0; i < len(matches); {
		start, end := matches[i].start, matches[i].end
		for i++; i < len(matches) && matches[i].start <= end; i++ {
			end = max(end, matches[i].end)
		}
		out = append(out, Span{count(start), count(end)})
	}
	from, _ := slices.BinarySearchFunc(out, snippet.Start, func(one Span, at int) int { return one.End - 1 - at })
	from = max(0, min(from, len(out)-MostHighlights))
	return out[from:min(from+MostHighlights, len(out))]
}
