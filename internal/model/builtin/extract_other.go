package builtin

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
)

// otherNames finds the names in the sentences of a chunk of another language than English.
func otherNames(language *text.Language, sents []string) *extraction {
	x := &extraction{inner: map[string]bool{}, lower: map[string]bool{}, at: map[string]int{}}
	l := &latin{language: language, extraction: x, grammar: grammars[language.Code()], sents: sents}
	if l.grammar.inner == nil {
		l.grammar = grammars[text.Undetermined]
	}
	l.readWords()
	l.findPhrases()
	for _, s := range sents {
		for _, pattern := range titleREs {
			for _, m := range pattern.FindAllStringSubmatch(s, -1) {
				if q := strings.TrimSpace(m[1]); len(strings.Fields(q)) <= 8 {
					x.addName(strings.TrimRight(q, ".,;:、。，"))
				}
			}
		}
		x.findAcronyms(s)
		if language.Code() == "ja" {
			x.addJapanese(s)
		}
	}
	switch language.Code() {
	case "zh", "th":
		x.addRepeated(strings.Join(sents, "\n"), text.IsUnspaced)
	case text.Undetermined:
		x.addRepeated(strings.Join(sents, "\n"), isCaseless)
	}
	return x
}

// latin finds names that begin with a capital letter.
type latin struct {
	*extraction
	language *text.Language
	grammar  grammar
	sents    []string
	toks     []token
	places   [][2]int // of the words in their sentences, in bytes
	asNoun   map[string]int
	asName   map[string]int
}

// readWords cuts the sentences into words, and counts where words stand.
func (l *latin) readWords() {
	for number, sentence := range l.sents {
		last, first := 0, true
		for _, m := range latinRE.FindAllStringIndex(sentence, -1) {
			word := trimName(sentence[m[0]:m[1]])
			at, elided := m[0], l.language.ElisionLength(word)
			for _, part := range []string{word[:elided], word[elided:]} {
				if part == "" {
					continue
				}
				gap := sentence[last:at]
				particle := len(part) == elided && elided > 0
				l.toks = append(l.toks, token{
					s: part, lower: strings.TrimRight(strings.ToLower(part), "'’"), start: first, sent: number,
					joined: !first && strings.Trim(gap, " \t\u00a0") == "" && (gap != "" || !particle),
				})
				if particle {
					l.toks[len(l.toks)-1].s = strings.ToLower(part)
				}
				l.places = append(l.places, [2]int{at, at + len(part)})
				at += len(part)
				last, first = at, first && particle
			}
		}
	}
	l.asNoun, l.asName = map[string]int{}, map[string]int{}
	for i, t := range l.toks {
		if !t.start {
			l.inner[t.s] = true
		}
		if t.s == t.lower {
			l.lower[t.s] = true
		}
		if l.grammar.nouns && !t.start && isCapital(t.s) {
			if l.isNoun(i) {
				l.asNoun[t.s]++
			} else {
				l.asName[t.s]++
			}
		}
	}
}

// findPhrases walks runs of capitalised words with words inside names between them, and technical tokens.
func (l *latin) findPhrases() {
	toks := l.toks
	for i := 0; i < len(toks); {
		if !isCapital(toks[i].s) {
			if isTechnical(toks[i].s) && !isNumberWord(toks[i].s) {
				l.addName(toks[i].s)
			}
			i++
			continue
		}
		j := i + 1
		for j < len(toks) && toks[j].sent == toks[i].sent {
			if toks[j].joined && (isCapital(toks[j].s) || isTechnical(toks[j].s) || isNumber(toks[j].s)) {
				j++
				continue
			}
			k := l.skipInner(j)
			if k == j {
				break
			}
			j = k
		}
		l.addPhrase(i, j)
		i = j
	}
}

// isNumberWord matches 5-fold and 17th: a number with a word in lower case.
func isNumberWord(word string) bool {
	return word[0] >= '0' && word[0] <= '9' && word == strings.ToLower(word)
}

