package chunk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A file of metadata beside a document is no document. Its change makes the document again, with the chunks it had.
func TestMetadataBesideADocumentFollowItsFile(t *testing.T) {
	r := newRun(t, map[string]string{
		"a.md": "---\nauthor: Ada\nyear: 2019\n---\nThe lease ends in May.", "b.txt": "The boiler is old.",
		"a.md.meta.json": `{"year": 2026, "tags": ["x", "y"], "signed": true, "none": null}`, "gone.txt.meta.json": `{}`,
	})
	var ids []any
	for n, c := range []struct {
		sidecar string // empty: as it was; -: it goes
		changed int64
		meta    map[string]string
	}{
		{"", 0, map[string]string{"author": "Ada", "year": "2026", "tags": "x, y", "signed": "true"}},
		{"", 0, map[string]string{"author": "Ada", "year": "2026", "tags": "x, y", "signed": "true"}},
		{`{"year": "2027"}`, 1, map[string]string{"author": "Ada", "year": "2027"}},
		{"-", 1, map[string]string{"author": "Ada", "year": "2019"}},
		{`{"author": "Eve"}`, 1, map[string]string{"author": "Eve", "year": "2019"}},
	} {
		switch c.sidecar {
		case "":
		case "-":
			r.corpus.Remove("a.md.meta.json")
		default:
			r.corpus.Set("a.md.meta.json", c.sidecar)
		}
		planned := r.plan()
		assert.True(t, planned.Diff.Changed == c.changed && planned.Unchanged == (n > 0 && c.changed == 0),
			"%d: %+v", n, planned)
		require.Len(t, planned.Problems, 1)
		assert.Equal(t, "gone.txt.meta.json", planned.Problems[0].Object)
		res := r.night()
		documents := r.documents(res)
		assert.Len(t, documents, 2)
		assert.Equal(t, c.meta, documents["a.md"].Meta, "%d", n)
		assert.Empty(t, documents["b.txt"].Meta)
		ids = append(ids, documents["a.md"].Chunks[0].ID)
		assert.Equal(t, ids[0], ids[n])
	}
}

// A file of metadata that cannot be used takes nothing from its document, and says why.
func TestMetadataThatCannotBeUsedAreAProblem(t *testing.T) {
	for name, c := range map[string]struct{ sidecar, say string }{
		"a large one":     {`{"a": "` + strings.Repeat("x", 1<<20) + `"}`, "more than 65536 bytes"},
		"a nested one":    {`{"a": {"b": 1}}`, `field "a" is nested`},
		"a list of lists": {`{"a": [[1]]}`, `field "a" is nested`},
		"no UTF-8":        {"{\"a\": \"\xff\"}", "no JSON in UTF-8 at byte"},
		"no object":       {`[1]`, "not one JSON object"},
		"twice":           {`{"a": 1, "a": 2}`, "no JSON in UTF-8 at byte"},
		"half":            {`{"a": `, "no JSON"},
		"nothing":         {"", "no JSON"},
		"many fields":     {"{" + strings.TrimSuffix(manyFields(101), ",") + "}", "more than 100 fields"},
		"a long value":    {`{"a": "` + strings.Repeat("x", 2001) + `"}`, "more than 2000 bytes"},
	} {
		r := newRun(t, map[string]string{"a.md": "---\nauthor: Ada\n---\nThe lease.", "a.md.meta.json": c.sidecar})
		res := r.night()
		assert.Equal(t, map[string]string{"author": "Ada"}, r.documents(res)["a.md"].Meta, name)
		if assert.Len(t, res.Problems, 1, name) {
			assert.Equal(t, string(fault.PartsMissing), res.Problems[0].Code, name)
			assert.Contains(t, res.Problems[0].Detail, c.say, name)
		}
		assert.True(t, r.plan().Unchanged, name)
	}
}

// What documents say of when they hold and what they replace is checked, wherever it stands, and they are indexed.
func TestAVersionThatCannotBeUsedIsAProblem(t *testing.T) {
	front := func(fields string) map[string]string {
		return map[string]string{"a.md": "---\nauthor: Ada\n" + fields + "---\nThe lease."}
	}
	for name, c := range map[string]struct {
		files map[string]string
		say   string // empty: it is right
	}{
		"a day":         {front("valid_from: 2026-01-31\nvalid_until: 2026-01-31\nauthority: 2\nsupersedes: [b.md]\n"), ""},
		"a time":        {front("valid_until: 2026-01-31T12:00:00+02:00\nauthority: -1\n"), ""},
		"no date":       {front("valid_from: soon\n"), `metadata valid_from is ignored: "soon" is no date (write 2026-01-31`},
		"no such day":   {front("valid_until: \"2026-02-30\"\n"), `metadata valid_until is ignored: "2026-02-30" is no date`},
		"two dates":     {front("valid_from: [2026-01-01, 2026-02-01]\n"), `"2026-01-01, 2026-02-01" is no date`},
		"no number":     {front("authority: high\nvalid_from: 2026-01-31\n"), `metadata authority is ignored: "high" is no number (write 2)`},
		"of anything":   {front("authority: City of Oslo\n"), ""},
		"no value":      {front("valid_from:\nsupersedes: []\n"), ""},
		"nested":        {front("valid_from: {day: 1}\n"), "front matter valid_from is ignored: it is nested or has more than"},
		"long":          {front("supersedes: " + strings.Repeat("a", 2001) + "\n"), "front matter supersedes is ignored: it is nested"},
		"the other way": {front("valid_from: 2026-02-01\nvalid_until: 2026-01-31\n"), "it never holds"},
		"itself":        {front("supersedes: [b.md, a.md]\n"), "it names the document itself"},
		"beside": {map[string]string{
			"a.md": "The lease.", "a.md.meta.json": `{"valid_from": "31.1.2026"}`}, `valid_from is ignored: "31.1.2026"`},
		"a row": {map[string]string{
			"a.jsonl": `{"id": "1", "text": "The lease.", "valid_until": "never"}`}, `valid_until is ignored: "never"`},
	} {
		r := newRun(t, c.files)
		res := r.night()
		assert.Len(t, r.documents(res), 1, name)
		if c.say == "" {
			assert.Empty(t, res.Problems, name)
		} else if assert.Len(t, res.Problems, 1, name) {
			assert.Equal(t, string(fault.PartsMissing), res.Problems[0].Code, name)
			assert.Contains(t, res.Problems[0].Detail, c.say, name)
			assert.True(t, strings.HasPrefix(res.Problems[0].Object, "a."), name)
		}
		assert.True(t, r.plan().Unchanged, name)
	}
}

