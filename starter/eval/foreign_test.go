package eval

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
)

// folder writes files, whose names may have folders.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "set")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// staged is the corpus that is indexed.
func staged(t *testing.T, dataset *Dataset) string {
	t.Helper()
	dir := t.TempDir()
	if err := dataset.Stage(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

const articles = `[{"title":"One","url":"u/1","body":"First."},{"title":"Two","url":"u/2","body":"Second."}]`

func TestAFolderOfMultiHopRAGIsRead(t *testing.T) {
	dataset, err := Load(folder(t, map[string]string{
		"corpus.json": articles,
		"MultiHopRAG.json": `[
			{"query":"Which?","answer":"Yes","evidence_list":[{"title":"One","url":"u/1"},{"title":"Two"}]},
			{"query":"None?","answer":"Insufficient information.","evidence_list":[]}]`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(dataset.Questions) != 1 || dataset.LeftOut != 1 || len(dataset.Questions[0].Gold) != 2 ||
		!dataset.Questions[0].Gold["0"] || dataset.Questions[0].Answer != "Yes" || dataset.Texts["1"] != "Two\nSecond." {
		t.Errorf("%+v", dataset)
	}
	if got := staged(t, dataset); got != `{"id":"0","text":"First.","title":"One"}`+"\n"+
		`{"id":"1","text":"Second.","title":"Two"}`+"\n" {
		t.Error(got)
	}
}

func TestAFolderOfGraphRAGBenchIsRead(t *testing.T) {
	long := strings.Repeat("Much was said of other things. ", 45)
	dataset, err := Load(folder(t, map[string]string{
		"Corpus/novel.json": `[{"corpus_name":"N1","context":"` + long + `\nThe boat  lay at the quay.\nIt was old."},
			{"corpus_name":"N2","context":"The boat lay at the quay."}]`,
		"Questions/novel_questions.json": `[
			{"id":"q1","source":"N1","question":"Where?","answer":"At the quay","evidence":["the boat lay at the quay."]},
			{"id":"q2","source":"N2","question":"Where else?","answer":"","evidence":"The boat lay"},
			{"id":"q3","source":"N2","question":"Who?","answer":"","evidence":["Nobody says so."]}]`,
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(dataset.Texts) != 3 || len(dataset.Questions) != 2 || dataset.LeftOut != 1 {
		t.Fatalf("%d passages, %+v, %d left out", len(dataset.Texts), dataset.Questions, dataset.LeftOut)
	}
	for i, want := range []string{"N1-1", "N2-0"} { // not the same words of another source
		if gold := dataset.Questions[i].Gold; len(gold) != 1 || !gold[want] {
			t.Errorf("question %d has gold %v, want %s", i, gold, want)
		}
	}
	if got := staged(t, dataset); strings.Count(got, "\n") != 3 {
		t.Error(got)
	}
}

func TestForeignFoldersThatDoNotFitAreRefused(t *testing.T) {
	for says, files := range map[string]map[string]string{
		"names an article": {
			"corpus.json": articles, "MultiHopRAG.json": `[{"query":"q","evidence_list":[{"title":"Three","url":"u/3"}]}]`,
		},
		"none of its 1": {"corpus.json": articles, "MultiHopRAG.json": `[{"query":"q","evidence_list":[]}]`},
		"no such file":  {"MultiHopRAG.json": `[]`},
		"invalid":       {"corpus.json": articles, "MultiHopRAG.json": `[{"query": ???}]`},
		"two passages": {
			"a.json": `[{"corpus_name":"N","context":"x"},{"corpus_name":"N","context":"y"}]`,
			"b.json": `[{"source":"N","question":"q","evidence":["x"]}]`,
		},
		"none of its 2": {
			"a.json": `{"corpus_name":"N","context":"x"}`,
			"b.json": `[{"source":"N","question":"q","evidence":["z"]},{"source":"N","question":"r","evidence":7}]`,
		},
		"corpus.jsonl": {"other.json": `[{"name":"x"}]`}, // nobody's folder: what a dataset is, is said
	} {
		if _, err := Load(folder(t, files)); !fault.Is(err, fault.Usage) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}
