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
	"github.com/unweaver/unweaver/internal/text"
)

func found(text string) []string {
	var out []string
	for _, entity := range builtin.FindEntities(text) {
		out = append(out, entity.Name)
	}
	return out
}

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
		assert.Equal(t, c.want, found(c.text), name)
	}
}

func TestAcronymsBringTheirExpansion(t *testing.T) {
	for text, want := range map[string]string{
		"He works on magnetic resonance imaging (MRI) there.":  "magnetic resonance imaging",
		"It is mother-to-child transmission (MTCT) of it.":     "mother-to-child transmission",
		"Nothing here spells that at all (XYZ) in the text.":   "",
		"We know of deoxyribonucleic acid samples (DAS) here.": "deoxyribonucleic acid samples",
	} {
		names := "\n" + strings.Join(found(text), "\n") + "\n"
		open, closing := strings.IndexByte(text, '('), strings.IndexByte(text, ')')
		assert.True(t, strings.Contains(names, "\n"+text[open+1:closing]+"\n"), "%q: the acronym is not in %q", text, names)
		assert.True(t, want == "" || strings.Contains(names, "\n"+want+"\n"), "%q: %q is not in %q", text, want, names)
	}
}

func TestADescriptionIsTheFirstSentencesThatNameIt(t *testing.T) {
	text := "Bohr was born in 1885. Einstein wrote. Later Bohr taught. Then Bohr won. At last Bohr died."
	for _, entity := range builtin.FindEntities(text) {
		if entity.Name == "Bohr" {
			assert.Equal(t, "Bohr was born in 1885. Later Bohr taught. Then Bohr won.", entity.Description)
			return
		}
	}
	t.Error("Bohr is missing")
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
		"one long sentence": strings.Repeat("word ", 200) + ".",
		"one long word":     strings.Repeat("é", 500),
		"many sentences":    strings.Repeat("One thing is here. Another thing is there. ", 30),
		"nothing":           "  \n ",
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
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
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
	if near, far := cosine(q, embedder.Vector("A Danish physicist from Denmark")), cosine(q,
		embedder.Vector("cooking with copper pans")); near < far+0.2 {
		t.Errorf("near %.3f, far %.3f", near, far)
	}
}

// What these rules find in English passages is in indexes: where this sum changes, the version must.
// Promises: 75.
func TestNamesInEnglishAreThoseOfTheirVersion(t *testing.T) {
	const want = "5a8c8f351a0309263c772e8cc14553a8b8c5c4a71ac22466b36640d87f545dad"
	file, err := os.Open("../../../testdata/musique/corpus.jsonl")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	passages := 0
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
	code := builtin.QuestionsIn(text.LanguageOf("en"), "```\nGraph Store calls Fusion Walk\n```", 5)
	assert.True(t, len(code) == 0, "code is asked: %q", code)
}