func manyFields(count int) (out string) {
	for i := range count {
		out += fmt.Sprintf("\"f%d\": 1,", i)
	}
	return out
}

// Tags of objects are metadata, over those of the document and below those of the file beside it. What the store
// refuses is one problem, and is asked for again until it is given.
func TestTagsOfObjectsAreMetadata(t *testing.T) {
	r := newRun(t, map[string]string{
		"a.md": "---\nauthor: Ada\nyear: 2019\nteam: x\n---\nThe lease ends in May.", "a.md.meta.json": `{"year": 2026}`,
		"b.txt": "The boiler is old.", "c.jsonl": `{"id": "1", "text": "The roof leaks."}`, "d.txt": strings.Repeat("Snow. ", 60_000),
	})
	refused := map[string]bool{"a.md": true, "d.txt": true}
	r.corpus.Tags = func(key string) (map[string]string, error) {
		if refused[key] {
			return nil, fault.StoreDenied.At("read tags of", key).Because(blob.ErrTagsRefused)
		}
		return map[string]string{"team": "legal", "year": "1"}, nil
	}
	own := map[string]string{"author": "Ada", "year": "2026", "team": "x"}
	tags := map[string]string{"team": "legal", "year": "1"}
	metaOf := func(res chunk.Result) (out []map[string]string) {
		for _, key := range []string{"a.md", "b.txt", "c.jsonl#1", "d.txt"} {
			out = append(out, r.documents(res)[key].Meta)
		}
		return out
	}
	assert.Equal(t, []map[string]string{own, nil, nil, nil}, metaOf(r.night()), "not asked for")
	r.parent, r.spec.Documents = nil, &core.Documents{S3Tags: true}
	res := r.night()
	assert.Equal(t, []map[string]string{own, tags, nil, nil}, metaOf(res))
	assert.Empty(t, res.Problems)
	all := stage.Untagged{}
	all.Add(res.Untagged)
	all.Add(res.Untagged)
	assert.Equal(t, int64(4), all.Documents)
	assert.Equal(t, "a.md", all.Problem().Object)
	assert.Contains(t, all.Problem().Detail, "tags of 4 objects are no metadata yet")
	assert.Contains(t, all.Problem().Detail, `("a.md", "d.txt", "a.md", "d.txt")`)
	r.corpus.Reads("d.txt")
	planned := r.plan()
	assert.True(t, planned.Unchanged && planned.Diff.Same == 4 && r.corpus.Reads("d.txt") == 0, "%+v", planned)
	assert.Equal(t, res.Documents.SHA256, r.night().Documents.SHA256, "refused again")
	refused = map[string]bool{"a.md": true}
	assert.Equal(t, []map[string]string{own, tags, nil, tags}, metaOf(r.night()), "one decides for itself alone")
	refused = nil
	assert.Equal(t, []map[string]string{{"author": "Ada", "year": "2026", "team": "legal"}, tags, nil, tags}, metaOf(r.night()))
	assert.True(t, r.plan().Unchanged)
	r.corpus.Tags = func(string) (map[string]string, error) { return map[string]string{"a": strings.Repeat("x", 2001)}, nil }
	r.corpus.Set("b.txt", "The boiler is newer.")
	long := r.all()
	assert.True(t, len(long.Problems) == 3 && r.documents(long)["b.txt"].Meta == nil, "too long: %+v", long)
	code := fault.StoreDenied // of everything, as that of a document
	r.corpus.Tags = func(string) (map[string]string, error) { return nil, code.At("read tags of", "a") }
	r.corpus.Set("b.txt", "The boiler is new.")
	res = r.all()
	assert.True(t, r.documents(res)["b.txt"].Problem == string(code) && res.Untagged.Documents == 0, "%+v", res)
	code = fault.StoreDown
	_, err := r.chunk(t.Context(), 0, r.plan().Units)
	assert.True(t, fault.Is(err, code), "a store that is down is asked again: %v", err)
}
