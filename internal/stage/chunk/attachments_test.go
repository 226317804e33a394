package chunk_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func attachedTo(name, text string) string {
	return documenttest.MailWith("A mail", documenttest.Part{Name: name, Content: text})
}

// An object in the version of the parent is not opened, and what is attached to it stays. One that changes between its
// plan and its reading is opened by the next run, whatever it has by then.
func TestAttachmentsOfAnObjectThatChangesMeanwhileAreFoundByTheNextRun(t *testing.T) {
	r := newRun(t, map[string]string{"m.eml": attachedTo("a.txt", "alpha"), "p.pdf": "no PDF"})
	r.spec.Documents = &core.Documents{Attachments: true}
	first := r.documents(r.night())
	if first["m.eml#a.txt"].Title != "alpha" || first["p.pdf"].Problem != string(fault.Unreadable) || len(first) != 3 {
		t.Fatalf("%+v", first)
	}
	r.corpus.Reads("m.eml")
	if planned := r.plan(); !planned.Unchanged || r.corpus.Reads("m.eml") != 0 {
		t.Errorf("nothing changed: %+v", planned)
	}
	r.corpus.Set("m.eml", attachedTo("a.txt", "beta"))
	planned := r.plan()
	r.corpus.Set("m.eml", attachedTo("b.txt", "gamma"))
	res, err := r.chunk(t.Context(), 0, planned.Units)
	require.NoError(t, err)
	kept := r.documents(res)["m.eml#a.txt"]
	assert.True(t, kept.Title == "alpha" && kept.Stale && kept.Problem == string(fault.DocumentChanged),
		"gone meanwhile: %+v", kept)
	r.after(res)
	got := r.documents(r.night())
	assert.True(t, got["m.eml#b.txt"].Title == "gamma" && got["m.eml#a.txt"].Title == "", "the night after: %+v", got)
	r.corpus.Set("m.eml", attachedTo("b.txt", "delta"))
	planned = r.plan()
	r.corpus.Set("m.eml", attachedTo("b.txt", "epsilon"))
	res, err = r.chunk(t.Context(), 0, planned.Units)
	require.NoError(t, err)
	if got := r.documents(res)["m.eml#b.txt"]; got.Title != "epsilon" || got.Problem != "" {
		t.Errorf("another by then: %+v", got)
	}
}
