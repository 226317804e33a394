package text_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/text"
)

// Ways to write one word: each is found by each in every language, as passages and as names.
// Promises: 73.
func TestWaysToWriteAWordHaveOneTerm(t *testing.T) {
	for _, ways := range [][]string{
		{"Bézier", "bezier", "BÉZIER", "Be\u0301zier", "Bézier’s", "Bezier's"},
		{"Zürich", "Zurich", "zu\u0308rich", "ＺＵＲＩＣＨ"},
		{"naïve", "naive", "nai\u0308ve", "na\u00adive", "na\u200bive", "na\u200dive", "na\u2060ive", "na\ufeffive"},
		{"oﬃce", "office"},
		{"œuvre", "oeuvre", "ŒUVRE"},
		{"Straße", "Strasse", "STRASSE", "STRAẞE"},
		{"Łódź", "Lodz", "łódź"},
		{"Smørrebrød", "smorrebrod"},
		{"İzmir", "izmir", "IZMIR"},
		{"ılık", "ilik", "ILIK"},
		{"١٢٣", "１２３", "123", "१२३"},
		{"1,200,000", "1200000"},
		{"مُحَمَّد", "محمد", "محـــمد"},
		{"أحمد", "احمد"},
		{"שָׁלוֹם", "שלום"},
		{"Ὀδυσσεύς", "Οδυσσευς", "ΟΔΥΣΣΕΥΣ"},
		{"ёлка", "елка", "ЁЛКА"},
		{"за́мок", "замок"},
		{"Việt", "viet", "VIỆT"},
		{"O'Brien", "O’Brien", "obrien", "OʼBrien"},
		{"email", "e-mail", "e‑mail", "E-Mail"},
		{"U.S.", "US", "u.s."},
		{"C#", "c#", "C♯", "Ｃ＃"},
		{"C++", "c++", "Ｃ＋＋"},
		{"AT&T", "at&t", "AT＆T"},
		{"node.js", "NodeJS", "Node.js"},
		{"MAX_RETRY_COUNT", "maxRetryCount", "MaxRetryCount", "max_retry_count"},
	} {
		for _, code := range text.Languages() {
			language := text.LanguageOf(code)
			for what, terms := range map[string]func(string) []string{"terms": language.Terms, "surface": language.SurfaceWords} {
				for _, way := range ways {
					if !slices.ContainsFunc(terms(ways[0]), func(term string) bool {
						return !text.IsExact(term) && slices.Contains(terms(way), term)
					}) {
						t.Errorf("%s, %s: %q is %q, %q is %q", code, what, ways[0], terms(ways[0]), way, terms(way))
					}
				}
			}
		}
	}
}

// Signs of names, in texts and in questions: what must be a term, and what must not.
// Promises: 73.
func TestSignsMakeOtherNames(t *testing.T) {
	for _, c := range []struct{ text, terms string }{
		{"the C team", "c team"},
		{"C++, C#; (C) F# and C++17.", "c++ c# c f# c++ 17"},
		{"C/C++ or C#/.NET", "c c++ or c# .net"},
		{".NET, .net and the net", ".net .net net"},
		{"ASP.NET VB.NET", "aspnet asp .net vbnet vb .net"},
		{"example.net mends nets", "examplenet example net mend net"},
		{"Objective-C", "objectivec objective"},
		{"AT&T, S&P 500, R&D, Marks&Spencer", "at&t s&p 500 r&d marks&spencer mark spencer"},
		{"I/O, TCP/IP, n/a", "io tcp ip na"},
		{"Notepad++ i++ A+ Google+", "notepad++ notepad i++ a+ google+ google"},
		{"A* and D* search, *C* and **D**", "a* d* d search c d"},
		{"#tag issue#7 x+y word# a##b", "tag issue 7 x y word b"},
		{"R, the R language; Go", "r r language go"},
		{"3.5 v1.2.3 2,5 i18n", "3.5 v1.2.3 1.2.3 2,5 i18n"},
		{".gitignore ...and .5", ".gitignore gitignore 5"},
		{"X-ray T-cells F-16 vitamin-C well-known", "xray x ray tcell t cell f16 f 16 vitaminc vitamin c well known"},
		{"C++语言和.NET框架", "c++ 语 言 和 .net 框 架"},
		{"???", ""},
		{"+++ ### *** . .. &", ""},
	} {
		got := strings.Join(text.Terms(c.text), " ")
		assert.True(t, got == strings.ReplaceAll(c.terms, " or ", " "), "%q: got %q, want %q", c.text, got, c.terms)
	}
}

