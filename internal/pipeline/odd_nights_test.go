package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
)

// oddly does to the corpus what happens seldom: rows come, go and change places, files are written again as they are,
// are without a word, cannot be parsed, or have names that need care, and a corpus shrinks to one document.
func (h *history) oddly(t *testing.T) {
	keys := h.keys()
	key := pick(h.random, keys)
	jsonl := "rows, of #1%.jsonl"
	switch h.random.IntN(12) {
	case 0, 1, 2:
		lines := strings.Split(strings.TrimSpace(h.files[jsonl]), "\n")
		if lines[0] == "" {
			lines = nil
		}
		for range 1 + h.random.IntN(4) {
			h.next++
			lines = append(lines, fmt.Sprintf(`{"id":"r#%d%% ä","text":%q}`, h.next, h.document()))
		}
		h.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if h.random.IntN(2) == 0 {
			lines = lines[:1+len(lines)/2]
		}
		h.put(t, jsonl, strings.Join(lines, "\n")+"\n")
	case 3:
		for _, one := range keys {
			when := time.Unix(1_700_000_000+int64(h.next), 0)
			require.NoError(t, os.Chtimes(filepath.Join(h.corpus, one), when, when))
		}
	case 4:
		h.next++
		h.put(t, fmt.Sprintf("none/%03d.md", h.next), "")
	case 5:
		h.next++
		h.put(t, fmt.Sprintf("bad %d%%#.pdf", h.next), "%PDF-1.7\nnone of it")
	case 6:
		h.next++
		h.put(t, fmt.Sprintf("ü #%%é\n\t%d.md", h.next), h.document())
	case 7:
		h.next++
		h.put(t, fmt.Sprintf("long/%d.txt", h.next), strings.Repeat("tolmin", 20_000)+" "+h.document())
	case 8:
		h.next++
		h.put(t, fmt.Sprintf("nul/%d.txt", h.next), "a\x00b \u202e\ufeff\U0001F9D1\u200d\U0001F680 "+h.document())
	case 9:
		for _, one := range keys[1:] {
			if h.random.IntN(4) > 0 {
				h.remove(t, one)
			}
		}
		h.add(t)
	case 10:
		if strings.HasPrefix(key, "none/") {
			h.put(t, key, h.document())
		} else {
			h.remove(t, key)
			h.add(t)
		}
	default:
		h.add(t)
	}
}

// What happens seldom comes to what a build from nothing comes to, too: at first the corpus has three documents.
func TestOddNightsComeToWhatABuildFromNothingComesTo(t *testing.T) {
	for _, seed := range []uint64{3, 4}[:longtest.Count(1, 2)] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := &history{site: newSite(t, nil), random: rand.New(rand.NewPCG(seed, 1)), files: map[string]string{}}
			steady(h.site)
			h.spec.Gate.MaxRemoved, h.spec.Failures.Share, h.spec.Shortening.Threshold = 1, 1, 500
			h.spec.Chunking.MaxTokens = 200
			h.shard = 7
			for range 3 {
				h.add(t)
			}
			h.night(t)
			for night := range longtest.Count(15, 50) {
				h.oddly(t)
				out := h.night(t)
				if out.planned.Unchanged || out.equalsParent || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
					require.True(t, out.planned.Held == "" && out.published.Status != core.StatusHeld,
						"night %d held: %+v", night, out)
					continue
				}
				want := h.freshSite(t).night(t)
				sameGeneration(t, night, out.manifest, want.manifest)
				if night%10 == 9 {
					h.whole(t)
				}
			}
		})
	}
}
