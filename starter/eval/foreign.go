package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// foreign reads a folder as other people publish it; false where it is none of theirs. Folders of:
//
//   - MultiHop-RAG (Tang and Yang, 2024): corpus.json, an array of {title, url, body}, and MultiHopRAG.json, an array
//     of {query, answer, evidence_list: [{title, url}]}. An article is a passage. Questions without evidence are left
//     out: nothing can be found for them.
//   - GraphRAG-Bench (Xiang and others, 2025): JSON files, in the folder or in folders of it, of {corpus_name, context}
//     and of {id, source, question, answer, evidence: [text]}. Its gold is text, so a context is cut into passages at
//     its paragraphs, and gold are those that hold a piece of evidence word for word; questions of which none does are
//     left out.
func foreign(dir string) (*Dataset, bool, error) {
	dataset := &Dataset{Name: filepath.Base(filepath.Clean(dir)), Dir: dir, Texts: map[string]string{}}
	if exists(filepath.Join(dir, "MultiHopRAG.json")) {
		return dataset, true, dataset.multiHop()
	}
	if exists(filepath.Join(dir, "corpus.jsonl")) {
		return nil, false, nil
	}
	found, err := dataset.graphBench()
	return dataset, found, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// array reads a JSON file.
func array(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err == nil {
		return nil
	}
	var where *fs.PathError
	if errors.As(err, &where) {
		err = where.Err
	}
	return fault.Usage.At("read dataset file", path).Because(err).Advise("see docs/retrieval.md, Evaluation")
}

// passage adds one to what Stage writes.
func (d *Dataset) passage(id, title, text string) error {
	if _, twice := d.Texts[id]; twice {
		return fault.Usage.At("read dataset", d.Dir).Because("two passages are called " + id)
	}
	d.Texts[id] = strings.TrimSpace(title + "\n" + text)
	row, err := json.Marshal(map[string]string{"id": id, "title": title, "text": text})
	d.corpus = append(append(d.corpus, row...), '\n')
	return err
}

// kept adds a question, if it has gold.
func (d *Dataset) kept(id, question, answer string, gold map[string]bool) {
	if strings.TrimSpace(question) == "" || len(gold) == 0 {
		d.LeftOut++
		return
	}
	d.Questions = append(d.Questions, Question{ID: id, Question: question, Answer: answer, Gold: gold})
}

// usable is an error where nothing can be asked.
func (d *Dataset) usable() error {
	if len(d.Questions) > 0 {
		return nil
	}
	return fault.Usage.At("read dataset", d.Dir).
		Because(fmt.Sprintf("none of its %d questions has evidence in its corpus", d.LeftOut))
}

func (d *Dataset) multiHop() error {
	var articles []struct{ Title, URL, Body string }
	if err := array(filepath.Join(d.Dir, "corpus.json"), &articles); err != nil {
		return err
	}
	byURL, byTitle := map[string]string{}, map[string]string{}
	for i, article := range articles {
		id := fmt.Sprint(i)
		if err := d.passage(id, article.Title, article.Body); err != nil {
			return err
		}
		byURL[article.URL], byTitle[article.Title] = id, id
	}
	var questions []struct {
		Query, Answer string
		Evidence      []struct{ Title, URL string } `json:"evidence_list"`
	}
	if err := array(filepath.Join(d.Dir, "MultiHopRAG.json"), &questions); err != nil {
		return err
	}
	for i, question := range questions {
		gold := map[string]bool{}
		for _, evidence := range question.Evidence {
			id, ok := byURL[evidence.URL]
			if !ok || evidence.URL == "" {
				id, ok = byTitle[evidence.Title]
			}
			if !ok {
				return fault.Usage.At("read dataset", d.Dir).
					Because(fmt.Sprintf("question %d names an article that is not in corpus.json: %s", i, evidence.Title))
			}
			gold[id] = true
		}
		d.kept(fmt.Sprint(i), question.Query, question.Answer, gold)
	}
	return d.usable()
}

// graphContext and graphQuestion are what files of GraphRAG-Bench hold; a file has one of the two.
type graphContext struct {
	Name    string `json:"corpus_name"`
	Context string `json:"context"`
}

type graphQuestion struct {
	ID       string          `json:"id"`
	Source   string          `json:"source"`
	Question string          `json:"question"`
	Answer   string          `json:"answer"`
	Evidence json.RawMessage `json:"evidence"`
}

// evidence is a text or a list of texts.
func (q graphQuestion) evidence() []string {
	var many []string
	if json.Unmarshal(q.Evidence, &many) == nil {
		return many
	}
	var one string
	if json.Unmarshal(q.Evidence, &one) == nil {
		return []string{one}
	}
	return nil
}

func (d *Dataset) graphBench() (bool, error) {
	var paths []string
	err := filepath.WalkDir(d.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.HasSuffix(path, ".json") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		return false, nil //nolint:nilerr // there is no such folder: who reads corpus.jsonl says so
	}
	sort.Strings(paths)
	var contexts []graphContext
	var questions []graphQuestion
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return false, fault.Usage.At("read dataset file", path).Because(err)
		}
		if raw = bytes.TrimSpace(raw); len(raw) > 0 && raw[0] == '{' { // one context by itself
			raw = append(append([]byte{'['}, raw...), ']')
		}
		var some []graphContext
		if json.Unmarshal(raw, &some) == nil && len(some) > 0 && some[0].Name != "" && some[0].Context != "" {
			contexts = append(contexts, some...)
			continue
		}
		var asked []graphQuestion
		if json.Unmarshal(raw, &asked) == nil && len(asked) > 0 && asked[0].Question != "" && asked[0].Source != "" {
			questions = append(questions, asked...)
		}
	}
	if len(contexts) == 0 || len(questions) == 0 {
		return false, nil
	}
	return true, d.cutContexts(contexts, questions)
}

// cutContexts makes passages of contexts, and gold of evidence.
func (d *Dataset) cutContexts(contexts []graphContext, questions []graphQuestion) error {
	type piece struct{ id, text string }
	pieces := map[string][]piece{}
	for _, context := range contexts {
		for n, text := range paragraphs(context.Context) {
			id := fmt.Sprintf("%s-%d", context.Name, n)
			if err := d.passage(id, context.Name, text); err != nil {
				return err
			}
			pieces[context.Name] = append(pieces[context.Name], piece{id, plainly(text)})
		}
	}
	for i, question := range questions {
		gold := map[string]bool{}
		for _, evidence := range question.evidence() {
			evidence = plainly(evidence)
			for _, one := range pieces[question.Source] {
				if evidence != "" && strings.Contains(one.text, evidence) {
					gold[one.id] = true
				}
			}
		}
		if question.ID == "" {
			question.ID = fmt.Sprint(i)
		}
		d.kept(question.ID, question.Question, question.Answer, gold)
	}
	return d.usable()
}

// passageBytes is how long a passage is at least, if the context has so much left.
const passageBytes = 1200

// paragraphs joins short paragraphs and leaves long ones whole: evidence does not cross one.
func paragraphs(text string) []string {
	var out []string
	var at strings.Builder
	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if at.Len() > 0 {
			at.WriteByte('\n')
		}
		at.WriteString(line)
		if at.Len() >= passageBytes {
			out = append(out, at.String())
			at.Reset()
		}
	}
	if at.Len() > 0 {
		out = append(out, at.String())
	}
	return out
}

// plainly folds case and white space, which editions differ in.
func plainly(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }
