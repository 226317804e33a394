// Package extract answers by quoting, where no model writes an answer: it chooses the sentences, rows or lines of the
// first passages that add to a question what it asks for.
package extract

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/retrieve/snippet"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/markup"
)

// Passage is a text in the order in which it was found.
type Passage struct {
	Title   string
	File    string // name of its file: a heading that an extract does not show
	Heading []string
	Text    string
}

// Extract is a part of a passage: one or two sentences, or a row or line with the heading above it.
type Extract struct {
	Passage int // its place, from 0
	Text    string
	Span    snippet.Span // of the passage's text
}

// weights of what counts for a window, as tuned on half of the questions of MuSiQue, 2Wiki and CovidQA that have short
// answers (docs/explain/retrieval.md, Answers).
type weights struct {
	gate            float64 // least share of the question in a passage
	floor           float64 // least score
	second          float64 // least score of the second, as a share of the first's
	adds, rival     float64 // least that the second adds of the question, or holds of it by itself
	context, before float64 // the question's words in title and headings; in the sentence before
	novel, rank     float64 // words that are not the question's; a place further back
	kinds           [8]float64
	pair, length    float64 // two sentences; as long as may be
	known           float64 // the question's words that the first extract has, for the second
	bridge, asked   float64 // a title that the first extract names; that the question names
}

var tuned = weights{
	gate: 0.3, floor: 0.35, second: 0.5, adds: 0.1, rival: 0.5,
	context: 0.4, before: 0.3, novel: 0.13, rank: 0.05,
	kinds: [8]float64{name: 0.1, place: 0.2, date: 0.1, number: 0.1, money: 0.2, mail: 0.2, phone: 0.1},
	pair:  0.05, length: 0.2, known: 0.65, bridge: 0.25, asked: 0.12,
}

const (
	longest = 400 // code points of an extract
	leading = 3   // passages that the first extract is of
	bridged = 5   // passages that the second is of
)

// ChooseExtracts returns at most two extracts, the better first, and what speaks for them; none where no sentence fits.
// weigh is the idf of a term in the index, 0 where no passage has it; unknown is what such a term weighs.
func ChooseExtracts(
	language *text.Language,
	question string,
	weigh func(term string) float64,
	unknown float64,
	passages []Passage,
) ([]Extract, Evidence) {
	asked := readQuestion(language, question, weigh, unknown)
	var windows []window
	for place, passage := range passages[:min(bridged, len(passages))] {
		windows = append(windows, asked.cutWindows(place, passage)...)
	}
	chosen := asked.chooseWindows(windows)
	var out []Extract
	for _, one := range chosen {
		start := utf8.RuneCountInString(passages[one.place].Text[:one.start])
		length := utf8.RuneCountInString(passages[one.place].Text[one.start:one.end])
		out = append(out, Extract{one.place, one.text, snippet.Span{Start: start, End: start + length}})
	}
	return out, asked.judgeWindows(chosen)
}

// chooseWindows takes the best window, and the one that adds most to it: of a passage whose title the first one or the
// question names, or with rare words of the question that the first one lacks.
func (q question) chooseWindows(windows []window) []window {
	first, most := -1, tuned.floor
	for i, next := range windows {
		if score := next.scoreWindow(); next.place < leading && next.passed >= tuned.gate && score > most {
			first, most = i, score
		}
	}
	if first < 0 {
		return nil
	}
	best := windows[first]
	second, more := -1, tuned.second*most
	for i, next := range windows {
		if next.place == best.place && next.from <= best.to && best.from <= next.to {
			continue
		}
		score, adds, linked := next.scoreWindow(), 0.0, next.place == best.place
		for _, term := range slices.Sorted(maps.Keys(next.own)) { // sums depend on their order
			if best.own[term] || best.around[term] {
				linked = true
				score -= (1 - tuned.known) * q.weight[term] / q.total
			} else {
				adds += q.weight[term] / q.total
			}
		}
		if next.place != best.place && len(next.title) > 0 {
			switch {
			case hasAllTerms(next.title, best.terms) && !hasAllTerms(next.title, q.weight):
				score, adds, linked = score+tuned.bridge, 1, true
			case hasAllTerms(next.title, q.weight):
				score, adds, linked = score+tuned.asked, 1, true
			}
		}
		if q.want != anything && next.fits != anything && best.fits == anything {
			adds = 1
		}
		if linked && score > more && (adds >= tuned.adds || next.held >= tuned.rival) {
			second, more = i, score
		}
	}
	if second < 0 {
		return []window{best}
	}
	return []window{best, windows[second]}
}

// hasAllTerms reports whether all terms of a title or a row are among others.
func hasAllTerms[V any](title []string, terms map[string]V) bool {
	for _, term := range title {
		if _, ok := terms[term]; !ok {
			return false
		}
	}
	return true
}

