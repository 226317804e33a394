package text_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/text"
)

func TestSentencesAreTheTextAndKeepAbbreviationsAndWrappedLines(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"One. Two! Three?", []string{"One. ", "Two! ", "Three?"}},
		{"no end", []string{"no end"}},
		{"Dr. J. R. R. Tolkien wrote it. He did.", []string{"Dr. J. R. R. Tolkien wrote it. ", "He did."}},
		{"(see Fig. 2). Then", []string{"(see Fig. 2). ", "Then"}},
		{"etc. The next. Inc. The end.", []string{"etc. ", "The next. ", "Inc. ", "The end."}},
		{"He said \"Go.\" Then left.", []string{"He said \"Go.\" ", "Then left."}},
		{"The value is 3.14 here. Next.", []string{"The value is 3.14 here. ", "Next."}},
		{"As in Fig. 3 it falls. It rises, cf. Smith et al. Then it ends.",
			[]string{"As in Fig. 3 it falls. ", "It rises, cf. Smith et al. Then it ends."}},
		{"The pilot landed on runway ten without\nany further trouble at all. He left.",
			[]string{"The pilot landed on runway ten without\nany further trouble at all. ", "He left."}},
		{"Heading\nThe text begins.", []string{"Heading\n", "The text begins."}},
		{"A line that is longer than sixty signs and does not end with one\nGoes on in capitals.",
			[]string{"A line that is longer than sixty signs and does not end with one\nGoes on in capitals."}},
		{"one\n\ntwo", []string{"one\n", "\n", "two"}},
	} {
		got := text.Sentences(c.in)
		assert.True(t, strings.Join(got, "") == c.in, "%q: the sentences are not the text: %q", c.in, got)
		assert.Equal(t, strings.Join(c.want, "|"), strings.Join(got, "|"), "%q: got %q", c.in, got)
	}
}

func TestStatementsPartTablesAndLists(t *testing.T) {
	long := "a cell that is longer than sixty signs and ends with no sign at all, as cells do |"
	content := "| " + long + "\n| " + long +
		"\nIt goes on:\n* one\n  2. two of a list\n# head\nwrapped - not\nan item. End.\n.SH NAME\ntide shows\n" +
		"2026-01-02 03:04 Up. Now\n[02/Jan/2026 03:05] down"
	want := "| " + long + "\n~| " + long +
		"\nIt goes on:\n~* one\n~  2. two of a list\n~# head\nwrapped - not\nan item. ~End.\n~" +
		".SH NAME\n~tide shows\n~2026-01-02 03:04 Up. Now\n~[02/Jan/2026 03:05] down"
	content, want = content+"\nOn U.S. Route 5. In the U.S. She ran.", want+"\n~On U.S. Route 5. ~In the U.S. ~She ran."
	got := text.LanguageOf("en").Statements(content)
	assert.True(t, strings.Join(got, "") == content && strings.Join(got, "~") == want, "%q", got)
}

func TestDaysAreReadInTheirForms(t *testing.T) {
	for _, said := range []string{"2 June 2026", "June 2nd, 2026", "Jun. 2, 2026", "2. Juni 2026", "2 juin 2026", "2 de junio de 2026",
		"2 de junho de 2026", "02.06.2026", "2026-06-02T06:55"} {
		got := text.Dates("on " + said)
		assert.True(t, len(got) == 1 && got[0].Day == "2026-06-02", "%s: %v", said, got)
	}
	assert.Empty(t, text.Dates("room 2 on 45 June 2026, 2 Junk 2026 and 2026-13-01"))
	assert.Equal(t, "at 2 June 2026 2026-06-02", text.WithDays("at 2 June 2026"))
}

func TestWordsHoldALetterOrADigit(t *testing.T) {
	got := strings.Join(text.Words("don't e-mail U.S.A. 3.14 COVID-19 x_y 漢字 ... — ünï"), " ")
	assert.Equal(t, "don't e mail U.S.A 3.14 COVID 19 x_y 漢 字 ünï", got)
}

func TestPlacesAreThoseOfTheWords(t *testing.T) {
	content := "Café’s e\u0301te\u0301, 漢字 — the RIVERS' 3.14"
	var terms, plain []string
	for place := range text.LanguageOf("en").Places(content) {
		word := content[place.Start:place.End]
		plain = append(plain, text.LanguageOf("en").PlainForm(word))
		terms = append(terms, text.LanguageOf("en").TermsOf(word)...)
	}
	assert.Equal(t, text.Terms(content), terms)
	assert.Equal(t, "cafe ete 漢 字 the rivers 3.14", strings.Join(plain, " "), "plain")
}

func TestTermsAreStemsWithoutFunctionWords(t *testing.T) {
	for in, want := range map[string]string{
		"The rivers' dams were flooding, and COVID-19's spread slowed.": "river dam were flood covid 19 spread slow",
		"Who was the president of it?":                                  "president",
		"the Bank’s and BANK'S":                                         "bank bank",
		"":                                                              "",
	} {
		assert.Equal(t, want, strings.Join(text.Terms(in), " "), "%q", in)
	}
}

