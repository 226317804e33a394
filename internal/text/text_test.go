package text_test

import (
	"runtime"
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
		assert.Equal(t, want, strings.Join(text.LanguageOf("").SurfaceWords(in), " "), "%q", in)
	}
}

func TestStemsMeetOverEndings(t *testing.T) {
	for _, forms := range [][]string{
		{"city", "cities"}, {"study", "studies"}, {"infect", "infected", "infecting", "infects"},
		{"stop", "stopped", "stopping", "stops"}, {"locate", "located", "locating", "locates"},
		{"size", "sized", "sizing"}, {"pass", "passed", "passing"}, {"fall", "falling", "falls"}, {"house", "houses"},
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
		for _, term := range append(text.Terms(s), text.LanguageOf("").SurfaceWords(s)...) {
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

func FuzzPlacesAreOfTheSameWords(f *testing.F) {
	f.Add("don't e-mail U.S.A. 3.14, x_y: 漢字 e\u0301")
	f.Add("a1.2,b;3:Z'x\"y_-z \r\n\r(*@é\u0301\u200d漢ไש\u00ad🇳🇴👩‍👧\xff°·$ 1.a a.1 1,b _' 2;2 b's\u0301")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "\ufffd") // as decoded documents and requests are
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

// Promises: 75.
func TestEnglishIsWhatTheFunctionsSay(t *testing.T) {
	english := text.LanguageOf("en")
	require.True(t, english == text.LanguageOf("") && english.Analyser() == text.Analyser,
		"the analyser of English is %s", english.Analyser())
	for _, s := range []string{
		"", "The Bohr's letters, and l'eau of São Paulo. Dr. Weiß came on 3. May at 3.14 U.S.A.",
		"漢字とカタカナ、ภาษาไทย; naïve ＡＢＣ\u0301",
	} {
		for what, same := range map[string]bool{
			"terms":     slices.Equal(english.Terms(s), text.Terms(s)),
			"surface":   slices.Equal(english.SurfaceWords(s), text.LanguageOf("").SurfaceWords(s)),
			"sentences": slices.Equal(english.Sentences(s), text.Sentences(s)),
		} {
			assert.True(t, same, "%q: other %s", s, what)
		}
	}
}

func TestALanguageThatIsNotKnownIsReadByPlainWordsUnderItsOwnName(t *testing.T) {
	assert.True(t, !text.IsKnown("tlh") && text.IsKnown("de") && text.IsKnown(text.Undetermined), "what is known is not")
	plain, unknown := text.LanguageOf(text.Undetermined), text.LanguageOf("tlh")
	const s = "Die Häuser der l'eau and the houses: 東京大学"
	assert.Equal(t, plain.Terms(s), unknown.Terms(s))
	assert.Equal(t, "tlh/0", unknown.Analyser(), "its analyser")
}

// The words of a question and those of the passage that answers it, in other forms.
func TestFormsOfAWordHaveOneTermByLanguage(t *testing.T) {
	for code, words := range map[string][]string{
		"de": {"Häuser Hauses Haus", "gekauften gekaufte", "Entscheidungen Entscheidung", "größeren größere",
			"MÜNCHEN München"},
		"fr": {"l'enfant enfants l’enfant d'enfants", "nationales nationaux", "mangeait manger mangé", "décisions décision",
			"qu'elections élections"},
		"es": {"canciones canción", "informaciones información", "trabajadores trabajador", "naciones nación"},
		"pt": {"decisões decisão", "cidades cidade", "trabalhadores trabalhador", "animais animal", "nações nação"},
	} {
		language := text.LanguageOf(code)
		for _, forms := range words {
			var shared []string
			for i, form := range strings.Fields(forms) {
				terms := slices.DeleteFunc(language.Terms(form), text.IsExact)
				if i == 0 {
					shared = terms
				}
				shared = slices.DeleteFunc(shared, func(term string) bool { return !slices.Contains(terms, term) })
			}
			assert.Len(t, shared, 1, "%s: %s share the terms %q", code, forms, shared)
			plain := text.LanguageOf(text.Undetermined).SurfaceWords(forms)
			assert.True(t, len(slices.Compact(plain)) != 1 || code == "fr" || strings.Contains(forms, "MÜNCHEN"),
				"%s: plain words of %s are the same already", code, forms)
		}
	}
}

func TestFunctionWordsAndElisionsAreLeftOut(t *testing.T) {
	for _, c := range []struct{ code, text, terms, surface string }{
		{"de", "Wer hat die Brücke über den Rhein gebaut?", "bruck =bruck rhein gebaut", "brucke rhein gebaut"},
		{"fr", "Qu'est-ce que l’École d'Athènes ? Aujourd’hui", "ecol =écol athen =athen aujourdhui", "ecole athenes aujourdhui"},
		{"es", "¿Cuál es la capital de España?", "capital espan =españ", "capital espana"},
		{"pt", "Quem fundou a cidade de São Paulo?", "fund cidad sao sa =sã paul", "fundou cidade sao paulo"},
		{"und", "Die Ｄie Straße, Bohr's", "die die strasse =straße bohr", "die die strasse bohr"},
	} {
		language := text.LanguageOf(c.code)
		assert.Equal(t, c.terms, strings.Join(language.Terms(c.text), " "), "%s: terms of %q", c.code, c.text)
		assert.Equal(t, c.surface, strings.Join(language.SurfaceWords(c.text), " "), "%s: surface of %q", c.code, c.text)
	}
}

// Words that no space parts are found by runs of characters: what is looked for is within what the text has.
func TestWordsWithoutSpacesAreFoundByTheirCharacters(t *testing.T) {
	for _, c := range []struct{ code, text, terms, places string }{
		{"zh", "他在北京大学。", "他 在 他在 北 在北 京 北京 大 京大 学 大学", "他在 在北 北京 京大 大学"},
		{"zh", "李，OpenAI公司", "李 openai open ai 公 司 公司", "李 OpenAI 公司"}, {"ja", "データ ﾃﾞｰﾀ", "デ ー デー タ ータ デ ー デー タ ータ", ""},
		{"ja", "東京タワー", "東 京 東京 タ 京タ ワ タワ ー ワー", "東京 京タ タワ ワー"},
		{"th", "ปลาไหล", "ปล ลา ปลา าไ ลาไ ไห าไห หล ไหล", "ปลา ลาไ าไห ไหล"}, {"th", "รถ ก", "รถ ก", "รถ ก"},
		{"de", "Das Wort 漢字", "wort 漢 字 漢字", "Das Wort 漢字"},
	} {
		language := text.LanguageOf(c.code)
		assert.Equal(t, c.terms, strings.Join(language.Terms(c.text), " "), "%s: terms of %q", c.code, c.text)
		var places []string
		for place := range language.Places(c.text) {
			places = append(places, c.text[place.Start:place.End])
		}
		got := strings.Join(places, " ")
		assert.True(t, c.places == "" || got == c.places, "%s: places of %q are %q", c.code, c.text, got)
	}
}

func TestSentencesGoOnAfterWhatALanguageShortens(t *testing.T) {
	for _, c := range []struct {
		code, text string
		sentences  int
	}{
		{"de", "Am 3. Oktober kam Dr. Weiß, z.B. mit Frau Prof. Blau. Es war 1990. Dann ging er.", 3},
		{"fr", "M. Dupont vint av. midi. Il partit.", 2},
		{"es", "El Sr. García llegó. La Sra. López no.", 2},
		{"pt", "O Dr. Souza chegou. A Profa. Lima, não.", 2},
		{"zh", "他来了。她走了。", 2},
		{"und", "Am 3. Oktober kam er.", 2},
	} {
		assert.Len(t, text.LanguageOf(c.code).Sentences(c.text), c.sentences, "%s", c.code)
	}
}

// Stemmers replace letter by letter: of a word as long as a file, that would take hours.
func TestAWordAsLongAsAFileIsLeftAsItIs(t *testing.T) {
	for _, part := range []string{"quiyu", "l'", "a_b_", "A1b", "x&y&"} {
		word := strings.Repeat(part, 1<<18) + "z"
		plain := strings.ToLower(strings.NewReplacer("'", "", "_", "", "&", "").Replace(word))
		for _, code := range text.Languages() {
			if terms := text.LanguageOf(code).Terms(word); len(terms) != 1 || terms[0] != plain {
				t.Errorf("%s: a word of %d bytes has %d terms", code, len(word), len(terms))
			}
		}
	}
}

// What is marked in a text must be a term of it, whatever the text is.
// Promises: 77.
func FuzzTermsOfPlaces(f *testing.F) {
	for _, s := range []string{"l’Été d'", "C++/.NET AT&T e-mail getId", "東京a大", "ก\u0e48ข", "가나 다", "ｶﾞ\u3099", "\xff\u0301", "'s ’s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, code := range text.Languages() {
			language, known := text.LanguageOf(code), map[string]bool{}
			for _, term := range language.Terms(s) {
				require.True(t, term != "", "%s: %q has an empty term", code, s)
				known[term] = true
			}
			end := 0
			for place := range language.Places(s) {
				require.True(t, place.Start >= 0 && place.End > place.Start && place.End <= len(s) && place.End > end,
					"%s: %q has a place %v behind %d", code, s, place, end)
				end = place.End
				for _, term := range language.TermsOf(s[place.Start:place.End]) {
					require.True(t, known[term], "%s: %q is at a place of %q and not among its terms", code, term, s)
				}
			}
		}
	})
}

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
		"getUserName": "getusername get user name", "HTTPServer": "httpserver http server",
		"parseXMLDocument2": "parsexmldocument2 parse xml document2", "MAX_RETRY_COUNT": "maxretrycount max retry count",
		"__init__": "init", "figure_3": "figure3 figure 3", "userID": "userid user id",
		"iPhone mRNA CEOs": "iphone mrna ceos", "SARS-CoV": "sars cov", "NASA's NASA Nasa": "nasa nasa nasa",
		"foo.bar@example.io": "foobar foo bar exampleio example io", "The end.Next begin": "endnext end next begin",
		"don't isn't we'll": "we'll", "L’Oréal d'Artagnan": "oreal loreal artagnan dartagnan", "Ankara'da": "ankara ankarada",
		"U.S.A. Ph.D.": "usa phd ph",
	} {
		assert.Equal(t, want, strings.Join(text.LanguageOf("").SurfaceWords(in), " "), "%q", in)
	}
	long := strings.Repeat("aBcDeFgH", 30)
	got := text.Terms(long)
	assert.True(t, len(got) == 1 && got[0] == strings.ToLower(long), "what is no name is taken apart: %q", got)
}

