package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

var capital = regexp.MustCompile(`\b([A-Z][a-z]+)\b`)

// copies writes n copies of the corpus; the names of later ones are altered, so that they are classes of their own.
func copies(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "corpus.jsonl"))
	if err != nil {
		return err
	}
	writer := bufio.NewWriter(out)
	for k := range n {
		in, err := os.Open(filepath.Join(*data, "corpus.jsonl"))
		if err != nil {
			return err
		}
		sc := bufio.NewScanner(in)
		sc.Buffer(make([]byte, 1<<20), 1<<26)
		for sc.Scan() {
			var r map[string]any
			if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
				return err
			}
			if k > 0 {
				r["id"] = fmt.Sprintf("%v~%d", r["id"], k)
				r["title"] = fmt.Sprintf("%v x%d", r["title"], k)
				r["text"] = capital.ReplaceAllString(r["text"].(string), "${1}x"+strconv.Itoa(k))
			}
			raw, err := json.Marshal(r)
			if err != nil {
				return err
			}
			_, _ = writer.Write(append(raw, '\n')) // Flush tells of errors
		}
		_ = in.Close()
	}
	if err := writer.Flush(); err != nil {
		return err
	}
	return out.Close()
}
