// Package text splits text into sentences and words and reduces words to stems. It is the one analyser of the chunker,
// the built-in models and the lexical side. Its functions are those of English; a Language has the same ones by its own
// rules. Chunks are cut by the functions whatever the language, so that another one changes no chunk.
package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"
)

// Analyser names the rules of Terms and Surface; it is part of fingerprints.
// 3: Unicode words with the signs of names, whole and by their parts, without case, compatibility forms and accents;
// Terms without English function words, light stems; Surface without stop words, unstemmed.
const Analyser = "en/3"

// Sentences cuts a text into consecutive pieces that together are the text (UAX #29, with common abbreviations and
// initials kept whole). A line break ends a sentence unless it looks like the wrap of a longer one.
func Sentences(s string) []string { return english.Sentences(s) }

// Sentences cuts a text as the function does, by the abbreviations of the language.
func (l *Language) Sentences(s string) []string {
	var out []string
	start, at := 0, 0 // of the sentence; of what goes on
	it := sentences.FromString(unwrapLines(s))
	for it.Next() {
		p := s[at : at+len(it.Value())]
		if at > start && l.continuesSentence(s[start:at], p) {
			out = out[:len(out)-1]
		} else {
			start = at
		}
		at += len(p)
		out = append(out, s[start:at])
	}
	return out
}

// Statements cuts a text as Sentences does, and further at the lines that begin a row of a table, an item of a list, a
// quotation, a heading of Markdown or an entry of a log, which end with no sign, and around those of roff and LaTeX.
// None ends within an entry of a log, or at a dot that no space follows. It is for what people read; chunks are made of
// Sentences.
func (l *Language) Statements(s string) []string {
	var out []string
	start, at, line := 0, 0, -1 // of the last statement; its end; the last line break in it, behind which more may come
	for _, sentence := range l.Sentences(s) {
		before, from := s[start:at], max(at-1, 0)
		if at > start && !strings.HasSuffix(before, "\n") &&
			(strings.HasSuffix(before, ".") || IsStamped(before) || l.followsInitials(before, sentence)) {
			out = out[:len(out)-1]
		} else {
			start, from, line = at, at, -1
		}
		at += len(sentence)
		cut := func(i int) {
			if line = i; hasMarker(firstLine(s[i+1:at])) || IsDirective(firstLine(s[start:i])) {
				out = append(out, s[start:i+1])
				start, line = i+1, -1
			}
		}
		if line >= 0 {
			cut(line)
		}
		for i := from; i < at-1; i++ {
			if s[i] == '\n' {
				cut(i)
			}
		}
		out = append(out, s[start:at])
	}
	return out
}

// firstLine returns the first line of a text with its end: a form takes time for all that it is given.
func firstLine(s string) string {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return s[:i+1]
	}
	return s
}

var initials = regexp.MustCompile(`\b(?:\p{Lu}\.){2,}$`)

// followsInitials reports whether a sentence goes on behind initials such as U.S., as Route 52 does and She does not.
func (l *Language) followsInitials(before, sentence string) bool {
	before = strings.TrimRight(before, " ")
	if !initials.MatchString(before[strings.LastIndexByte(before, ' ')+1:]) {
		return false
	}
	words := strings.Fields(sentence)
	return len(words) > 0 && !l.IsStopWord(l.PlainForm(words[0]))
}

