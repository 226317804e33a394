package lexical_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/postingstest"
)

// flat writes documents of terms as a side before sides were packed, and maps it.
func flat(t testing.TB, docs [][]string) *postings.Side {
	t.Helper()
	var content bytes.Buffer
	writer := mapped.NewWriter(&content, "search", 1, nil)
	stats := postingstest.WriteFlat(writer, "k_", docs)
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := mapped.Open(keep(t, content.Bytes()), "search", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	return postings.Open(file, "k_", stats)
}

// Whether sides are packed or not, or some of them, no bit of an answer differs; nor does it from sums over all rows.
func TestPackedAndFlatSidesAnswerToTheSameBit(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	const documents = 40_000
	docs := zipf(r, documents, 4000, 6)
	first, second := docs[:documents/3], docs[documents/3:]
	var indexes []*lexical.Index
	for _, parts := range [][]lexical.Part{
		{{Side: flat(t, first)}, {Side: flat(t, second)}},
		{{Side: open(t, first)}, {Side: open(t, second)}},
		{{Side: flat(t, first)}, {Side: open(t, second)}},
	} {
		index, err := lexical.Compose(parts, nil)
		if err != nil {
			t.Fatal(err)
		}
		indexes = append(indexes, index)
	}
	for q := range 60 {
		var terms []string
		for range 1 + r.IntN(40) {
			doc := docs[r.IntN(documents)]
			terms = append(terms, doc[r.IntN(len(doc))])
		}
		var allow func(uint32) bool
		if q%3 == 0 {
			allow = func(row uint32) bool { return row%5 == 0 }
		}
		n := []int{1, 10, 100, 3000}[q%4]
		want := indexes[0].Search(terms, n, allow, nil)
		for i, index := range indexes {
			if got := index.Search(terms, n, allow, nil); len(got) == 0 || !slices.Equal(got, want) {
				t.Fatalf("%d best for %v in layout %d:\n%v, want\n%v", n, terms, i, got, want)
			}
			if sums := inOrder(index, terms, documents, n); allow == nil && !slices.Equal(sums, want) {
				t.Fatalf("%d best for %v in layout %d:\n%v, want\n%v", n, terms, i, want, sums)
			}
		}
	}
}
