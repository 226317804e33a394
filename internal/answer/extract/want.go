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
	money
	mail
)

// asking are the words that say what is wanted, as Language.Plain has them.
var asking = kindsOf(map[want]string{
	name:  "who whom whose wer wem wen wessen qui quien quienes quem 谁 誰",
	place: "where wo woher wohin ou donde onde",
	date:  "when wann quand cuando quando year year's date jahr datum annee ano fecha data",
	number: `combien wieviel wieviele percentage percent number proportion prozent anzahl nombre pourcentage
cuanto cuanta cuantos cuantas quanto quanta quantos quantas`,
})

// choosing are words before the one that says what is wanted: what colour. An answer need not repeat that.
var choosing = kindsOf(map[want]string{
	name: "what which welche welcher welches welchem welchen quel quelle quels quelles cual qual",
})

// hinting are words that say what is wanted, and stand in what says it.
var hinting = kindsOf(map[want]string{
	number: "phone telephone fax telefon telefonnummer telefono telefone",
	money: `cost costs price priced fee deposit total salary kosten kostet kostete preis gebuhr summe prix cout coute
precio costo cuesta preco custo custa`,
	mail: "email e mail emails courriel correo",
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

// currencies are signs and words of money.
var currencies = kindsOf(map[want]string{money: `euro euros eur dollar dollars usd cent cents pound pounds gbp franc
francs chf franken peso pesos real reais yen`})

// wanted returns what the words of a question ask for.
func wanted(words []string) want {
	kind := anything
	for i, word := range words {
		if (word == "how" || word == "wie") && i+1 < len(words) && measures[words[i+1]] != 0 {
			kind = number
		} else {
			kind = asking[word]
		}
		if kind != anything {
			break
		}
	}
	if kind != anything && kind != number {
		return kind
	}
	for i, word := range words {
		if hint := hinting[word]; hint != anything && (word != "e" || i+1 < len(words) && words[i+1] == "mail") {
			return hint
		}
	}
	return kind
}

// found is what of the kinds that are wanted a text has, other than what the question says.
type found struct{ digits, numeral, year, month, name, initial, currency, mail bool }

func (q question) kindsIn(body string) (out found) {
	before := 0
	for at := range q.language.Places(body) {
		as := body[at.Start:at.End]
		word := q.language.Plain(as)
		between := strings.TrimSpace(body[min(before, at.Start):at.Start])
		begins := before == 0 || between != "" && strings.ContainsRune(ends+":", lastRune(between))
		before = at.End
		if q.said[word] {
			continue
		}
		digits := strings.ContainsFunc(as, unicode.IsDigit)
		out.digits = out.digits || digits
		out.numeral = out.numeral || numerals[word] != 0
		out.year = out.year || digits && utf8.RuneCountInString(as) == 4
		out.month = out.month || months[word] != 0
		out.currency = out.currency || currencies[word] != 0
		if r, _ := utf8.DecodeRuneInString(as); unicode.IsUpper(r) && !q.language.Common(word) {
			out.name, out.initial = out.name || !begins, out.initial || begins
		}
	}
	signed := strings.ContainsFunc(body, func(r rune) bool { return unicode.Is(unicode.Sc, r) })
	out.currency = out.digits && (out.currency || signed)
	out.mail = strings.ContainsRune(body, '@')
	return out
}

// fits reports whether a text has what is wanted.
func (want want) fits(has found) bool {
	switch want {
	case number:
		return has.digits || has.numeral
	case date:
		return has.month || has.year
	case name, place:
		return has.name
	case money:
		return has.currency
	case mail:
		return has.mail
	}
	return false
}

// lacking reports whether a text has nothing that could be what is wanted.
func (want want) lacking(has found, body string) bool {
	switch want {
	case number, money:
		return !has.digits && !has.numeral
	case date:
		return !has.digits && !has.numeral && !has.month
	case name:
		return !has.name && !has.initial && strings.ContainsFunc(body, unicode.IsLower) // other scripts have no capitals
	case mail:
		return !has.mail
	}
	return false
}
