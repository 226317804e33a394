package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// run plans and chunks a corpus.
type run struct {
	t       *testing.T
	corpus  *documenttest.Corpus
	art     artifact.Index
	spec    core.Spec
	scratch string
	parent  *core.Manifest
	keeps   bool // the parent is of the same corpus
	limits  document.Limits
	server  document.Converter
	ledger  *ledger.Ledger
}

func newRun(t *testing.T, objects map[string]string) *run {
	store := stagetest.Must(dir.Open(t.TempDir()))
	return &run{
		t: t, corpus: documenttest.New(objects), art: artifact.Index{Store: store, Name: "i"}, scratch: "i/runs/1",
		keeps: true, limits: document.DefaultLimits(),
		spec: core.Spec{
			Index: "i", Corpus: "memory", Chunking: core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 60},
		},
	}
}

// rows returns where the planned rows lie.
func (r *run) rows() string { return stagetest.Stored(r.t, r.art.Store, plan.RowsKey(r.scratch)) }

// chunkRows returns where the chunks of unit 0 lie.
func (r *run) chunkRows() string {
	return stagetest.Stored(r.t, r.art.Store, join.ChunksKey(r.scratch, 0))
}

func (r *run) plan() plan.Result {
	res := stagetest.Must(plan.Run(r.t.Context(), plan.In{
		Spec: r.spec, Corpus: r.corpus, Artifacts: r.art, Scratch: r.scratch, Limits: r.limits, Parent: r.parent,
		Parser: documenttest.Here{Limits: r.limits}, Foreign: !r.keeps, OnProgress: func(int64) {},
	}))
	return res
}

func (r *run) chunk(ctx context.Context, unit int, units []plan.Unit) (chunk.Result, error) {
	in := chunk.In{
		Spec: r.spec, Corpus: r.corpus, Artifacts: r.art, Scratch: r.scratch, Plan: r.rows(), Unit: unit,
		From: units[unit].From, To: units[unit].To, OnProgress: func(int64) {}, Limits: r.limits,
		Parser: documenttest.Here{Limits: r.limits}, Converter: r.server, Ledger: r.ledger,
	}
	if r.keeps {
		in.Parent = r.parent
	}
	return chunk.Run(ctx, in)
}

// night plans and chunks the one unit; what comes of it is the parent of the next.
func (r *run) night() chunk.Result {
	res := r.all()
	r.after(res)
	return res
}

// after makes what a night came to the parent of the next.
func (r *run) after(res chunk.Result) {
	r.parent = &core.Manifest{Limits: r.limits.Key(), Segments: core.Segments{
		Documents: []core.Segment{res.Documents}, Text: []core.Segment{res.Text},
		Splits: []core.Split{{Documents: res.Documents.Rows, Texts: 1}},
	}}
}

// all plans and chunks the one unit.
func (r *run) all() chunk.Result {
	res := stagetest.Must(r.chunk(r.t.Context(), 0, r.plan().Units))
	require.True(r.t, res.Listed == res.Counts.Documents+res.Failed+res.Empty, "the counts do not add up: %+v", res)
	return res
}

func (r *run) documents(res chunk.Result) map[string]rows.Document {
	out := map[string]rows.Document{}
	for row, err := range artifact.ScanAll(r.t.Context(), r.art.Store, r.art.SegmentKey(res.Documents.SHA256)) {
		require.NoError(r.t, err)
		out[string(row.Key)] = stagetest.Must(rows.DecodeDocument(row.Value))
	}
	return out
}

// text reads a range of a document back from the text segment.
func (r *run) text(res chunk.Result, key string, d rows.Document, start, end int) string {
	reader := stagetest.Must(textseg.Open(r.t.Context(), r.art.Store, r.art.SegmentKey(res.Text.SHA256)))
	return stagetest.Must(reader.Slice(r.t.Context(), key, d.Frame, start, end))
}

