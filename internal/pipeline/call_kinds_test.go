package pipeline_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// since returns what was sold since a moment, by kind: extract, shorten, and embed.
func (s *shop) since(before map[string]int) map[string]int {
	out := map[string]int{}
	for key, n := range s.sold {
		kind, _, _ := strings.Cut(key, " ")
		if strings.HasPrefix(kind, "embedder") {
			kind = "embed"
		}
		if n -= before[key]; n > 0 {
			out[kind] += n
		}
	}
	return out
}

// What changes in a night decides what is paid for: no kind of call is made that the change does not need.
// Promises: 16, 76.
func TestAChangePaysForTheKindsOfCallsThatItNeeds(t *testing.T) {
	for what, do := range map[string]struct {
		change func(t *testing.T, s *site)
		pays   string // kinds of calls
		why    string // part of the reasons that plan gives; empty: documents, or nothing
	}{
		"nothing": {func(*testing.T, *site) {}, "", ""},
		"another embedding model": {
			func(_ *testing.T, s *site) { s.spec.Embedding.Model = "embedder-1" }, "embed", "embedding",
		},
		"another threshold": {
			func(_ *testing.T, s *site) { s.spec.Shortening.Threshold = 120 }, "embed shorten", "shortening",
		},
		"another chat model":       {func(_ *testing.T, s *site) { s.spec.Chat.Model = "chat-1" }, "extract shorten", "chat"},
		"what retrieval is set to": {func(_ *testing.T, s *site) { s.spec.Retrieval.TopChunks = 9 }, "", ""},
		"another language":         {func(_ *testing.T, s *site) { s.spec.Retrieval.Language = "de" }, "", "language"},
		"how many are kept":        {func(_ *testing.T, s *site) { s.spec.Keep = 2 }, "", ""},
		"documents moved": {func(t *testing.T, s *site) {
			from, to := filepath.Join(s.corpus, "place-003.md"), filepath.Join(s.corpus, "other.md")
			require.NoError(t, os.Rename(from, to))
		}, "", ""},
		"a document removed": {func(t *testing.T, s *site) {
			require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-003.md")))
		}, "embed shorten", ""},
		"a document added": {func(t *testing.T, s *site) {
			s.write(t, map[string]string{"more.md": "# More\n\nGreta Lind sold amber to Rhine Gate.\n"})
		}, "embed extract", ""},
	} {
		t.Run(what, func(t *testing.T) {
			s, sold := newSite(t, sample(20)), &shop{sold: map[string]int{}}
			s.Models = sold.models
			s.spec.Chat = core.ChatModel{Provider: "openai", Model: "chat-0"}
			s.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "embedder-0", Dimension: 8}
			s.spec.Shortening.Threshold, s.spec.Gate.MaxRemoved = 700, 1
			s.night(t)
			before := maps.Clone(sold.sold)
			do.change(t, s)
			restart(s)
			out := s.night(t)
			reasons := s.report(t).Reasons
			paid := sold.since(before)
			for _, kind := range slices.Sorted(maps.Keys(paid)) {
				assert.True(t, strings.Contains(do.pays, kind), "%d calls of %s were paid for", paid[kind], kind)
			}
			for _, kind := range strings.Fields(do.pays) {
				assert.True(t, paid[kind] != 0, "no %s was paid for: the case shows nothing", kind)
			}
			assert.Contains(t, fmt.Sprint(reasons), do.why, "the reasons are %s", reasons)
			t.Logf("%v, reasons %v, unchanged %v", paid, reasons, out.planned.Unchanged)
		})
	}
}
