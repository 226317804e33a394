package purges

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// begin asks for the purge of documents.
func begin(t *testing.T, index artifact.Index, documents ...string) core.Purge {
	purge := musttest.Get(Begin(t.Context(), index, core.Purge{
		At: time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), Documents: SetOf(index.Name, documents).ListDigests(),
	}))(t)
	return purge
}

// left returns those of the given documents that runs leave out, and those for which a purge has yet to go on.
func left(t *testing.T, index artifact.Index, documents ...string) (excluded, pending []string) {
	all := musttest.Get(List(t.Context(), index))(t)
	out, now := ListExcluded(all)
	for _, document := range documents {
		if out.Has(document) {
			excluded = append(excluded, document)
		}
		if now.Has(document) {
			pending = append(pending, document)
		}
	}
	return excluded, pending
}

// Promises: 136.
func TestAPurgedDocumentStaysOutUntilItMayReturnAndIsGone(t *testing.T) {
	index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	expect := func(when string, excluded, pending []string) {
		t.Helper()
		if out, now := left(t, index, "a", "b", "c"); !slices.Equal(out, excluded) || !slices.Equal(now, pending) {
			t.Errorf("%s: left out are %q, pending are %q", when, out, now)
		}
	}
	expect("before", nil, nil)
	purge := begin(t, index, "a", "b")
	assert.Equal(t, purge.ID, begin(t, index, "b", "a").ID, "the same wish is there twice: %+v", purge)
	expect("asked for", []string{"a", "b"}, []string{"a", "b"})
	purge.State = core.PurgeDone
	require.NoError(t, Write(t.Context(), index, purge))
	expect("done", []string{"a", "b"}, nil)
	n, err := Allow(t.Context(), index, []string{"a"})
	assert.True(t, fault.Is(err, fault.Usage) && n == 0, "one of two may return: %d, %v", n, err)
	expect("half of it was asked back", []string{"a", "b"}, nil)
	begin(t, index, "c")
	n, err = Allow(t.Context(), index, []string{"a", "b", "c"})
	assert.True(t, err == nil && n == 2, "all may return: %d, %v", n, err)
	expect("what is pending is gone on with first", []string{"c"}, []string{"c"})
}

// Without its wish a document would return: one that cannot be read stops a run.
// Promises: 136.
func TestAWishThatCannotBeReadIsNoMissingOne(t *testing.T) {
	for name, raw := range map[string]string{
		"cut": `{"id":"`, "of another name": `{"id":"other","documents":["` + core.Sum("a").String() + `"]}`,
		"of no document": `{"id":"p"}`,
	} {
		index := artifact.Index{Store: blobmemory.New(), Name: "docs"}
		musttest.Get(blob.Write(t.Context(), index.Store, recordKey(index, "p"), []byte(raw), blob.Cond{}))(t)
		musttest.Code(t, musttest.Err(List(t.Context(), index)), fault.SegmentDamage, name)
	}
}