// hasMarker reports whether a line begins with the sign of a row, an item, a quotation or a heading.
func hasMarker(line string) bool {
	line = strings.TrimLeft(line, " \t")
	if line == "" {
		return false
	}
	switch line[0] {
	case '|', '>':
		return true
	case '*', '-', '+':
		return strings.HasPrefix(line[1:], " ")
	case '#':
		return strings.HasPrefix(strings.TrimLeft(line, "#"), " ")
	}
	rest := strings.TrimLeft(line, "0123456789")
	return len(rest) < len(line) && (strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")) ||
		IsStamped(line) || IsDirective(line)
}

// stamp begins an entry of a log: a date with a time, that of syslog, a time alone, and that of web servers.
// It is one expression behind one ^: with two, a search goes through the whole text.
var stamp = regexp.MustCompile(`^(?:[\[(<]?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ,]+\d\d:\d\d|` +
	`\d\d[-/.](?:\d\d|[A-Z][a-z]{2})[-/.]\d{2,4}[:, ]+\d\d:\d\d|[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d|` +
	`\d\d:\d\d:\d\d\b)|\S+ \S+ \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d)`)

// IsStamped reports whether a line is an entry of a log: it begins with its time.
func IsStamped(line string) bool { return stamp.MatchString(line) }

var directive = regexp.MustCompile(`^[ \t]*(?:\.(?:[A-Z][A-Z]?|\\")(?:[ \t].*)?|` +
	`\\[a-zA-Z]+\*?(?:\[[^\]\n]*\]|\{[^{}\n]*\})*[ \t]*)(?:\r?\n|$)`)

// IsDirective reports whether a line is one of roff, or one of LaTeX that has commands alone.
func IsDirective(line string) bool { return directive.MatchString(line) }

// wrapped is the length from which a line that ends without a sign counts as wrapped.
const wrapped = 60

// unwrapLines puts a space for every line break that only wraps a line: the next line goes on in lower case, or the
// line is long and ends with no sign. The length in bytes stays.
func unwrapLines(s string) string {
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	raw := []byte(s)
	start := 0
	for i, c := range raw {
		if c != '\n' {
			continue
		}
		line := strings.TrimRight(s[start:i], " \t\r")
		start = i + 1
		if line == "" || i+1 >= len(s) || strings.TrimSpace(s[i+1:min(i+3, len(s))]) == "" {
			continue
		}
		next, _ := utf8.DecodeRuneInString(strings.TrimLeft(s[i+1:], " \t"))
		if next == '\n' || next == utf8.RuneError {
			continue
		}
		long := len(line) >= wrapped && !strings.ContainsRune(".!?:;", rune(line[len(line)-1]))
		if unicode.IsLower(next) || long {
			raw[i] = ' '
		}
	}
	return string(raw)
}

var abbreviations = setOf(`dr mr mrs ms prof st jr sr fig figs no vs al e.g i.e vol gen col lt sgt capt rev hon approx
ca cf eq ref refs`)

// continuesSentence says whether a sentence that seems to end goes on after an abbreviation, an initial or an ordinal
// number.
func (l *Language) continuesSentence(prev, next string) bool {
	t := strings.TrimRight(prev, " \t")
	if !strings.HasSuffix(t, ".") || strings.HasSuffix(prev, "\n") {
		return false
	}
	t = t[:len(t)-1]
	i := strings.LastIndexFunc(t, func(r rune) bool { return unicode.IsSpace(r) || r == '(' || r == '[' })
	last := t[i+1:]
	if r, n := utf8.DecodeRuneInString(last); n == len(last) && unicode.IsUpper(r) {
		return true
	}
	r, _ := utf8.DecodeRuneInString(next)
	ordinal := l.ordinals && len(last) <= 2 && last != "" && strings.Trim(last, "0123456789") == ""
	return (ordinal || l.abbreviations[strings.ToLower(last)]) && !unicode.IsSpace(r)
}

// Words gives the words of a text: UAX #29 segments that hold a letter or a digit.
func Words(s string) []string {
	var out []string
	it := words.FromString(s)
	for it.Next() {
		if w := it.Value(); isSpoken(w) {
			out = append(out, w)
		}
	}
	return out
}

func isSpoken(segment string) bool {
	return strings.IndexFunc(segment, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0
}

// HasContent reports whether a text has anything that a question may be about: a letter, a digit, or a symbol such as
// ☂.
func HasContent(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.So, r)
	})
}

// Place of a word in a text: bytes, half open. It never parts a character from its combining marks.
type Place struct{ Start, End int }

// asciiWord returns the end of the ASCII letters and digits from a place on, where a word ends there for certain:
// before the end, a sign that joins nothing, or a sign before white space. It is the place itself where that is not
// known.
func asciiWord(s string, at int) int {
	end := at
	for end < len(s) && isAlphanumeric(s[end]) {
		end++
	}
	switch {
	case end == len(s) || isSeparator(s[end]):
		return end
	case end+1 < len(s) && s[end] < utf8.RuneSelf && s[end] != '_' && (s[end+1] == ' ' || s[end+1] == '\n'):
		return end
	}
	return at
}

// isGap reports whether the byte at a place is a segment without a word: a sign that joins nothing, before more ASCII.
func isGap(s string, at int) bool {
	return s[at] < utf8.RuneSelf && s[at] != '_' && !isAlphanumeric(s[at]) && at+1 < len(s) && s[at+1] < utf8.RuneSelf
}

func isAlphanumeric(c byte) bool {
	return c-'0' <= 9 || (c|0x20)-'a' <= 25
}

// isSeparator reports whether an ASCII sign parts words wherever it stands (UAX #29: no MidLetter, MidNum, MidNumLet or
// ExtendNumLet).
func isSeparator(c byte) bool {
	switch c {
	case ':', '.', '\'', ',', ';', '_', '"':
		return false
	}
	return c < utf8.RuneSelf && !isAlphanumeric(c)
}