// skipInner skips up to three words inside names that lead to another capitalised word; it gives the place behind that
// word, or j.
func (l *latin) skipInner(j int) int {
	for k := j; k < len(l.toks) && k < j+4; k++ {
		t := l.toks[k]
		switch {
		case !t.joined || t.sent != l.toks[j].sent:
			return j
		case k > j && isCapital(t.s):
			return k + 1
		case !l.grammar.inner[t.lower] || t.s != strings.ToLower(t.s):
			return j
		case k == j && l.grammar.opening != nil && !l.grammar.opening[t.lower]:
			return j
		}
	}
	return j
}

// addPhrase adds the run of words from i to j, without what it begins with that is no part of a name.
func (l *latin) addPhrase(i, j int) {
	toks := l.toks
	for i < j {
		t := toks[i]
		leave := !isCapital(t.s) && !isTechnical(t.s) || (l.isStop(t.lower) || l.grammar.inner[t.lower]) && !allCaps(t.s)
		if j-i > 1 && l.language.IsCommon(t.lower) && !isTechnical(t.s) {
			leave = leave || l.grammar.nouns || t.start && !l.inner[t.s]
		}
		leave = leave || l.isOpener(t)
		if j-i > 2 && l.grammar.nouns && !isCapital(toks[i+1].s) && l.grammar.inner[toks[i+1].lower] && l.isOrdinary(i) {
			leave = true // of Vorsitz von Malta the name is Malta
		}
		if !leave {
			break
		}
		i++
	}
	if i == j || j-i == 1 && !l.isSingleName(i) {
		return
	}
	if !slices.ContainsFunc(toks[i:j], func(t token) bool {
		return isTechnical(t.s) || isCapital(t.s) && !l.language.IsCommon(t.lower)
	}) {
		return
	}
	if l.grammar.nouns && j-i == 2 && isNumber(toks[i+1].s) && !l.isSingleName(i) {
		return // Band 3
	}
	from, to := l.places[i][0], l.places[j-1][1]
	l.addName(strings.Join(strings.Fields(l.sents[toks[i].sent][from:to]), " "))
}

// isStop reports whether a word carries no meaning; texts of any language quote English.
func (l *latin) isStop(lower string) bool {
	return l.language.IsStopWord(lower) || text.IsStopWord(lower)
}

// isOrdinary reports whether a word is a noun of the language.
func (l *latin) isOrdinary(i int) bool {
	t := l.toks[i]
	return l.language.IsCommon(t.lower) || germanNoun.MatchString(t.lower) || 2*l.asNoun[t.s] > l.asName[t.s]
}

// isOpener recognises by its ending a word that only opens a sentence: a verb or an adverb.
func (l *latin) isOpener(t token) bool {
	return t.start && !l.inner[t.s] && !isTechnical(t.s) &&
		slices.ContainsFunc(l.grammar.plain, func(ending string) bool { return strings.HasSuffix(t.lower, ending) })
}

// compound is the length from which a German noun is taken for a term: so long a one is composed of others, and says
// what a text is about as a name does.
const compound = 11

// isSingleName reports whether one capitalised word is a name.
func (l *latin) isSingleName(i int) bool {
	t := l.toks[i]
	if utf8.RuneCountInString(t.s) < 2 {
		return false
	}
	if isTechnical(t.s) {
		return true
	}
	if l.language.IsCommon(t.lower) || text.IsStopWord(t.lower) {
		return false
	}
	if t.start && !l.inner[t.s] && l.lower[t.lower] {
		return false // the first word of a sentence, and a plain one
	}
	if l.isOpener(t) {
		return false
	}
	if !l.grammar.nouns {
		return true
	}
	if utf8.RuneCountInString(t.s) >= compound {
		return true
	}
	return !germanNoun.MatchString(t.lower) && l.asName[t.s] >= 2*l.asNoun[t.s] && (l.asName[t.s] > 0 || t.start)
}

// addJapanese adds foreign words and compounds.
func (x *extraction) addJapanese(s string) {
	for _, word := range katakanaRE.FindAllString(s, -1) {
		if utf8.RuneCountInString(word) > 2 {
			x.addName(word)
		}
	}
	for _, word := range kanjiRE.FindAllString(s, -1) {
		x.addName(word)
	}
}

