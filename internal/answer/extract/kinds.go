package extract

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/text"
)

// dimension is what a number measures, as bits: how long may ask for a length or a duration.
type dimension uint16

const (
	length dimension = 1 << iota
	mass
	age
	duration
	speed
	heat
	share
	sum
	extent // of a text or a sequence
)

// wordsOf maps each word of a table to the bits of its rows.
func wordsOf[B dimension | uint64 | want](table map[B]string) map[string]B {
	out := map[string]B{}
	for bits, list := range table {
		for _, word := range strings.Fields(list) {
			out[word] |= bits
		}
	}
	return out
}

// dimensions are words for what is measured, behind how or before of, and beside a number without a unit.
var dimensions = wordsOf(map[dimension]string{
	length | duration | extent: "long lang length lange",
	length: `tall deep wide broad thick height depth width elevation altitude tief breit dick hohe tiefe
breite`,
	length | sum | share | heat | mass: "high hoch hohe",
	length | duration:                  "far weit distance entfernung entfernt",
	mass:                               "heavy schwer weight mass gewicht masse weighs wiegt",
	age: `old alt age aged alter born founded established built erected geboren gegrundet gebaut
erbaut`,
	duration:                  "duration dauer dauert lasts lasted since until seit bis",
	speed | length | duration: "fast schnell speed geschwindigkeit tempo",
	heat:                      "hot cold warm heiss kalt temperature temperatur",
	share:                     "percentage percent prozent prozentsatz",
})

// units are words behind a number that say what it measures.
var units = wordsOf(map[dimension]string{
	length: `m metre metres meter meters metern km kilometre kilometres kilometer kilometers kilometern cm centimetre
centimetres centimeter centimeters mm millimetre millimetres millimeter millimeters nm µm μm micrometers nanometers
foot feet ft fuss mile miles meile meilen inch inches zoll yard yards fathom fathoms seemeilen storey storeys stories`,
	mass: `kg kilo kilos kilogram kilograms kilogramm g gram grams gramm mg µg μg t ton tons tonne tonnes tonnen pound
pounds lb lbs ounce ounces oz pfund zentner stone`,
	age | duration: `year years yr yrs old jahr jahre jahren month months monat monate monaten week weeks woche wochen
day days tag tage tagen century centuries jahrhundert jahrhunderte decade decades`,
	duration: `hour hours h stunde stunden minute minutes min minuten second seconds s sekunde sekunden ms
millisecond milliseconds fortnight term terms summer summers winter winters season seasons night nights`,
	speed: "knots knot knoten kn mph kmh kph mbit",
	heat:  "degree degrees grad celsius fahrenheit kelvin c f k",
	share: "percent prozent percentage cent",
	extent: `character characters zeichen letter letters word words worter line lines zeilen page pages seiten
nucleotide nucleotides nt bp base bases kb mb byte bytes bit bits residue residues amino aa item items`,
})

// quantities stand before a unit as a number does.
var quantities = wordsOf(map[dimension]string{1: `a an one half several few many per each ein eine einen einem einer
halbe halben mehrere einige`})

// asksFor returns what the number is to measure that the words of a question ask for, 0 for anything: how long, or what
// is the length of.
func asksFor(words []string) dimension {
	for i, word := range words {
		switch bits := dimensions[word]; {
		case i == 0 || bits == 0:
		case words[i-1] == "how" || words[i-1] == "wie", bits == share && i < 3:
			return bits
		case i < 5 && choosing[words[0]] != anything && i+1 < len(words) && linking[words[i+1]] != 0:
			return bits
		}
	}
	return 0
}

// linking are words behind the noun that names what is measured.
var linking = wordsOf(map[dimension]string{1: "of is was has der des von vom ist war hat"})

