// Package sample holds the demo's corpus: public-domain accident reports (ntsb/SOURCE.md).
package sample

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed ntsb/*.txt
var files embed.FS

// Write puts the corpus into a folder and gives the number of its documents.
func Write(dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	n := 0
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		n++
		return os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o644)
	})
	return n, err
}