func TestDocumentsOfEveryKindBecomeChunks(t *testing.T) {
	long := strings.Repeat("Grain was carried down the river é. ", 40)
	r := newRun(t, map[string]string{
		"plain.txt": "The river\n\n" + long, "marked.md": "intro\n\n# The heading\n\n" + long,
		"page.html":    "<title>A page</title><h1>Head</h1><p>" + long + "</p>",
		"word.docx":    documenttest.ZipOf(map[string]string{"word/document.xml": "<w:p><w:t>" + long + "</w:t></w:p>"}),
		"data.json":    `{"title":"A record","text":"` + long + `","year":1999}`,
		"packed.md.gz": documenttest.Gzip("# Packed\n\n" + long),
		"rows.jsonl":   `{"id":"1","title":"Row one","text":"` + long + `"}` + "\n" + `{"id":"2","text":"short"}`,
		"sheet.csv":    "id,text,lang\n9,some text,en\n",
	})
	res := r.all()
	titles := map[string]string{
		"plain.txt": "The river", "marked.md": "The heading", "page.html": "A page", "data.json": "A record",
		"packed.md.gz": "Packed", "rows.jsonl#1": "Row one", "rows.jsonl#2": "short", "sheet.csv#9": "some text",
		"word.docx": "word", // its first line is too long
	}
	documents := r.documents(res)
	require.True(t, len(documents) == len(titles) && res.Counts.Documents == 9 && res.Failed == 0 && res.ProblemCount == 0,
		"%d documents, %+v", len(documents), res)
	for key, title := range titles {
		d := documents[key]
		assert.True(t, d.Title == title && d.Problem == "" && len(d.Chunks) != 0 && d.Runes != 0, "%s: %+v", key, d)
	}
	assert.True(t, documents["data.json"].Meta["year"] == "1999" && documents["sheet.csv#9"].Meta["lang"] == "en",
		"metadata are lost")
	ordinal, last, count := 0, "", int64(0)
	for row := range musttest.All(t, artifact.ScanAll(t.Context(), r.art.Store, r.chunkRows())) {
		key := string(row.Key)
		c := stagetest.Must(rows.DecodeChunk(row.Value))
		if key != last {
			ordinal, last = 0, key
		}
		d := documents[key]
		text := r.text(res, key, d, c.Start, c.End)
		assert.True(t, c.Ordinal == ordinal && c.Title == d.Title && c.Tokens != 0 && text == strings.TrimSpace(text) &&
			d.Chunks[ordinal].ID == c.ID && d.Chunks[ordinal].Start == c.Start && d.Chunks[ordinal].End == c.End &&
			utf8.RuneCountInString(text) == c.End-c.Start, "%s chunk %d: %+v, %q", key, ordinal, c, text)
		ordinal++
		count++
	}
	assert.True(t, count == res.Counts.Chunks && count >= 20, "%d chunks are stored, %d counted", count, res.Counts.Chunks)
}

// Equal texts in one document are different chunks, numbered; in another document they are others again.
func TestChunkIdsCountEqualTexts(t *testing.T) {
	paragraph := strings.TrimSpace(strings.Repeat("word ", 50))
	text := paragraph + "\n\n" + paragraph + "\n\n" + paragraph
	r := newRun(t, map[string]string{"a.txt": text, "b.txt": text})
	seen := map[core.ID]bool{}
	for key, d := range r.documents(r.all()) {
		for n, place := range d.Chunks {
			assert.True(t, place.ID == core.ChunkID(key, paragraph, n), "%s chunk %d has another id", key, n)
			seen[place.ID] = true
		}
	}
	assert.True(t, len(seen) == 6, "%d ids", len(seen))
}