// Only words that have accents have a second term, which distinguishes them from those without.
func TestAWordWithAccentsIsThereOnceMore(t *testing.T) {
	for in, want := range map[string]string{
		"résumés of a resume": "resume =résumé resume", "ﬁle Ａ１ soft\u00ad": "file a1 soft", "مُحَمَّد": "محمد",
		"й and ё": "й е =ё",
	} {
		assert.Equal(t, want, strings.Join(text.Terms(in), " "), "%q", in)
	}
}

// Questions leave accents out: each word of these texts is found without them, by stems that go by accents, too.
// Promises: 73.
func TestWordsAreFoundWithoutTheirAccents(t *testing.T) {
	for code, content := range map[string]string{
		"de": "Häuser größere Brücken müßige Übungen Gebäude",
		"fr": "l'élève décisions répétées théâtre forêts âgées façade mangé où",
		"es": "información canciones está rápidamente año comprendió compañías",
		"pt": "decisão nações irmã informação água português estão", "und": "Żółć Ångström Čapek Phở ñandú",
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

// Sentences that go on are the text, not copies of it.
func TestLongSentencesAreNotCopiedForEachOfTheirParts(t *testing.T) {
	for _, part := range []string{"Dr. ", "U.S. "} {
		content := strings.Repeat(part, 16<<10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := text.LanguageOf("en").Statements(content)
		runtime.ReadMemStats(&after)
		assert.Equal(t, []string{content}, got, part)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1000*len(content)), part)
	}
}
