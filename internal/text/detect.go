package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a text in Latin letters needs to be of a language: many function words, or clearly more than of others. Of the
// words of a text 0.34 to 0.56 are function words of its own language, of tables and code fewer, and up to 0.3 of a
// related one (docs/decisions/README.md).
const (
	many, leading      = 0.3, 1.2
	some, outstripping = 0.05, 2.5
	judgeable          = 8 // words; of fewer nothing is said
)

// Detector counts in which languages texts are. Its zero value is ready.
type Detector struct{ votes map[string]int }

// Add counts a text, of which the first so many bytes are looked at.
func (d *Detector) Add(s string) {
	if code := detectLanguage(Beginning(s, 2000)); code != "" {
		if d.votes == nil {
			d.votes = map[string]int{}
		}
		d.votes[code]++
	}
}

// Language returns the code of the language that most texts are in; English where no text says anything.
func (d *Detector) Language() string {
	best := english.code
	for _, language := range languages {
		if d.votes[language.code] > d.votes[best] {
			best = language.code
		}
	}
	return best
}

// DetectLanguage returns the language of what a text begins with; empty where that says nothing, and Undetermined where
// it is in none of the known languages. A build asks it of every passage, so it looks at few bytes.
func DetectLanguage(s string) string { return detectLanguage(Beginning(s, 400)) }

// Beginning returns at most the first so many bytes of a text, without a part of a character.
func Beginning(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// detectLanguage returns the language of a text by its script, and where the script is of many by its function words;
// empty where the text is too short, or has too few function words of any language, as code and tables have.
func detectLanguage(s string) string {
	letters, latin, kana, han, thai := 0, 0, 0, 0, 0
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r):
			continue
		case unicode.Is(unicode.Latin, r):
			latin++
		case unicode.In(r, unicode.Hiragana, unicode.Katakana):
			kana++
		case unicode.Is(unicode.Han, r):
			han++
		case unicode.Is(unicode.Thai, r):
			thai++
		}
		letters++
	}
	switch {
	case letters == 0:
		return ""
	case 2*latin > letters:
		return detectLatin(s)
	case 2*thai > letters:
		return "th"
	case 2*(kana+han) > letters && 10*kana > kana+han:
		return "ja"
	case 2*han > letters:
		return "zh"
	case letters < judgeable:
		return ""
	}
	return Undetermined
}

func detectLatin(s string) string {
	total, counts := 0, map[*Language]int{}
	for _, word := range Words(strings.ToLower(s)) {
		if first, _ := utf8.DecodeRuneInString(word); !unicode.IsLetter(first) {
			continue
		}
		total++
		for _, language := range languages {
			if language.function[word] || language.stop[word] || language.ElisionLength(word) > 0 {
				counts[language]++
			}
		}
	}
	var best, next int
	code := ""
	for _, language := range languages {
		switch n := counts[language]; {
		case n > best:
			best, next, code = n, best, language.code
		case n > next:
			next = n
		}
	}
	share, lead := float64(best)/float64(max(1, total)), float64(best)/float64(max(1, next))
	switch {
	case total < judgeable:
		return ""
	case share >= many && lead >= leading, share >= some && lead >= outstripping:
		return code
	}
	return Undetermined
}