// What is wrong with one document is a problem of it; the others of its unit are chunked.
func TestProblemsOfDocumentsAreRecorded(t *testing.T) {
	r := newRun(t, map[string]string{
		"fine.txt": "Some text.", "empty.txt": "", "blank.md": " \n\n\t", "binary.txt": "\x7fELF\x00\x00\x01",
		"bad.json": "{", "old.docx": "\xd0\xcf\x11\xe0 old", "not.pdf": "no pdf", "not.txt.gz": "no gzip",
		"denied.txt": "x", "breaks.txt": strings.Repeat("words ", 40_000),
	})
	units := r.plan().Units
	r.corpus.Open["denied.txt"] = fault.StoreDenied.At("read", "denied.txt")
	r.corpus.Break["breaks.txt"] = errors.New("connection reset")
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	want := map[string]fault.Code{
		"fine.txt": "", "empty.txt": fault.EmptyDocument, "blank.md": fault.EmptyDocument, "binary.txt": fault.BinaryContent,
		"bad.json": fault.Unreadable, "old.docx": fault.Encrypted, "not.pdf": fault.Unreadable,
		"not.txt.gz": fault.Unreadable, "denied.txt": fault.StoreDenied, "breaks.txt": fault.Unreadable,
	}
	reported := map[string]string{}
	for _, problem := range res.Problems {
		reported[problem.Object] = problem.Code
		assert.True(t, problem.Detail != "", "%s has no detail", problem.Object)
	}
	for key, d := range r.documents(res) {
		assert.True(t, fault.Code(d.Problem) == want[key] && reported[key] == d.Problem, "%s: %q, reported %q; want %q",
			key, d.Problem, reported[key], want[key])
	}
	assert.True(t, res.Listed == 10 && res.Counts.Documents == 1 && res.Empty == 2 && res.Failed == 7 &&
		res.ProblemCount == 9 && res.Unadded == 9, "%+v", res)
	raw, _, err := blob.Read(t.Context(), r.art.Store, stagetest.Stored(t, r.art.Store, chunk.ProblemsKey(r.scratch, 0)))
	assert.True(t, err == nil && bytes.Count(raw, []byte("\n")) == 9 && bytes.Contains(raw, []byte(`"standing":false`)),
		"%s, %v", raw, err)
}

// What plan found is not read again, not reported again, and counts.
func TestProblemsOfPlanAreTaken(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "text", "b.txt": "text"})
	r.corpus.Open["b.txt"] = fault.StoreDenied.At("read", "b.txt")
	units := r.plan().Units
	delete(r.corpus.Open, "b.txt")
	r.corpus.Reads("b.txt")
	res, err := r.chunk(t.Context(), 0, units)
	assert.True(t, err == nil && res.Failed == 1 && res.ProblemCount == 0 && r.corpus.Reads("b.txt") == 0 &&
		r.documents(res)["b.txt"].Problem == string(fault.StoreDenied), "%+v, %v", res, err)
}

func TestAStoreThatIsDownStopsTheUnit(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "text"})
	units := r.plan().Units
	r.corpus.Open["a.txt"] = fault.StoreDown.At("read", "bucket")
	musttest.Refuse(r.chunk(t.Context(), 0, units))(t, fault.StoreDown)
	ctx, cancel := context.WithCancel(t.Context())
	delete(r.corpus.Open, "a.txt")
	r.corpus.Touched = func(string) { cancel() }
	_, err := r.chunk(ctx, 0, units)
	assert.ErrorIs(t, err, context.Canceled)
}

// A unit that is done twice writes the same bytes; so do equal documents in another run.
func TestARepeatedUnitIsTheSame(t *testing.T) {
	objects := map[string]string{"a.md": "# A\n\n" + strings.Repeat("Some words here. ", 200), "b.txt": "other"}
	r := newRun(t, objects)
	first, second := r.all(), r.all()
	assert.True(t, second.Fresh == 0 && first.Fresh == 2, "%d, then %d new segments", first.Fresh, second.Fresh)
	other := newRun(t, objects).all()
	assert.True(t, first.Text == second.Text && first.Documents == second.Documents && first.Text == other.Text &&
		first.Documents == other.Documents && first.Hashes == second.Hashes && first.Hashes == other.Hashes, "%+v\n%+v\n%+v",
		first, second, other)
}

// The hashes of units add up to those of the whole, however it is cut.
func TestHashesDoNotDependOnUnits(t *testing.T) {
	var text strings.Builder
	for i := range 6_000 {
		fmt.Fprintf(&text, `{"id":"%d","text":"t %d"}`+"\n", i, i)
	}
	r := newRun(t, map[string]string{"r.jsonl": text.String()})
	units := r.plan().Units
	require.True(t, len(units) >= 2, "%d units", len(units))
	var parts core.Hashes
	for i := range units {
		parts.Merge(stagetest.Must(r.chunk(t.Context(), i, units)).Hashes)
	}
	whole, err := r.chunk(t.Context(), 0, []plan.Unit{{From: 0, To: units[len(units)-1].To}})
	assert.True(t, err == nil && whole.Counts.Documents == 6_000 && whole.Hashes == parts,
		"%d documents, hashes equal: %v, %v", whole.Counts.Documents, whole.Hashes == parts, err)
}

