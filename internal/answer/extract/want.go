package extract

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// want is what a question asks for.
type want int

const (
	anything want = iota
	name
	place
	date
	number
)

// asking are the words that say what is wanted, in English, German and French, as Language.Plain has them.
var asking = kindsOf(map[want]string{
	name:   "who whom whose wer wem wen wessen qui 谁 誰",
	place:  "where wo woher wohin ou",
	date:   "when wann quand year year's date jahr datum annee",
	number: "combien wieviel wieviele percentage percent number proportion prozent anzahl nombre pourcentage",
})

func kindsOf(words map[want]string) map[string]want {
	out := map[string]want{}
	for kind, list := range words {
		for _, word := range strings.Fields(list) {
			out[word] = kind
		}
	}
	return out
}

var (
	// measures stand behind how and wie where a number is wanted.
	measures = kindsOf(map[want]string{number: `many much long old far often high large big tall fast
viel viele lange alt weit oft hoch gross`})
	months = kindsOf(map[want]string{date: `january february march april june july august september october november
december
januar februar marz juni juli oktober dezember
janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre`})
	numerals = kindsOf(map[want]string{number: `two three four five six seven eight nine ten dozen hundred thousand million
billion half twice`})
)

// wanted returns what the words of a question ask for.
func wanted(words []string) want {
	for i, word := range words {
		if (word == "how" || word == "wie") && i+1 < len(words) && measures[words[i+1]] != 0 {
			return number
		}
		if kind := asking[word]; kind != 0 {
			return kind
		}
	}
	return anything
}

// fits reports whether a text has what is wanted, other than what the question says.
func (want want) fits(q question, body string) bool {
	first := true
	for at := range q.language.Places(body) {
		as := body[at.Start:at.End]
		word := q.language.Plain(as)
		initial := first
		first = false
		if q.said[word] {
			continue
		}
		digits := strings.ContainsFunc(as, unicode.IsDigit)
		r, _ := utf8.DecodeRuneInString(as)
		switch want {
		case number:
			if digits || numerals[word] != 0 {
				return true
			}
		case date:
			if months[word] != 0 || digits && utf8.RuneCountInString(as) == 4 {
				return true
			}
		case name, place:
			if unicode.IsUpper(r) && !initial && !q.language.Common(word) {
				return true
			}
		}
	}
	return false
}
