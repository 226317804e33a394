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

func part(content string, span snippet.Span) string {
	return string([]rune(content)[span.Start:span.End])
}

func marks(content string, found snippet.Found) string {
	var out []string
	for _, span := range found.Highlights {
		out = append(out, part(content, span))
	}
	return strings.Join(out, "|")
}

const filler = "Nothing of this matters to anyone who asks about it, and it goes on for a while. "

// find returns the snippet of a text, and what is highlighted in it.
func find(code, content, question string, weigh func(string) float64, names ...snippet.Name) (got, marked string) {
	found := snippet.NewQuestion(text.LanguageOf(code), question, weigh).FindSnippet(content, names)
	return part(content, found.Span), marks(content, found)
}

func TestTheSnippetIsWhatMatchedAndNotTheBeginning(t *testing.T) {
	row := "| a cell that says nothing of interest to anyone, at length | and another one that says even less |\n"
	weigh := func(term string) float64 {
		return map[string]float64{"quokka": 8, "system": 0.5, "start": 0.5, "user": 0.5}[term]
	}
	for name, c := range map[string]struct {
		code, content, question string
		weigh                   func(string) float64
		names                   []snippet.Name
		want, marks             string
	}{
		"sentences": {"", strings.Repeat(filler, 20) + "The lease was signed by Mrs. Ødegård in Bergen. " +
			strings.Repeat(filler, 20), "Who signed the lease?", nil, nil, "The lease was signed by Mrs. Ødegård in Bergen.", "lease|signed"},
		"German": {"de", "Es regnete den ganzen Tag am See. Am Ufer standen zwei alte Häuser.", "Wo steht ein altes Haus?",
			nil, nil, "Am Ufer standen zwei alte Häuser.", "alte|Häuser"},
		"Japanese": {"ja", "雨が降った。彼は東京大学で学んだ。", "東京の大学", nil, nil, "彼は東京大学で学んだ。", "東京大学"},
		"Thai":     {"th", "ฝนตกหนัก เราอยู่ใกล้ภูเขาไฟฟูจิ", "ภูเขาไฟ", nil, nil, "เราอยู่ใกล้ภูเขาไฟฟูจิ", "ภูเขาไฟ"},
		"rare terms": {"", "The system was started, stopped and started again by users. " + strings.Repeat(filler, 5) +
			"A quokka lives on Rottnest. " + strings.Repeat(filler, 5), "Which users started the system about the quokka?",
			weigh, nil, "A quokka lives", "system|started|started|users|quokka"},
		"a name that led to it": {"", strings.Repeat(filler, 6) + "Hall was the first president of the American Psychological " +
			"Association. " + strings.Repeat(filler, 6) + "American films were shown. ", "What is the Journal?", nil, []snippet.Name{
			{Text: "American Psychological Association", Weight: 2}, {Text: "films", Weight: 0.01},
		}, "Hall was the first president", "American Psychological Association"},
		"below a heading": {"", "Deployment\nPut the file on the server and start it there. " + strings.Repeat(filler, 4),
			"deployment", nil, nil, "start it there.", "Deployment"},
		"a row of a table": {"", strings.Repeat(row, 6) + "| the ferry sails at noon | unless there is ice, as in February |\n" +
			strings.Repeat(row, 6), "When do I do the ferry?", nil, nil, "| the ferry sails at noon", "ferry"},
		"a heading at the end": {"", "# Lease\n\n" + strings.Repeat("x", snippet.Most-3) + ". \n\n## Rent", "rent", nil, nil,
			"## Rent", "Rent"},
	} {
		got, marked := find(c.code, c.content, c.question, c.weigh, c.names...)
		assert.Contains(t, got, c.want, name)
		assert.Equal(t, c.marks, marked, name)
		assert.False(t, strings.HasPrefix(got, c.content[:9]) && strings.Contains(c.content, filler) && name != "below a heading",
			"%s: it is the beginning", name)
	}
}

func TestATextWithoutAMatchIsShownFromItsBeginning(t *testing.T) {
	content := "  \n Oslo is a city. " + strings.Repeat(filler, 9)
	got, marked := find("", content, "zebra", nil)
	assert.True(t, strings.HasPrefix(got, "Oslo is a city.") && marked == "", "%q %q", got, marked)
	for _, empty := range []string{"", " \n\t "} {
		got, marked := find("", empty, "zebra", nil)
		assert.Empty(t, got+marked)
	}
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
		got, _ := find("", content, "How high is the rent?", nil, names...)
		assert.True(t, strings.Contains(got, test.want) && utf8.RuneCountInString(got) <= snippet.Most, "%s: %q", test.name, got)
	}
}

func TestASnippetIsMovedToAPart(t *testing.T) {
	content := strings.Repeat(filler, 9) + "\n\n| Fare | Adult |\n| Single | 4 |\n| Return | 7 |\n\n" + strings.Repeat(filler, 9)
	at := utf8.RuneCountInString(content[:strings.Index(content, "| Return")])
	span := snippet.CutAround(text.LanguageOf("en"), content, snippet.Span{Start: at, End: at + 14})
	assert.Contains(t, part(content, span), "| Fare | Adult |\n| Single | 4 |\n| Return | 7 |")
	assert.LessOrEqual(t, span.End-span.Start, snippet.Most)
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
		_, marked := find("", tc.content, tc.question, nil)
		assert.Equal(t, tc.want, marked, tc.content)
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
	got, _ = find("", solid, "漢", nil)
	assert.True(t, strings.Contains(got, "漢") && utf8.RuneCountInString(got) <= snippet.Most, "without a space: %q", got)
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
