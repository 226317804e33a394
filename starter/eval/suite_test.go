package eval_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/starter/eval"
)

// The second run finds more by one method: the table compares both with the base, and with themselves the run before.
func TestASuiteComparesSetsWithTheBaseAndWithTheLastRun(t *testing.T) {
	dir := t.TempDir()
	once := func(tables map[string]map[string][]string) *eval.Suite {
		last, err := eval.ReadSuite(dir)
		require.NoError(t, err)
		p := plan(answers(tables), eval.System{Method: "good"}, eval.System{Method: "poor"})
		report, err := eval.Run(t.Context(), p)
		require.NoError(t, err)
		suite := &eval.Suite{Ks: p.Ks, Base: "poor"}
		suite.Add(p.Dataset, report, last)
		require.NoError(t, suite.Write(dir))
		return suite
	}
	first := once(tables)
	assert.InDelta(t, 0.5, first.Rows[0].AgainstBase[1].Mean, 1e-9)
	assert.Nil(t, first.Rows[1].AgainstBase)
	assert.Nil(t, first.Rows[0].AgainstLast)
	assert.Equal(t, []eval.Hop{
		{Gold: 1, N: 2, Recall: []float64{1, 1}}, {Gold: 2, N: 1, Recall: []float64{0.5, 1}}, {Gold: 3}, {Gold: 4},
	}, first.Rows[0].Hops)
	second := once(map[string]map[string][]string{"good": tables["good"], "poor": tables["good"]})
	assert.InDelta(t, 0.5, second.Rows[1].AgainstLast[1].Mean, 1e-9)
	assert.Zero(t, second.Rows[0].AgainstLast[1].Mean)
	raw, err := os.ReadFile(filepath.Join(dir, "suite.md"))
	require.NoError(t, err)
	assert.Contains(t, string(raw), "| small | 3 | poor | 83.3 | 100.0 | – |")
	svg, err := os.ReadFile(filepath.Join(dir, "suite.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(svg), "Recall on every set, 3 questions")
}

func TestASuiteIsAFolderOfDatasets(t *testing.T) {
	dir := t.TempDir()
	_, err := eval.ListSets(dir)
	assert.ErrorContains(t, err, "it contains no folder")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	_, err = eval.ListSets(dir)
	assert.ErrorContains(t, err, "a dataset is a folder")
}

// Evidence is paraphrased, and several pieces stand in one text.
func TestGraphRAGBenchIsReadByThePassagesThatMatchBest(t *testing.T) {
	dir := t.TempDir()
	long := make([]byte, 1200)
	for i := range long {
		long[i] = "filler "[i%7]
	}
	for name, content := range map[string]string{
		"corpus.json": `{"corpus_name":"Medical","context":"Basal cells lie in the skin. ` + string(long) +
			`\nSurgery removes a tumour of the liver."}`,
		"questions.json": `[{"id":"q1","source":"Medical","question":"Where and how?","answer":"skin","evidence":
			["Basal cells are found in the skin; a tumour of the liver is removed by surgery"]},
			{"id":"q2","source":"Medical","question":"Who?","answer":"none","evidence":["Amundsen reached the pole"]}]`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	dataset, err := eval.Load(dir)
	require.NoError(t, err)
	require.Len(t, dataset.Questions, 1)
	assert.Equal(t, []string{"Medical-0", "Medical-1"}, dataset.Questions[0].Gold)
	assert.Equal(t, 1, dataset.LeftOut)
	require.NoError(t, dataset.StageCorpus(filepath.Join(dir, "staged")))
	raw, err := os.ReadFile(filepath.Join(dir, "staged", "corpus.jsonl"))
	require.NoError(t, err)
	assert.Contains(t, string(raw), `{"id":"Medical-1","text":"Surgery removes a tumour of the liver."}`)
}
