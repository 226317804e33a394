package document_test

import (
	"bytes"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// tight limits are reached by the small inputs that fuzzing makes.
var tight = document.Limits{Bytes: 1 << 20, Ratio: 100, Text: 64 << 10, Title: 50, Row: 8 << 10, Spans: 1000,
	Nesting: 100, Pages: 50, Time: 2 * time.Second, Memory: 64 << 20}

// fuzz reads whatever it is given as an object of that name: no panic, text that is valid and within the limits, a
// title that is one line, in bounded time. It starts from the samples and the pills of the kind, where those are small.
func fuzz(f *testing.F, name string) {
	kind, gz, _ := document.TypeOf(name)
	for sample, content := range documenttest.Samples() {
		if of, packed, _ := document.TypeOf(sample); of == kind && packed == gz {
			f.Add(content)
		}
	}
	for _, pill := range documenttest.Pills() {
		var content bytes.Buffer
		_, packed, _ := document.TypeOf(pill.Name)
		if pill.Kind != kind || packed != gz {
			continue
		}
		small := limited{out: &content, left: 4 << 10}
		if strings.HasPrefix(pill.Name, "flatebomb") || pill.Make(&small) != nil {
			continue // too large to begin from
		}
		f.Add(content.Bytes())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if len(content) > 1<<20 {
			return
		}
		start := time.Now()
		consume(t, name, bytes.NewReader(content), tight)
		took := time.Since(start)
		assert.True(t, took <= time.Minute, "%d bytes took %v", len(content), took)
	})
}

// limited takes so many bytes and no more.
type limited struct {
	out  io.Writer
	left int
}

func (l *limited) Write(raw []byte) (int, error) {
	if l.left -= len(raw); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.out.Write(raw)
}

func FuzzHTML(f *testing.F)  { fuzz(f, "a.html") }
func FuzzJSON(f *testing.F)  { fuzz(f, "a.json") }
func FuzzJSONL(f *testing.F) { fuzz(f, "a.jsonl") }
func FuzzCSV(f *testing.F)   { fuzz(f, "a.csv") }
func FuzzDOCX(f *testing.F)  { fuzz(f, "a.docx") }
func FuzzPPTX(f *testing.F)  { fuzz(f, "a.pptx") }
func FuzzXLSX(f *testing.F)  { fuzz(f, "a.xlsx") }
func FuzzEPUB(f *testing.F)  { fuzz(f, "a.epub") }
func FuzzEML(f *testing.F)   { fuzz(f, "a.eml") }

func FuzzMarkdown(f *testing.F) { fuzz(f, "a.md") }
func FuzzRST(f *testing.F)      { fuzz(f, "a.rst") }
func FuzzText(f *testing.F)     { fuzz(f, "a.txt") }
func FuzzGunzip(f *testing.F)   { fuzz(f, "a.csv.gz") }

// A stack without end ends the process, and no test can catch that: the stack is bounded, so that such an input is
// found at once and kept by the fuzzer. TestDamagedFilesAreReadOrRefused of package sandbox reads in child processes.
func FuzzPDF(f *testing.F) {
	debug.SetMaxStack(64 << 20)
	fuzz(f, "a.pdf")
}

// FuzzOfficeParts reads parts that a zip holds whole, so that what reads XML is reached: of a document that has of
// everything, one part is the content.
func FuzzOfficeParts(f *testing.F) {
	rich := documenttest.Rich()
	for name, parts := range rich {
		for i, part := range parts {
			f.Add(name, i, part.Content)
		}
	}
	f.Fuzz(func(t *testing.T, name string, at int, content string) {
		parts := slices.Clone(rich[name])
		if at < 0 || at >= len(parts) {
			return
		}
		parts[at].Content = content
		consume(t, name, strings.NewReader(documenttest.Zip(parts...)), tight)
	})
}