// Cuts and decoded text of this version: where this fails, ParserVersion or ChunkerVersion has to be raised.
// Promises: 19.
func TestOutputOfThisVersion(t *testing.T) {
	r := newRun(t, map[string]string{
		"a.md":   "# Title\r\n\r\n" + strings.Repeat("The river carried grain in 1911. It froze! Did it? ", 30),
		"b.html": "<title>T</title><p>Some <b>bold</b> text.</p><ul><li>one</li></ul>", "c.csv": "id,text\n1,\"a\nb\"\n",
	})
	res := r.all()
	got := fmt.Sprintf("%s %s: %s", document.ParserVersion, chunk.ChunkerVersion, res.Hashes.Content.Digest().Short(16))
	assert.True(t, got == "parse/16 chunk/4: d709ddbf9da3df56", "got %s", got)
}

func attachedTo(name, text string) string {
	return documenttest.MailWith("A mail", documenttest.Part{Name: name, Content: text})
}

// An object in the version of the parent is not opened, and what is attached to it stays. One that changes between its
// plan and its reading is opened by the next run, whatever it has by then.
func TestAttachmentsOfAnObjectThatChangesMeanwhileAreFoundByTheNextRun(t *testing.T) {
	r := newRun(t, map[string]string{"m.eml": attachedTo("a.txt", "alpha"), "p.pdf": "no PDF"})
	r.spec.Documents = &core.Documents{Attachments: true}
	first := r.documents(r.night())
	require.True(t, first["m.eml#a.txt"].Title == "alpha" && first["p.pdf"].Problem == string(fault.Unreadable) &&
		len(first) == 3, "%+v", first)
	r.corpus.Reads("m.eml")
	planned := r.plan()
	assert.True(t, planned.Unchanged && r.corpus.Reads("m.eml") == 0, "nothing changed: %+v", planned)
	r.corpus.Set("m.eml", attachedTo("a.txt", "beta"))
	planned = r.plan()
	r.corpus.Set("m.eml", attachedTo("b.txt", "gamma"))
	res := stagetest.Must(r.chunk(t.Context(), 0, planned.Units))
	kept := r.documents(res)["m.eml#a.txt"]
	assert.True(t, kept.Title == "alpha" && kept.Stale && kept.Problem == string(fault.DocumentChanged),
		"gone meanwhile: %+v", kept)
	r.after(res)
	got := r.documents(r.night())
	assert.True(t, got["m.eml#b.txt"].Title == "gamma" && got["m.eml#a.txt"].Title == "", "the night after: %+v", got)
	r.corpus.Set("m.eml", attachedTo("b.txt", "delta"))
	planned = r.plan()
	r.corpus.Set("m.eml", attachedTo("b.txt", "epsilon"))
	res = stagetest.Must(r.chunk(t.Context(), 0, planned.Units))
	last := r.documents(res)["m.eml#b.txt"]
	assert.True(t, last.Title == "epsilon" && last.Problem == "", "another by then: %+v", last)
}

func TestTextsAreReadInTheirCharset(t *testing.T) {
	const koi8 = "\xeb\xc1\xd0\xc9\xd4\xc1\xce \xeb\xc9\xd2" // Капитан Кир
	r := newRun(t, map[string]string{
		"a.txt": koi8, "b/c.txt": koi8, "d.html": "<meta charset=gbk><p>" + koi8, "rows.csv": "id,text\n2," + koi8 + "\n",
	})
	r.spec.Documents = &core.Documents{Encoding: []string{"b/*=koi8-r", "*.{html,csv}=koi8-r"}}
	res := r.all()
	documents := r.documents(res)
	for key, noted := range map[string]string{"a.txt": "koi8-u", "b/c.txt": "", "d.html": "", "rows.csv#2": ""} {
		d, found := documents[key]
		if !found || d.Problem != "" || d.Meta["encoding"] != noted {
			t.Errorf("%s: %+v", key, d)
			continue
		}
		assert.Contains(t, r.text(res, key, d, 0, d.Runes), "Капитан Кир", "%s", key)
	}
}

