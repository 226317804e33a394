package chunk_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Whose labels cannot be read is read by nobody, whatever the rules say of documents that name none.
func TestADocumentWhoseLabelsCannotBeReadIsReadByNobody(t *testing.T) {
	r := newRun(t, map[string]string{
		"none.md": "Words.", "given.md": "---\nlabels: [b, a]\n---\nWords.", "beside.md.meta.json": `{"labels": "hr"}`,
		"beside.md": "---\nlabels: public\n---\nWords.", "row.csv": "id,text,labels\n1,Words,hr\n2,More words,\n",
		"empty.md": "---\nlabels: []\n---\nWords.", "nested.md": "---\nlabels: {a: b}\n---\nWords.",
		"broken.md": "---\nlabels: [hr\n---\nWords.", "half.md": "---\nlabels: [hr]\nWords.",
		"control.md": "---\nlabels: \"a\\x01b\"\n---\nWords.",
		"emptied.md": "---\nlabels: public\n---\nWords.", "emptied.md.meta.json": `{"labels": []}`,
		"unread.md": "---\nlabels: public\n---\nWords.", "unread.md.meta.json": `{"labels": `, "untagged.md": "Words.",
	})
	r.corpus.Tags = func(key string) (map[string]string, error) {
		if key == "untagged.md" {
			return nil, fault.StoreDenied.At("read tags of", key).Because(blob.ErrTagsRefused)
		}
		return nil, nil
	}
	r.spec.Documents = &core.Documents{S3Tags: true, Labels: core.Labels{Field: "labels", Rules: []string{"**=public"}}}
	documents := r.documents(r.night())
	for key, want := range map[string]core.LabelSet{
		"none.md": core.Everybody, "given.md": "a,b", "beside.md": "hr", "row.csv#1": "hr", "row.csv#2": core.Nobody,
		"empty.md":  core.Nobody,
		"nested.md": core.Nobody, "broken.md": core.Nobody, "half.md": core.Nobody, "control.md": core.Nobody,
		"emptied.md": core.Nobody, "unread.md": core.Nobody, "untagged.md": core.Nobody,
	} {
		assert.Contains(t, documents, key)
		got, _ := stage.LabelsOf(r.spec, key, documents[key].Meta)
		assert.Equal(t, want, got, key)
	}
	assert.NotEmpty(t, documents["unread.md"].Missing)
}
