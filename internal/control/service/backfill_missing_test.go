package service_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// A backfill that the engine did not take, or has no more, has nothing left to it: nights would leave out what it chose
// for as long as it passed for one that goes on.
func TestABackfillThatTheEngineDoesNotRunEnds(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	spec := b.spec("docs")
	digest, err := b.art.PutSpec(ctx, spec)
	b.must(err)
	sha, err := b.art.PutManifest(ctx, &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g1", Seq: 1, Spec: digest,
	})
	b.must(err)
	_, err = blob.WriteJSON(ctx, b.art.Store, b.art.CurrentKey(),
		core.Pointer{Generation: "g1", Manifest: sha, Seq: 1, Epoch: 1}, blob.Cond{})
	b.must(err)
	status := func() string {
		found, err := run.ReadBackfill(ctx, b.art, "old")
		b.must(err)
		return found.Status
	}
	request := control.BackfillRequest{Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "old/"}}
	b.temporal.refuses = errors.New("no room")
	if _, err := b.StartBackfill(ctx, request); err == nil || status() != core.StatusFailed {
		t.Errorf("%v; it is %s", err, status())
	}
	b.temporal.refuses = nil
	_, err = b.StartBackfill(ctx, request)
	b.must(err)
	require.Equal(t, core.StatusRunning, status(), "it")
	b.temporal.executions[workflows.BackfillID("docs", "old")] = terminated
	named := control.BackfillNamed{Index: "docs", Name: "old"}
	wants(t, b.PauseBackfill(ctx, named), fault.RunEnded, "does not run it", "resume, or cancel")
	b.must(b.CancelBackfill(ctx, named))
	assert.Equal(t, core.StatusCancelled, status(), "it")
	wants(t, b.CancelBackfill(ctx, named), fault.RunEnded, "it has ended: cancelled")
}
