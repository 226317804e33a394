package extract

import (
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
)

// Evidence is what speaks for and against extracts as an answer.
type Evidence struct {
	Lacks []string // names, numbers and identifiers of the question that neither extracts nor their headings hold
	Fails bool     // nothing in the extracts could be what is asked for: no digit for an amount, no name for a person
	held  float64  // share of the question in the extracts
	near  float64  // share that stands in titles, headings and the sentence before alone
	unfit float64  // 1 where the extracts do not plainly have the kind of thing that is asked for
	joins bool     // the second, of another passage, has much that the first lacks, or the question fits rows as well
	place float64  // of the first extract
	score float64  // of the first extract
}

// IsPartial reports whether extracts cannot be the whole answer.
func (e Evidence) IsPartial() bool { return e.Fails || len(e.Lacks) > 0 }

// The highest confidence in a partial answer, and in one that the reader has to put together.
const (
	mostPartial = 0.35
	mostJoined  = 0.6
)

// muchJoined is the share of a question from which on what the second extract adds counts.
const muchJoined = 0.15

// Confidence returns the chance that the extracts hold the answer, from the chance that the passages do. Its
// coefficients are fitted to questions with short answers (docs/explain/retrieval.md, Answers).
func (e Evidence) Confidence(passages float64) float64 {
	passages = min(max(passages, 0.02), 0.98)
	z := -3.4 + 2.692*e.held + 1.848*e.near - 0.655*e.unfit - 0.281*e.place + 0.677*e.score +
		0.669*math.Log(passages/(1-passages))
	chance := 1 / (1 + math.Exp(-z))
	switch {
	case e.IsPartial():
		return min(chance, mostPartial)
	case e.joins:
		return min(chance, mostJoined)
	}
	return chance
}

// chosenShare is what the word behind what or which weighs of what it would.
const chosenShare = 0.2

// askedTerms returns the different terms of a question that an answer may be expected to hold. German writes all nouns
// with a capital, so there a capital is no sign of a name.
func (q question) askedTerms(asked string, weigh func(term string) float64, unknown float64) (out []term) {
	language := q.language
	seen := map[string]bool{}
	first, chosen := true, false
	for place := range language.Places(asked) {
		word := asked[place.Start:place.End]
		r, _ := utf8.DecodeRuneInString(word)
		digits := strings.ContainsFunc(word, unicode.IsDigit)
		inner := strings.ContainsFunc(word[utf8.RuneLen(r):], unicode.IsUpper)
		named := unicode.IsUpper(r) && !first && !language.IsCommon(language.PlainForm(word)) && language.Code() != "de"
		first = false
		share := 1.0
		if chosen {
			share = chosenShare
		}
		chosen = choosing[language.PlainForm(word)] != anything
		for _, stem := range language.Terms(word) {
			if seen[stem] || language.IsStopWord(stem) || text.IsExact(stem) || asking[stem] != 0 {
				continue
			}
			seen[stem] = true
			weight := weigh(stem)
			if weight <= 0 {
				weight = unknown
			}
			if as := q.dates[word]; as != "" {
				word = as
			}
			out = append(out, term{word, stem, share * weight, digits || inner || named})
		}
	}
	return out
}

// judgeWindows returns what speaks for windows as an answer.
func (q question) judgeWindows(chosen []window) (out Evidence) {
	if len(chosen) == 0 {
		return out
	}
	terms, near, seen := map[string]bool{}, map[string]bool{}, ""
	out.Fails = true
	if q.want != anything && q.want != place {
		out.unfit = 1
	}
	for _, one := range chosen {
		terms, near = text.JoinSets(terms, one.terms, one.own), text.JoinSets(near, one.around, one.preceding)
		out.Fails = out.Fails && q.lacksValue(one.has, one.text)
		if one.fits != anything {
			out.unfit = 0
		}
		out.joins = out.joins || one.tied
		seen += "\n" + one.above[0] + "\n" + one.above[1] + "\n" + one.text
	}
	out.Lacks = missingSides(q.words, q.sidesOf(seen))
	if len(q.months) > 0 {
		dates := text.MonthsOf(seen)
		for _, month := range slices.Sorted(maps.Keys(q.months)) {
			if dates[month] == "" {
				out.Lacks = append(out.Lacks, q.months[month])
			}
		}
	}
	total, joined := 0.0, 0.0
	for _, asked := range q.asked {
		total += asked.weight
		if last := chosen[len(chosen)-1]; last.place != chosen[0].place && hasStem(last.terms, asked.stem) &&
			!hasStem(chosen[0].terms, asked.stem) && !hasStem(chosen[0].around, asked.stem) {
			joined += asked.weight
		}
		switch {
		case hasStem(terms, asked.stem), out.unfit == 0 && q.want != anything && hinting[asked.stem] == q.want:
			out.held += asked.weight
		case hasStem(near, asked.stem):
			out.near += asked.weight
		case asked.sharp:
			out.Lacks = append(out.Lacks, asked.word)
		}
	}
	out.joins = out.joins || joined > muchJoined*total
	out.held, out.near = out.held/max(total, 1e-9), out.near/max(total, 1e-9)
	out.place, out.score = float64(chosen[0].place), chosen[0].scoreWindow()
	return out
}

// hasStem reports whether terms have a stem, or one of the same word.
func hasStem(terms map[string]bool, stem string) bool {
	if terms[stem] {
		return true
	}
	for other := range terms {
		if isSameWord(stem, other) {
			return true
		}
	}
	return false
}