// Promises: 73.
func TestCompoundsAreFoundWholeAndByTheirParts(t *testing.T) {
	for in, want := range map[string]string{
		"getUserName":        "getusername get user name",
		"HTTPServer":         "httpserver http server",
		"parseXMLDocument2":  "parsexmldocument2 parse xml document2",
		"MAX_RETRY_COUNT":    "maxretrycount max retry count",
		"__init__":           "init",
		"figure_3":           "figure3 figure 3",
		"userID":             "userid user id",
		"iPhone mRNA CEOs":   "iphone mrna ceos",
		"SARS-CoV":           "sars cov",
		"NASA's NASA Nasa":   "nasa nasa nasa",
		"foo.bar@example.io": "foobar foo bar exampleio example io",
		"The end.Next begin": "endnext end next begin",
		"don't isn't we'll":  "we'll",
		"L’Oréal d'Artagnan": "oreal loreal artagnan dartagnan",
		"Ankara'da":          "ankara ankarada",
		"U.S.A. Ph.D.":       "usa phd ph",
	} {
		assert.Equal(t, want, strings.Join(text.SurfaceWords(in), " "), "%q", in)
	}
	long := strings.Repeat("aBcDeFgH", 30)
	got := text.Terms(long)
	assert.True(t, len(got) == 1 && got[0] == strings.ToLower(long), "what is no name is taken apart: %q", got)
}

// Only words that have accents have a second term, which distinguishes them from those without.
func TestAWordWithAccentsIsThereOnceMore(t *testing.T) {
	for in, want := range map[string]string{
		"résumés of a resume": "resume =résumé resume",
		"ﬁle Ａ１ soft\u00ad":   "file a1 soft",
		"مُحَمَّد":            "محمد",
		"й and ё":             "й е =ё",
	} {
		assert.Equal(t, want, strings.Join(text.Terms(in), " "), "%q", in)
	}
}

// Questions leave accents out: each word of these texts is found without them, by stems that go by accents, too.
// Promises: 73.
func TestWordsAreFoundWithoutTheirAccents(t *testing.T) {
	for code, content := range map[string]string{
		"de":  "Häuser größere Brücken müßige Übungen Gebäude",
		"fr":  "l'élève décisions répétées théâtre forêts âgées façade mangé où",
		"es":  "información canciones está rápidamente año comprendió compañías",
		"pt":  "decisão nações irmã informação água português estão",
		"und": "Żółć Ångström Čapek Phở ñandú",
	} {
		bare := strings.NewReplacer("ä", "a", "ö", "o", "ü", "u", "Ü", "U", "ß", "ss", "é", "e", "è", "e", "ê", "e", "â", "a",
			"ç", "c", "ó", "o", "á", "a", "ñ", "n", "í", "i", "ã", "a", "õ", "o", "Ż", "Z", "ł", "l", "ć", "c", "Å", "A",
			"Č", "C", "ở", "o", "ú", "u", "ù", "u").Replace(content)
		language := text.LanguageOf(code)
		all := language.Terms(content)
		for _, term := range language.Terms(bare) {
			assert.True(t, !text.IsExact(term) && slices.Contains(all, term),
				"%s: %q of %q is not among %q", code, term, bare, all)
		}
	}
}

func TestAQuestionSaysSomething(t *testing.T) {
	for question, want := range map[string]bool{
		"": false, "???": false, " … !": false, "\u200b\u00ad": false, "+#*": false,
		"C": true, "7": true, "漢": true, "☂": true, "¿qué?": true,
	} {
		assert.True(t, text.HasContent(question) == want, "%q: %v", question, !want)
	}
}

func BenchmarkTerms(b *testing.B) {
	const content = "The treaty of Orne was signed on 14 March 1924 by Inspector Dunne, and it ended a war that " +
		"nobody in the valley remembered; its U.S. copy, kept by AT&T in Zürich, says otherwise. "
	for b.Loop() {
		text.Terms(strings.Repeat(content, 4))
	}
}
