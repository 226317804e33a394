package chunk_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

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
	res := r.night()
	before := r.documents(res)
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
	if len(got) != 1 || got[0].Page != 1 || !near(got[0].Left, want[0].Left) || !near(got[0].Right, want[0].Right) ||
		!near(got[0].Top, want[0].Top) || !near(got[0].Bottom, want[0].Bottom) {
		t.Errorf("%+v, want %+v", got, want)
	}
	sheet := before.SheetOf(1)
	assert.True(t, sheet.Width == 612 && sheet.Height == 792, "%+v", sheet)
	// What is kept of a document that breaks keeps them.
	r.corpus.Set("a.pdf", "no PDF")
	after := r.documents(r.night())["a.pdf"]
	assert.True(t, after.Stale && slices.Equal(after.Chunks[0].Rects, got) && slices.Equal(after.Sheets, before.Sheets),
		"%+v", after)
}

func TestPagesWithoutTextAreAProblemOfADocumentThatIsUsed(t *testing.T) {
	r := newRun(t, map[string]string{"a.pdf": documenttest.PDF("one", "", "three"), "b.pdf": documenttest.PDF("", "")})
	res := r.night()
	want := []core.Problem{{Code: "parts_missing", Object: "a.pdf", Detail: "page 2 has no text (scanned images?)"}}
	if res.Counts.Documents != 1 || res.Failed+res.Empty != 1 || len(res.Problems) != 2 || res.Problems[0] != want[0] {
		t.Errorf("%+v %+v", res.Counts, res.Problems)
	}
	assert.Equal(t, want[0].Detail, r.documents(res)["a.pdf"].Missing)
}
