package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// placesOf are the headings and pages of a document's chunks.
func placesOf(document rows.Document) string {
	var out []string
	for _, chunk := range document.Chunks {
		first, last := document.PagesOf(chunk.Start, chunk.End)
		out = append(out, fmt.Sprintf("%v %d-%d", document.HeadingAt(chunk.Start), first, last))
	}
	return strings.Join(out, ", ")
}

func TestChunksAreUnderTheirHeadingsAndOnTheirPages(t *testing.T) {
	long := strings.Repeat("Grain was carried down the river é. ", 6)
	r := newRun(t, map[string]string{
		"a.md":   "---\ntitle: From front\ndate: 2026-11-20\n---\n# One\n\n" + long + "\n\n## Two\n\n" + long,
		"b.pptx": documenttest.Slides(),
		"c.txt":  "# no heading\n\n" + long,
		"d.pdf":  documenttest.PDF("good"),
	})
	res := r.night()
	before := r.documents(res)
	for key, want := range map[string]string{
		"a.md": "[One] 0-0, [One] 0-0, [One Two] 0-0", "b.pptx": "[The start] 1-2",
		"c.txt": "[] 0-0, [] 0-0", "d.pdf": "[] 1-1",
	} {
		if got := placesOf(before[key]); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if got := before["a.md"]; got.Title != "From front" || got.Meta["date"] != "2026-11-20" {
		t.Errorf("%q %v", got.Title, got.Meta)
	}
	// What is kept of a document that breaks keeps its headings and pages.
	r.corpus.Set("a.md", "\x00\x01\x02")
	r.corpus.Set("b.pptx", "no slides")
	after := r.documents(r.night())
	for _, key := range []string{"a.md", "b.pptx"} {
		if got := placesOf(after[key]); !after[key].Stale || got != placesOf(before[key]) {
			t.Errorf("%s: stale %v, %s", key, after[key].Stale, got)
		}
	}
}
