package builtin

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/markup"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Entity is one (name, description).
type Entity struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Bounds of what is found: the answer about a chunk of any size can be read (internal/stage/extract, MaxAnswer).
const (
	maxName      = 80        // runes
	maxNames     = 2_000     // of a chunk
	maxSentence  = 10 << 10  // bytes of a sentence of a description
	maxDescribed = 300 << 10 // bytes of all descriptions of a chunk; where they are longer, each has its share
)

// token is a word with what stands before it.
type token struct {
	s      string
	lower  string
	start  bool // first word of its sentence
	joined bool // only spaces stand between it and the word before
	sent   int
}

var (
	wordRE   = regexp.MustCompile(`\.NET\b|[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}]|[-'’&./+](?:[\p{L}\p{N}]))*(?:\++|#)?`)
	quotedRE = regexp.MustCompile(`["“]([^"“”\n]{2,80})["”]`)
	parenRE  = regexp.MustCompile(`\(([A-Z][A-Za-z0-9-]{1,11})s?\)`)
)

var connectors = wordSet("of the de von van der den la le les du del di da dos des al el bin ibn zu y for in")

// FindEntities returns the entities of an English chunk, as EntitiesIn does.
func FindEntities(chunk string) []Entity { return EntitiesIn(english, chunk) }

// unseen are characters within words that show nothing: soft hyphens and the like.
var unseen = strings.NewReplacer("\u00ad", "", "\u200b", "", "\u2060", "", "\ufeff", "")

// EntitiesIn extracts names and terms from one chunk, in order of first appearance.
func EntitiesIn(language *text.Language, chunk string) []Entity {
	chunk = unseen.Replace(chunk)
	sents := language.Sentences(chunk)
	found := englishNames
	if language != english {
		found = func(sents []string) *extraction { return otherNames(language, sents) }
	}
	return describeNames(language, sents, found(sents).names)
}

func englishNames(sents []string) *extraction {
	toks := splitTokens(sents)
	x := &extraction{inner: map[string]bool{}, lower: map[string]bool{}, at: map[string]int{}}
	for _, t := range toks {
		if !t.start {
			x.inner[t.s] = true
		}
		if t.s == t.lower {
			x.lower[t.s] = true
		}
	}
	x.findPhrases(toks)
	for _, s := range sents {
		for _, m := range quotedRE.FindAllStringSubmatch(s, -1) {
			if q := strings.TrimSpace(m[1]); len(strings.Fields(q)) <= 8 {
				x.addName(strings.TrimRight(q, ".,;:"))
			}
		}
		x.findAcronyms(s)
	}
	return x
}

// describeNames returns names with the first sentences that have them.
func describeNames(language *text.Language, sents, found []string) []Entity {
	folded, shown := make([]*names.Text, len(sents)), make([]string, len(sents))
	for i, s := range sents {
		folded[i], shown[i] = names.NewTextOf(language, s), text.Beginning(markup.Prose(s), maxSentence)
	}
	found = found[:min(len(found), maxNames)]
	out, size := make([]Entity, 0, len(found)), 0
	for _, n := range found {
		key := names.Key(n, false)
		var d []string
		for i, f := range folded {
			if len(d) < 3 && len(f.Spans(key, 1)) > 0 {
				d = append(d, shown[i])
			}
		}
		out = append(out, Entity{n, strings.Join(d, " ")})
		size += len(out[len(out)-1].Description)
	}
	if share := maxDescribed / max(1, len(out)); size > maxDescribed {
		for i, one := range out {
			out[i].Description = text.Beginning(one.Description, share)
		}
	}
	return out
}

func splitTokens(sents []string) []token {
	var out []token
	for si, s := range sents {
		last := 0
		first := true
		for _, m := range wordRE.FindAllStringIndex(s, -1) {
			w := trimName(s[m[0]:m[1]])
			gap := s[last:m[0]]
			out = append(out, token{
				s: w, lower: strings.ToLower(w), start: first, sent: si,
				joined: !first && strings.Trim(gap, " \t") == "" && len(gap) > 0,
			})
			last, first = m[0]+len(w), false
		}
	}
	return out
}

