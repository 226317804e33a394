// Package pack knows what is given away, and writes it as archives: equal files make equal archives, wherever and
// whenever they are written.
package pack

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Program is one binary: the folder of its module, and its package there.
type Program struct{ Name, Module, Package string }

// Product is what one archive holds for one system and processor.
type Product struct {
	Name     string
	Programs []Program
	About    string // README.txt
}

// Targets are the systems and processors that archives are made for.
var Targets = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// Products are all that is given away.
var Products = []Product{
	{
		Name: "unweaver",
		Programs: []Program{
			{"unweaver", ".", "./starter"},
		},
		About: aboutUnweaver,
	},
	{
		Name: "unweaver-servers",
		Programs: []Program{
			{"unweaver-query-api", ".", "./query-api"},
			{"unweaver-worker", ".", "./worker"},
		},
		About: aboutServers,
	},
}

const aboutUnweaver = `UnWeaver answers questions from your documents, and shows where each answer stands.

  ./unweaver demo                                  indexes 120 passages and answers two questions: no key, no network
  ./unweaver dev &                                 http://127.0.0.1:8080 has a web page
  ./unweaver index ~/docs --index docs --wait
  ./unweaver query "Who signed the lease?" --index docs

unweaver  every command, and the embedded stack of unweaver dev and unweaver demo

Nothing else is needed: put unweaver on the path. sbom has what it holds, THIRD-PARTY-LICENSES.txt the licences of that,
LICENSE that of UnWeaver.
`

const aboutServers = `The two servers of an UnWeaver installation on Temporal, S3, Redis and Milvus.
Both read unweaver.yaml of the folder they are started in, or --config FILE.

unweaver-worker     builds indexes
unweaver-query-api  answers queries

The command line is in an archive of its own. sbom has what each of them holds, THIRD-PARTY-LICENSES.txt the licences of
that, LICENSE that of UnWeaver.
`

// File of an archive: its text, or the path it is copied from.
type File struct {
	Name    string // in the archive, with slashes
	Text    string
	From    string // empty: Text
	Program bool   // may be run
}

// Write writes an archive of files below one folder: sorted, without times, owners, and names of this machine.
func Write(to io.Writer, folder string, files []File) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	compressed, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return err
	}
	compressed.OS = 255 // unknown
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		if !filepath.IsLocal(file.Name) {
			return fmt.Errorf("write %s: it would lie outside the archive's folder", file.Name)
		}
		if err := add(archive, path.Join(folder, file.Name), file); err != nil {
			return fmt.Errorf("write %s: %w", file.Name, err)
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// add adds one file.
func add(archive *tar.Writer, name string, file File) (err error) {
	header := tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(file.Text)), Mode: 0o644,
		ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatUSTAR,
	}
	if file.Program {
		header.Mode = 0o755
	}
	content := io.Reader(strings.NewReader(file.Text))
	if file.From != "" {
		opened, err := os.Open(file.From)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		info, err := opened.Stat()
		if err != nil {
			return err
		}
		header.Size, content = info.Size(), opened
	}
	if err := archive.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// Sums writes SHA256SUMS over the files of a folder, as sha256sum -c reads it.
func Sums(folder string) error {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		sum, err := sum(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, entry.Name())
	}
	//nolint:gosec // a release is for everybody to read
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(text.String()), 0o644)
}

func sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}
