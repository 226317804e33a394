package chunk_test

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// Whose labels cannot be read is read by nobody, whatever the rules say of documents that name none.
func TestADocumentWhoseLabelsCannotBeReadIsReadByNobody(t *testing.T) {
	const given = "---\nlabels: public\n---\nWords."
	r := newRun(t, map[string]string{
		"none.md": "Words.", "given.md": "---\nlabels: [b, a]\n---\nWords.", "beside.md.meta.json": `{"labels": "hr"}`,
		"beside.md": "---\nlabels: public\n---\nWords.", "row.csv": "id,text,labels\n1,Words,hr\n2,More words,\n",
		"empty.md": "---\nlabels: []\n---\nWords.", "nested.md": "---\nlabels: {a: b}\n---\nWords.",
		"broken.md": "---\nlabels: [hr\n---\nWords.", "half.md": "---\nlabels: [hr]\nWords.",
		"control.md": "---\nlabels: \"a\\x01b\"\n---\nWords.",
		"emptied.md": "---\nlabels: public\n---\nWords.", "emptied.md.meta.json": `{"labels": []}`,
		"unread.md": "---\nlabels: public\n---\nWords.", "unread.md.meta.json": `{"labels": `, "untagged.md": "Words.",
		"empty.json": `{"text": "Words", "labels": ""}`, "null.json": `{"text": "Words", "labels": null}`,
		"list.json": `{"text": "Words", "labels": []}`, "nested.json": `{"text": "Words", "labels": [["hr"]]}`,
		"object.json": `{"text": "Words", "labels": {"a": "hr"}}`,
		"inner.json":  `{"text": "Words", "metadata": {"labels": 0}}`,
		"twice.json":  `{"text": "Words", "labels": "hr", "labels": "public"}`,
		"case.json":   `{"text": "Words", "Labels": "hr"}`,
		"comma.json":  `{"text": "Words", "labels": ["hr, public"]}`, "comma.md": "---\nlabels: [\"hr, public\"]\n---\nWords.",
		"title.csv": "Report\nid,text,labels\n1,Words,hr\n", "twice.csv": "id,text,labels,labels\n1,Words,hr,public\n",
		"short.csv": "id,text,labels\n1,Words\n2,Words,hr\n", "long.csv": "id,text,labels\n1,Some, public,hr\n",
		"blank.csv": "id,text,labels\n1,Words,hr,\n", "late.md": "\n---\nlabels: hr\n---\nWords.",
		"space.md": " ---\nlabels: hr\n---\nWords.", "front.txt": "---\nlabels: hr\n---\nWords.",
		"blank.md": "Words.", "beside.csv": "id,text\n1,Words\n", "beside.csv.meta.json": `{"labels": "hr", "team": "x"}`,
		"torn.csv": "id,text,labels\n1,Words,public\n", "torn.csv.meta.json": `{"labels": `,
		"acl.md": "---\ntitle: T\nacl:\n  - labels: hr\n---\nWords.", "table.md": "+++\n[extra]\nlabels = \"hr\"\n+++\nWords.",
		"acl.json": `{"text": "Words", "acl": [{"labels": "hr"}]}`, "deep.json": `{"text": "W", "metadata": {"a": {"labels": 1}}}`,
		"both.md": "---\nlabels: hr\nimage: {labels: x}\n---\nWords.", "page.html": "---\nlayout: p\nlabels: hr\n---\n<p>Words</p>",
		"yaml.md": "%YAML 1.2\n---\nlabels: hr\n---\nWords.", "note.md": "<!-- a\n-->\n---\nlabels: hr\n---\nWords.",
		"zero.md": "\u200b---\nlabels: hr\n---\nWords.", "rule.md": "---\ntitle: T\n---\n---\nlabels: in a text\n",
		"soft.md": "---\nla\u00adbels: hr\n---\nWords.", "soft.json": `{"text": "Words", "\u200blabels": "hr"}`,
		"soft.csv": "id,text,labels\u034f\n1,Words,hr\n", "soft.txt": "\u2060---\nlabel\u00ads: hr\n---\nWords.",
		"soft.html": "<p>Words</p>", "soft.html.meta.json": `{"labels\ufe0f": "hr"}`, "soft2.csv": "id,text\n1,Words\n",
		"h\u00adr/a.md": "Words.", "h\u00adr/b.md": given, "❤\ufe0f.md": "Words.", "❤\ufe0f/a.md": "Words.",
		"soft3.csv": "Report\nid,text,la\u00adbels\n1,Words,hr\n", "bell.md": "---\n\"la\\bbels\": hr\n---\nWords.",
		"rows.jsonl": `{"id": "1", "text": "---\nlabels: hr\n---\nWords"}` + "\n" + `{"id": "2", "text": "Words"}`,
		"hugo.md":    "{\n \"labels\": [\"hr\"]\n}\n\nWords.", "front.json": `{"text": "---\nlabels: hr\n---\nWords"}`,
		"front.ipynb": `{"cells": [{"cell_type": "raw", "source": ["---\nlabels: hr\n---\n"]}], "nbformat": 4}`,
		"far.txt":     "---\nsummary: " + strings.Repeat("far ", 3000) + "\nlabels: hr\n---\nWords.",
		"parted.txt":  "---\u2028labels: hr\u2028---\nWords.",
		"nul.json":    `{"text": "Words", "labels\u0000": "hr"}`, "dots.md": "---\nlabels\u2800: hr\n---\nWords.",
		"e\u0301quipe/a.md": "Words.", "line.json": `{"text": "Words", "la\nbels": "hr"}`,
		"a#1.md": "Words.", "mail.eml": documenttest.MailWith("Words", documenttest.Part{Name: "a.md", Content: given}),
		"held.eml":           documenttest.MailWith("Words", documenttest.Part{Name: "a.md", Content: given}),
		"held.eml.meta.json": `{"labels": "hr", "team": "x"}`, "tagged.csv": "id,text,labels\n1,Words,public\n",
		"shift.csv": "id,text,labels,\x1b$B?M\x1b(B\n1,Words,hr,x\n", "hz.csv": "id,text,labels\n1,Words,hr\n",
		"escape.csv": "id,text,labels\n1,\"Words\x1b\",hr\n2,\x1b$B?M\x1b(B,hr\n",
	})
	r.corpus.Tags = func(key string) (map[string]string, error) {
		switch key {
		case "blank.md":
			return map[string]string{"labels": ""}, nil
		case "tagged.csv":
			return map[string]string{"labels": "hr", "team": "x"}, nil
		case "soft2.csv":
			return map[string]string{"lab\u00adels": "hr"}, nil
		case "untagged.md":
			return nil, fault.StoreDenied.At("read tags of", key).Because(blob.ErrTagsRefused)
		}
		return nil, nil
	}
	rules := []string{"a#1.md=board", "hr/**=hr", "❤\ufe0f/**=hr", "\u00e9quipe/**=hr", "**=public"}
	r.spec.Documents = &core.Documents{
		S3Tags: true, Attachments: true, Encoding: []string{"hz.csv=hz-gb-2312"},
		Labels: core.Labels{Field: "labels", Rules: rules},
	}
	documents := r.documents(r.night())
	readable := map[string]core.LabelSet{ // all others are nobody's
		"none.md": core.Everybody, "given.md": "a,b", "beside.md": "hr", "row.csv#1": "hr", "inner.json": "0",
		"short.csv#2": "hr", "blank.csv#1": "hr", "beside.csv#1": "hr", "a%231.md": "board",
		"mail.eml": core.Everybody, "both.md": "hr", "rule.md": core.Everybody, "held.eml": "hr",
		"held.eml#a.md": "hr", "tagged.csv#1": "hr", "rows.jsonl#2": core.Everybody, "h\u00adr/b.md": core.Everybody,
		"❤\ufe0f.md": core.Everybody, "❤\ufe0f/a.md": "hr", "escape.csv#1": "hr", "escape.csv#2": "hr",
	}
	assert.Equal(t, 80, len(documents))
	for key, document := range documents {
		want, named := readable[key]
		if !named {
			want = core.Nobody
		}
		got, _ := stage.LabelsOf(r.spec, key, document.Meta)
		assert.Equal(t, want, got, key)
		delete(readable, key)
	}
	assert.Empty(t, readable, "no such document")
	assert.NotEmpty(t, documents["unread.md"].Missing)
	assert.Contains(t, documents["null.json"].Missing, "nobody may read")
	assert.Contains(t, documents["h\u00adr/a.md"].Missing, "characters that nobody sees")
	assert.NotContains(t, documents["beside.csv#1"].Meta, "team")
}

