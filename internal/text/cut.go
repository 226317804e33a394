package text

import (
	"iter"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// Terms gives the stems of a text in order, without function words: what passages and questions are matched by. A word
// that has accents is there once more with them (Exact).
func (l *Language) Terms(s string) []string {
	var out []string
	for place := range l.allPlaces(s) {
		out = l.appendTerms(out, s[place.Start:place.End])
	}
	return out
}

// SurfaceWords gives the words of a text as they stand, folded, without stop words: what names are matched by. A name
// is not inflected, and stems make different names equal (Nation, National; docs/decisions/0006).
func (l *Language) SurfaceWords(s string) []string {
	var out []string
	for place := range l.allPlaces(s) {
		l.walkForms(s[place.Start:place.End], func(form string) {
			if form = foldCase(form); form != "" && !l.stop[form] {
				if form = stripAccents(form); !l.stop[form] {
					out = append(out, form)
				}
			}
		})
	}
	return out
}

// TermsOf gives the terms of what stands at one of Places, as Terms has them.
func (l *Language) TermsOf(word string) []string { return l.appendTerms(nil, word) }

// appendTerms appends those of one word.
func (l *Language) appendTerms(out []string, word string) []string {
	l.walkForms(word, func(form string) {
		form = foldCase(form)
		plain := stripAccents(form)
		if plain == "" || l.function[form] || l.function[plain] {
			return
		}
		without := l.stemForm(plain)
		out = append(out, without)
		if form == plain {
			return
		}
		// Stemmers that go by accents come to another stem without them, and questions leave accents out.
		with := l.stemForm(form)
		if bare := stripAccents(with); bare != without {
			out = append(out, bare)
		}
		out = append(out, Exact+with)
	})
	return out
}

func (l *Language) stemForm(form string) string {
	if l.stem == nil {
		return form
	}
	return l.stem(form)
}

// PlainForm returns what stands at one of Places as Surface has it, whole, but also where Surface leaves it out: names
// may hold such words.
func (l *Language) PlainForm(word string) (plain string) {
	l.walkForms(word, func(form string) {
		if plain == "" {
			plain = stripAccents(foldCase(form))
		}
	})
	return plain
}

// Places gives the words of a text in order, with their places. Where no space parts words, they are the longer ones of
// the runs of characters that Terms has, which overlap.
func (l *Language) Places(s string) iter.Seq[Place] {
	if l == english {
		return scanTokens(s)
	}
	return findPlaces(s, false)
}

// allPlaces gives the places of all words and runs of characters that a text has terms of. English has no runs.
func (l *Language) allPlaces(s string) iter.Seq[Place] {
	if l == english {
		return scanTokens(s)
	}
	return findPlaces(s, true)
}

// findPlaces yields the places of words, and of runs of neighbouring characters where no space parts words: as many as
// reach says, where there are so many; with shorter also those of one character less.
func findPlaces(s string, shorter bool) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		var run run
		for place := range scanTokens(s) {
			if !isUnspaced(s[place.Start:place.End]) {
				if (run.isShort(shorter) && !yield(run.lastPlace(run.count))) || !yield(place) {
					return
				}
				run.count = 0
				continue
			}
			for unit := range splitUnits(s, place) {
				long := reachOf(s[unit.Start:])
				if run.count > 0 && (run.of[0].End != unit.Start || run.long != long) {
					if run.isShort(shorter) && !yield(run.lastPlace(run.count)) {
						return
					}
					run.count = 0
				}
				run.add(unit, long)
				if shorter && run.count >= long-1 && !yield(run.lastPlace(long-1)) {
					return
				}
				if run.count >= long && !yield(run.lastPlace(long)) {
					return
				}
			}
		}
		if run.isShort(shorter) {
			yield(run.lastPlace(run.count))
		}
	}
}

// longest is the largest reach.
const longest = 3

// reachOf returns how many neighbouring characters make a term. A Chinese character is a syllable with a meaning, and a
// word has one or two; of a Thai word a character is a letter.
func reachOf(s string) int {
	r, _ := utf8.DecodeRuneInString(s)
	if unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) {
		return longest
	}
	return longest - 1
}

// run is the end of a run of characters without a space.
type run struct {
	of    [longest]Place // the last ones, the very last first
	count int            // of all of them
	long  int            // their reach
}

func (r *run) add(unit Place, long int) {
	copy(r.of[1:], r.of[:])
	r.of[0] = unit
	r.count++
	r.long = long
}

// lastPlace returns the place of the last n characters.
func (r *run) lastPlace(n int) Place { return Place{r.of[n-1].Start, r.of[0].End} }

// isShort reports whether a run was too short for any term so far.
func (r *run) isShort(shorter bool) bool {
	least := r.long
	if shorter {
		least--
	}
	return r.count > 0 && r.count < least
}

// splitPieces yields the words of UAX #29: of scripts without spaces single characters, or runs of Katakana.
func splitPieces(s string) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for at := 0; at < len(s); {
			if end := asciiWord(s, at); end > at {
				if !yield(Place{at, end}) {
					return
				}
				at = end
				continue
			}
			if isGap(s, at) {
				at++
				continue
			}
			it := words.FromString(s[at:])
			for it.Next() {
				segment := it.Value()
				if isSpoken(segment) && !yield(Place{at, at + len(segment)}) {
					return
				}
				at += len(segment)
				if len(segment) > 0 && segment[0] < utf8.RuneSelf {
					break // plain ASCII may go on without the segmenter
				}
			}
		}
	}
}

// splitUnits yields the characters of a piece with the marks that belong to them.
func splitUnits(s string, piece Place) iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for at := piece.Start; at < piece.End; {
			_, size := utf8.DecodeRuneInString(s[at:piece.End])
			end := at + size
			for end < piece.End {
				r, size := utf8.DecodeRuneInString(s[end:piece.End])
				if !unicode.Is(unicode.M, r) && r != 'ﾞ' && r != 'ﾟ' {
					break
				}
				end += size
			}
			if !yield(Place{at, end}) {
				return
			}
			at = end
		}
	}
}

// isUnspaced reports whether a piece is of a script that parts words by no space.
func isUnspaced(piece string) bool {
	r, _ := utf8.DecodeRuneInString(piece)
	return IsUnspaced(r)
}

// IsUnspaced reports whether a character is of a script that parts words by no space.
func IsUnspaced(r rune) bool {
	return r >= 0x0e00 && (r == 'ー' || r == 'ｰ' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar))
}
