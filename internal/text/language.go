package text

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/blevesearch/snowballstem/french"
	"github.com/blevesearch/snowballstem/german"
	"github.com/blevesearch/snowballstem/portuguese"
	"github.com/blevesearch/snowballstem/spanish"
	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// Language is how texts of one language are read: as words without function words, reduced to stems, and where no space
// parts words (Chinese, Japanese, Thai) as overlapping runs of a few characters (docs/decisions/README.md).
// Words of every language are compared without case, compatibility forms (NFKC), accents and what has no width.
type Language struct {
	code     string
	name     string // in English
	revision int    // of the rules; raised when terms change

	function, stop, common map[string]bool
	abbreviations          map[string]bool
	elides                 bool // l'eau is eau
	ordinals               bool // a sentence goes on after 3.
	stem                   func(string) string
}

// Undetermined is the language of plain words: no stems and no function words, for what has no rules of its own here.
const Undetermined = "und"

var english = &Language{
	code: "en", name: "English", revision: 3,
	function: functionWords, stop: stopWords, common: commonWords, abbreviations: abbreviations, stem: Stem,
}

var languages = []*Language{
	english,
	{
		code: "de", name: "German", revision: 2, stem: newSnowball(german.Stem), ordinals: true,
		function: germanFunction, stop: JoinSets(germanFunction, germanStop), common: germanCommon,
		abbreviations: germanAbbreviations,
	},
	{
		code: "es", name: "Spanish", revision: 2, stem: newSnowball(spanish.Stem),
		function: spanishFunction, stop: JoinSets(spanishFunction, spanishStop), common: spanishCommon,
		abbreviations: spanishAbbreviations,
	},
	{
		code: "fr", name: "French", revision: 2, stem: newSnowball(french.Stem), elides: true,
		function: frenchFunction, stop: JoinSets(frenchFunction, frenchStop), common: frenchCommon,
		abbreviations: frenchAbbreviations,
	},
	{
		code: "pt", name: "Portuguese", revision: 2, stem: portugueseStem,
		function: portugueseFunction, stop: JoinSets(portugueseFunction, portugueseStop), common: portugueseCommon,
		abbreviations: portugueseAbbreviations,
	},
	{code: "ja", name: "Japanese", revision: 2},
	{code: "th", name: "Thai", revision: 2},
	{code: "zh", name: "Chinese", revision: 2},
	{code: Undetermined, name: "any other, by plain words", revision: 3},
}

// Languages returns the codes that In knows (ISO 639-1, and Undetermined), English first.
func Languages() []string {
	var out []string
	for _, language := range languages {
		out = append(out, language.code)
	}
	return out
}

// LanguageOf returns the language of a code; an empty one is English, as in specifications older than the setting. One
// that is not known is read by plain words, under the name of an analyser that no program writes by other rules.
func LanguageOf(code string) *Language {
	if code == "" {
		return english
	}
	for _, language := range languages {
		if language.code == code {
			return language
		}
	}
	return &Language{code: code, name: code}
}

// Code returns what a configuration calls the language.
func (l *Language) Code() string { return l.code }

// Name returns the name of the language in English.
func (l *Language) Name() string { return l.name }

// NameOf returns the English name of a language by its code (BCP 47), of any language; empty where the code is none.
func NameOf(code string) string {
	tag, err := language.Parse(code)
	if err != nil || tag.String() != code || tag.IsRoot() {
		return ""
	}
	return display.English.Languages().Name(tag)
}

// Analyser names the rules of Terms and Surface; it is part of identities.
func (l *Language) Analyser() string { return fmt.Sprintf("%s/%d", l.code, l.revision) }

// HasStems reports whether words are reduced to stems.
func (l *Language) HasStems() bool { return l.stem != nil }

// IsStopWord reports whether a lower-case word carries no meaning of its own.
func (l *Language) IsStopWord(word string) bool { return l.stop[word] }

// IsCommon reports whether a lower-case word is too common to be a name by itself at the start of a sentence.
func (l *Language) IsCommon(word string) bool { return l.stop[word] || l.common[word] }

// ElisionLength returns the length in bytes of an article or particle that is written together with the word that
// follows it: of l' in l'eau. 0: there is none, or the language writes none so.
func (l *Language) ElisionLength(word string) int {
	if !l.elides {
		return 0
	}
	at := strings.IndexAny(word, "'’")
	if at <= 0 || !elisions[strings.ToLower(word[:at])] {
		return 0
	}
	_, size := utf8.DecodeRuneInString(word[at:])
	if at+size == len(word) {
		return 0
	}
	return at + size
}

var elisions = setOf("l d j m t s n c qu jusqu lorsqu puisqu quoiqu quelqu entr presqu")

// longestStemmed is the length in bytes up to which words are stemmed: stemmers take time by the square of it, and what
// is longer is no word.
const longestStemmed = 128

// newSnowball makes a stemmer of one of the Snowball project.
func newSnowball(stem func(*snowballstem.Env) bool) func(string) string {
	return func(word string) string {
		if len(word) > longestStemmed {
			return word
		}
		env := snowballstem.NewEnv(word)
		stem(env)
		return env.Current()
	}
}

var portugueseSingular = newSnowball(portuguese.Stem)

// portugueseStem returns the stem of the singular: Snowball leaves the plurals of -ão and -al apart from it.
func portugueseStem(word string) string {
	for _, ending := range [][2]string{{"ões", "ão"}, {"ães", "ão"}, {"ais", "al"}, {"éis", "el"}, {"óis", "ol"}} {
		if stem, ok := strings.CutSuffix(word, ending[0]); ok && len(stem) > 1 {
			return portugueseSingular(stem + ending[1])
		}
	}
	return portugueseSingular(word)
}

// JoinSets returns what is in any of some sets.
func JoinSets(sets ...map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, one := range sets {
		maps.Copy(out, one)
	}
	return out
}

// IsKnown reports whether there are rules for a code.
func IsKnown(code string) bool { return slices.Contains(Languages(), code) }
