package chunk_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// A plain text whose size alone says that it is too long is refused without being read.
func TestATextThatIsTooLongBySizeIsNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		bytes int
		reads int
		fails bool
	}{
		"far above":                       {"a.txt", 4000, 0, true},
		"above, unless it is in UTF-16":   {"a.md", 1500, 1, true},
		"below":                           {"a.txt", 900, 1, false},
		"of a type that is read as whole": {"a.html", 4000, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{c.key: strings.Repeat("word ", c.bytes/5), "z.txt": "short"})
			planned := r.plan()
			r.corpus.Reads(c.key)
			limits := document.DefaultLimits()
			limits.Text = 1000
			res, err := chunk.Run(t.Context(), chunk.In{
				Spec: r.spec, Corpus: r.corpus, Artifacts: r.art, Scratch: r.scratch, Plan: r.rows(), To: planned.Units[0].To,
				OnProgress: func(int64) {}, Limits: limits, Parser: documenttest.Here{Limits: limits},
			})
			require.NoError(t, err)
			assert.Equal(t, c.reads, r.corpus.Reads(c.key), "it was read")
			if c.fails != (len(res.Problems) == 1 && res.Problems[0].Code == string(fault.TooLarge) &&
				strings.Contains(res.Problems[0].Detail, "limits.document.text")) {
				t.Errorf("%+v", res.Problems)
			}
		})
	}
}
