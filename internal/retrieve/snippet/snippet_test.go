package snippet_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/retrieve/snippet"
	"github.com/unweaver/unweaver/internal/text"
)

// part returns [start, end) of a text in code points.
func part(content string, span snippet.Span) string {
	return string([]rune(content)[span.Start:span.End])
}

// marks returns the highlighted parts.
func marks(content string, found snippet.Found) string {
	var out []string
	for _, span := range found.Highlights {
		out = append(out, part(content, span))
	}
	return strings.Join(out, "|")
}

const filler = "Nothing of this matters to anyone who asks about it, and it goes on for a while. "

func TestTheSnippetIsTheSentencesThatMatchedAndNotTheBeginning(t *testing.T) {
	content := strings.Repeat(filler, 20) + "The lease was signed by Mrs. Ødegård in Bergen. " + strings.Repeat(filler, 20)
	found := snippet.NewQuestion(text.LanguageOf(""), "Who signed the lease?", nil).FindSnippet(content, nil)
	got := part(content, found.Span)
	assert.True(t, strings.Contains(got, "The lease was signed by Mrs. Ødegård in Bergen."), "snippet %q", got)
	assert.Equal(t, "lease|signed", marks(content, found), "highlights")
}

func TestSnippetsAreChosenByTheLanguage(t *testing.T) {
	for _, c := range []struct{ code, content, question, sentence, marks string }{
		{"de", "Es regnete den ganzen Tag am See. Am Ufer standen zwei alte Häuser.", "Wo steht ein altes Haus?",
			"Am Ufer standen zwei alte Häuser.", "alte|Häuser"},
		{"ja", "雨が降った。彼は東京大学で学んだ。", "東京の大学", "彼は東京大学で学んだ。", "東京大学"},
		{"th", "ฝนตกหนัก เราอยู่ใกล้ภูเขาไฟฟูจิ", "ภูเขาไฟ", "เราอยู่ใกล้ภูเขาไฟฟูจิ", "ภูเขาไฟ"},
	} {
		found := snippet.NewQuestion(text.LanguageOf(c.code), c.question, nil).FindSnippet(c.content, nil)
		got := part(c.content, found.Span)
		assert.True(t, strings.Contains(got, c.sentence), "%s: snippet %q", c.code, got)
		assert.Equal(t, c.marks, marks(c.content, found), "%s", c.code)
	}
}

func TestRareTermsOutweighCommonOnes(t *testing.T) {
	content := "The system was started, stopped and started again by users. " + strings.Repeat(filler, 5) +
		"A quokka lives on Rottnest. " + strings.Repeat(filler, 5)
	weigh := func(term string) float64 {
		return map[string]float64{"quokka": 8, "system": 0.5, "start": 0.5, "user": 0.5}[term]
	}
	found := snippet.NewQuestion(text.LanguageOf(""), "Which users started the system about the quokka?", weigh).FindSnippet(content, nil)
	got := part(content, found.Span)
	assert.True(t, strings.HasPrefix(got, "A quokka lives"), "snippet %q", got)
}

func TestANameThatLedToTheChunkIsShownWhereTheQuestionHasNoWordOfIt(t *testing.T) {
	content := strings.Repeat(filler, 6) + "Hall was the first president of the American Psychological Association. " +
		strings.Repeat(filler, 6) + "American films were shown. "
	names := []snippet.Name{{Text: "American Psychological Association", Weight: 2}, {Text: "films", Weight: 0.01}}
	found := snippet.NewQuestion(text.LanguageOf(""), "What is the Journal?", nil).FindSnippet(content, names)
	got := part(content, found.Span)
	assert.True(t, strings.Contains(got, "Hall was the first president"), "snippet %q", got)
	assert.Equal(t, "American Psychological Association", marks(content, found), "highlights")
}

func TestATextWithoutAMatchIsShownFromItsBeginning(t *testing.T) {
	content := "  \n Oslo is a city. " + strings.Repeat(filler, 9)
	found := snippet.NewQuestion(text.LanguageOf(""), "zebra", nil).FindSnippet(content, nil)
	got := part(content, found.Span)
	assert.True(t, strings.HasPrefix(got, "Oslo is a city.") && len(found.Highlights) == 0, "%q %v", got, found.Highlights)
	for _, empty := range []string{"", " \n\t "} {
		found := snippet.NewQuestion(text.LanguageOf(""), "zebra", nil).FindSnippet(empty, nil)
		assert.True(t, found.Start == found.End && len(found.Highlights) == 0, "%q: %+v", empty, found)
	}
}

func TestAHeadingDoesNotStandAlone(t *testing.T) {
	content := "Deployment\nPut the file on the server and start it there. " + strings.Repeat(filler, 4)
	found := snippet.NewQuestion(text.LanguageOf(""), "deployment", nil).FindSnippet(content, nil)
	got := part(content, found.Span)
	assert.True(t, strings.Contains(got, "start it there."), "snippet %q", got)
}

