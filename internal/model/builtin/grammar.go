package builtin

import (
	"regexp"
	"strings"

	"github.com/unweaver/unweaver/internal/text"
)

// grammar is how a language writes names.
type grammar struct {
	inner   map[string]bool // words inside names: Universidad de la República
	opening map[string]bool // those that may come first between two capitalised words; nil: all of inner
	nouns   bool            // every noun is capitalised
	plain   []string        // endings of words that are no names where a sentence begins with them
}

var romance = strings.Fields("de da do di du del des dos das la le les von van der den ten ter bin ibn al el of the")

var grammars = map[string]grammar{
	"de": {
		inner:   wordSet("von vom van der den dem ten ter zu am ob di da de del la le al bin ibn of the und"),
		opening: wordSet("von vom van ten ter zu am ob di da de del la le al bin ibn of the"),
		nouns:   true,
	},
	"fr": {
		inner: wordSet("d l en sur sous lès lez aux au", romance...),
		plain: []string{"ment", "ant"},
	},
	"es": {
		inner: wordSet("los las", romance...),
		plain: []string{"mente", "ando", "iendo", "aron", "ieron", "aba", "aban", "ían", "ado", "ido", "ados", "idos"},
	},
	"pt": {
		inner: wordSet("dal", romance...),
		plain: []string{"mente", "ando", "endo", "indo", "aram", "eram", "iram", "ava", "avam", "iam", "ado", "ados"},
	},
	text.Undetermined: {inner: wordSet("", romance...)},
}

func wordSet(listed string, more ...string) map[string]bool {
	out := map[string]bool{}
	for _, word := range append(strings.Fields(listed), more...) {
		out[word] = true
	}
	return out
}

var (
	// latinRE is wordRE without letters of scripts that part words by no space: such text has Latin names within.
	latinRE = regexp.MustCompile(`\.NET\b|` +
		`[\p{Latin}\p{Greek}\p{Cyrillic}0-9](?:[\p{Latin}\p{Greek}\p{Cyrillic}\p{M}0-9]|` +
		`[-'’&./+](?:[\p{Latin}\p{Greek}\p{Cyrillic}0-9]))*(?:\++|#)?`)
	titleREs = []*regexp.Regexp{
		regexp.MustCompile(`["“„»«]\p{Z}?([^"“”„«»\n]{2,80}?)\p{Z}?["”“«»]`),
		regexp.MustCompile(`[「『《〈【]([^「」『』《》〈〉【】\n]{2,24})[」』》〉】]`),
	}
	// katakanaRE is a foreign word of Japanese, also of several parts, with the Chinese characters that follow it.
	katakanaRE = regexp.MustCompile(`[\p{Katakana}ー]{2,}(?:[・＝][\p{Katakana}ー]+)*\p{Han}*`)
	// kanjiRE is a run of Chinese characters of Japanese, which particles part: a compound, or a name.
	kanjiRE = regexp.MustCompile(`\p{Han}{3,}`)
)

// germanNoun recognises by its ending a German word that is a noun of the language, not a name.
var germanNoun = regexp.MustCompile(`(?:ung|ungen|heit|heiten|keit|keiten|schaft|schaften|tion|tionen|sion|sionen|` +
	`ismus|ismen|nis|nisse|nissen|tät|täten|tum|tümer|enz|enzen|logie|logien|grafie|graphie|metrie|` +
	`struktur|strukturen|mittel|mitteln|zeug|werk|werke|werken|mal|male|gebiet|gebiete|gruppe|gruppen|system|systeme|` +
	`jahr|jahre|jahren|teil|teile|zahl|zahlen|zeit|zeiten)$`)

// germanArticles stand before nouns, hardly before names.
var germanArticles = wordSet(`der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner
im am ins ans zum zur beim vom dieser diese dieses diesen diesem jeder jede jedes jeden jedem welche welcher welches
seine seiner seinen seinem seines sein ihre ihrer ihren ihrem ihres ihr unsere unserer unseren mein meine alle aller
allen viele vieler vielen mehrere mehreren mehr einige einigen beide beiden manche solche zwei drei vier fünf sechs
sieben acht neun zehn`)

// isNoun says whether a word that is capitalised within a German sentence stands there as nouns do: behind an article,
// a number or what ends as an adjective. What stands behind a verb or a preposition may be a name.
func (l *latin) isNoun(i int) bool {
	if i == 0 || !l.toks[i].joined {
		return false
	}
	before := l.toks[i-1]
	if before.joined && before.s == before.lower && germanArticles[l.toks[i-2].lower] &&
		!l.language.IsStopWord(before.lower) {
		return true // der alte Hund
	}
	switch {
	case germanArticles[before.lower] || isNumber(before.s):
		return true
	case before.s != before.lower || l.language.IsCommon(before.lower):
		return false
	}
	for _, ending := range []string{"te", "ten", "rn", "ln"} { // of verbs
		if strings.HasSuffix(before.lower, ending) {
			return false
		}
	}
	for _, ending := range []string{"e", "en", "em", "er", "es"} {
		if strings.HasSuffix(before.lower, ending) {
			return true
		}
	}
	return false
}
