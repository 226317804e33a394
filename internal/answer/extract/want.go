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

// asking words.
var asking = map[string]want{
	"who": name, "whom": name, "whose": name, "wer": name, "wem": name, "wen": name, "wessen": name, "qui": name,
	"where": place, "wo": place, "woher": place, "wohin": place, "ou": place,
	"when": date, "wann": date, "quand": date, "year": date, "date": date, "jahr": date, "datum": date, "annee": date,
	"combien": number, "wieviel": number, "wieviele": number, "percentage": number, "percent": number, "number": number,
	"proportion": number, "prozent": number, "anzahl": number, "nombre": number, "pourcentage": number, "谁": name, "誰": name,
	"year's": date,
}

// measures behind how, wie or quel.
var measures = map[string]bool{
	"many": true, "much": true, "long": true, "old": true, "far": true, "often": true, "high": true, "large": true, "big": true,
	"tall": true, "fast": true, "viel": true, "viele": true, "lange": true, "alt": true, "weit": true, "oft": true, "hoch": true,
	"gross": true,
}

func wanted(words []string) want {
	for i, word := range words {
		if (word == "how" || word == "wie") && i+1 < len(words) && measures[words[i+1]] {
			return number
		}
		if kind := asking[word]; kind != 0 {
			return kind
		}
	}
	return anything
}

var months = map[string]bool{
	"january": true, "february": true, "march": true, "april": true, "june": true, "july": true, "august": true,
	"september": true, "october": true, "november": true, "december": true, "januar": true, "februar": true, "marz": true,
	"juni": true, "juli": true, "oktober": true, "dezember": true, "janvier": true, "fevrier": true, "mars": true, "avril": true,
	"mai": true, "juin": true, "juillet": true, "aout": true, "septembre": true, "octobre": true, "novembre": true, "decembre": true,
}

var numerals = map[string]bool{"two": true, "three": true, "four": true, "five": true, "six": true, "seven": true, "eight": true,
	"nine": true, "ten": true, "dozen": true, "hundred": true, "thousand": true, "million": true, "billion": true, "half": true, "twice": true}

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
			if digits || numerals[word] {
				return true
			}
		case date:
			if months[word] || digits && utf8.RuneCountInString(as) == 4 {
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