// window is what may be an extract, and what counts for it.
type window struct {
	place, from, to               int
	start, end                    int // bytes of the passage
	text                          string
	title                         []string
	own, around, terms            map[string]bool
	passed, held, context, before float64
	others                        int
	tied                          bool // another row of a table or a log has the same words of the question
	fits                          want
	has                           found
	preceding                     map[string]bool
	above                         [2]string // what stands above it, and before it
	runes                         int
}

// scoreWindow returns how well a window answers by itself.
func (n window) scoreWindow() float64 {
	score := n.held + tuned.context*n.context + tuned.before*n.before + tuned.novel*min(1, float64(n.others)/8) +
		tuned.kinds[n.fits] -
		tuned.rank*float64(n.place) - tuned.length*float64(n.runes)/longest
	if n.to > n.from {
		score += tuned.pair
	}
	return score
}

// question as it is read for extracts.
type question struct {
	language *text.Language
	weight   map[string]float64 // of its terms
	total    float64
	said     map[string]bool   // its words, plain
	dates    map[string]string // its dates as they are said, by their terms
	want     want
	measures dimension
	words    []string          // plain, in order
	months   map[string]string // with their years, as text.MonthsOf has them
	asked    []term
}

// term of a question.
type term struct {
	word   string // as it is asked
	stem   string
	weight float64 // that of an unknown term too
	sharp  bool    // a name, a number or an identifier: no other one does
}

func readQuestion(language *text.Language, asked string, weigh func(term string) float64, unknown float64) question {
	out := question{
		language: language, weight: map[string]float64{}, said: map[string]bool{}, dates: map[string]string{},
	}
	for place := range language.Places(asked) {
		word := language.PlainForm(asked[place.Start:place.End])
		out.words = append(out.words, word)
		out.said[word] = true
	}
	out.want, out.measures = out.findWant(out.words), asksFor(out.words)
	if out.measures != 0 && out.want == anything {
		out.want = number
	}
	if out.want != number {
		out.measures = 0
	}
	for _, date := range slices.Backward(text.Dates(asked)) {
		out.dates[dayTerm(date)] = asked[date.Start:date.End]
		asked = asked[:date.Start] + dayTerm(date) + asked[date.End:]
	}
	out.months = text.MonthsOf(asked)
	out.asked = out.askedTerms(asked, weigh, unknown)
	for _, term := range language.Terms(asked) {
		if language.IsStopWord(term) || text.IsExact(term) || out.weight[term] > 0 || asking[term] != 0 {
			continue
		}
		weight := weigh(term)
		if out.dates[term] != "" {
			weight = unknown
		}
		if weight > 0 {
			out.weight[term] = weight
			out.total += weight
		}
	}
	return out
}

// dayTerm returns the term of a date, whatever its form: 20260602.
func dayTerm(date text.Date) string { return strings.ReplaceAll(date.Day, "-", "") }

// computeShare returns the share of the question's weight that terms hold.
func (q question) computeShare(terms map[string]bool) float64 {
	sum := 0.0
	for _, term := range slices.Sorted(maps.Keys(terms)) { // the sum depends on the order
		sum += q.weight[term]
	}
	return sum / max(q.total, 1e-9)
}

// splitTerms returns the terms of a text, and those of the question that the text holds.
func (q question) splitTerms(content string) (all, own map[string]bool) {
	all, own = map[string]bool{}, map[string]bool{}
	for _, term := range q.language.Terms(content) {
		if q.language.IsStopWord(term) || text.IsExact(term) {
			continue
		}
		all[term] = true
		if q.weight[term] > 0 {
			own[term] = true
			continue
		}
		for of := range q.weight {
			if isSameWord(of, term) {
				own[of] = true
			}
		}
	}
	for _, date := range text.Dates(content) {
		if day := dayTerm(date); q.dates[day] != "" {
			all[day], own[day] = true, true
		}
	}
	return all, own
}

// isSameWord reports whether two stems are of one word, as far as their beginnings show: light stemming parts close and
// closing.
func isSameWord(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && !strings.ContainsFunc(b, unicode.IsDigit) &&
		(len(a) > 2 && len(b)-len(a) < 2 || len(a) > 4 && len(b)-len(a) < 4)
}