func TestTextThatIsMostlyUnknownCharactersIsAProblem(t *testing.T) {
	bad := strings.Repeat("\uFFFD\ue001 ", 50)
	r := newRun(t, map[string]string{
		"good.txt": "Words.", "a.txt": bad, "b.html": "<p>" + bad, "c.jsonl": `{"id":"1","text":"` + bad + `"}` + "\n" + `{"id":"2","text":"Words."}`,
		"long.md": strings.Repeat(bad, 1000),
	})
	res := r.all()
	for key, d := range r.documents(res) {
		want := fault.Unreadable
		if key == "good.txt" || strings.HasSuffix(key, "#2") {
			want = ""
		}
		assert.Equal(t, want, fault.Code(d.Problem), "%s: %q", key, d.Problem)
	}
	assert.True(t, res.Failed == 4 && strings.Contains(res.Problems[0].Detail, "are not letters"), "%+v", res.Problems)
}

func TestWhatIsHiddenIsReadWhereTheIndexSaysSo(t *testing.T) {
	r := newRun(t, map[string]string{"a.docx": documenttest.ZipOf(map[string]string{
		"word/document.xml": "<d><p><r><t>Shown.</t></r>" +
			"<r><rPr><vanish/></rPr><t> Hidden.</t></r></p></d>"})})
	for hidden, want := range map[string]string{"": "Shown.", "include": "Shown. Hidden."} {
		r.spec.Documents = &core.Documents{Hidden: hidden}
		res := r.all()
		read := r.documents(res)["a.docx"]
		if text := r.text(res, "a.docx", read, 0, -1); text != want || (read.Missing == "") != (hidden == "include") {
			t.Errorf("%q: %q, missing %q", hidden, text, read.Missing)
		}
	}
}

// placesOf returns the headings and pages of a document's chunks.
func placesOf(document rows.Document) string {
	var out []string
	for _, chunk := range document.Chunks {
		first, last := document.PagesOf(chunk.Start, chunk.End)
		out = append(out, fmt.Sprintf("%v %d-%d", document.HeadingAt(chunk.Start), first, last))
	}
	return strings.Join(out, ", ")
}

// Promises: 98.
func TestChunksAreUnderTheirHeadingsAndOnTheirPages(t *testing.T) {
	long := strings.Repeat("Grain was carried down the river é. ", 6)
	r := newRun(t, map[string]string{
		"a.md":   "---\ntitle: From front\ndate: 2026-11-20\n---\n# One\n\n" + long + "\n\n## Two\n\n" + long,
		"b.pptx": documenttest.Slides(), "c.txt": "# no heading\n\n" + long, "d.pdf": documenttest.PDF("good"),
	})
	before := r.documents(r.night())
	for key, want := range map[string]string{
		"a.md": "[One] 0-0, [One] 0-0, [One Two] 0-0", "b.pptx": "[The start] 1-2",
		"c.txt": "[] 0-0, [] 0-0", "d.pdf": "[] 1-1",
	} {
		assert.Equal(t, want, placesOf(before[key]), "%s", key)
	}
	got := before["a.md"]
	assert.True(t, got.Title == "From front" && got.Meta["date"] == "2026-11-20", "%q %v", got.Title, got.Meta)
	// What is kept of a document that breaks keeps its headings and pages.
	r.corpus.Set("a.md", "\x00\x01\x02")
	r.corpus.Set("b.pptx", "no slides")
	after := r.documents(r.night())
	for _, key := range []string{"a.md", "b.pptx"} {
		got := placesOf(after[key])
		assert.True(t, after[key].Stale && got == placesOf(before[key]), "%s: stale %v, %s", key, after[key].Stale, got)
	}
}

func TestChunksOfAPDFHaveTheirPlacesOnPages(t *testing.T) {
	r := newRun(t, map[string]string{"a.pdf": documenttest.PDF("Salt and ships")})
	res := r.night()
	before := r.documents(res)["a.pdf"]
	want := []core.Rect{{Page: 1, Left: 72, Top: 81, Right: 148, Bottom: 95}}
	near := func(a, b int) bool { return a-b <= 4 && b-a <= 4 } // how high letters are is the font's to say
	got := before.Chunks[0].Rects
	assert.True(t, len(got) == 1 && got[0].Page == 1 && near(got[0].Left, want[0].Left) &&
		near(got[0].Right, want[0].Right) && near(got[0].Top, want[0].Top) && near(got[0].Bottom, want[0].Bottom),
		"%+v, want %+v", got, want)
	sheet := before.SheetOf(1)
	assert.True(t, sheet.Width == 612 && sheet.Height == 792, "%+v", sheet)
	// What is kept of a document that breaks keeps them.
	r.corpus.Set("a.pdf", "no PDF")
	after := r.documents(r.night())["a.pdf"]
	assert.True(t, after.Stale && slices.Equal(after.Chunks[0].Rects, got) && slices.Equal(after.Sheets, before.Sheets),
		"%+v", after)
}

