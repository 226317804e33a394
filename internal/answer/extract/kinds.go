package extract

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/text"
)

// wordsOf maps each word of a table to the bits of its rows.
func wordsOf[B uint64 | want](table map[B]string) map[string]B {
	out := map[string]B{}
	for bits, list := range table {
		for _, word := range strings.Fields(list) {
			out[word] |= bits
		}
	}
	return out
}

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