// Opposites: of each pair, a question with a word of one side is not answered where only the other side is named, and
// of the first ones, behind an article, also where neither is.
var opposites = [][2]string{
	{
		"first earliest initial initially original originally 1st founding erste erster ersten erstes erstmals fruheste",
		"last latest final finally letzte letzter letzten letztes zuletzt",
	},
	{
		"oldest eldest earliest alteste altester altesten altestes",
		"newest youngest latest neueste neuester neuesten neuestes jungste jungster jungsten",
	},
	{
		"maximum max maximal highest tallest greatest largest biggest hochste hochster hochsten grosste grosster grossten",
		"minimum min minimal lowest smallest least shortest niedrigste niedrigsten kleinste kleinster kleinsten",
	},
	{"longest langste langsten langster", "shortest kurzeste kurzesten kurzester"},
	{"heaviest schwerste schwersten", "lightest leichteste leichtesten"},
	{"fastest quickest schnellste schnellsten", "slowest langsamste langsamsten"},
	{"before prior bevor vorher", "after afterwards following nachdem danach nachher"},
	{"born birth geboren geburt", "died death dead gestorben starb tod"},
	{"open opens opened opening offnet geoffnet eroffnet", "close closes closed closing schliesst geschlossen"},
	{"arrive arrives arrived arrival ankunft", "depart departs departed departure leaves abfahrt"},
}

// ranking is how many of the opposites rank: behind an article, as in the first keeper, an answer must have the word.
const ranking = 6

// sides has two bits for each pair of opposites.
var sides = func() map[string]uint64 {
	table := map[uint64]string{}
	for i, pair := range opposites {
		table[1<<(2*i)], table[2<<(2*i)] = pair[0], pair[1]
	}
	return wordsOf(table)
}()

// articles stand before what there is one of.
var articles = wordsOf(map[uint64]string{1: "the its his her their der die das den dem des"})

const (
	leftSides = 0x5555555555555555
	rankSides = 1<<(2*ranking) - 1
)

// sidesOf returns the sides of opposites that the words of a text are on.
func (q question) sidesOf(content string) (out uint64) {
	for at := range q.language.Places(content) {
		out |= sides[q.language.PlainForm(content[at.Start:at.End])]
	}
	return out
}

// missingSides returns the words of a question that a text on some sides does not have, nor one that means the same.
func missingSides(words []string, has uint64) (out []string) {
	for i, word := range words {
		asked := sides[word]
		if asked == 0 || asked&has != 0 || i+1 < len(words) && (words[i+1] == "name" || moments[words[i+1]] != 0) {
			continue
		}
		opposite := asked&leftSides<<1 | asked>>1&leftSides
		if asked&rankSides != 0 && i > 0 && articles[words[i-1]] != 0 || opposite&has != 0 {
			out = append(out, word)
		}
	}
	return out
}

// isYear reports whether a word is the number of a year, or of its decade.
func isYear(word string) bool {
	if len(word) > 4 && strings.Trim(word[4:], "ers") == "" {
		word = word[:4]
	}
	year, err := strconv.Atoi(word)
	return err == nil && len(word) == 4 && 1000 <= year && year < 2200
}

var (
	// dialled is what may be the number of a telephone, and clock a time of day.
	dialled = regexp.MustCompile(`(?:\+|\b)\(?\d(?:[ ()/.-]{0,3}\d){4,}`)
	clock   = regexp.MustCompile(`\b\d{1,2}[:h]\d\d\b|\b\d{1,2} ?[ap]\.?m\b|\bat \d`)
	calling = regexp.MustCompile(`(?i)phone|\btel|fon\b|telef|fax|mobil|call`)
)

// hasPhone reports whether a text has the number of a telephone: one that is written as such, or one beside a word for
// it. undated is the text without the days that it names.
func hasPhone(body, undated string) bool {
	for _, number := range dialled.FindAllString(undated, -1) {
		digits := 0
		for _, r := range number {
			if unicode.IsDigit(r) {
				digits++
			}
		}
		written := strings.ContainsAny(number[:1], "+0(") || strings.ContainsAny(number, " -/")
		if digits <= 15 && (calling.MatchString(body) || digits > 5 && written) {
			return true
		}
	}
	return false
}

// withoutDates returns a text with blanks for the days that it names.
func withoutDates(body string) string {
	out := []byte(body)
	for _, date := range text.Dates(body) {
		for i := date.Start; i < date.End; i++ {
			out[i] = ' '
		}
	}
	return string(out)
}
