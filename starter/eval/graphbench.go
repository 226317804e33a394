package eval

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/text"
)

// graphRow is a row of a file of GraphRAG-Bench (Xiang and others, 2025): a context, or a question.
type graphRow struct {
	Name     string          `json:"corpus_name"`
	Context  string          `json:"context"`
	ID       string          `json:"id"`
	Source   string          `json:"source"`
	Question string          `json:"question"`
	Answer   string          `json:"answer"`
	Evidence json.RawMessage `json:"evidence"`
}

// What gold by matching requires, and how contexts are cut.
const (
	passageBytes = 1200 // least length of a passage, if the context has so much left
	leastMatched = 0.5  // share of a piece's words, by how rare they are, that its passage holds
)

// loadGraphBench reads the JSON files of a folder and of folders in it; false where they are none of GraphRAG-Bench.
// Its evidence is paraphrased, several pieces in one text: gold is the passage that matches each piece best. Questions
// without one are left out.
func loadGraphBench(dir string) (*Dataset, bool, error) {
	var rows []graphRow
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".json") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var some []graphRow
		if json.Unmarshal(raw, &some) != nil {
			some = make([]graphRow, 1)
			if json.Unmarshal(raw, &some[0]) != nil {
				return nil
			}
		}
		rows = append(rows, some...)
		return nil
	})
	dataset := newDataset(dir)
	dataset.Matched = true
	matchers := map[string]*matcher{}
	for _, row := range rows {
		if row.Context != "" {
			matchers[row.Name] = dataset.cutContext(row)
		}
	}
	if err != nil || len(matchers) == 0 {
		return nil, false, nil //nolint:nilerr // what reads corpus.jsonl says that there is no such folder
	}
	for _, row := range rows {
		if row.Question == "" || matchers[row.Source] == nil {
			continue
		}
		question := Question{
			ID: row.ID, Question: row.Question, Answer: row.Answer, Answers: []string{row.Answer},
			Gold: matchers[row.Source].findGold(row.splitEvidence()),
		}
		if len(question.Gold) == 0 {
			dataset.LeftOut++
			continue
		}
		dataset.Questions = append(dataset.Questions, question)
	}
	if len(dataset.Questions) == 0 {
		return nil, false, fault.Usage.At("read dataset", dir).
			Because(fmt.Sprintf("none of its %d questions has evidence in its corpus", dataset.LeftOut))
	}
	return dataset, true, nil
}

// splitEvidence returns the evidence of a question, which is a text or a list of texts, parted by semicolons.
func (r graphRow) splitEvidence() []string {
	var many []string
	if json.Unmarshal(r.Evidence, &many) != nil {
		many = make([]string, 1)
		if json.Unmarshal(r.Evidence, &many[0]) != nil {
			return nil
		}
	}
	return strings.Split(strings.Join(many, ";"), ";")
}

// cutContext makes passages of whole paragraphs.
func (d *Dataset) cutContext(row graphRow) *matcher {
	out := &matcher{holding: map[string][]int{}}
	add := func(content string) {
		id := fmt.Sprintf("%s-%d", row.Name, len(out.ids))
		d.Texts[id], d.Passages = prompt.Passage{ID: id, Text: content}, append(d.Passages, content)
		raw, err := json.Marshal(map[string]string{"id": id, "text": content})
		if err != nil {
			panic("eval: passage: " + err.Error()) // texts always marshal
		}
		d.corpus = append(append(d.corpus, raw...), '\n')
		for _, term := range listTerms(content) {
			out.holding[term] = append(out.holding[term], len(out.ids))
		}
		out.ids = append(out.ids, id)
	}
	var at []string
	size := 0
	for _, line := range strings.Split(row.Context, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at, size = append(at, line), size+len(line)
		if size >= passageBytes {
			add(strings.Join(at, "\n"))
			at, size = nil, 0
		}
	}
	if size > 0 {
		add(strings.Join(at, "\n"))
	}
	return out
}

// matcher knows which passages hold a word.
type matcher struct {
	ids     []string
	holding map[string][]int
}

// findGold returns the passage that matches each piece best.
func (m *matcher) findGold(pieces []string) (out []string) {
	for _, piece := range pieces {
		matched, all := make([]float64, len(m.ids)), 0.0
		for _, term := range listTerms(piece) {
			weight := math.Log(1 + float64(len(m.ids))/float64(1+len(m.holding[term])))
			all += weight
			for _, passage := range m.holding[term] {
				matched[passage] += weight
			}
		}
		if all > 0 {
			if best := slices.Max(matched); best >= leastMatched*all {
				if id := m.ids[slices.Index(matched, best)]; !slices.Contains(out, id) {
					out = append(out, id)
				}
			}
		}
	}
	return out
}

// listTerms lists the words of a text, each once.
func listTerms(content string) []string {
	out := text.LanguageOf("en").Terms(content)
	slices.Sort(out)
	return slices.Compact(out)
}