// trimName returns a word without the signs behind it that are no part of a name: C# and F# are names, Question# is
// none.
func trimName(word string) string {
	word = strings.TrimRight(word, "./")
	if core, ok := strings.CutSuffix(word, "#"); ok && (len(core) > 2 || isNumber(core)) {
		return core
	}
	return word
}

type extraction struct {
	names []string
	at    map[string]int
	inner map[string]bool // words seen inside a sentence
	lower map[string]bool // words seen in lower case
}

// findPhrases walks runs of capitalised words with inner connectors, and technical tokens.
func (x *extraction) findPhrases(toks []token) {
	for i := 0; i < len(toks); {
		if !isCapital(toks[i].s) {
			if isTechnical(toks[i].s) {
				x.addName(toks[i].s)
			}
			i++
			continue
		}
		j := i + 1
		for j < len(toks) && toks[j].sent == toks[i].sent {
			if toks[j].joined && (isCapital(toks[j].s) || isTechnical(toks[j].s) || isNumber(toks[j].s)) {
				j++
				continue
			}
			if k := skipConnectors(toks, j); k > j {
				j = k
				continue
			}
			break
		}
		x.addPhrase(toks[i:j])
		i = j
	}
}

// skipConnectors skips up to three connectors that lead to another capitalised word; it gives the place after that
// word, or j.
func skipConnectors(toks []token, j int) int {
	for k := j; k < len(toks) && k < j+3; k++ {
		t := toks[k]
		if !t.joined || t.sent != toks[j].sent {
			return j
		}
		if k > j && isCapital(t.s) {
			return k + 1
		}
		if !connectors[t.s] {
			return j
		}
	}
	return j
}

// addPhrase adds a run of words, cleaned at its start.
func (x *extraction) addPhrase(run []token) {
	for len(run) > 0 && (text.IsStopWord(run[0].lower) || connectors[run[0].lower]) && !allCaps(run[0].s) {
		run = run[1:]
	}
	if len(run) > 1 && run[0].start && text.IsCommon(run[0].lower) && !x.inner[run[0].s] {
		run = run[1:]
	}
	for len(run) > 0 && !isCapital(run[0].s) && !isTechnical(run[0].s) {
		run = run[1:]
	}
	if len(run) == 0 {
		return
	}
	if len(run) == 1 {
		t := run[0]
		if utf8.RuneCountInString(t.s) < 2 {
			return
		}
		if t.start && !x.inner[t.s] && !isTechnical(t.s) && (x.lower[t.lower] || strings.HasSuffix(t.lower, "ly")) {
			return // the first word of a sentence, and a plain one
		}
		if text.IsCommon(t.lower) && !isTechnical(t.s) {
			return
		}
	}
	ws := make([]string, len(run))
	for i, t := range run {
		ws[i] = t.s
	}
	x.addName(strings.Join(ws, " "))
	// "Journal of Physics" is also met as its parts, where a bridge joined two names of their own.
	for i, t := range run {
		if t.lower == "in" || t.lower == "for" {
			x.addName(strings.Join(ws[:i], " "))
			x.addPhrase(run[i+1:])
		}
	}
}

func (x *extraction) addName(n string) {
	n = strings.TrimSpace(n)
	n = strings.TrimSuffix(strings.TrimSuffix(n, "'s"), "’s")
	if first, rest, _ := strings.Cut(n, " "); openers[strings.ToLower(first)] {
		n = strings.TrimSpace(rest)
	}
	if utf8.RuneCountInString(n) > maxName || utf8.RuneCountInString(n) < 2 || isDebris(n) {
		return
	}
	k := names.Key(n, false)
	if _, ok := x.at[k]; ok {
		return
	}
	x.at[k] = len(x.names)
	x.names = append(x.names, n)
}

// openers are words that open a sentence or a remark and begin no name, in whatever language a text quotes them.
var openers = wordSet(`note notes see however therefore moreover furthermore additionally otherwise
nevertheless nonetheless consequently hence thus meanwhile todo fixme
info warn debug dear regards
hinweis siehe jedoch deshalb daher außerdem ferner zudem allerdings dennoch folglich
remarque voir cependant toutefois néanmoins ensuite
véase además asimismo nota aviso atención porém portanto todavia entretanto contudo além veja atenção`)

