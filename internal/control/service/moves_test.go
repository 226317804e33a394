package service_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

// Promises: 40.
func TestCommandsOnRunsAreRecordedWithWhoAndWhy(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk", Via: "token", Reason: "too expensive"})
	b.temporal.executions["build/docs/g1"] = running
	b.must(b.PauseRun(ctx, "docs/g1"))
	b.must(b.ResumeRun(ctx, "docs/g1", nil))
	b.must(b.CancelRun(ctx, "docs"))
	b.temporal.executions["build/docs/g1"] = completed
	b.writeReport("g1", core.StatusCompleted)
	wants(t, b.PauseRun(ctx, "docs/g1"), fault.RunEnded)
	operations := must(b.ListOperations(t.Context(), "docs", 0))(b.t)
	var text []string
	for _, op := range operations {
		require.True(t, op.By == "ada@desk" && op.Via == "token" && op.Reason == "too expensive" && op.Run == "docs/g1" &&
			op.Outcome != nil, "%+v", op)
		text = append(text, op.Action+" "+op.Outcome.Result+" "+op.Outcome.Code)
	}
	want := []string{"pause failed run_ended", "cancel done ", "resume done ", "pause done "}
	require.Len(t, text, len(want), "%q", text)
	for i := range want {
		assert.Equal(t, want[i], text[i], "%q, want %q", text, want)
	}
	_, err := b.ListOperations(t.Context(), "../docs", 0)
	wants(t, err, fault.InvalidParam)
}

// What stops a run is done also where it cannot be recorded, and says so.
func TestARunIsPausedAlsoWhereThatCannotBeRecorded(t *testing.T) {
	b := newBench(t)
	b.temporal.executions["build/docs/g1"] = running
	b.Stores.Artifacts = readOnly{b.Stores.Artifacts}
	wants(t, b.PauseRun(t.Context(), "docs/g1"), fault.StoreDenied, "record pause of docs/g1", "the operation took effect")
	assert.Len(t, b.temporal.updates, 1)
}

// What is served can be moved while the engine is down; where nothing is published there is nothing to move.
func TestNothingIsMovedOfAnIndexThatIsNot(t *testing.T) {
	b := newBench(t)
	b.temporal.down = errDown
	for action, code := range map[string]fault.Code{
		core.ActionRollback: fault.UnknownIndex, core.ActionPublish: fault.UnknownGen,
		core.ActionDiscard: fault.UnknownGen, core.ActionTag: fault.UnknownGen, core.ActionUntag: fault.NotFound,
		"burn": fault.Usage,
	} {
		_, err := b.MoveGeneration(t.Context(), control.MoveRequest{Action: action, Index: "docs", Generation: "g1", Name: "kept"})
		wants(t, err, code)
	}
	_, err := b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs"})
	wants(t, err, fault.Usage, "no generation is named")
	for _, bad := range []control.MoveRequest{
		{Action: core.ActionPublish, Index: "../x", Generation: "g1"},
		{Action: core.ActionTag, Index: "docs", Generation: "g1", Name: "../x"},
	} {
		_, err := b.MoveGeneration(t.Context(), bad)
		wants(t, err, fault.InvalidParam)
	}
	_, err = b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs", Generation: "../x"})
	wants(t, err, fault.UnknownGen)
	// One that was held before it was built says why.
	b.write(b.art.GenerationKey("g2", "report.json"),
		`{"status":"held","reason":"mass_deletion","detail":"5 of 10 documents are gone"}`)
	_, err = b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs", Generation: "g2"})
	wants(t, err, fault.UnknownGen, "5 of 10 documents are gone", "gate.max_removed=1")
	keys, err := b.ListOperations(t.Context(), "docs", 0)
	assert.True(t, err == nil && len(keys) == 0, "refused, and recorded: %+v, %v", keys, err)
}

// What an operator publishes ends the night that a gate held: lists say so, and it counts as a success of the index.
func TestAHeldRunIsSettledOnceItIsPublished(t *testing.T) {
	b := newBench(t)
	b.publish()
	current, _, err := b.art.ReadPointer(t.Context())
	b.must(err)
	sha := must(b.art.PutManifest(t.Context(), &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g2", Seq: 2, Parent: current.Manifest,
		Collections: core.Collections{Classes: "docs-classes", Chunks: "docs-chunks"},
	}))(b.t)
	b.write(b.art.GenerationKey("g2", "manifest.json"), `{"manifest":"`+sha+`","seq":2,"state":"held"}`)
	b.writeReport("g2", core.StatusHeld)
	for _, collection := range []string{"docs-classes", "docs-chunks"} {
		b.must(b.Stores.Vectors.Create(t.Context(), collection, 3))
	}
	success := func() time.Time { return must(run.LastSuccess(t.Context(), b.Stores.Coordination, "docs"))(b.t) }
	require.Zero(t, success())
	must(
		b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs", Generation: "g2"}),
	)(b.t)
	assert.NotZero(t, success())
	cards, err := b.ListIndexes(t.Context())
	require.True(t, err == nil && len(cards) == 1 && cards[0].LastRun.Status == core.StatusHeld, "%+v, %v", cards, err)
	assert.True(t, cards[0].LastRun.Published)
}

