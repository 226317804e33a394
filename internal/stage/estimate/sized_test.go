package estimate

import (
	"testing"

	"github.com/unweaver/unweaver/internal/core"
)

// What sizes let expect: chunks of texts, those of them that nobody has paid for, and those that go.
func TestWhatSizesLetExpect(t *testing.T) {
	t.Parallel()
	text := core.Chunking{Strategy: "text", MaxTokens: 1500}
	parent := core.Counts{Documents: 100, Chunks: 500, Tokens: 500_000, Classes: 4000, Mentions: 10_000}
	for name, c := range map[string]struct {
		size           Sized
		chunks, unread Range
		gone           int64
	}{
		"nothing is made": {Sized{Removed: 2, Chunking: text, Parent: parent}, Range{}, Range{}, 10},
		"a first build": {
			Sized{Documents: 10, Added: 10, Text: 600_000, Chunking: text}, Range{70, 535}, Range{70, 535}, 0,
		},
		"small documents": {
			Sized{Documents: 50, Added: 50, Text: 10_000, Chunking: text}, Range{50, 59}, Range{50, 59}, 0,
		},
		"one chunk each": {
			Sized{Documents: 7, Text: 9 << 20, Chunking: core.Chunking{Strategy: "document"}}, Range{7, 7}, Range{7, 7}, 0,
		},
		"fixed windows": {
			Sized{Documents: 1, Text: 40_000, Chunking: core.Chunking{Strategy: "fixed", MaxTokens: 1100, Overlap: 100}},
			Range{7, 15}, Range{7, 15}, 0,
		},
		"a night": { // 20,000 tokens in chunks of 1,000
			Sized{Documents: 4, Added: 1, Removed: 2, Text: 80_000, Chunking: text, Parent: parent},
			Range{14, 28}, Range{1, 28}, 25,
		},
		"all again": {
			Sized{Documents: 100, Text: 2_000_000, Again: true, Chunking: text, Parent: parent},
			Range{350, 700}, Range{0, 700}, 0,
		},
	} {
		chunks, unread, gone := c.size.Chunks(), c.size.Unread(), c.size.Gone()
		if chunks != c.chunks || unread != c.unread || gone != c.gone {
			t.Errorf("%s: chunks %v, unread %v, gone %d; want %v, %v, %d", name, chunks, unread, gone, c.chunks, c.unread,
				c.gone)
		}
	}
}

// Shortening is bounded by what changes and by what all long texts take.
func TestShorteningBySizesIsBoundedTwice(t *testing.T) {
	t.Parallel()
	in := ShortenIn{
		Paid: true, Shortening: core.Shortening{Threshold: 4000},
		Parent: core.Counts{Chunks: 10_000, Tokens: 10_000_000, Mentions: 100_000},
		New:    New{Chunks: 1, Tokens: 1000, Gone: 1},
	}
	if got := ShortenSized(in, nil).Calls; got != (Range{0, 60}) { // three calls for each of 20 mentions
		t.Errorf("one chunk: %v", got)
	}
	in.New = New{Chunks: 5000, Tokens: 5_000_000}
	in.Parent.Mentions = 400_000
	in.Parent.Tokens = 130 * in.Parent.Chunks
	some := ShortenSized(in, nil).Calls
	more := ShortenSized(in, Past{{Chunks: 5000, Calls: core.Calls{Shorten: some.High}}}).Calls
	if some.High >= 3*200_000 || more.High != ceil(1.4*float64(some.High)) {
		t.Errorf("many chunks: %v, and after a run that took as many: %v", some, more)
	}
	in.Paid = false
	if got := ShortenSized(in, nil); got != (Task{}) {
		t.Errorf("what costs nothing: %+v", got)
	}
}
