package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestADifferenceIsShownWithTheQuestionsThatHaveOtherChunks(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var asked struct {
			Query, Generation string
			Answer            bool
		}
		if err := json.NewDecoder(request.Body).Decode(&asked); err != nil || asked.Answer {
			t.Errorf("asked %+v, %v", asked, err)
		}
		chunk := "c1"
		if asked.Query == "When?" && asked.Generation == "g2" {
			chunk = "c2"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"chunks": []map[string]string{{"id": chunk, "document": chunk + ".md"}},
		})
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"question":"Who?"}`+"\n"+`{"question":"When?"}`+"\n"), 0o600))
	fake := &fakeControl{difference: core.Difference{
		Index: "docs", From: core.DifferenceSide{Generation: "g1", State: "current"},
		To:        core.DifferenceSide{Generation: "g2", State: "held", Counts: core.Counts{Documents: 9}},
		Documents: core.DocumentDifference{Moved: 1, Listed: []core.Change{{Change: "moved", Object: "b", From: "a"}}},
		Classes:   core.ClassDifference{Born: 7, Listed: []core.Change{{Change: "born", Object: "Tolmin"}}},
	}}
	got := in(t, withConnection(fake, server.URL), nil, "diff", "g2", "--index", "docs", "--questions", file)
	for _, part := range []string{
		"docs: g1 (current) → g2 (held)", "0 → 9: 0 added, 0 changed, 1 moved", "b, was a", "7 added", "born     Tolmin",
		"of 2 questions, 1 return different passages first", "When?", "before: c1.md", "after:  c2.md",
	} {
		assert.True(t, strings.Contains(got.out, part), "%q is not in %s%s", part, got.out, got.err)
	}
	if strings.Contains(got.out, "Who?") || fake.asked[0] != "diff docs  g2" {
		t.Errorf("%s, %v", got.out, fake.asked)
	}
	if got := run(t, fake, "diff", "g1", "g2", "--index", "docs", "--json"); fake.asked[1] != "diff docs g1 g2" ||
		decoded(t, got.out)["classes"].(map[string]any)["born"] != 7.0 {
		t.Errorf("%+v", got)
	}
	assert.Equal(t, cli.ExitUsage, run(t, fake, "diff", "--index", "docs", "--questions", file+".none").exit)
}
