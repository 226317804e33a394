package extract

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
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
	phone
)

// asking are the words that say what is wanted, as Language.Plain has them.
var asking = wordsOf(map[want]string{
	name:  "who whom whose wer wem wen wessen qui quien quienes quem 谁 誰",
	place: "where wo woher wohin ou donde onde",
	date:  "when wann quand cuando quando year year's date jahr datum annee ano fecha",
	number: `combien wieviel wieviele percentage percent number proportion prozent anzahl nombre pourcentage
cuanto cuanta cuantos cuantas quanto quanta quantos quantas`,
})

// choosing are words before the one that says what is wanted: what colour. An answer need not repeat that.
var choosing = wordsOf(map[want]string{
	name: "what which welche welcher welches welchem welchen quel quelle quels quelles cual qual",
})

// hinting are words that say what is wanted, and stand in what says it.
var hinting = wordsOf(map[want]string{
	phone: "phone telephone fax telefon telefonnummer telefono telefone",
	money: `cost costs price priced fee fare fares deposit total salary kosten kostet kostete preis gebuhr summe
tarif prix cout coute precio tarifa costo cuesta preco custo custa`,
	mail: "email e mail emails courriel correo",
})

var (
	// measures stand behind how and wie where a number is wanted, beside those of a dimension.
	measures = wordsOf(map[want]string{number: "many much often large big viel viele oft gross"})
	months   = wordsOf(map[want]string{date: strings.ReplaceAll(strings.Join(text.Months[:], " "), "may ", "")}) // a verb
	// moments say when without a date.
	moments = wordsOf(map[want]string{date: `monday tuesday wednesday thursday friday saturday sunday weekdays
weekends century morning noon evening night midnight today yesterday tomorrow clock hour hours minute minutes day
days daily week weeks weekly month months year years spring summer autumn winter christmas easter montag dienstag
mittwoch donnerstag freitag samstag sonntag jahrhundert uhr stunde stunden tag tage tagen taglich woche wochen monat
monate monaten jahr jahre jahren heute gestern morgen fruhling sommer herbst lundi mardi mercredi jeudi vendredi
samedi dimanche siecle heures jour jours semaine semaines mois ans annee annees lunes martes miercoles jueves
viernes sabado domingo siglo hora horas dia dias semana semanas meses ano anos feira seculo`})
	numerals = wordsOf(map[want]string{number: `two three four five six seven eight nine ten dozen hundred thousand million
billion half twice eleven twelve fifteen twenty thirty forty fifty sixty seventy eighty ninety zwei drei vier funf
sechs sieben acht neun zehn elf zwolf dutzend hundert tausend millionen halb`})
)

// currencies are signs and words of money.
var currencies = wordsOf(map[want]string{money: `euro euros eur dollar dollars usd cent cents pound pounds gbp franc
francs chf franken peso pesos real reais yen`})

// findWant returns what the words of a question ask for. Behind what or how, when joins two clauses.
func (q question) findWant(words []string) want {
	kind, led := anything, false
	for i, word := range words {
		if led && asking[word] == date && q.language.IsStopWord(word) {
			continue
		}
		led = led || choosing[word] != 0 || word == "how" || word == "wie"
		next := words[min(i+1, len(words)-1)]
		if (word == "how" || word == "wie") && (measures[next] != 0 || dimensions[next] != 0) {
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

// aside is a further statement of a sentence.
var aside = regexp.MustCompile(`,? (?:and|und|et|y|e) (\p{Ll}+)[^.!?;]*`)

// withoutAsides returns a text without further statements that have no word of the question: their dates are of
// something else.
func (q question) withoutAsides(body string) string {
	return aside.ReplaceAllStringFunc(body, func(clause string) string {
		_, own := q.splitTerms(clause)
		if len(own) > 0 || q.language.IsStopWord(aside.FindStringSubmatch(clause)[1]) {
			return clause
		}
		return ""
	})
}

// found is what of the kinds that are wanted a text has, other than what the question says.
type found struct {
	digits, numeral, year, month, name, initial, currency, mail, phone, clock, moment bool
	count                                                                             bool // a number that is no date
	measured                                                                          dimension
}

func (q question) kindsIn(body string) (out found) {
	undated := withoutDates(body)
	before, last, year, counted, beside := 0, "", false, false, dimension(0)
	for at := range q.language.Places(body) {
		as := body[at.Start:at.End]
		word := q.language.PlainForm(as)
		between := strings.TrimSpace(body[min(before, at.Start):at.Start])
		begins := before == 0 || between != "" && strings.ContainsRune(ends+":", lastRune(between))
		before = at.End
		number := strings.TrimRightFunc(word, unicode.IsLetter)
		digits := strings.ContainsFunc(as, unicode.IsDigit)
		if counted || quantities[last] != 0 {
			out.measured |= units[word]
		}
		if digits {
			out.measured |= units[word[len(number):]] // 12m
		}
		if strings.HasPrefix(body[at.End:], "%") || strings.HasPrefix(body[at.End:], " %") {
			out.measured |= share
		}
		beside |= dimensions[word]
		out.count = out.count || year && q.said[word] // 1975 cases
		last, year, counted = word, false, false
		if q.said[word] {
			continue
		}
		out.digits = out.digits || digits
		year = digits && isYear(as)
		counted = digits && undated[at.Start] != ' ' || numerals[word] != 0
		out.count = out.count || counted && !year
		out.numeral = out.numeral || numerals[word] != 0
		out.year = out.year || year
		out.moment = out.moment || moments[word] != 0
		out.month = out.month || months[word] != 0
		for part := range strings.SplitSeq(as, "_") { // of the name of a column
			plain := q.language.PlainForm(part)
			out.currency = out.currency || currencies[plain] != 0
			beside |= dimensions[plain]
		}
		if r, _ := utf8.DecodeRuneInString(as); unicode.IsUpper(r) && !q.language.IsCommon(word) {
			out.name, out.initial = out.name || !begins, out.initial || begins
		}
	}
	signed := strings.ContainsFunc(body, func(r rune) bool { return unicode.Is(unicode.Sc, r) })
	if out.currency = out.digits && (out.currency || signed); out.currency {
		out.measured |= sum
	}
	if out.count {
		out.measured |= beside
	}
	if out.year { // of what began then
		out.measured |= beside & (age | duration)
	}
	out.phone = q.want == phone && hasPhone(body, undated)
	out.clock = clock.MatchString(body)
	out.mail = strings.ContainsRune(body, '@')
	return out
}

// matchesText reports whether a text has what is wanted.
func (q question) matchesText(has found) bool {
	switch q.want {
	case number:
		return (has.digits || has.numeral) && (q.measures == 0 || q.measures&has.measured != 0)
	case date:
		return has.month || has.year || has.clock
	case name, place:
		return has.name
	case money:
		return has.currency
	case mail:
		return has.mail
	case phone:
		return has.phone
	}
	return false
}

// lacksValue reports whether a text has nothing that could be what is wanted.
func (q question) lacksValue(has found, body string) bool {
	switch q.want {
	case number, money:
		if q.measures != 0 {
			return q.measures&has.measured == 0
		}
		return !has.count && !has.numeral
	case date:
		latin := strings.ContainsFunc(body, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
		return !has.year && !has.month && !has.clock && !has.moment && (latin || !has.digits)
	case name:
		return !has.name && !has.initial && strings.ContainsFunc(body, unicode.IsLower) // other scripts have no capitals
	case mail, phone:
		return !q.matchesText(has)
	}
	return false
}
