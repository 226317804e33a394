package textseg_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// segment writes documents in pieces of random length and gives the frame in which each piece starts.
func segment(t *testing.T, documents []string, piece int) (store blob.Store, frames [][]int, starts [][]int) {
	store = musttest.Get(dir.Open(t.TempDir()))(t)
	out := musttest.Get(artifact.NewRows())(t)
	defer out.Discard()
	r := rand.New(rand.NewPCG(5, 6))
	frames, starts = make([][]int, len(documents)), make([][]int, len(documents))
	for i, text := range documents {
		for rest, at := []rune(text), 0; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(piece))
			frames[i] = append(frames[i], out.Append(name(i), textseg.EncodePiece(at, string(rest[:n]))))
			starts[i] = append(starts[i], at)
			rest, at = rest[n:], at+n
		}
	}
	require.NoError(t, out.StoreScratch(t.Context(), store, "text"))
	return store, frames, starts
}

func name(i int) string { return fmt.Sprintf("doc %d", i) }

// Property: any range of any document is a slice of its code points, from any frame at or before it.
func TestRangesAreSlicesOfTheDocument(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	documents := []string{strings.Repeat("plain ascii text. ", 9000), strings.Repeat("naïve 漢字 🙂 ", 9000), "short",
		strings.Repeat("é", 70_000)}
	store, frames, starts := segment(t, documents, 9000)
	reader := musttest.Get(textseg.Open(t.Context(), store, "text"))(t)
	for range 300 {
		i := r.IntN(len(documents))
		runes := []rune(documents[i])
		start := r.IntN(len(runes))
		end, piece := min(len(runes), start+r.IntN(20_000)), 0
		for piece+1 < len(starts[i]) && starts[i][piece+1] <= start && r.IntN(4) > 0 {
			piece++
		}
		got, err := reader.Slice(t.Context(), name(i), frames[i][piece], start, end)
		require.True(t, err == nil && got == string(runes[start:end]),
			"document %d [%d, %d) from frame %d: %d code points, %v", i, start, end, frames[i][piece],
			utf8.RuneCountInString(got), err)
	}
	for i, text := range documents {
		for _, end := range []int{-1, utf8.RuneCountInString(text), utf8.RuneCountInString(text) + 5} {
			got, err := reader.Clone().Slice(t.Context(), name(i), frames[i][0], 0, end)
			assert.True(t, err == nil && got == text, "document %d to %d: %d of %d bytes, %v", i, end, len(got), len(text), err)
		}
	}
}

func TestWhatIsNotThereIsDamageOrEmpty(t *testing.T) {
	store, _, _ := segment(t, []string{"one", "two"}, 10)
	reader := musttest.Get(textseg.Open(t.Context(), store, "text"))(t)
	for name, c := range map[string]struct {
		document          string
		frame, start, end int
		damage            bool
	}{
		"another document": {"other", 0, 0, 3, true}, "a frame behind it": {"doc 0", 1, 0, 3, true},
		"no frame: no text": {"doc 0", -1, 0, 3, false}, "an empty range": {"doc 0", 0, 2, 2, false},
		"a range behind it": {"doc 0", 0, 10, 12, true},
	} {
		text, err := reader.Slice(t.Context(), c.document, c.frame, c.start, c.end)
		assert.True(t, text == "" && fault.Is(err, fault.SegmentDamage) == c.damage && (err != nil) == c.damage,
			"%s: %q, %v", name, text, err)
	}
	musttest.Refuse(textseg.Open(t.Context(), store, "missing"))(t, fault.NotFound)
}

// Ranges that are read in order cost one read a frame.
func TestAFrameIsReadOnce(t *testing.T) {
	store, frames, _ := segment(t, []string{strings.Repeat("sentence of some words. ", 4000)}, 500)
	counted := &counting{Store: store}
	info := musttest.Get(store.Stat(t.Context(), "text"))(t)
	reader := musttest.Get(textseg.OpenOf(t.Context(), counted, "text", info.Size))(t)
	counted.gets = 0
	for at := 0; at < 90_000; at += 1000 {
		musttest.Get(reader.Slice(t.Context(), name(0), 0, at, at+1000))(t)
	}
	total := frames[0][len(frames[0])-1] + 1
	assert.True(t, counted.gets != 0 && counted.gets <= 90*total, "%d reads of %d frames", counted.gets, total)
	before := counted.gets
	for range 10 {
		musttest.Get(reader.Slice(t.Context(), name(0), total-1, 95_000, 95_500))(t)
	}
	assert.True(t, counted.gets <= before+1, "%d reads for ten ranges of one frame", counted.gets-before)
}

type counting struct {
	blob.Store
	gets int
}

func (c *counting) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	c.gets++
	return c.Store.Get(ctx, key, part)
}

// The pieces of a document are as they were written, and its neighbours do not run into it.
func TestPiecesAreTheDocument(t *testing.T) {
	documents := []string{strings.Repeat("plain text. ", 9000), strings.Repeat("naïve 漢字 🙂 ", 9000), "short"}
	store, frames, _ := segment(t, documents, 9000)
	reader := musttest.Get(textseg.Open(t.Context(), store, "text"))(t)
	whole := func(document string, frame int) (out string) {
		for piece := range musttest.All(t, reader.Pieces(t.Context(), document, frame)) {
			assert.Equal(t, utf8.RuneCountInString(out), piece.Start)
			out += piece.Text
		}
		return out
	}
	for i, want := range documents {
		for _, frame := range []int{0, frames[i][0]} {
			got := whole(name(i), frame)
			assert.True(t, got == want, "document %d from frame %d: %d bytes, want %d", i, frame, len(got), len(want))
		}
	}
	assert.Empty(t, whole("unknown", 0))
}
