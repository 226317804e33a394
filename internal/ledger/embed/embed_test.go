package embed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

func TestALongChunkIsCutIntoOverlappingWindowsWithItsTitle(t *testing.T) {
	var words []string
	for i := range 400 {
		words = append(words, fmt.Sprint("w", i))
	}
	ws := embed.CutWindows("The title", strings.Join(words, " "), 600)
	if len(ws) != 4 { // 0–150, 110–260, 220–370, 330–400
		t.Fatalf("%d windows", len(ws))
	}
	for i, w := range ws {
		assert.True(t, strings.HasPrefix(w, "The title\n\nw"+fmt.Sprint(110*i)+" "), "window %d starts %.30q", i, w)
	}
	assert.True(t, strings.HasSuffix(ws[3], "w399") && strings.Contains(ws[0], "w149") && !strings.Contains(ws[0], "w150"),
		"%q", ws)
	one := embed.CutWindows("T", "short text", 900)
	assert.True(t, len(one) == 1 && one[0] == "T\n\nshort text", "%q", one)
}

func TestFitCutsToTokensOnRunes(t *testing.T) {
	s := strings.Repeat("größer 🙂 ", 500)
	for _, n := range []int{1, 7, 100} {
		f := embed.Fit(s, n)
		assert.True(t, tokens.Count(f) <= n && strings.HasPrefix(s, f) && strings.ToValidUTF8(f, "?") == f,
			"%d: %d tokens, %q", n, tokens.Count(f), f)
	}
	assert.Equal(t, s, embed.Fit(s, 0), "no limit cuts")
}

// Requests are cut by content: one text more changes the requests around it, not those behind.
func TestRequestsAreCutByContent(t *testing.T) {
	cut := func(skip int) map[string]bool {
		out := map[string]bool{}
		for items, err := range embed.CutBatches(func(yield func(embed.Item, error) bool) {
			for i := range 2000 {
				s := fmt.Sprint("text ", i)
				if i != skip && !yield(embed.Item{Text: s, Digest: embed.Digest(s, core.Digest{})}, nil) {
					return
				}
			}
		}) {
			require.True(t, err == nil && len(items) <= 256, "%v %v", len(items), err)
			var names []string
			for _, it := range items {
				names = append(names, it.Text)
			}
			out[strings.Join(names, "|")] = true
		}
		return out
	}
	all, less := cut(-1), cut(700)
	assert.True(t, len(all) <= 13, "%d requests for 2,000 texts", len(all))
	same := 0
	for k := range less {
		if all[k] {
			same++
		}
	}
	assert.True(t, same >= len(less)/2, "%d of %d requests are the same after one text left", same, len(less))
}