func TestSurfaceKeepsNamesAsTheyStand(t *testing.T) {
	for in, want := range map[string]string{
		"The Universities of Nations’ United Pressings": "universities nations united pressings",
		"National": "national",
		"The Who":  "",
	} {
		assert.Equal(t, want, strings.Join(text.SurfaceWords(in), " "), "%q", in)
	}
}

func TestStemsMeetOverEndings(t *testing.T) {
	for _, forms := range [][]string{
		{"city", "cities"},
		{"study", "studies"},
		{"infect", "infected", "infecting", "infects"},
		{"stop", "stopped", "stopping", "stops"},
		{"locate", "located", "locating", "locates"},
		{"size", "sized", "sizing"},
		{"pass", "passed", "passing"},
		{"fall", "falling", "falls"},
		{"house", "houses"},
	} {
		for _, form := range forms[1:] {
			assert.Equal(t, text.Stem(forms[0]), text.Stem(form), "%s %s", form, forms[0])
		}
	}
	for _, word := range []string{"virus", "glass", "bed", "red", "king", "sing", "is", "漢字"} {
		assert.Equal(t, word, text.Stem(word))
	}
}

// What the light stemmer does not join. A change here is a change of Analyser: raise it.
// Promises: 19.
func TestFormsThatStayApart(t *testing.T) {
	for form, stem := range map[string]string{
		"passes": "passe", "classes": "classe", "boxes": "boxe", "churches": "churche", "studied": "studi",
		"analysis": "analysi",
	} {
		got := text.Stem(form)
		assert.True(t, got == stem && text.Analyser == "en/3", "%s: %s becomes %s, not %s", text.Analyser, form, got, stem)
	}
}

func TestWordsThatAreNoNames(t *testing.T) {
	for word, want := range map[string][2]bool{
		"the": {true, true}, "isn't": {true, true}, "according": {false, true}, "zero": {false, true},
		"bohr": {false, false}, "The": {false, false}, "": {false, false},
	} {
		assert.True(t, text.IsStopWord(word) == want[0] && text.IsCommon(word) == want[1],
			"%q: stop %v, common %v", word, text.IsStopWord(word), text.IsCommon(word))
	}
}

func FuzzSentencesAreTheText(f *testing.F) {
	f.Add("a. b\nc\r\n\r\nD. E")
	f.Fuzz(func(t *testing.T, s string) {
		for _, cut := range [][]string{text.Sentences(s), text.LanguageOf("en").Statements(s)} {
			assert.Equal(t, s, strings.Join(cut, ""))
		}
	})
}

func FuzzTermsOfTermsAreFolded(f *testing.F) {
	f.Add("The Rivers' DAMS")
	f.Fuzz(func(t *testing.T, s string) {
		for _, term := range append(text.Terms(s), text.SurfaceWords(s)...) {
			assert.True(t, term != "" && !strings.ContainsAny(term, " \n\t"), "%q gave the term %q", s, term)
		}
	})
}

func placed(s string) []string {
	var out []string
	for place := range text.Pieces(s) {
		out = append(out, s[place.Start:place.End])
	}
	return out
}

func TestPlacesAreOfTheSameWordsForTextsOfEveryKind(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	alphabet := strings.Split("a|b|Z|1|2|.|,|;|:|'|\"|_|-| | |\n|\r|\r\n|(|*|@|é|"+
		"e\u0301|\u0301|\u200d|漢|ไ|ש|\u00ad|🇳🇴|👩‍👧|\xff|°|·|$", "|")
	for range 20_000 {
		var build strings.Builder
		for range random.IntN(14) {
			build.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		got, want := placed(build.String()), text.Words(build.String())
		require.True(t, slices.Equal(got, want), "%q: places %q, words %q", build.String(), got, want)
	}
}

func FuzzPlacesAreOfTheSameWords(f *testing.F) {
	f.Add("don't e-mail U.S.A. 3.14, x_y: 漢字 e\u0301")
	f.Fuzz(func(t *testing.T, s string) {
		assert.True(t, slices.Equal(placed(s), text.Words(s)), "%q: places %q, words %q", s, placed(s), text.Words(s))
	})
}

func TestProseIsWhatStandsInSentences(t *testing.T) {
	for _, line := range []string{
		"| words, fusion, walk | 12 ms |", "## How Berlin is built", `"chunk/2", "config: chunking")`,
		"unweaver index --wait docs", "$ make build", "chunk_size: 400", "return x.Find(a[i], b) == nil {",
		"```\nAnna met Bob.\n```",
	} {
		assert.Empty(t, strings.TrimSpace(text.KeepProse(line)), "%q is prose", line)
	}
	for _, line := range []string{
		"Ada Lovelace met Charles Babbage in London.", "`unweaver diff` compares two generations (of one index).",
		"Note: the Rhine flows through Basel and Cologne", "莱茵河流经巴塞尔。", "1999–2000 Premier League",
		"He was – in 1815 – born in Paris;\nhis sister (1817), too.",
	} {
		assert.Equal(t, line, text.KeepProse(line))
	}
}
