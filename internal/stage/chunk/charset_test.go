package chunk_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// A text is read in the charset of the configuration, else in the one that fits it, which is noted.
func TestTextsAreReadInTheirCharset(t *testing.T) {
	const koi8 = "\xeb\xc1\xd0\xc9\xd4\xc1\xce \xeb\xc9\xd2" // Капитан Кир
	r := newRun(t, map[string]string{
		"a.txt": koi8, "b/c.txt": koi8, "d.html": "<meta charset=gbk><p>" + koi8, "rows.csv": "id,text\n2," + koi8 + "\n",
	})
	r.spec.Documents = &core.Documents{Encoding: []string{"b/*=koi8-r", "*.{html,csv}=koi8-r"}}
	res := r.all()
	documents := r.documents(res)
	for key, noted := range map[string]string{"a.txt": "koi8-u", "b/c.txt": "", "d.html": "", "rows.csv#2": ""} {
		d, found := documents[key]
		if !found || d.Problem != "" || d.Meta["encoding"] != noted {
			t.Errorf("%s: %+v", key, d)
			continue
		}
		assert.Contains(t, r.text(res, key, d, 0, d.Runes), "Капитан Кир", "%s", key)
	}
}

// Text that is mostly no text is a problem of every type.
func TestTextThatIsMostlyUnknownCharactersIsAProblem(t *testing.T) {
	bad := strings.Repeat("\uFFFD\ue001 ", 50)
	r := newRun(t, map[string]string{
		"good.txt": "Words.", "a.txt": bad, "b.html": "<p>" + bad, "c.jsonl": `{"id":"1","text":"` + bad + `"}` + "\n" + `{"id":"2","text":"Words."}`,
		"long.md": strings.Repeat(bad, 1000),
	})
	res := r.all()
	for key, d := range r.documents(res) {
		want := fault.Unreadable
		if key == "good.txt" || strings.HasSuffix(key, "#2") {
			want = ""
		}
		assert.Equal(t, want, fault.Code(d.Problem), "%s: %q", key, d.Problem)
	}
	assert.True(t, res.Failed == 4 && strings.Contains(res.Problems[0].Detail, "are not letters"), "%+v", res.Problems)
}
