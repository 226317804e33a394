package readers_test

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// outcome is what reading an object gave.
type outcome struct {
	title string
	text  int64
	rows  int
	bad   []error // of rows
	err   error
}

// consume reads an object as a build does, and checks what must hold whatever it is.
func consume(t *testing.T, name string, content io.Reader, limits document.Limits) outcome {
	t.Helper()
	kind, gz, ok := document.TypeOf(name)
	require.True(t, ok, "%s is of no kind", name)
	var out outcome
	plain, err := document.Gunzip(content, gz, name, limits)
	if err != nil {
		return outcome{err: err}
	}
	if kind.HasRows() {
		text, err := document.Decode(plain, name)
		if err != nil {
			return outcome{err: err}
		}
		out.err = document.StreamRows(text, kind, name, limits, func(row document.Row) error {
			if row.Err != nil {
				out.bad = append(out.bad, row.Err)
				return nil
			}
			out.rows++
			title, text, _, err := document.DecodeRecord(row.Canonical, document.DefaultLimits())
			out.title = document.TitleOf(title, "", kind, name, limits)
			out.text = max(out.text, int64(len(text)))
			check(t, name, out, limits)
			return err
		})
		return out
	}
	doc, err := readers.Parse(plain, kind, name, limits)
	if err != nil {
		return outcome{err: err}
	}
	var valid validity
	out.text, out.err = io.Copy(&valid, doc.Text)
	out.title = document.TitleOf(doc.Title, "", kind, name, limits)
	assert.True(t, !valid.bad && len(valid.rest) <= 0, "%s: the text is not valid UTF-8", name)
	check(t, name, out, limits)
	return out
}

func check(t *testing.T, name string, out outcome, limits document.Limits) {
	t.Helper()
	assert.True(t, out.text <= limits.Text, "%s: %d bytes of text", name, out.text)
	assert.True(t, utf8.RuneCountInString(out.title) <= limits.Title &&
		!strings.ContainsFunc(out.title, unicode.IsControl) && utf8.ValidString(out.title), "%s: title %.100q", name,
		out.title)
}

// validity reports whether what is written to it is UTF-8.
type validity struct {
	rest []byte
	bad  bool
}

func (v *validity) Write(raw []byte) (int, error) {
	text := append(v.rest, raw...)
	for len(text) > 0 && utf8.FullRune(text) {
		r, n := utf8.DecodeRune(text)
		v.bad = v.bad || r == utf8.RuneError && n == 1
		text = text[n:]
	}
	v.rest = bytes.Clone(text)
	return len(raw), nil
}

// What becomes of each pill: the key of the limit that its error names, "damaged", or "read".
var fates = map[string]string{
	"selfstream.pdf": "damaged", "xrefsize.pdf": "damaged", "xrefw0.pdf": "damaged", "xrefwide.pdf": "damaged",
	"xrefstart.pdf": "read", "xrefstart2g.pdf": "read", "prevcycle.pdf": "read", "cmapn.pdf": "read",
	"parentcycle.pdf": "read", "count.pdf": "read", "kidscycle.pdf": "read", "pagerepeat.pdf": "damaged",
	"arrays.pdf": "damaged", "objects.pdf": "damaged", "lengthself.pdf": "damaged", "columns.pdf": "damaged",
	"objectsinself.pdf": "damaged", "flatebomb2g.pdf": "damaged", "flatebomb4g.pdf": "damaged",
	"dupdoc.docx": "read", "deepdoc.docx": "nesting", "titlebomb2g.docx": "ratio", "title.docx": "read",
	"bodybomb.docx": "ratio", "paragraphs.docx": "ratio", "nestedzip.docx": "damaged", "entities.docx": "damaged",
	"slidebomb.pptx": "ratio", "deepslide.pptx": "nesting", "sharedbomb.xlsx": "ratio", "farcolumn.xlsx": "read",
	"bigtext.xlsx": "memory", "chapterbomb.epub": "ratio", "deepchapter.epub": "nesting", "letters.eml": "nesting",
	"deepletters.eml": "nesting", "frontmatter.md": "read", "deepfront.md": "read",
	"external.docx": "damaged", "attribute.docx": "ratio", "entries.docx": "read",
	"rowspan.html": "read", "rowspans.html": "spans", "blockquote.html": "read", "lists.html": "read",
	"table.html": "read", "tables.html": "read", "depth.html": "nesting", "formatting.html": "read",
	"title.html": "read", "entities.html": "read", "attributes.html": "read",
	"indent200k.json": "nesting", "indent900.json": "read", "deep.json": "nesting", "deepobject.json": "nesting",
	"deeprow.jsonl": "row of nesting", "title3m.jsonl": "read", "manyobjects.json": "read",
	"openquote.csv": "row of damaged", "longline.csv": "row of row", "longhead.csv": "ratio", "commas.csv": "row of memory",
	"jsonbomb.json.gz": "ratio", "quote4g.csv.gz": "ratio", "line1gstr.jsonl.gz": "ratio", "bomb10g.txt.gz": "ratio",
	"oneplace.pdf": "read", "columnrows.pdf": "read", "forms.pdf": "memory", "widths.pdf": "read", "encodings.pdf": "damaged",
	"differences.pdf": "read", "fonts.pdf": "read", "widerow.xlsx": "memory", "slides.pptx": "damaged",
	"cells.pptx": "damaged", "circle.epub": "nesting", "ownpackage.epub": "damaged", "quotedspans.html": "read",
	"encodedwords.eml": "read", "headers.eml": "read", "nestedparts.eml": "nesting", "quoted.eml": "read",
	"base64.eml": "damaged", "charsets.eml": "read", "deeptable.md": "read", "dottedkeys.md": "read", "titles.rst": "read",
	"nested.txt.gz": "damaged", "zeros.json.gz": "ratio", "elements.html.gz": "ratio",
}

