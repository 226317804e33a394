package eval

import (
	"crypto/md5" //nolint:gosec // names of files, as the paper's program makes them
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/fault"
)

// PaperSets are the sets of the paper's Table 1, and how many questions it has of each.
var PaperSets = map[string]int{"covidqa": 1234, "emanual": 522, "techqa": 596, "musique": 2417}

// LoadPublished reads a set of Table 1 below dir as its authors publish it: of RAGBench the files of split train
// (Parquet as they are, or JSON lines), of MuSiQue the answerable questions of the development set. A nil set is not
// there.
func LoadPublished(dir, name string) (*Dataset, error) {
	patterns := []string{name + "/train*.parquet", name + "/train*.jsonl"}
	read := readRAGBench
	if name == "musique" {
		patterns, read = []string{"musique_ans_v1.0_dev.jsonl", name + "/musique_ans_v1.0_dev.jsonl"}, readMuSiQue
	}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			continue
		}
		dataset := newDataset(dir)
		dataset.Name = name
		for _, file := range files {
			if err := read(file, dataset); err != nil {
				return nil, fault.Usage.At("read published set", file).Because(err).
					Advise("give the file as published (docs/guides/measure.md)")
			}
		}
		if len(dataset.Questions) == 0 {
			return nil, fault.Usage.At("read published set", dir).Because(name + " has no question")
		}
		return dataset, nil
	}
	return nil, nil
}

// addQuestion adds a question with the passages that answer it, unless it was asked before.
func (d *Dataset) addQuestion(id, question, answer string, passages []string) error {
	if strings.TrimSpace(question) == "" || strings.TrimSpace(answer) == "" || len(passages) == 0 {
		return fmt.Errorf("question %q lacks its text, its answer or its documents", id)
	}
	if slices.ContainsFunc(d.Questions, func(q Question) bool { return q.Question == question }) {
		return nil
	}
	asked := Question{ID: id, Question: question, Answer: answer}
	for _, text := range passages {
		id := fmt.Sprintf("%x", md5.Sum([]byte(text)))[:16] //nolint:gosec // a name
		if _, known := d.Texts[id]; !known {
			raw, err := json.Marshal(map[string]string{"id": id, "text": text})
			if err != nil {
				return err
			}
			d.corpus = append(append(d.corpus, raw...), '\n')
			d.Texts[id] = prompt.Passage{ID: id, Text: text}
		}
		if !slices.Contains(asked.Gold, id) {
			asked.Gold = append(asked.Gold, id)
		}
	}
	d.Questions = append(d.Questions, asked)
	return nil
}

// ragRow is what counts of a row of RAGBench: response is the answer that others are compared with.
type ragRow struct {
	ID        string   `json:"id"`
	Question  string   `json:"question"`
	Documents []string `json:"documents"`
	Response  string   `json:"response"`
}

func readRAGBench(path string, into *Dataset) error {
	take := func(row ragRow) error { return into.addQuestion(row.ID, row.Question, row.Response, row.Documents) }
	if strings.HasSuffix(path, ".parquet") {
		return readParquet(path, take)
	}
	return readLines(path, func(_ int, raw []byte) error {
		var row ragRow
		if err := json.Unmarshal(raw, &row); err != nil {
			return err
		}
		return take(row)
	})
}

// readParquet reads the four columns by their names: writers call the element of a list by several.
func readParquet(path string, take func(ragRow) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	about, err := file.Stat()
	if err != nil {
		return err
	}
	table, err := parquet.OpenFile(file, about.Size())
	if err != nil {
		return err
	}
	columns := table.Schema().Columns()
	for _, needed := range []string{"id", "question", "documents", "response"} {
		if !slices.ContainsFunc(columns, func(path []string) bool { return path[0] == needed }) {
			return errors.New("it has no column " + needed)
		}
	}
	reader := parquet.NewReader(table)
	defer func() { _ = reader.Close() }()
	buffer := make([]parquet.Row, 64)
	for {
		n, err := reader.ReadRows(buffer)
		for _, values := range buffer[:n] {
			var row ragRow
			for _, value := range values {
				if value.IsNull() {
					continue
				}
				text := value.String()
				switch columns[value.Column()][0] {
				case "id":
					row.ID = text
				case "question":
					row.Question = text
				case "response":
					row.Response = text
				case "documents":
					row.Documents = append(row.Documents, text)
				}
			}
			if err := take(row); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readMuSiQue takes the supporting paragraphs alone: the paper's corpus has about as many tokens as those, and not the
// twenty of each question.
func readMuSiQue(path string, into *Dataset) error {
	return readLines(path, func(_ int, raw []byte) error {
		var row struct {
			ID         string `json:"id"`
			Question   string `json:"question"`
			Answer     string `json:"answer"`
			Answerable *bool  `json:"answerable"`
			Paragraphs []struct {
				Text       string `json:"paragraph_text"`
				Supporting bool   `json:"is_supporting"`
			} `json:"paragraphs"`
		}
		if err := json.Unmarshal(raw, &row); err != nil {
			return err
		}
		if row.Answerable != nil && !*row.Answerable {
			return nil
		}
		var supporting []string
		for _, paragraph := range row.Paragraphs {
			if paragraph.Supporting {
				supporting = append(supporting, paragraph.Text)
			}
		}
		return into.addQuestion(row.ID, row.Question, row.Answer, supporting)
	})
}