// What is kept of a document that cannot be read has the labels beside it now, and nobody's where its own were read
// before the index had this field of labels.
func TestAStaleDocumentHasTheLabelsBesideIt(t *testing.T) {
	for parent, b := range map[string]core.LabelSet{"labels": core.Everybody, "team": core.Nobody} {
		r := newRun(t, map[string]string{"a.txt": "Words.", "b.txt": "Words."})
		r.spec.Documents = &core.Documents{Labels: core.Labels{Field: parent, Rules: []string{"**=public"}}}
		raw := stagetest.Must(json.Marshal(r.spec))
		digest := core.Digest(sha256.Sum256(raw))
		_, err := blob.Write(t.Context(), r.art.Store, r.art.SpecKey(digest), raw, blob.Cond{})
		require.NoError(t, err)
		r.night()
		r.parent.Spec, r.spec.Documents.Labels.Field = digest, "labels"
		r.corpus.Set("a.txt", "\x00\x01\x02")
		r.corpus.Set("b.txt", "\x00\x01\x02")
		r.corpus.Set("a.txt.meta.json", `{"labels": "hr"}`)
		documents := r.documents(r.night())
		for key, want := range map[string]core.LabelSet{"a.txt": "hr", "b.txt": b} {
			got, _ := stage.LabelsOf(r.spec, key, documents[key].Meta)
			assert.True(t, documents[key].Stale && got == want, "%s, %s: stale %v, %s", parent, key, documents[key].Stale, got)
		}
	}
}
