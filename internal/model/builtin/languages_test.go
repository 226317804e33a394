package builtin_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/text"
)

func foundIn(code, chunk string) []string {
	var out []string
	for _, entity := range builtin.EntitiesIn(text.LanguageOf(code), chunk) {
		out = append(out, entity.Name)
	}
	return out
}

func TestNamesByRuleInOtherLanguages(t *testing.T) {
	for _, c := range []struct {
		name, code, text string
		want             []string
	}{
		{"nouns behind articles and adjectives are none", "de",
			"Der alte Hund lag im Garten. Am Montag aß die Frau einen großen Apfel in der Küche.", nil},
		{"names behind verbs and prepositions", "de",
			"Im Jahr 1905 lebte Einstein in Bern. Später wohnte Einstein mit Mileva bei Zürich.",
			[]string{"Einstein", "Bern", "Mileva", "Zürich"}},
		{"particles and titles", "de",
			"Gestern sprach Bundeskanzler Otto von Bismarck mit Professor Max Planck über Ludwig van der Berg.",
			[]string{"Bundeskanzler Otto von Bismarck", "Max Planck", "Ludwig van der Berg"}},
		{"a compound is a term", "de", "Das Grundgesetz regelt die Gewaltenteilung.",
			[]string{"Grundgesetz", "Gewaltenteilung"}},
		{"what is of a place is no part of its name", "de", "Er las die Geschichte von Malta.", []string{"Malta"}},
		{"a quoted title", "de", "Das Buch heißt „die Leiden des Werther“ und ist alt.", []string{"die Leiden des Werther"}},
		{"elisions and particles", "fr",
			"L'État et l’Université de Genève ont aidé la Côte d'Ivoire. C'est Charles de Gaulle qui vint en janvier.",
			[]string{"État", "Université de Genève", "Côte d'Ivoire", "Charles de Gaulle"}},
		{"what opens a sentence", "fr",
			"Cependant il partit. Heureusement, elle resta. Aujourd'hui tout va. Depuis lundi, « le grand bleu » est là.",
			[]string{"le grand bleu"}},
		{"articles and verbs that open a sentence", "es",
			"Nacieron en 1881. El pintor Pablo Picasso vivió en París. Durante el lunes trabajaban. Las obras son muchas.",
			[]string{"Pablo Picasso", "París"}},
		{"names with and are two", "es", "Firmaron Francia y Portugal con la Universidad de la República.",
			[]string{"Francia", "Portugal", "Universidad de la República"}},
		{"particles", "pt",
			"A princesa Isabel assinou a Lei Áurea no Rio de Janeiro. Vasco da Gama e Luís dos Santos partiram na segunda.",
			[]string{"Isabel", "Lei Áurea", "Rio de Janeiro", "Vasco da Gama", "Luís dos Santos"}},
		{"foreign words and compounds", "ja", "アルベルト・アインシュタインは1879年にドイツで生まれた。東京大学で「相対性理論」をGoogle社が出した。",
			[]string{"Google", "アルベルト・アインシュタイン", "ドイツ", "相対性理論", "東京大学"}},
		{"titles, Latin names and what is repeated", "zh", "《红楼梦》由曹雪芹写成。OpenAI公司研究了曹雪芹。", []string{"OpenAI", "红楼梦", "曹雪芹"}},
		{"Latin names and what is repeated", "th", "ภูเขาไฟฟูจิสูงมาก เราเห็นภูเขาไฟฟูจิที่ Tokyo",
			[]string{"Tokyo", "ภูเขาไฟฟูจิ"}},
		{"no word of Thai begins with a vowel that follows", "th", "ระหว่างประเทศแ ะหว่างประเทศแ", []string{"หว่างประเทศ"}},
		{"another language", "und", "Marie Curie werkte in Parijs.", []string{"Marie Curie", "Parijs"}},
		{"what is repeated, before particles", "und", "서울은 크다. 한강은 서울을 지난다. 한강이 길다.", []string{"서울", "한강"}},
		{"words that are repeated", "und", "القاهرة مدينة كبيرة. تقع القاهرة على النيل.", []string{"القاهرة"}},
		{"nothing", "zh", "", nil},
	} {
		t.Run(c.code+": "+c.name, func(t *testing.T) { assert.Equal(t, c.want, foundIn(c.code, c.text)) })
	}
}

// A name that no space parts from the text is described by the sentence that has it.
func TestNamesWithoutSpacesAreDescribed(t *testing.T) {
	for _, entity := range builtin.EntitiesIn(text.LanguageOf("ja"), "彼はドイツで生まれた。それから東京大学に行った。") {
		assert.True(t, entity.Name != "東京大学" || entity.Description == "それから東京大学に行った。", "%q", entity.Description)
	}
}