func TestASnippetDoesNotEndWithAHeading(t *testing.T) {
	names := []snippet.Name{{Text: "Nordlys Shipping", Weight: 2}, {Text: "Bergen", Weight: 2}}
	const signed = "Nordlys Shipping signed it in the old warehouse of the harbour of Bergen, where it has had its " +
		"ships for longer than anyone can tell."
	for _, test := range []struct{ name, before, want string }{
		{"what stands below it is shown too", signed, signed + "\n\n## Rent\n\nIt is 41,500 kroner."},
		{"what comes before it gives way", strings.Repeat("Nordlys Shipping, ", 13) + "signed it in Bergen on one day. ",
			"## Rent\n\nIt is 41,500 kroner."},
	} {
		content := "# Lease\n\n" + test.before + "\n\n## Rent\n\nIt is 41,500 kroner.\n\n" + strings.Repeat(filler, 9)
		found := snippet.NewQuestion(text.LanguageOf(""), "How high is the rent?", nil).FindSnippet(content, names)
		if got := part(content, found.Span); !strings.Contains(got, test.want) || utf8.RuneCountInString(got) > snippet.Most {
			t.Errorf("%s: %q", test.name, got)
		}
	}
	content := "# Lease\n\n" + strings.Repeat("x", snippet.Most-3) + ". \n\n## Rent"
	if got := part(content, snippet.NewQuestion(text.LanguageOf(""), "rent", nil).FindSnippet(content, nil).Span); got != "## Rent" {
		t.Errorf("a heading at the end of a text: %q", got)
	}
}

func TestARowOfATableStandsForItself(t *testing.T) {
	row := "| a cell that says nothing of interest to anyone, at length | and another one that says even less |\n"
	content := strings.Repeat(row, 6) +
		"| the ferry sails at noon | unless there is ice on the fjord, as in February |\n" +
		strings.Repeat(row, 6)
	found := snippet.NewQuestion(text.LanguageOf(""), "When do I do the ferry?", nil).FindSnippet(content, nil)
	got := part(content, found.Span)
	assert.True(t, strings.HasPrefix(got, "| the ferry sails at noon"), "snippet %q", got)
	assert.Equal(t, "ferry", marks(content, found))
}

func TestASnippetIsMovedToAPart(t *testing.T) {
	content := strings.Repeat(filler, 9) + "\n\n| Fare | Adult |\n| Single | 4 |\n| Return | 7 |\n\n" + strings.Repeat(filler, 9)
	at := utf8.RuneCountInString(content[:strings.Index(content, "| Return")])
	span := snippet.CutAround(text.LanguageOf("en"), content, snippet.Span{Start: at, End: at + 14})
	if got := part(content, span); !strings.Contains(got, "| Fare | Adult |\n| Single | 4 |\n| Return | 7 |") || span.End-span.Start > snippet.Most {
		t.Errorf("%q", got)
	}
}

func TestHighlightsKeepToCharactersOfEveryScript(t *testing.T) {
	decomposed := "Cafe\u0301 cre\u0301me" // é as e and a combining mark
	for _, tc := range []struct{ question, content, want string }{
		{decomposed, "Ein " + decomposed + "!", "Cafe\u0301|cre\u0301me"},
		{"漢字", "日本の漢字です。漢の字。", "漢字|漢|字"},
		{"emoji party", "👩‍👩‍👧‍👦 a party 🎉 of Emoji 🇳🇴.", "party|Emoji"},
		{"İstanbul", "İstanbul'da kar, İSTANBUL.", "İstanbul'da|İSTANBUL"},
		{"Москва", "Город Москва, МОСКВА.", "Москва|МОСКВА"},
		{"القاهرة", "تقع القاهرة على النيل.", "القاهرة"},
		{"Oslo", "Oslo’s and OSLO's fjord", "Oslo’s|OSLO's"},
	} {
		found := snippet.NewQuestion(text.LanguageOf(""), tc.question, nil).FindSnippet(tc.content, nil)
		assert.Equal(t, tc.want, marks(tc.content, found), "%q %q", tc.question, tc.content)
	}
}

func TestAVeryLongSentenceIsPartedBetweenWords(t *testing.T) {
	content := strings.Repeat("word and more words, ", 200) + "then the zebra came, " +
		strings.Repeat("further words, ", 200)
	found := snippet.NewQuestion(text.LanguageOf(""), "zebra", nil).FindSnippet(content, nil)
	got := part(content, found.Span)
	assert.True(t, strings.Contains(got, "zebra") && utf8.RuneCountInString(got) <= snippet.Most, "snippet %q", got)
	runes := []rune(content)
	assert.True(t, (found.Start <= 0 || unicode.IsSpace(runes[found.Start-1])) && unicode.IsSpace(runes[found.End]),
		"a word is parted: %q", got)
	solid := strings.Repeat("字", 5000) + "漢" + strings.Repeat("字", 5000)
	found = snippet.NewQuestion(text.LanguageOf(""), "漢", nil).FindSnippet(solid, nil)
	if got := part(solid, found.Span); !strings.Contains(got, "漢") || utf8.RuneCountInString(got) > snippet.Most {
		t.Errorf("without a space: %q", got)
	}
}

