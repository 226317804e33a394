package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// A document is not purged while a branch shares what the index has of it, whichever of them is named, and a promotion
// alone does not change that. Once the branch is deleted the purge takes what both had: of the document no byte of the
// data directory says anything, and what the branch brought is still served.
// Promises: 46.
func TestAPurgeWaitsForABranchToBeDeletedAndTakesWhatBothHad(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	folder, documents, own, stop := purging(t)
	base := completed(t, index(t, own.Control, spec(t, "base", documents, nil)))
	_, err := own.Control.ChangeBranch(t.Context(),
		control.BranchRequest{Index: "base", Name: "side", Set: map[string]string{"shortening.threshold": "200"}})
	check(t, err)
	overlay := must(own.Control.ReadOverlay(t.Context(), "side"))(t)
	side := spec(t, "side", documents, nil, "indexes.side.shortening.threshold=200")
	side.Overlay = overlay.Set
	built := completed(t, index(t, own.Control, side))
	require.True(t, !built.Unchanged && built.Generation != base.Generation,
		"the branch itself built nothing: %+v", built.Report)
	found := func() (served int) {
		for _, name := range []string{"base", "side"} {
			for _, chunk := range chunksOf(ask(t, own.HTTP, name, "Who paid the ferryman?", nil)) {
				if chunk["document"] == "c.md" {
					served++
				}
			}
		}
		return served
	}
	refused := func(when string) {
		t.Helper()
		for _, name := range []string{"base", "side"} {
			_, err := own.Control.PurgeDocuments(t.Context(),
				control.PurgeRequest{Index: name, Documents: []string{"c.md"}, Confirmed: true})
			require.True(t, fault.Is(err, fault.Usage) && strings.Contains(err.Error(), "segments"),
				"a purge from %s, %s: %v", name, when, err)
		}
		stand, err := own.Control.ListPurges(t.Context(), control.PurgesRequest{Index: "base"})
		assert.True(t, err == nil && len(stand.Purges) == 0, "a refused purge is on record, %s: %+v, %v", when, stand, err)
		assert.Equal(t, 2, found(), "%s the document is served by", when)
	}
	refused("beside a branch")
	_, err = own.Control.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPromote, Index: "side"})
	check(t, err)
	refused("promote it")

	_, err = own.Control.ChangeBranch(t.Context(), control.BranchRequest{Index: "base", Name: "side", Delete: true})
	check(t, err)
	begun := must(own.Control.PurgeDocuments(t.Context(),
		control.PurgeRequest{Index: "base", Documents: []string{"c.md"}, Confirmed: true}))(t)
	completed(t, wait(t, own.Control, begun.Run.Run))
	stand, err := own.Control.ListPurges(t.Context(), control.PurgesRequest{Index: "base"})
	require.True(t, err == nil && len(stand.Purges) == 1 && stand.Purges[0].State == core.PurgeDone, "%+v, %v", stand, err)
	after, err := own.Control.ReadOverlay(t.Context(), "base")
	assert.True(t, err == nil && after.Set["shortening.threshold"] == "200",
		"what the branch brought is lost with the purge: %+v, %v", after, err)
	for _, chunk := range chunksOf(ask(t, own.HTTP, "base", "Who built the harbour? Who paid the ferryman?", nil)) {
		assert.True(t, chunk["document"] != "c.md", "a query returns %v", chunk)
	}
	stop()
	where := holdingWords(t, folder, purgedWords...)
	assert.True(t, len(where) == 0, "still stored in %q", where)
	_, err = os.Stat(filepath.Join(documents, "c.md"))
	assert.NoError(t, err)
}