const (
	shortestRepeat = 2  // characters of Chinese
	shortestThai   = 5  // of Thai
	shortestWord   = 4  // of other scripts without case
	longestRepeat  = 12 // of either
	mostRepeats    = 12 // of a chunk

	// So much is looked at, so that a chunk of any size takes little time.
	mostLooked = 8_000 // characters
	mostKept   = 400   // runs that stand in a chunk more than once
)

// isCaseless reports whether a rune is of a script without capital letters, such as Hangul, Arabic or Devanagari.
func isCaseless(r rune) bool { return unicode.In(r, unicode.Lo, unicode.M) }

// shortestOf returns the least length of a repeated run that begins with a rune.
func shortestOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Han, unicode.Hangul):
		return shortestRepeat
	case text.IsUnspaced(r):
		return shortestThai
	}
	return shortestWord
}

// addRepeated adds what a chunk says again and again, where no capital letter shows what a name is: the longest runs of
// characters of the given scripts that stand in it twice or more. Where spaces part words a run is a whole word, in
// Korean its beginning, which particles follow.
func (x *extraction) addRepeated(chunk string, of func(rune) bool) {
	type found struct {
		text        string
		count, size int
	}
	counts := map[string]*found{}
	var order []*found
	looked := 0
	for _, run := range strings.FieldsFunc(chunk, func(r rune) bool { return !of(r) }) {
		chars := []rune(run)
		chars = chars[:min(len(chars), mostLooked-looked)]
		looked += len(chars)
		for i := range chars {
			spaced := !text.IsUnspaced(chars[i])
			if unicode.Is(unicode.M, chars[i]) || spaced && i > 0 {
				continue
			}
			shortest := shortestOf(chars[i])
			if spaced && !unicode.Is(unicode.Hangul, chars[i]) {
				shortest = max(shortest, len(chars))
			}
			for n := shortest; n <= longestRepeat && i+n <= len(chars); n++ {
				if i+n < len(chars) && unicode.Is(unicode.M, chars[i+n]) {
					continue
				}
				piece := string(chars[i : i+n])
				one := counts[piece]
				if one == nil {
					one = &found{text: piece, size: n}
					counts[piece] = one
					order = append(order, one)
				}
				one.count++
			}
		}
	}
	kept := slices.DeleteFunc(order, func(one *found) bool { return one.count < 2 || hasFunctionEdge(one.text) })
	weight := func(a, b *found) int { return b.count*b.size - a.count*a.size }
	slices.SortStableFunc(kept, weight)
	kept = kept[:min(mostKept, len(kept))]
	slices.SortStableFunc(kept, func(a, b *found) int { return b.size - a.size })
	var longest []*found
	for _, one := range kept {
		if !slices.ContainsFunc(longest, func(other *found) bool {
			return other.count >= one.count && strings.Contains(other.text, one.text)
		}) {
			longest = append(longest, one)
		}
	}
	slices.SortStableFunc(longest, weight)
	for _, one := range longest[:min(mostRepeats, len(longest))] {
		x.addName(one.text)
	}
}

// chineseFunction are characters of Chinese that no name begins or ends with.
const chineseFunction = "的了是在和与及或为以于从到对将把被等个这那其之一不也都就而但并上下中年月日有他她它们我你您所由使"

// Vowels of Thai are written before or after the consonant that they are spoken after: no word begins with the latter,
// none ends with the former.
const (
	thaiBefore = "เแโใไ"
	thaiAfter  = "ะาำๅๆ"
)

// hasFunctionEdge reports whether a run of characters begins or ends with one that no name does.
func hasFunctionEdge(piece string) bool {
	first, _ := utf8.DecodeRuneInString(piece)
	last, _ := utf8.DecodeLastRuneInString(piece)
	return strings.ContainsRune(chineseFunction+thaiAfter, first) || strings.ContainsRune(chineseFunction+thaiBefore, last)
}
