// Package names decides when two entity names are equivalent (docs/reference/formats.md, Mentions) and finds a name in
// a text.
//
// The canonical key of a name is: NFKC, typographic quotes and dashes to ASCII, case folded, white space collapsed,
// enclosing quotes and brackets and trailing punctuation stripped, a leading "the" dropped. A name of which nothing is
// left keeps its trimmed form, so that "C++" and "!!!" stay names.
package names

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/unweaver/unweaver/internal/text"
)

// Version is part of every generation's identity.
// 1: first form.
const Version = "names/1"

// Key returns the canonical key; exact keeps the surface form untouched (parity with the reference code).
func Key(name string, exact bool) string {
	if exact {
		return name
	}
	folded := collapseSpace(foldName(name))
	key := stripMarks(folded)
	if rest, ok := strings.CutPrefix(key, "the "); ok && rest != "" {
		key = rest
	}
	if key == "" {
		return folded
	}
	return key
}

// foldName maps a string to NFKC, ASCII quotes and dashes and folded case.
func foldName(s string) string {
	if text.IsASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Fold().String(strings.Map(toPlain, norm.NFKC.String(s)))
}

func toPlain(r rune) rune {
	switch r {
	case '‘', '’', '‚', '‛', '′', 'ʼ', '`', '´':
		return '\''
	case '“', '”', '„', '‟', '″', '«', '»':
		return '"'
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return '-'
	case '\u00ad', '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff':
		return -1
	}
	return r
}

func collapseSpace(s string) string { return strings.Join(strings.Fields(s), " ") }

var pairs = map[byte]byte{'"': '"', '\'': '\'', '(': ')', '[': ']', '{': '}', '<': '>'}

func stripMarks(s string) string {
	for {
		t := strings.TrimRight(s, " .,;:!?")
		t = strings.TrimLeft(t, " ,;:")
		if len(t) >= 2 && pairs[t[0]] != 0 && pairs[t[0]] == t[len(t)-1] {
			t = t[1 : len(t)-1]
		}
		if t == s {
			return t
		}
		s = t
	}
}

// Text is a text made searchable for canonical keys; it maps what it finds back to code points of the original.
type Text struct {
	folded string
	at     []int32 // code point of the original for each byte of folded; one more at the end
	within bool    // a border is also where a script parts words by no space
}

// NewTextOf returns NewText of a text of a language. But in English, names of scripts that part words by no space
// (Chinese, Japanese, Thai) are found within such text, too, and names of Korean before a particle.
func NewTextOf(language *text.Language, s string) *Text {
	of := NewText(s)
	of.within = language != text.LanguageOf("en")
	return of
}

// NewText folds a text once for any number of look-ups.
func NewText(s string) *Text {
	out := &Text{at: make([]int32, 0, len(s)+1)}
	raw := make([]byte, 0, len(s))
	space := true
	emit := func(part string, from int32) {
		for i := 0; i < len(part); {
			r, n := utf8.DecodeRuneInString(part[i:])
			if unicode.IsSpace(r) {
				if !space {
					raw, out.at = append(raw, ' '), append(out.at, from)
				}
				space = true
			} else {
				raw = append(raw, part[i:i+n]...)
				for range n {
					out.at = append(out.at, from)
				}
				space = false
			}
			i += n
		}
	}
	var pos int32
	if text.IsASCII(s) {
		for i := 0; i < len(s); i++ {
			c := s[i]
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			if c == ' ' || (c >= '\t' && c <= '\r') {
				if !space {
					raw, out.at = append(raw, ' '), append(out.at, int32(i))
				}
				space = true
				continue
			}
			raw, out.at, space = append(raw, c), append(out.at, int32(i)), false
		}
		pos = int32(len(s))
	} else {
		var it norm.Iter
		it.InitString(norm.NFKC, s)
		caser := cases.Fold()
		for !it.Done() {
			before := it.Pos()
			part := string(it.Next())
			emit(caser.String(strings.Map(toPlain, part)), pos)
			pos += int32(utf8.RuneCountInString(s[before:it.Pos()]))
		}
	}
	out.at = append(out.at, pos)
	out.folded = string(raw)
	return out
}

// Spans gives the first max places of a key as [start, end) in code points of the original, at word borders only.
func (t *Text) Spans(key string, max int) [][2]int {
	var out [][2]int
	if key == "" {
		return nil
	}
	for from := 0; len(out) < max; {
		i := strings.Index(t.folded[from:], key)
		if i < 0 {
			break
		}
		i += from
		end := i + len(key)
		if t.isBorder(i) && (t.isBorder(end) || t.within && t.startsParticle(end)) {
			out = append(out, [2]int{int(t.at[i]), int(t.runeBefore(end)) + 1})
			from = end
		} else {
			_, n := utf8.DecodeRuneInString(t.folded[i:])
			from = i + n
		}
	}
	return out
}

// runeBefore returns the code point that the byte before end came from.
func (t *Text) runeBefore(end int) int32 {
	if end < len(t.at)-1 && t.at[end] > t.at[end-1]+1 {
		return t.at[end] - 1 // combining marks after the last base belong to it
	}
	return t.at[end-1]
}

// isBorder reports whether position i splits no word.
func (t *Text) isBorder(i int) bool {
	s := t.folded
	if i == 0 || i == len(s) {
		return true
	}
	a, _ := utf8.DecodeLastRuneInString(s[:i])
	b, _ := utf8.DecodeRuneInString(s[i:])
	if t.within && !unicode.Is(unicode.M, b) && (text.IsUnspaced(a) || text.IsUnspaced(b)) {
		return true
	}
	return !wordRune(a) || !wordRune(b)
}

// startsParticle reports whether position i, within a word of Korean, is where a particle may begin: it is written
// together with the noun before it.
func (t *Text) startsParticle(i int) bool {
	before, _ := utf8.DecodeLastRuneInString(t.folded[:i])
	after, _ := utf8.DecodeRuneInString(t.folded[i:])
	return unicode.Is(unicode.Hangul, before) && unicode.Is(unicode.Hangul, after)
}

func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r)
}