// isDebris reports whether a text between quotation marks is a piece of code, of markup or of a sentence: it begins
// with a sign that begins no name, has one of code, or a line break written out.
func isDebris(name string) bool {
	body := strings.TrimLeft(name, ".(/~@-¿¡'‘’") // .NET, (Un)known, /etc/hosts, --force, ¿Quién?
	first, _ := utf8.DecodeRuneInString(body)
	return utf8.RuneCountInString(name)-utf8.RuneCountInString(body) > 2 ||
		!unicode.IsLetter(first) && !unicode.IsNumber(first) || strings.Contains(name, `\n`) || clock.MatchString(name) ||
		strings.ContainsAny(name, `{}[]<>|=;"\`)
}

// clock is a piece of a time as logs write it.
var clock = regexp.MustCompile(`^(?:\d{4}-\d\d-\d\dT\d\d|T?\d\dZ)$`)

// findAcronyms finds "expansion of it (EOI)": the words before the bracket whose initials spell the acronym.
func (x *extraction) findAcronyms(s string) {
	brackets := parenRE.FindAllStringSubmatchIndex(s, -1)
	if brackets == nil {
		return
	}
	words, before := wordRE.FindAllStringIndex(s, -1), 0 // no word has a bracket; so many stand before the one
	for _, m := range brackets {
		for before < len(words) && words[before][1] <= m[0] {
			before++
		}
		ac := s[m[2]:m[3]]
		if strings.ToUpper(ac) != ac && !isTechnical(ac) {
			continue
		}
		x.addName(ac)
		var letters []rune
		for _, r := range strings.ToLower(ac) {
			if unicode.IsLetter(r) {
				letters = append(letters, r)
			}
		}
		if e := findExpansion(s, words[:before], letters); e != "" {
			x.addName(e)
		}
	}
}

// findExpansion takes the shortest run of last words that starts with the acronym's first letter and holds the initials
// in order.
func findExpansion(s string, ws [][]int, letters []rune) string {
	for k := 1; k <= len(letters)+3 && k <= len(ws); k++ {
		run := ws[len(ws)-k:]
		i := 0
		for _, w := range run {
			word := strings.ToLower(s[w[0]:w[1]])
			for _, part := range strings.FieldsFunc(word, func(r rune) bool { return r == '-' || r == '/' }) {
				if r, _ := utf8.DecodeRuneInString(part); i < len(letters) && r == letters[i] {
					i++
				}
			}
		}
		if r, _ := utf8.DecodeRuneInString(strings.ToLower(s[run[0][0]:run[0][1]])); i == len(letters) &&
			len(letters) > 1 &&
			r == letters[0] {
			return strings.Join(strings.Fields(s[run[0][0]:run[len(run)-1][1]]), " ")
		}
	}
	return ""
}

func isCapital(w string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimPrefix(w, "."))
	return unicode.IsUpper(r)
}

func isNumber(w string) bool {
	for _, r := range w {
		if !unicode.IsDigit(r) && r != '.' && r != '-' {
			return false
		}
	}
	return true
}

func allCaps(w string) bool {
	n := 0
	for _, r := range w {
		if unicode.IsLower(r) {
			return false
		}
		if unicode.IsUpper(r) {
			n++
		}
	}
	return n >= 2
}

// isTechnical matches letters with digits, capitals and camel case.
func isTechnical(w string) bool {
	var letter, digit, camel bool
	prev := rune(0)
	for _, r := range w {
		letter = letter || unicode.IsLetter(r)
		digit = digit || unicode.IsDigit(r)
		camel = camel || (unicode.IsLower(prev) && unicode.IsUpper(r))
		prev = r
	}
	return (letter && digit && !isOrdinal(w)) || allCaps(w) || camel
}

// isOrdinal matches 1st, 20th, 1990s, 5km: digits with a short tail of lower-case letters.
func isOrdinal(w string) bool {
	tail := strings.TrimLeftFunc(w, func(r rune) bool { return unicode.IsDigit(r) || r == '.' || r == '-' })
	return len(tail) < len(w) && len(tail) <= 2 && tail == strings.ToLower(tail)
}
