package builtin

import (
	"slices"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// longestQuestion is how many code points a sentence may have to be asked: a table or a list that no sentence ends
// would be one question about everything.
const longestQuestion = 400

// what stands for the name that is asked for. A language without an entry leaves a gap there: what is compared is what
// else the sentence says.
var what = map[string]string{
	"de": "was",
	"en": "what",
	"es": "qué",
	"fr": "quoi",
	"ja": "何",
	"pt": "o quê",
	"th": "อะไร",
	"zh": "什么",
}

// asked is a sentence and the places of the names in it, in code points and in order of the text.
type asked struct {
	runes  []rune
	places [][2]int
}

// QuestionsIn returns at most count different questions that a chunk answers, by rule: a sentence of it in which "what"
// stands for one of its names. Each sentence is asked for its first name before any is for its second; within a round
// they are in order of the text. Lines that are no prose (text.NotProse) are not asked. A chunk whose sentences hold no
// names has none, and neither has one of a sentence that says nothing but a name.
func QuestionsIn(language *text.Language, chunk string, count int) []string {
	sentences := sentencesWithNames(language, chunk)
	var out []string
	seen := map[string]bool{}
	for round, more := 0, true; more; round++ {
		more = false
		for _, sentence := range sentences {
			if len(out) >= count {
				return out
			}
			if round >= len(sentence.places) {
				continue
			}
			more = true
			question := sentence.buildQuestion(what[language.Code()], sentence.places[round])
			if question != "" && !seen[question] {
				seen[question] = true
				out = append(out, question)
			}
		}
	}
	return out
}

func sentencesWithNames(language *text.Language, chunk string) []asked {
	var keys []string
	for _, entity := range EntitiesIn(language, chunk) {
		keys = append(keys, names.Key(entity.Name, false))
	}
	var out []asked
	for _, sentence := range language.Sentences(text.KeepProse(chunk)) {
		one := asked{runes: []rune(strings.Join(strings.Fields(sentence), " "))}
		if len(one.runes) > longestQuestion {
			continue
		}
		folded := names.NewTextOf(language, string(one.runes))
		for _, key := range keys {
			one.places = append(one.places, folded.Spans(key, 1)...)
		}
		if one.places = dropNested(one.places); len(one.places) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// dropNested orders places and leaves out those that begin within one before, so that of names within names the longest
// counts: "What of Oxford" would ask for a part of "University of Oxford".
func dropNested(places [][2]int) [][2]int {
	slices.SortFunc(places, func(a, b [2]int) int {
		if a[0] != b[0] {
			return a[0] - b[0]
		}
		return b[1] - a[1]
	})
	end := 0
	return slices.DeleteFunc(places, func(place [2]int) bool {
		if place[0] < end {
			return true
		}
		end = place[1]
		return false
	})
}

// buildQuestion returns the sentence with a word for what is asked for in a place, and a question mark at its end. It
// is empty where the rest of the sentence has no letter.
func (a asked) buildQuestion(word string, place [2]int) string {
	before, after := string(a.runes[:place[0]]), string(a.runes[place[1]:])
	if !strings.ContainsFunc(before+after, unicode.IsLetter) {
		return ""
	}
	if !strings.ContainsFunc(before, unicode.IsLetter) && word != "" {
		first := []rune(word)
		first[0] = unicode.ToUpper(first[0])
		word = string(first)
	}
	question := strings.Join(strings.Fields(before+word+after), " ")
	return strings.TrimRight(question, ".!?…:;,。！？、 ") + "?"
}
