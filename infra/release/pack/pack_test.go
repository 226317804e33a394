package pack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/infra/release/pack"
)

// written gives an archive of files.
func written(t *testing.T, files []pack.File) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := pack.Write(&out, "unweaver-v1", files); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// opened gives the headers of an archive in order, and the contents of its files.
func opened(t *testing.T, raw []byte) (headers []*tar.Header, contents []string) {
	t.Helper()
	compressed, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if !compressed.ModTime.IsZero() || compressed.Name != "" {
		t.Errorf("gzip names %q at %s", compressed.Name, compressed.ModTime)
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		headers, contents = append(headers, header), append(contents, string(content))
	}
}

func TestAnArchiveIsTheSameWhateverTheOrderAndTheTimesOfItsFiles(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(binary, []byte("\x7fELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []pack.File{
		{Name: "unweaver", From: binary, Program: true},
		{Name: "LICENSE", Text: "Apache"},
		{Name: "sbom/unweaver.cdx.json", Text: "{}"},
	}
	first := written(t, files)
	slices.Reverse(files)
	if err := os.Chtimes(binary, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, written(t, files)) {
		t.Error("equal files made two archives")
	}
	headers, contents := opened(t, first)
	want := []struct {
		name, content string
		mode          int64
	}{
		{"unweaver-v1/LICENSE", "Apache", 0o644},
		{"unweaver-v1/sbom/unweaver.cdx.json", "{}", 0o644},
		{"unweaver-v1/unweaver", "\x7fELF", 0o755},
	}
	if len(headers) != len(want) {
		t.Fatalf("%d files, want %d", len(headers), len(want))
	}
	for i, header := range headers {
		if header.Name != want[i].name || header.Mode != want[i].mode || contents[i] != want[i].content {
			t.Errorf("%s, %o, %q; want %+v", header.Name, header.Mode, contents[i], want[i])
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 || header.Gid != 0 || header.Uname != "" || header.Gname != "" {
			t.Errorf("%s tells of this machine: %+v", header.Name, header)
		}
	}
}

func TestAnArchiveKeepsToItsFolder(t *testing.T) {
	for _, name := range []string{"../unweaver", "/bin/unweaver", ""} {
		if err := pack.Write(io.Discard, "unweaver-v1", []pack.File{{Name: name}}); err == nil {
			t.Errorf("%q is written", name)
		}
	}
	missing := pack.File{Name: "a", From: filepath.Join(t.TempDir(), "none")}
	if err := pack.Write(io.Discard, "v1", []pack.File{missing}); err == nil {
		t.Error("a file that is not there is left out in silence")
	}
}

func TestTheSumsAreThoseThatSha256sumMakes(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"b.tar.gz": "b", "a.cdx.json": "a"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := pack.Sums(folder); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	want := "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a.cdx.json\n" +
		"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b.tar.gz\n"
	if err != nil || string(raw) != want {
		t.Errorf("%v\n%s", err, raw)
	}
}

// read reads a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("../../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestEveryProgramIsMadeByMakeToo(t *testing.T) {
	targets, script := strings.Fields(read(t, "Makefile")), read(t, "infra/build.sh")
	seen := map[string]bool{}
	for _, product := range pack.Products {
		if product.About == "" {
			t.Errorf("%s says nothing about itself", product.Name)
		}
		for _, program := range product.Programs {
			if seen[program.Name] {
				t.Errorf("%s is given away twice", program.Name)
			}
			seen[program.Name] = true
			built := strings.Join([]string{program.Name, program.Package, ""}, "|")
			if !slices.Contains(targets, "$(BIN)/"+program.Name) || !strings.Contains(script, built) {
				t.Errorf("make build does not make %s", program.Name)
			}
			folder := filepath.Join("../../..", program.Module, program.Package)
			if files, err := filepath.Glob(filepath.Join(folder, "main.go")); err != nil || len(files) != 1 {
				t.Errorf("%s: no main.go in %s", program.Name, folder)
			}
			if !strings.Contains(product.About, "\n"+program.Name+" ") {
				t.Errorf("the README of %s does not name %s", product.Name, program.Name)
			}
		}
	}
}