func fateOf(out outcome) string {
	prefix, err := "", out.err
	if err == nil && len(out.bad) > 0 {
		prefix, err = "row of ", out.bad[0]
	}
	switch fault.CodeOf(err) {
	case "":
		return "read"
	case fault.Unreadable, fault.BinaryContent, fault.EmptyDocument, fault.Encrypted:
		return prefix + "damaged"
	case fault.TooLarge:
		_, key, _ := strings.Cut(err.Error(), "limits.document.")
		key, _, _ = strings.Cut(key, ":")
		return prefix + key
	}
	return err.Error()
}

// Every pill ends in an error that names what to do, or is read, in seconds and in bounded memory.
func TestPillsDoNoHarm(t *testing.T) {
	pills, limits := documenttest.Pills(), document.DefaultLimits()
	limits.Row, limits.Memory = 4<<20, 256<<20 // so that small pills are above them
	limits.Time = 10 * time.Minute             // a busy machine may need many times what an idle one does
	if os.Getenv("UNWEAVER_LARGE_PILLS") != "" {
		pills, limits = documenttest.LargePills(), document.DefaultLimits()
	}
	for _, pill := range pills {
		t.Run(pill.Name, func(t *testing.T) {
			file, err := os.Create(t.TempDir() + "/pill")
			require.NoError(t, err)
			defer func() { _ = file.Close() }()
			require.NoError(t, pill.Make(file))
			require.NoError(t, musttest.Err(file.Seek(0, io.SeekStart)))
			start, peak := time.Now(), watch()
			out := consume(t, pill.Name, file, limits)
			took, memory := time.Since(start), peak()
			fate := fateOf(out)
			assert.True(t, fate == fates[pill.Name], "%q, want %q: %v %.300v", fate, fates[pill.Name], out.err, out.bad)
			assert.True(t, took <= 10*time.Minute && memory <= 512<<20, "it took %v and %d MiB", took, memory>>20)
			t.Logf("%v, %d MiB, %d bytes of text, %d rows, %v", took, memory>>20, out.text, out.rows, out.err)
		})
	}
}

// watch returns a function that reports the most memory that was in use since.
func watch() func() uint64 {
	runtime.GC()
	done, most := make(chan struct{}), make(chan uint64)
	go func() {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		start, peak := now.HeapInuse+now.StackInuse, uint64(0)
		for {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse+now.StackInuse)
			select {
			case <-done:
				most <- peak - min(start, peak)
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(done); return <-most }
}

// Nothing that a text says brings another file into it.
func TestDirectivesOfAPageBringNothingIn(t *testing.T) {
	secret := t.TempDir() + "/secret"
	require.NoError(t, os.WriteFile(secret, []byte("the secret of the house"), 0o600))
	for name, content := range map[string]string{
		"page.rst": "Title\n=====\n\n.. include:: " + secret + "\n\n.. raw:: html\n   :file: " + secret +
			"\n\n.. csv-table:: t\n   :file: " + secret + "\n",
		"page.html": "<p>good<iframe src='file://" + secret + "'></iframe><object data='file://" + secret + "'></object>" +
			"<!--#include file='" + secret + "' --><link rel=import href='file://" + secret + "'>",
		"page.md": "---\ntitle: !include " + secret + "\n---\n\n{{< include " + secret + " >}}\n\n![[" + secret + "]]\n",
		"mail.eml": "Subject: s\nContent-Type: message/external-body; access-type=local-file; name=\"" + secret +
			"\"\n\nContent-Type: text/plain\n\ngood\n",
	} {
		doc, text, err := documenttest.ReadWhole(content, kindOf(t, name), name, document.DefaultLimits())
		assert.True(t, err == nil && !strings.Contains(text+doc.Title, "of the house"), "%s: %v %s", name, err, text)
	}
}

func kindOf(t *testing.T, name string) document.Kind {
	t.Helper()
	kind, _, ok := document.TypeOf(name)
	require.True(t, ok, "%s is of no kind", name)
	return kind
}

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

func FuzzHTML(f *testing.F) { fuzz(f, "a.html") }

func FuzzJSON(f *testing.F) { fuzz(f, "a.json") }

func FuzzJSONL(f *testing.F) { fuzz(f, "a.jsonl") }

func FuzzCSV(f *testing.F) { fuzz(f, "a.csv") }

func FuzzDOCX(f *testing.F) { fuzz(f, "a.docx") }

func FuzzPPTX(f *testing.F) { fuzz(f, "a.pptx") }

func FuzzXLSX(f *testing.F) { fuzz(f, "a.xlsx") }

func FuzzEPUB(f *testing.F) { fuzz(f, "a.epub") }

func FuzzEML(f *testing.F) { fuzz(f, "a.eml") }

func FuzzMarkdown(f *testing.F) { fuzz(f, "a.md") }

func FuzzRST(f *testing.F) { fuzz(f, "a.rst") }

func FuzzText(f *testing.F) { fuzz(f, "a.txt") }

func FuzzGunzip(f *testing.F) { fuzz(f, "a.csv.gz") }

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
