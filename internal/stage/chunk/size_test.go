package chunk_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// An object whose size alone says that it is above a limit is refused without being read, by a first build too.
func TestAnObjectThatIsTooLargeBySizeIsNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		key   string
		bytes int
		reads int    // by plan and by this stage
		limit string // that it is above
	}{
		"far above":                           {"a.txt", 4000, 0, "text"},
		"above, unless it is in UTF-16":       {"a.md", 1500, 2, "text"},
		"below":                               {"a.txt", 900, 2, ""},
		"of a type that is read as whole":     {"a.html", 2000, 2, "text"},
		"of such a type, with too many bytes": {"a.html", 4000, 0, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, map[string]string{c.key: strings.Repeat("word ", c.bytes/5), "z.txt": "short"})
			r.limits = document.DefaultLimits()
			r.limits.Text, r.limits.Bytes = 1000, 3000
			planned := r.plan()
			res := stagetest.Must(r.chunk(t.Context(), 0, planned.Units))
			assert.Equal(t, c.reads, r.corpus.Reads(c.key), "reads of the object")
			problems := append(planned.Problems, res.Problems...)
			if c.limit == "" && len(problems) == 0 {
				return
			}
			if len(problems) != 1 || problems[0].Code != string(fault.TooLarge) ||
				!strings.Contains(problems[0].Detail, "limits.document."+c.limit) {
				t.Errorf("%+v", problems)
			}
		})
	}
}