func TestHighlightsAreBoundedAndThoseOfTheSnippetAreAmongThem(t *testing.T) {
	content := strings.Repeat("zebra, ", 3000) + ". " + "Zebra and quagga. "
	found := snippet.NewQuestion(text.LanguageOf(""), "zebra quagga", nil).FindSnippet(content, nil)
	assert.True(t, len(found.Highlights) == snippet.MostHighlights && strings.HasSuffix(marks(content, found), "quagga"),
		"%d highlights", len(found.Highlights))
}

// Whatever the text: spans lie within it, in order, and are what they are asked to be.
func TestSpansHoldForTextsOfEveryKind(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	alphabet := []string{
		"zebra", "Zebra's", "e\u0301", "漢", "字", "👩‍👩‍👧", "🇳🇴", "\u200d", "\u0301", " ", " ", ". ", "\n", "\n\n", "\r\n",
		"Oslo", "is", "ไทย", "שלום", "x\xff", "İ", "ß", "…", "\t", "Café", "fjord",
	}
	for round := range 2000 {
		var build strings.Builder
		for range random.IntN([]int{12, 120, 900}[round%3]) {
			build.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		content := build.String()
		question := alphabet[random.IntN(len(alphabet))] + " " + alphabet[random.IntN(len(alphabet))]
		if round%5 == 0 {
			content = strings.NewReplacer(". ", " ", "\n", " ", "\r", " ", "…", " ").Replace(content) // one long sentence
		}
		names := []snippet.Name{{Text: alphabet[random.IntN(len(alphabet))] + " fjord", Weight: 1}}
		check(t, question, content, names)
	}
}

func FuzzSpans(f *testing.F) {
	f.Add("zebra e\u0301", "A zebra. Cafe\u0301\n漢字 👩‍👧", "a name")
	f.Fuzz(func(t *testing.T, question, content, name string) {
		check(t, question, content, []snippet.Name{{Text: name, Weight: 1}})
	})
}

func check(t *testing.T, question, content string, names []snippet.Name) {
	t.Helper()
	found := snippet.NewQuestion(text.LanguageOf(""), question, nil).FindSnippet(content, names)
	runes := []rune(content)
	require.True(t, found.Start >= 0 && found.Start <= found.End && found.End <= len(runes) &&
		found.End-found.Start <= snippet.Most, "%q: snippet %+v of %d", content, found.Span, len(runes))
	require.True(t, found.Start >= found.End || !unicode.IsSpace(runes[found.Start]) &&
		!unicode.IsSpace(runes[found.End-1]), "%q: snippet %q has space around it", content, part(content, found.Span))
	terms := map[string]bool{}
	for _, term := range text.Terms(question) {
		terms[term] = true
	}
	english := text.LanguageOf("en")
	words := func(s string) (out []string) {
		for place := range english.Places(s) {
			out = append(out, s[place.Start:place.End])
		}
		return out
	}
	for _, name := range names {
		for _, word := range words(name.Text) {
			terms[english.PlainForm(word)] = true
		}
	}
	before := -1
	for _, span := range found.Highlights {
		require.True(t, span.Start > before && span.Start < span.End && span.End <= len(runes),
			"%q: highlights %v", content, found.Highlights)
		before = span.End
		marked := part(content, span)
		for _, word := range words(marked) {
			asked := slices.ContainsFunc(english.TermsOf(word), func(term string) bool { return terms[term] })
			require.True(t, asked || terms[english.PlainForm(word)],
				"%q: %q is marked, and %q was not asked for by %q", content, marked, word, question)
		}
		require.True(t, len(words(marked)) != 0, "%q: %q is marked", content, marked)
	}
}

func BenchmarkTenChunksOfThreeThousandSigns(b *testing.B) {
	var chunks []string
	for i := range 10 {
		chunks = append(chunks, strings.Repeat(filler, 18+i%2)+"The lease was signed by Mrs. Ødegård in Bergen. "+
			strings.Repeat(filler, 18))
	}
	names := []snippet.Name{{Text: "Mrs. Ødegård", Weight: 1}, {Text: "Bergen", Weight: 1}}
	for b.Loop() {
		question := snippet.NewQuestion(text.LanguageOf(""), "Who signed the lease of the house?", nil)
		for _, chunk := range chunks {
			question.FindSnippet(chunk, names)
		}
	}
}
