// Package sample holds the demo's corpus: passages of Wikipedia (wiki/SOURCE.md).
package sample

import (
	"bytes"
	_ "embed"
	"os"
	"path/filepath"
)

//go:embed wiki/corpus.jsonl
var passages []byte

// Write puts the corpus into a folder and gives the number of its documents.
func Write(dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	return bytes.Count(passages, []byte("\n")), os.WriteFile(filepath.Join(dir, "passages.jsonl"), passages, 0o644)
}
