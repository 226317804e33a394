package builtin_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/text"
)

func TestNamesByRule(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"connectors inside a name": {"He met Ludwig van der Berg today.", []string{"Ludwig van der Berg"}},
		"no connector at its end":  {"He went to Paris of the north.", []string{"Paris"}},
		"pieces of a log":          {"2026-03-14T06:07:07Z INFO ferry Corran Belle left.", []string{"Corran Belle"}},
		"a possessive":             {"She read Bohr's letter to Bohr.", []string{"Bohr"}},
		"two names joined by in": {"They saw Oxford University in New Zealand again.",
			[]string{"Oxford University in New Zealand", "Oxford University", "New Zealand"}},
		"a quoted title": {`It is called "a quiet evening at home" by all.`, []string{"a quiet evening at home"}},
		"debris between quotation marks": {`It prints "%s %d", "&nbsp", "$(png)" and ") and dot-dot (", not "--force".`,
			[]string{"--force"}},
		"code between quotation marks": {`It holds "cells": ["a", {"b": 1}] for Bohr.`, []string{"Bohr", "cells"}},
		"what opens a remark":          {"NOTE Bohr left. See Einstein. Therefore, Planck stayed. HOWEVER he met us.", []string{"Bohr", "Einstein", "Planck"}},
		"camel case and letters":       {"We use iPhone apps and H5N1 data.", []string{"iPhone", "H5N1"}},
		"ordinals are no names":        {"On the 20th day of the 1990s it ran 5km.", nil},
		"plain words are none":         {"nothing to see here at all.", nil},
		"an empty text":                {"", nil},
		"a sentence's plain opening":   {"Quickly the rain fell. It was quickly over.", nil},
		"each name once":               {"Then Bohr met Einstein, and Einstein met Bohr.", []string{"Bohr", "Einstein"}},
	} {
		assert.Equal(t, c.want, foundIn("en", c.text), name)
	}
}

func TestAcronymsBringTheirExpansion(t *testing.T) {
	for text, want := range map[string]string{
		"He works on magnetic resonance imaging (MRI) there.":  "magnetic resonance imaging",
		"It is mother-to-child transmission (MTCT) of it.":     "mother-to-child transmission",
		"Nothing here spells that at all (XYZ) in the text.":   "",
		"We know of deoxyribonucleic acid samples (DAS) here.": "deoxyribonucleic acid samples",
	} {
		names := "\n" + strings.Join(foundIn("en", text), "\n") + "\n"
		open, closing := strings.IndexByte(text, '('), strings.IndexByte(text, ')')
		assert.True(t, strings.Contains(names, "\n"+text[open+1:closing]+"\n"), "%q: the acronym is not in %q", text, names)
		assert.True(t, want == "" || strings.Contains(names, "\n"+want+"\n"), "%q: %q is not in %q", text, want, names)
	}
}

// A name that no space parts from the text is described by the sentence that has it, too.
func TestADescriptionIsTheFirstSentencesThatNameIt(t *testing.T) {
	for _, c := range []struct{ code, text, name, want string }{
		{"en", "Bohr was born in 1885. Einstein wrote. Later Bohr taught. Then Bohr won. At last Bohr died.", "Bohr",
			"Bohr was born in 1885. Later Bohr taught. Then Bohr won."},
		{"ja", "彼はドイツで生まれた。それから東京大学に行った。", "東京大学", "それから東京大学に行った。"},
	} {
		want := builtin.Entity{Name: c.name, Description: c.want}
		assert.Contains(t, builtin.EntitiesIn(text.LanguageOf(c.code), c.text), want)
	}
}

func TestTheChatDoesEachTask(t *testing.T) {
	chat := builtin.Chat{}
	reply, err := chat.Complete(t.Context(), model.Call{Task: model.Extract, Input: "He met Niels Bohr."})
	var extracted struct {
		Entities []builtin.Entity `json:"entities"`
	}
	assert.True(t, err == nil && json.Unmarshal([]byte(reply.Text), &extracted) == nil && len(extracted.Entities) == 1,
		"extract: %q, %v", reply.Text, err)
	long := strings.Repeat("The bridge spans the river. ", 40) + "It was built of stone by many men."
	reply, err = chat.Complete(t.Context(), model.Call{Task: model.Shorten, Input: long, Limit: 1000})
	var shortened struct {
		Description string `json:"description"`
	}
	assert.True(t, err == nil && json.Unmarshal([]byte(reply.Text), &shortened) == nil && shortened.Description != "" &&
		utf8.RuneCountInString(shortened.Description) <= 250, "shorten: %q, %v", reply.Text, err)
	reply, err = chat.Complete(t.Context(), model.Call{Task: model.Answer, Question: "Quarks?", Input: "Cats sleep."})
	assert.True(t, err == nil && reply.Text == "", "an answer from nothing: %q, %v", reply.Text, err)
}

func TestSummariesStayBelowTheirLimit(t *testing.T) {
	for name, text := range map[string]string{
		"one long sentence": strings.Repeat("word ", 200) + ".", "one long word": strings.Repeat("é", 500),
		"many sentences": strings.Repeat("One thing is here. Another thing is there. ", 30), "nothing": "  \n ",
	} {
		for _, limit := range []int{1, 20, 100} {
			short := builtin.Summarize(text, limit)
			n := utf8.RuneCountInString(short)
			assert.True(t, n <= limit && utf8.ValidString(short), "%s: %d runes, limit %d", name, n, limit)
			assert.True(t, strings.TrimSpace(text) == "" || short != "", "%s: nothing is left of it at %d", name, limit)
		}
	}
}