// Terms gives the stems of a text in order, without function words: what passages and questions are matched by.
func Terms(s string) []string { return english.Terms(s) }

// Stem takes plural endings (after Harman, How effective is suffixing?, 1991), -ed and -ing off a lower-case English
// word. It is light on purpose, and so some forms stay apart: the plural of a word in a hissing sound keeps its e
// (classes becomes classe, class stays). To mend that is to change Analyser, and to measure recall again.
func Stem(w string) string {
	w = toSingular(w)
	for _, suffix := range []string{"ing", "ed"} {
		st, ok := strings.CutSuffix(w, suffix)
		if !ok || len(st) < 3 || !strings.ContainsAny(st, "aeiouy") {
			continue
		}
		n := len(st)
		switch {
		case strings.HasSuffix(st, "at"), strings.HasSuffix(st, "bl"), strings.HasSuffix(st, "iz"):
			return st + "e"
		case st[n-1] == st[n-2] && !strings.ContainsRune("lsz", rune(st[n-1])):
			return st[:n-1]
		}
		return st
	}
	return w
}

func toSingular(w string) string {
	n := len(w)
	switch {
	case n > 4 && strings.HasSuffix(w, "ies") && w[n-4] != 'e' && w[n-4] != 'a':
		return w[:n-3] + "y"
	case n > 3 && strings.HasSuffix(w, "es") && w[n-3] != 'a' && w[n-3] != 'e' && w[n-3] != 'o':
		return w[:n-1]
	case n > 3 && strings.HasSuffix(w, "s") && w[n-2] != 'u' && w[n-2] != 's':
		return w[:n-1]
	}
	return w
}

// IsStopWord reports whether a lower-case word carries no meaning of its own.
func IsStopWord(w string) bool { return stopWords[w] }

// IsCommon reports whether a lower-case word is too common to be a name by itself at the start of a sentence.
func IsCommon(w string) bool { return stopWords[w] || commonWords[w] }

// setOf returns a set of words, with and without their accents.
func setOf(s string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(s) {
		m[w], m[stripAccents(w)] = true, true
	}
	return m
}

// functionWords carry no meaning in a passage or a question.
var functionWords = setOf(
	`a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
was will with s who what when where which whom whose why how`,
)

var stopWords = setOf(
	`a about above after again against all am an and any are aren't as at be because been before being below between both
but by can cannot could couldn't did didn't do does doesn't doing don't down during each few for from further had
hadn't has hasn't have haven't having he her here hers herself him himself his how i if in into is isn't it its itself
just me more most my myself no nor not now of off on once only or other our ours ourselves out over own same shan't
she should shouldn't so some such than that the their theirs them themselves then there these they this those through
to too under until up upon very was wasn't we were weren't what when where which while who whom whose why will with
won't would wouldn't you your yours yourself yourselves also may might must shall et al per via s`,
)

var commonWords = setOf(
	`according across actually additional additionally administration adult after all almost alone along already although
always among amongst analysis another anyone anything appendix approach area around article aside assuming author
authors background based basically because become before began behind believe besides better beyond big books both
briefly business by called case cases certain chapter children city clearly clinical combined common compared
conclusion conclusions considering consequently contents currently data dated day days department depending
description despite different directly discussion due early earlier eight either eleven else english enough especially
even eventually every everyone everything example excluding except experts fact family famous fifth figure final
finally first five following forty four fourth frequently full furthermore general generally given good government
great group half hence here high his historically home however hundred important in inc including indeed individual
initial initially inside instead interestingly international introduction january february march april june july
august september october november december monday tuesday wednesday thursday friday saturday sunday just key kind
known large largely last late later least less let like likewise little local long look main mainly major make man
many materials matter maybe meanwhile members men method methods million mine modern month months moreover most mostly
much multiple my name named national near nearly neither never nevertheless new next nine nobody none nonetheless
normally note notably nothing number numerous objective objectives obviously occasionally often old one ones onto open
originally others otherwise outside overall owing page part particularly parts patient patients people perhaps place
please point possible post presently present previous previously primary prior probably problem process public purpose
quite rather real recent recently references regarding regardless related remarkably report reports research
respectively result results right said school second secondly section see seen seven several shall short significant
similar similarly simply since single six small social some someone something sometimes soon source specifically
starting state states statement still strictly strong studies study subsequently such summary surprisingly system
table taken ten term third thirty this though thousand three thus time times title to today together top total toward
towards traditionally true twelve twenty two type types typically ultimately unfortunately unless unlike use used
using usually various view virtually way week well whatever whenever whereas wherever whether within without woman
women word work world year years yes yet young zero add born click find get go keep list name read run set show start
stop take`,
)