func TestModelsOfALanguageHaveNamesOfTheirOwn(t *testing.T) {
	english, german := builtin.Chat{}.Info(), builtin.Chat{Language: "de"}.Info()
	assert.True(t, english.Model == builtin.ChatModel && english == (builtin.Chat{Language: "en"}).Info() &&
		german.Model == "rules-6 de/2", "%v, %v", english, german)
	embedder := builtin.Embedder{Language: "de"}
	weighed := embedder.WithIDF(func(string) float64 { return 2 })
	assert.True(t, (builtin.Embedder{}).Info().Model == builtin.EmbedderModel &&
		embedder.Info().Model == "hashing-3 de/2" && weighed.Info() == embedder.Info(),
		"%v, %v", embedder.Info(), weighed.Info())
}

// A chunk that repeats much must not take time by the square of it.
func TestAChunkThatRepeatsMuchHasFewNames(t *testing.T) {
	var twice strings.Builder
	for range 2 {
		for r := range rune(3_900) {
			twice.WriteRune('一' + r)
		}
	}
	for _, chunk := range []string{strings.Repeat("漢", 1<<17), twice.String()} {
		got := foundIn("zh", chunk)
		assert.True(t, len(got) <= 12, "%d names", len(got))
	}
}

func TestQuestionsByRule(t *testing.T) {
	for name, c := range map[string]struct {
		language, chunk string
		count           int
		want            []string
	}{
		"each sentence first, then second names": {
			"en", "Marie Curie was born in Warsaw. Later Marie Curie lived in Paris.", 5,
			[]string{
				"What was born in Warsaw?", "Later what lived in Paris?",
				"Marie Curie was born in what?", "Later Marie Curie lived in what?",
			},
		},
		"no more than asked for": {"en", "Marie Curie was born in Warsaw. Later Marie Curie lived in Paris.", 3,
			[]string{"What was born in Warsaw?", "Later what lived in Paris?", "Marie Curie was born in what?"}},
		"none asked for": {"en", "Marie Curie was born in Warsaw.", 0, nil},
		"of names within names the longest": {"en", "They saw Oxford University in New Zealand again.", 5,
			[]string{"They saw what again?"}},
		"the same question once":         {"en", "We met Niels Bohr. We met Albert Einstein.", 5, []string{"We met what?"}},
		"a name alone asks nothing":      {"en", "Niels Bohr.", 5, nil},
		"without names there is nothing": {"en", "it rained all day and nobody came.", 5, nil},
		"an empty chunk":                 {"en", "", 5, nil},
		"wrapped lines are one question": {"en",
			"The old library that stands beside the river was built by the architect\nNiels Bohr in a year.", 1,
			[]string{"The old library that stands beside the river was built by the architect what in a year?"}},
		"beyond ASCII, in another language": {
			"de", "Jürgen Müller fährt über Köln nach Zürich!", 9,
			[]string{
				"Was fährt über Köln nach Zürich?", "Jürgen Müller fährt über was nach Zürich?",
				"Jürgen Müller fährt über Köln nach was?",
			},
		},
		"what is too long is not asked": {"en", "We met Niels Bohr " + strings.Repeat("and so on ", 40) + ".", 5, nil},
	} {
		assert.Equal(t, c.want, builtin.QuestionsIn(text.LanguageOf(c.language), c.chunk, c.count), "%s: %q", name, c.chunk)
	}
}

func FuzzQuestionsAreFewAndDifferentAndTheSameAgain(f *testing.F) {
	f.Add("Marie Curie was born in Warsaw. Later Marie Curie lived in Paris.", "en", uint8(5))
	f.Add("Die Universität Zürich wurde 1833 gegründet.", "de", uint8(2))
	f.Add("東京タワーは東京都港区にある。東京タワーは赤い。", "ja", uint8(3))
	f.Add("\xff Ab\u0300c Bohr ﬁn", "fr", uint8(1))
	f.Fuzz(func(t *testing.T, chunk, code string, count uint8) {
		language := text.LanguageOf(code)
		got := builtin.QuestionsIn(language, chunk, int(count))
		require.True(t, len(got) <= int(count), "%d questions, of %d asked for", len(got), count)
		seen := map[string]bool{}
		for _, question := range got {
			assert.True(t, !seen[question] && len(question) >= 2 && strings.HasSuffix(question, "?"),
				"question %q of %q is doubled or none", question, chunk)
			seen[question] = true
		}
		assert.Equal(t, builtin.QuestionsIn(language, chunk, int(count)), got)
	})
}
