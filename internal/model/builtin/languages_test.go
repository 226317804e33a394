package builtin_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

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
		t.Run(c.code+": "+c.name, func(t *testing.T) {
			got := foundIn(c.code, c.text)
			assert.True(t, reflect.DeepEqual(got, c.want), "got %q, want %q", got, c.want)
		})
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