// A worker reads the probe questions from the artifacts: they come with the request, and are looked at before a run or
// a schedule is started.
func TestProbeQuestionsComeWithTheRequest(t *testing.T) {
	b := newBench(t)
	request := indexRequest(b, "docs", "")
	good := []byte(`{"question":"Who?","documents":["a.md"]}`)
	sum := fmt.Sprintf("%x", sha256.Sum256(good))
	for _, c := range []struct {
		where string
		raw   []byte
		want  string
	}{
		{"/home/ada/probes.jsonl", nil, "/home/ada/probes.jsonl: its content was not sent"},
		{core.SentFile + "00", []byte(`{"question":"Who?"}`), "line 1: it names no document"},
		{core.SentFile + "00", good, "a different checksum"},
	} {
		request.Spec.Gate.Probes, request.Probes = c.where, c.raw
		_, err := b.BuildIndex(t.Context(), request)
		wants(t, err, fault.BadConfig, c.want)
		_, err = b.ApplySchedule(t.Context(), control.ScheduleRequest{
			Spec: request.Spec, Files: request.Files, Schedule: config.Schedule{Cron: "@daily", Overlap: "skip"},
		})
		wants(t, err, fault.BadConfig, c.want)
	}
	require.Empty(t, b.temporal.started, "a run was started all the same")
	request.Spec.Gate.Probes = core.SentFile + sum
	must(b.BuildIndex(t.Context(), request))(b.t)
	raw, _, err := blob.Read(t.Context(), b.art.Store, b.art.ProbesKey(sum))
	assert.True(t, err == nil && string(raw) == string(good), "%s, %v", raw, err)
}

// A backfill that the engine did not take, or has no more, has nothing left to it: nights would leave out what it chose
// for as long as it passed for one that goes on.
func TestABackfillThatTheEngineDoesNotRunEnds(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish()
	status := func() string { return must(run.ReadBackfill(ctx, b.art, "old"))(t).Status }
	request := control.BackfillRequest{Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "old/"}}
	b.temporal.refuses = errors.New("no room")
	_, err := b.StartBackfill(ctx, request)
	assert.True(t, err != nil && status() == core.StatusFailed, "%v; it is %s", err, status())
	b.temporal.refuses = nil
	must(b.StartBackfill(ctx, request))(b.t)
	require.Equal(t, core.StatusRunning, status(), "it")
	b.temporal.executions[workflows.BackfillID("docs", "old")] = terminated
	named := control.BackfillNamed{Index: "docs", Name: "old"}
	wants(t, b.PauseBackfill(ctx, named), fault.RunEnded, "does not run it", "resume, or cancel")
	b.must(b.CancelBackfill(ctx, named))
	assert.Equal(t, core.StatusCancelled, status(), "it")
	wants(t, b.CancelBackfill(ctx, named), fault.RunEnded, "it has ended: cancelled")
}

// What a schedule left that was deleted in the engine alone, or never made there, is deleted by the same command. Where
// nothing is left that is reported as a fault, and nothing is recorded.
func TestWhatIsLeftOfAScheduleIsDeleted(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk"})
	b.must(run.KeepSchedule(ctx, b.art, run.Scheduled{Spec: b.spec("docs")}))
	b.must(b.DeleteSchedule(ctx, "docs"))
	_, err := b.art.Store.Stat(ctx, b.art.ScheduleKey())
	wants(t, err, fault.NotFound)
	wants(t, b.DeleteSchedule(ctx, "docs"), fault.NotFound)
	wants(t, b.PauseSchedule(ctx, "docs", ""), fault.NotFound)
	wants(t, b.DeleteSchedule(ctx, "../docs"), fault.InvalidParam)
	operations := must(b.ListOperations(ctx, "docs", 0))(b.t)
	assert.True(t, len(operations) == 1 && operations[0].Action == core.ActionDeleteNights &&
		operations[0].By == "ada@desk" && operations[0].Outcome != nil && operations[0].Outcome.Result == core.OperationDone,
		"%+v", operations)
}