// A passage that begins within a table of a PDF begins with the names of its columns, and stands where its own rows do.
func TestPassagesOfATableOfAPDFHaveTheirHeaderAndTheirPlace(t *testing.T) {
	page := ") Tj "
	for i := range 40 {
		cells := []string{fmt.Sprintf("Vale %02d", i), fmt.Sprint(100 + 7*i), fmt.Sprint(900 - 3*i)}
		if i == 0 {
			cells = []string{"River", "Length", "Basin"}
		}
		for column, cell := range cells {
			page += fmt.Sprintf("1 0 0 1 %d %d Tm (%s) Tj ", 72+120*column, 700-14*i, cell)
		}
	}
	r := newRun(t, map[string]string{"a.pdf": documenttest.PDF(page + "(")})
	for range 2 { // what is kept of a document that breaks is cut as before
		res := r.night()
		document := r.documents(res)["a.pdf"]
		require.Greater(t, len(document.Chunks), 3)
		for i, chunk := range document.Chunks {
			text, first := r.text(res, "a.pdf", document, chunk.Start, chunk.End), 0
			require.True(t, strings.HasPrefix(text, "| River | Length | Basin |\n"), text)
			_, err := fmt.Sscanf(text[strings.Index(text, "| Vale"):], "| Vale %d", &first)
			require.NoError(t, err)
			top := 792 - (700 - 14*first) - 9
			if i == 0 {
				top -= 14
			}
			require.Len(t, chunk.Rects, 1)
			assert.InDelta(t, top, chunk.Rects[0].Top, 5, "%d: %s", i, text)
			assert.InDelta(t, 14*strings.Count(text, "Vale"), chunk.Rects[0].Bottom-top, 20)
		}
		r.corpus.Set("a.pdf", "no PDF")
	}
}

func TestPagesWithoutTextAreAProblemOfADocumentThatIsUsed(t *testing.T) {
	r := newRun(t, map[string]string{"a.pdf": documenttest.PDF("one", "", "three"), "b.pdf": documenttest.PDF("", "")})
	res := r.night()
	want := []core.Problem{{Code: "parts_missing", Object: "a.pdf", Detail: "page 2 has no text (scanned images?)"}}
	assert.True(t, res.Counts.Documents == 1 && res.Failed+res.Empty == 1 && len(res.Problems) == 2 &&
		res.Problems[0] == want[0], "%+v %+v", res.Counts, res.Problems)
	assert.Equal(t, want[0].Detail, r.documents(res)["a.pdf"].Missing)
}

// An object whose size alone says that it is above a limit is refused without being read, by a first build too.
func TestAnObjectThatIsTooLargeBySizeIsNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		bytes int
		reads int    // by plan and by this stage
		limit string // that it is above
	}{
		"far above":                           {"a.txt", 4000, 0, "text"},
		"above, unless it is in UTF-16":       {"a.md", 1500, 2, "text"},
		"below":                               {"a.txt", 900, 2, ""},
		"of a type that is read as whole":     {"a.html", 2000, 2, "text"},
		"of such a type, with too many bytes": {"a.html", 4000, 0, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{c.key: strings.Repeat("word ", c.bytes/5), "z.txt": "short"})
			r.limits = document.DefaultLimits()
			r.limits.Text, r.limits.Bytes = 1000, 3000
			planned := r.plan()
			res := stagetest.Must(r.chunk(t.Context(), 0, planned.Units))
			assert.Equal(t, c.reads, r.corpus.Reads(c.key), "reads of the object")
			problems := append(planned.Problems, res.Problems...)
			if c.limit == "" && len(problems) == 0 {
				return
			}
			assert.True(t, len(problems) == 1 && problems[0].Code == string(fault.TooLarge) &&
				strings.Contains(problems[0].Detail, "limits.document."+c.limit), "%+v", problems)
		})
	}
}