// cutWindows returns the windows of a passage: each piece alone, and with the one behind it.
func (q question) cutWindows(place int, passage Passage) []window {
	passage.Title = markup.Text(passage.Title)
	titled, context := q.splitTerms(passage.Title)
	title := slices.Collect(maps.Keys(titled))
	_, above := q.splitTerms(passage.File + "\n" + strings.Join(passage.Heading, "\n"))
	context = text.JoinSets(context, above)
	pieces := cutPassage(q.language, passage)
	terms, own := make([]map[string]bool, len(pieces)), make([]map[string]bool, len(pieces))
	whole := context
	for i, piece := range pieces {
		terms[i], own[i] = q.splitTerms(piece.text)
		whole = text.JoinSets(whole, own[i])
	}
	passed := q.computeShare(whole)
	var out []window
	under, before := map[string]bool{}, map[string]bool{}
	said := passage.Title + "\n" + passage.File + "\n" + strings.Join(passage.Heading, "\n")
	heading := ""
	if n := len(passage.Heading); n > 0 {
		heading = passage.Heading[n-1]
	}
	for i, piece := range pieces {
		switch piece.kind {
		case head:
			under, heading = own[i], piece.text
			said += "\n" + piece.text
		case header:
			under, heading = text.JoinSets(under, own[i]), strings.TrimPrefix(heading+", "+piece.text, ", ")
			said += "\n" + piece.text
		}
		beaten, tied := compareRows(pieces, own, i)
		for j := i; piece.kind <= row && !beaten && j < min(i+2, len(pieces)); j++ {
			if j > i && (pieces[j].kind != piece.kind || pieces[j].apart || piece.cells) {
				break
			}
			next := window{place: place, from: i, to: j, start: piece.start, end: pieces[j].end, text: piece.text, title: title}
			next.passed, next.tied = passed, tied
			next.own, next.terms = own[i], terms[i]
			if j > i {
				next.text += [...]string{" ", "; "}[piece.kind] + pieces[j].text
				next.terms, next.own = q.splitTerms(next.text)
			}
			next.runes = utf8.RuneCountInString(next.text)
			next.others = len(next.terms) - len(next.own)
			if next.runes > longest {
				break
			}
			next.above = [2]string{said, pieces[max(i-1, 0)].text}
			next.around = text.JoinSets(context, under)
			next.held = q.computeShare(next.own)
			few := next.others < 2 || next.others < 3 && next.held > 0.99
			if next.others == 0 || piece.kind == sentence && few && !q.addsName(next.text) {
				continue // it repeats the question
			}
			next.context = q.computeShare(text.JoinSets(next.own, next.around)) - next.held
			next.preceding = before
			next.before = q.computeShare(text.JoinSets(next.own, next.around, before)) - next.held - next.context
			if next.held+next.context+next.before == 0 {
				continue
			}
			kept := "" // a number of code or a log stays, in a form that is no mark
			if piece.kind == row || piece.cells {
				kept = "[ $1 ]"
			}
			next.text = reference.ReplaceAllString(next.text, kept)
			if above := q.chooseLabel(piece.kind, heading, passage.Title, next); above != "" {
				next.text = above + ": " + next.text
			}
			body := next.text
			if q.want == date {
				body = q.withoutAsides(body)
			}
			if next.has = q.kindsIn(body); q.matchesText(next.has) {
				next.fits = q.want
			}
			out = append(out, next)
		}
		before = own[i]
	}
	return out
}

// compareRows reports whether another row of a table or a log has more of the question than one has, and whether one
// has the same of it.
func compareRows(pieces []piece, own []map[string]bool, of int) (beaten, tied bool) {
	terms := slices.Collect(maps.Keys(own[of]))
	for _, step := range []int{-1, 1} {
		for i := of + step; pieces[of].cells && i >= 0 && i < len(pieces) && pieces[i].cells; i += step {
			if pieces[i].kind <= row && hasAllTerms(terms, own[i]) {
				beaten = beaten || len(own[i]) > len(terms)
				tied = tied || len(own[i]) == len(terms)
			}
		}
	}
	return beaten, tied
}

// longestLabel is the length of a title or a heading that an extract shows.
const longestLabel = 80

// chooseLabel returns what of a heading or a title an extract needs to be read by itself: of a row the heading, else
// the title; of a sentence the one that has words of the question which the sentence lacks.
func (q question) chooseLabel(kind int, heading, title string, of window) string {
	for _, above := range []string{heading, title} {
		above = strings.TrimRight(above, ":")
		if above == "" || utf8.RuneCountInString(above) > longestLabel || strings.Contains(of.text, above) {
			continue
		}
		_, own := q.splitTerms(above)
		for term := range of.own {
			delete(own, term)
		}
		if kind == row || len(own) > 0 {
			return above
		}
	}
	return ""
}

// addsName reports whether a sentence has a name or a number that the question does not say.
func (q question) addsName(sentence string) bool {
	for place := range q.language.Places(sentence) {
		word := sentence[place.Start:place.End]
		first, _ := utf8.DecodeRuneInString(word)
		plain := q.language.PlainForm(word)
		if (unicode.IsUpper(first) || unicode.IsDigit(first)) && !q.said[plain] && !q.language.IsStopWord(plain) {
			return true
		}
	}
	return false
}

// reference is a number in brackets, which would read as the mark of a passage.
var reference = regexp.MustCompile(` ?\[(\d+(?:[,–‑ -]+\d+)*)\]`)

// FindMarkup returns what of a text is markup, in code points, in order. A hidden "|" alone parts two cells of a table.
func FindMarkup(content string) []snippet.Span {
	var out []snippet.Span
	at, runes := 0, 0
	count := func(to int) int {
		runes += utf8.RuneCountInString(content[at:to])
		at = to
		return runes
	}
	for _, place := range markup.Join(markup.List(content)) {
		out = append(out, snippet.Span{Start: count(place[0]), End: count(place[1])})
	}
	return out
}
