package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

func TestProbesAreReadLineByLine(t *testing.T) {
	got, err := core.ReadProbes(strings.NewReader(
		`{"question":" Who signed? ","documents":["a.md","b.md"]}`+"\n\n"+`{"question":"When?","documents":["c.md"],"x":1}`),
		true)
	assert.True(t, err == nil && len(got) == 2 && got[0].Question == "Who signed?" && len(got[0].Documents) == 2 &&
		got[1].Line == 3, "%+v, %v", got, err)
	for text, says := range map[string]string{
		"":     "no question",
		"\n\n": "no question",
		`{"question":"a","documents":["d"]}` + "\n{":                         "line 2",
		`{"documents":["d"]}`:                                                "line 1: it has no question",
		`{"question":"a"}`:                                                   "line 1: it names no document",
		`{"question":"a","documents":[""]}`:                                  "line 1: it names no document",
		`{"question":"` + strings.Repeat("é", 8193) + `","documents":["d"]}`: "more than 8192 characters",
		strings.Repeat(`{"question":"a","documents":["d"]}`+"\n", 2001):      "more than 2000 questions",
		strings.Repeat(strings.Repeat(" ", 1<<20)+"\n", 3) + "{}":            "question",
	} {
		_, err := core.ReadProbes(strings.NewReader(text), true)
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%.40q: %v, want %q", text, err, says)
	}
	if got, err := core.ReadProbes(strings.NewReader(`{"question":"a"}`), false); err != nil || len(got) != 1 {
		t.Errorf("where documents are not asked for: %v, %v", got, err)
	}
}
