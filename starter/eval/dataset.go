// Package eval compares retrieval methods on one index: recall against gold passages, with confidence intervals,
// tokens and latency, and, with a model server, the factual correctness of answers (the measure of the UnWeaver paper).
// It asks over HTTP only.
package eval

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Question of a dataset. Gold lists ids of passages, each once, in the order of the file.
type Question struct {
	ID       string
	Question string
	Answer   string
	Gold     []string
}

// Dataset is a folder with corpus.jsonl, questions.jsonl and perhaps a recorded extraction.
type Dataset struct {
	Name      string
	Dir       string
	Questions []Question
	Texts     map[string]prompt.Passage // by id, for the oracle
	Recorded  string                    // path of the recording; empty: none
	Documents bool                      // gold is keys of documents in an index, not ids of passages

	corpus []byte // what Stage writes; nil: corpus.jsonl of Dir
}

type rawQuestion struct {
	ID       any      `json:"id"`
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Answers  []string `json:"answers"`
	Gold     []string `json:"gold"`
}

func readLines(path string, f func(n int, b []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		why := error(err)
		var pe *fs.PathError
		if errors.As(err, &pe) {
			why = pe.Err
		}
		return fault.Usage.At("read dataset file", path).
			Because(why).
			Advise("a dataset is a folder with corpus.jsonl and questions.jsonl")
	}
	defer func() { _ = file.Close() }()
	sc := bufio.NewScanner(file)
	sc.Buffer(nil, 64<<20)
	for n := 1; sc.Scan(); n++ {
		if len(strings.TrimSpace(sc.Text())) == 0 {
			continue
		}
		if err := f(n, sc.Bytes()); err != nil {
			return fault.Usage.At("read dataset file", fmt.Sprintf("%s line %d", path, n)).Because(err).
				Advise(`corpus.jsonl has {"id","title","text"}, questions.jsonl {"question","gold":[ids],"answers":[...]} a line`)
		}
	}
	return sc.Err()
}

func newDataset(dir string) *Dataset {
	return &Dataset{Name: filepath.Base(filepath.Clean(dir)), Dir: dir, Texts: map[string]prompt.Passage{}}
}

// readCorpus reads corpus.jsonl.
func (d *Dataset) readCorpus() error {
	return readLines(filepath.Join(d.Dir, "corpus.jsonl"), func(_ int, raw []byte) error {
		var r struct {
			ID    any    `json:"id"`
			Title string `json:"title"`
			Text  string `json:"text"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		if r.ID == nil {
			return errors.New("a passage requires an id")
		}
		id := fmt.Sprint(r.ID)
		d.Texts[id] = prompt.Passage{ID: id, Title: r.Title, Text: r.Text}
		return nil
	})
}

// Load reads corpus.jsonl and questions.jsonl and refuses gold ids that no passage has.
func Load(dir string) (*Dataset, error) {
	dataset := newDataset(dir)
	if err := dataset.readCorpus(); err != nil {
		return nil, err
	}
	missing := map[string]bool{}
	err := readLines(filepath.Join(dir, "questions.jsonl"), func(n int, b []byte) error {
		var question rawQuestion
		if err := json.Unmarshal(b, &question); err != nil {
			return err
		}
		q := Question{
			ID:       fmt.Sprint(question.ID),
			Question: question.Question,
			Answer:   question.Answer,
		}
		if q.Answer == "" && len(question.Answers) > 0 {
			q.Answer = question.Answers[0]
		}
		if question.ID == nil {
			q.ID = fmt.Sprint(n)
		}
		for _, g := range question.Gold {
			if !slices.Contains(q.Gold, g) {
				q.Gold = append(q.Gold, g)
			}
			if _, ok := dataset.Texts[g]; !ok {
				missing[g] = true
			}
		}
		if strings.TrimSpace(q.Question) == "" || len(q.Gold) == 0 {
			return errors.New("a question requires the keys question and gold")
		}
		dataset.Questions = append(dataset.Questions, q)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		ids := slices.Sorted(maps.Keys(missing))
		shown := strings.Join(ids[:min(10, len(ids))], ", ")
		return nil, fault.Usage.At("read dataset", dir).
			Because(fmt.Sprintf("%d gold ids match no passage: %s", len(ids), shown)).
			Advise("correct questions.jsonl or corpus.jsonl")
	}
	if len(dataset.Questions) == 0 {
		return nil, fault.Usage.At("read dataset", dir).Because("the dataset has no question")
	}
	for _, f := range []string{"extractions_desc.jsonl", "extractions.jsonl"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err == nil {
			dataset.Recorded = filepath.Join(dir, f)
			break
		}
	}
	return dataset, nil
}

// LoadQuestions reads questions about an index that exists: a probe file (core.ReadProbes), whose documents are gold.
func LoadQuestions(path string) (*Dataset, error) {
	refused := func(err error) error {
		return fault.Usage.At("read questions", path).Because(err).
			Advise(`each line is {"question": "…", "documents": ["KEY"]}`)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, refused(err)
	}
	defer func() { _ = file.Close() }()
	probes, err := core.ReadProbes(file, true)
	if err != nil {
		return nil, refused(err)
	}
	dataset := newDataset(strings.TrimSuffix(path, filepath.Ext(path)))
	dataset.Documents = true
	for _, probe := range probes {
		slices.Sort(probe.Documents)
		dataset.Questions = append(dataset.Questions, Question{
			ID: fmt.Sprint(probe.Line), Question: probe.Question, Gold: slices.Compact(probe.Documents),
		})
	}
	return dataset, nil
}

// rankedID returns what of a document's key is compared with gold.
func (d *Dataset) rankedID(key string) string {
	if d.Documents {
		return key
	}
	return Passage(key)
}

// QuestionsSum names the questions and their gold passages, in whatever order they stand: figures of two reports whose
// sums differ are of different questions.
func (d *Dataset) QuestionsSum() string {
	asked := make([]string, 0, len(d.Questions))
	for _, question := range d.Questions {
		raw, err := json.Marshal([]any{question.Question, slices.Sorted(slices.Values(question.Gold))})
		if err != nil {
			panic("eval: questions: " + err.Error()) // texts always marshal
		}
		asked = append(asked, string(raw))
	}
	slices.Sort(asked)
	return core.Sum(append([]string{"questions/1"}, asked...)...).String()
}

// StageCorpus puts the corpus alone into a folder that can be indexed.
func (d *Dataset) StageCorpus(dir string) error {
	raw := d.corpus
	if raw == nil {
		var err error
		if raw, err = os.ReadFile(filepath.Join(d.Dir, "corpus.jsonl")); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "corpus.jsonl")
	if old, err := os.ReadFile(path); err == nil && string(old) == string(raw) {
		return nil // an unchanged file keeps its time, and the index is reused
	}
	return os.WriteFile(path, raw, 0o644)
}

// Passage returns the id of the passage that a document key names: what follows '#'.
func Passage(key string) string { return key[strings.LastIndexByte(key, '#')+1:] }