func TestWeightsOfWordsMoveTheVectors(t *testing.T) {
	weighable, ok := model.As[model.Weighable](builtin.Embedder{})
	require.True(t, ok, "the built-in embedder is not weighable")
	plain := builtin.Embedder{}
	heavy := weighable.WithIDF(func(stem string) float64 {
		if strings.HasPrefix(stem, "bohr") {
			return 10
		}
		return 1
	}).(builtin.Embedder)
	question, passage := "Bohr letters", "Bohr lived in a house by the sea with many friends"
	before := cosine(plain.Vector(question), plain.Vector(passage))
	after := cosine(heavy.Vector(question), heavy.Vector(passage))
	assert.True(t, after >= before+0.2, "a heavy shared word moves them from %.3f to %.3f", before, after)
	embedded, usage, err := heavy.Embed(t.Context(), []string{question, passage})
	assert.True(t, err == nil && usage == (model.Usage{}) && len(embedded) == 2 && len(embedded[0]) == heavy.Dimension(),
		"%d vectors, %+v, %v", len(embedded), usage, err)
	assert.InDelta(t, 1, cosine(embedded[0], heavy.Vector(question)), 1e-6, "Embed gives another vector than Vector")
}

func TestAnEndedContextStops(t *testing.T) {
	ctx := musttest.EndedContext(t)
	_, err := (builtin.Chat{}).Complete(ctx, model.Call{Task: model.Extract})
	assert.True(t, errors.Is(err, context.Canceled), "chat: %v", err)
	_, _, err = (builtin.Embedder{}).Embed(ctx, []string{"a"})
	assert.True(t, errors.Is(err, context.Canceled), "embed: %v", err)
}

func cosine(a, b []float32) float64 {
	var s float64
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

func TestVectorsAreUnitDeterministicAndNearWhatSharesWords(t *testing.T) {
	embedder := builtin.Embedder{}
	for _, s := range []string{"Niels Bohr was a physicist", "the", "!!!", "", "é"} {
		vector := embedder.Vector(s)
		assert.InDelta(t, 1, cosine(vector, vector), 1e-5, "%q", s)
		assert.True(t, cosine(vector, embedder.Vector(s)) >= 1-1e-6, "%q has two vectors", s)
	}
	q := embedder.Vector("physicists of Denmark")
	near, far := cosine(q, embedder.Vector("A Danish physicist from Denmark")), cosine(q,
		embedder.Vector("cooking with copper pans"))
	assert.True(t, near >= far+0.2, "near %.3f, far %.3f", near, far)
}

// What these rules find in English passages is in indexes: where this sum changes, the version must.
// Promises: 75.
func TestNamesInEnglishAreThoseOfTheirVersion(t *testing.T) {
	const want = "5a8c8f351a0309263c772e8cc14553a8b8c5c4a71ac22466b36640d87f545dad"
	file := musttest.Get(os.Open("../../../testdata/musique/corpus.jsonl"))(t)
	defer func() { _ = file.Close() }()
	sum, passages := sha256.New(), 0
	for lines := bufio.NewScanner(file); lines.Scan(); passages++ {
		var passage struct{ Title, Text string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &passage))
		assert.Empty(t, text.NotProse(passage.Text), passage.Text)
		found, err := json.Marshal([]any{builtin.FindEntities(passage.Text), builtin.Summarize(passage.Text, 200)})
		require.NoError(t, err)
		_, _ = sum.Write(found) // never fails
	}
	got := hex.EncodeToString(sum.Sum(nil))
	assert.True(t, passages >= 100 && got == want, "%d passages have the sum %s by %s", passages, got, builtin.ChatModel)
}

const markdown = "## How Unweaver walks\n\n| words, Fusion Walk, Graph Store | 12 ms |\n\n" +
	"```\nGraph Store calls Fusion Walk\n```\n\n" +
	"`\"chunk/2\", \"config: Chunking\", Graph Store)`\n\nAda Lovelace met Charles Babbage in London.\n"

func TestRulesPassOverWhatIsNoProse(t *testing.T) {
	questions := builtin.QuestionsIn(text.LanguageOf("en"), markdown, 20)
	reply, err := builtin.Chat{Language: "en"}.Complete(t.Context(), model.Call{Task: model.Triples, Input: markdown})
	require.True(t, err == nil && len(questions) != 0 && strings.Contains(reply.Text, "Lovelace"),
		"%q %q %v", questions, reply.Text, err)
	for _, said := range append(questions, reply.Text) {
		assert.True(t, !strings.ContainsAny(said, "|#`") && !strings.Contains(said, "Fusion"), "asked or stated: %q", said)
	}
	assert.Empty(t, builtin.QuestionsIn(text.LanguageOf("en"), "```\nGraph Store calls Fusion Walk\n```", 5))
}

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

// The words before each of many acronyms are not cut again.
func TestManyAcronymsTakeNoMoreForEach(t *testing.T) {
	allocations := func(count int) float64 {
		text := strings.Repeat("Lake Verin Bank (LVB) ", count)
		return testing.AllocsPerRun(1, func() { foundIn("en", text) })
	}
	assert.Less(t, allocations(800), 3*allocations(400))
}
