package eval

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
)

func TestPublishedFilesAreReadOrRefusedWithTheReason(t *testing.T) {
	row := `{"id":"1","question":"q","documents":["b","a","b"],"response":"r"}` + "\n"
	for _, c := range []struct{ set, file, content, says string }{
		{"covidqa", "covidqa/train.jsonl", row + row, ""},
		{"covidqa", "covidqa/train.jsonl", `{"id":"7","question":"q","response":"r"}`, `question "7" lacks`},
		{"covidqa", "covidqa/train.jsonl", `{"id":"7","question":"q","documents":["a"]}`, `question "7" lacks`},
		{"covidqa", "covidqa/train.jsonl", row[:30], "unexpected end"},
		{"covidqa", "covidqa/train.jsonl", "\n", "has no question"},
		{"covidqa", "covidqa/train.parquet", "no parquet", "parquet"},
		{
			"musique", "musique_ans_v1.0_dev.jsonl",
			`{"id":"1","question":"q","answer":"r","paragraphs":[{"paragraph_text":"b","is_supporting":true},` +
				`{"paragraph_text":"a","is_supporting":true},{"paragraph_text":"c","is_supporting":false}]}` + "\n" +
				`{"id":"2","question":"p","answer":"r","answerable":false,"paragraphs":[]}`, "",
		},
		{"musique", "musique/musique_ans_v1.0_dev.jsonl", `{"id":"1","question":"q"}`, `question "1" lacks`},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		dataset, err := LoadPublished(dir, c.set)
		if c.says != "" {
			assert.True(t, fault.Is(err, fault.Usage), "%s: %v", c.content, err)
			assert.ErrorContains(t, err, c.says, c.content)
			continue
		}
		require.NoError(t, err, c.content)
		gold := []string{"92eb5ffee6ae2fec", "0cc175b9c0f1b6a8"} // the beginnings of the MD5 of b and a
		want := Question{ID: "1", Question: "q", Answer: "r", Answers: []string{"r"}, Gold: gold}
		assert.Equal(t, []Question{want}, dataset.Questions)
		assert.Equal(t, []string{"b", "a"}, dataset.Passages)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "techqa"), 0o755))
	require.NoError(t, parquet.WriteFile(filepath.Join(dir, "techqa", "train-0.parquet"), []struct {
		ID       string `parquet:"id"`
		Question string `parquet:"question"`
	}{{"1", "q"}}))
	_, err := LoadPublished(dir, "techqa")
	assert.ErrorContains(t, err, "it has no column documents")
	none, err := LoadPublished(dir, "emanual")
	assert.True(t, none == nil && err == nil, "%v", err)
}

func TestAJournalGoesOnBehindATornLineAndRefusesAnotherEvaluation(t *testing.T) {
	dir := t.TempDir()
	asked := 0
	ask := func(key string) string {
		journal, err := OpenJournal(dir, "this one")
		require.NoError(t, err)
		defer func() { require.NoError(t, journal.Close()) }()
		value, err := askOnce(t.Context(), journal, []string{key}, func(context.Context) (string, error) {
			asked++
			return "answer " + key, nil
		})
		require.NoError(t, err)
		return value
	}
	assert.Equal(t, "answer a", ask("a"))
	path := filepath.Join(dir, "answers.jsonl")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(raw, `{"key":"x","val`...), 0o600))
	assert.Equal(t, "answer a", ask("a"))
	assert.Equal(t, "answer b", ask("b"))
	assert.Equal(t, "answer b", ask("b"))
	assert.Equal(t, 2, asked)
	_, err = OpenJournal(dir, "another one")
	assert.ErrorContains(t, err, "belong to another evaluation: this one; this one is another one")
}
