package service_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// Promises: 40.
func TestCommandsOnRunsAreRecordedWithWhoAndWhy(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk", Via: "token", Reason: "too expensive"})
	b.temporal.Executions["build/docs/g1"] = running
	b.must(b.PauseRun(ctx, "docs/g1"))
	b.must(b.ResumeRun(ctx, "docs/g1", nil))
	b.must(b.CancelRun(ctx, "docs"))
	b.temporal.Executions["build/docs/g1"] = completed
	b.writeReport("g1", core.StatusCompleted)
	musttest.Fail(t, b.PauseRun(ctx, "docs/g1"), fault.RunEnded)
	operations := musttest.Get(b.ListOperations(t.Context(), "docs", 0))(b.t)
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
	musttest.Refuse(b.ListOperations(t.Context(), "../docs", 0))(t, fault.InvalidParam)
}

// What stops a run is done also where it cannot be recorded, and says so.
func TestARunIsPausedAlsoWhereThatCannotBeRecorded(t *testing.T) {
	b := newBench(t)
	b.temporal.Executions["build/docs/g1"] = running
	b.Stores.Artifacts = readOnly{b.Stores.Artifacts}
	musttest.Fail(t, b.PauseRun(t.Context(), "docs/g1"), fault.StoreDenied, "record pause of docs/g1", "the operation took effect")
	assert.Len(t, b.temporal.Updates, 1)
}

// What is served can be moved while the engine is down; where nothing is published there is nothing to move.
func TestNothingIsMovedOfAnIndexThatIsNot(t *testing.T) {
	b := newBench(t)
	b.temporal.Down = errDown
	for action, code := range map[string]fault.Code{
		core.ActionRollback: fault.UnknownIndex, core.ActionPublish: fault.UnknownGen, core.ActionDiscard: fault.UnknownGen,
		core.ActionTag: fault.UnknownGen, core.ActionUntag: fault.NotFound, "burn": fault.Usage,
	} {
		_, err := b.MoveGeneration(t.Context(), control.MoveRequest{Action: action, Index: "docs", Generation: "g1", Name: "kept"})
		musttest.Fail(t, err, code)
	}
	_, err := b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs"})
	musttest.Fail(t, err, fault.Usage, "no generation is named")
	for _, bad := range []control.MoveRequest{
		{Action: core.ActionPublish, Index: "../x", Generation: "g1"},
		{Action: core.ActionTag, Index: "docs", Generation: "g1", Name: "../x"},
	} {
		musttest.Refuse(b.MoveGeneration(t.Context(), bad))(t, fault.InvalidParam)
	}
	_, err = b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs", Generation: "../x"})
	musttest.Fail(t, err, fault.UnknownGen)
	// One that was held before it was built says why.
	b.write(b.art.GenerationKey("g2", "report.json"),
		`{"status":"held","reason":"mass_deletion","detail":"5 of 10 documents are gone"}`)
	_, err = b.MoveGeneration(t.Context(), control.MoveRequest{Action: core.ActionPublish, Index: "docs", Generation: "g2"})
	musttest.Fail(t, err, fault.UnknownGen, "5 of 10 documents are gone", "gate.max_removed=1")
	assert.Empty(t, musttest.Get(b.ListOperations(t.Context(), "docs", 0))(t), "refused, and recorded")
}

// What an operator publishes ends the night that a gate held: lists say so, and it counts as a success of the index.
func TestAHeldRunIsSettledOnceItIsPublished(t *testing.T) {
	b := newBench(t)
	b.publish()
	current, _, err := b.art.ReadPointer(t.Context())
	b.must(err)
	sha := musttest.Get(b.art.PutManifest(t.Context(), &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g2", Seq: 2, Parent: current.Manifest,
		Collections: core.Collections{Classes: "docs-classes", Chunks: "docs-chunks"},
	}))(b.t)
	b.write(b.art.GenerationKey("g2", "manifest.json"), `{"manifest":"`+sha+`","seq":2,"state":"held"}`)
	b.writeReport("g2", core.StatusHeld)
	for _, collection := range []string{"docs-classes", "docs-chunks"} {
		b.must(b.Stores.Vectors.Create(t.Context(), collection, 3))
	}
	success := func() time.Time {
		return musttest.Get(run.ReadTime(t.Context(), b.Stores.Coordination, run.SuccessOf("docs")))(b.t)
	}
	require.Zero(t, success())
	musttest.Get(
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
		musttest.Refuse(b.BuildIndex(t.Context(), request))(t, fault.BadConfig, c.want)
		musttest.Refuse(b.ApplySchedule(t.Context(), control.ScheduleRequest{
			Spec: request.Spec, Files: request.Files, Schedule: config.Schedule{Cron: "@daily", Overlap: "skip"},
		}))(t, fault.BadConfig, c.want)
	}
	require.Empty(t, b.temporal.Started, "a run was started all the same")
	request.Spec.Gate.Probes = core.SentFile + sum
	musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
	raw, _, err := blob.Read(t.Context(), b.art.Store, b.art.ProbesKey(sum))
	assert.True(t, err == nil && string(raw) == string(good), "%s, %v", raw, err)
}

// A backfill or a round of retry-failed would read the corpus that an image names, by the labels that it says.
func TestNothingStartsWithTheSettingsOfAnImage(t *testing.T) {
	b := newBench(t)
	b.pulled = true
	spec := musttest.Get(b.art.Spec(t.Context(), b.publish()))(t)
	b.fail(extract.DeadLetter{Chunk: strings.Repeat("ab", 16), Document: "a.md"})
	request := control.BackfillRequest{Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "old/"}}
	musttest.Refuse(b.StartBackfill(t.Context(), request))(t, fault.BadConfig, "came with an image", "unweaver index")
	letters := control.LettersRequest{Name: "docs"}
	musttest.Refuse(b.RetryFailed(t.Context(), letters))(t, fault.BadConfig, "came with an image", "unweaver index")
	purge := control.PurgeRequest{Index: "docs", Documents: []string{"a.md"}, Confirmed: true}
	musttest.Refuse(b.PurgeDocuments(t.Context(), purge))(t, fault.BadConfig, "came with an image", "unweaver index")
	assert.Empty(t, b.temporal.Started)
	b.must(os.Remove(spec.Corpus))
	restore, err := b.RestoreIndex(t.Context(), "docs")
	assert.True(t, err == nil && restore.NoCorpus == "", "%+v, %v", restore, err)
}

// A backfill that the engine did not take, or has no more, has nothing left to it: nights would leave out what it chose
// for as long as it passed for one that goes on.
func TestABackfillThatTheEngineDoesNotRunEnds(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	b.publish()
	status := func() string { return musttest.Get(run.ReadBackfill(ctx, b.art, "old"))(t).Status }
	request := control.BackfillRequest{Index: "docs", Name: "old", Choice: core.BackfillChoice{Prefix: "old/"}}
	b.temporal.Refuses = errors.New("no room")
	_, err := b.StartBackfill(ctx, request)
	assert.True(t, err != nil && status() == core.StatusFailed, "%v; it is %s", err, status())
	b.temporal.Refuses = nil
	musttest.Get(b.StartBackfill(ctx, request))(b.t)
	require.Equal(t, core.StatusRunning, status(), "it")
	b.temporal.Executions[workflows.BackfillID("docs", "old")] = terminated
	named := control.BackfillNamed{Index: "docs", Name: "old"}
	musttest.Fail(t, b.PauseBackfill(ctx, named), fault.RunEnded, "does not run it", "resume, or cancel")
	b.must(b.CancelBackfill(ctx, named))
	assert.Equal(t, core.StatusCancelled, status(), "it")
	musttest.Fail(t, b.CancelBackfill(ctx, named), fault.RunEnded, "it has ended: cancelled")
}

// What a schedule left that was deleted in the engine alone, or never made there, is deleted by the same command. Where
// nothing is left that is reported as a fault, and nothing is recorded.
func TestWhatIsLeftOfAScheduleIsDeleted(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk"})
	b.must(run.KeepSchedule(ctx, b.art, run.Scheduled{Spec: b.spec("docs")}))
	b.must(b.DeleteSchedule(ctx, "docs"))
	musttest.Refuse(b.art.Store.Stat(ctx, b.art.ScheduleKey()))(t, fault.NotFound)
	musttest.Fail(t, b.DeleteSchedule(ctx, "docs"), fault.NotFound)
	musttest.Fail(t, b.PauseSchedule(ctx, "docs", ""), fault.NotFound)
	musttest.Fail(t, b.DeleteSchedule(ctx, "../docs"), fault.InvalidParam)
	operations := musttest.Get(b.ListOperations(ctx, "docs", 0))(b.t)
	assert.True(t, len(operations) == 1 && operations[0].Action == core.ActionDeleteNights &&
		operations[0].By == "ada@desk" && operations[0].Outcome != nil && operations[0].Outcome.Result == core.OperationDone,
		"%+v", operations)
}

// segment is what generation g1 of publish has.
var segment = strings.Repeat("ab", 32)

// publish has index docs serve generation g1, which holds nothing.
func (b *bench) publish() core.Digest {
	ctx := b.t.Context()
	spec := b.spec("docs")
	spec.Pulled = b.pulled
	digest := musttest.Get(b.art.PutSpec(ctx, spec))(b.t)
	b.write(b.art.SegmentKey(segment), "x")
	sha := musttest.Get(b.art.PutManifest(ctx, &core.Manifest{
		Segments: core.Segments{Documents: []core.Segment{{SHA256: segment, Bytes: 1}}},
		Format:   core.ManifestFormat, Index: "docs", Generation: "g1", Seq: 1, Spec: digest,
		Collections: core.Collections{Classes: "docs-classes", Chunks: "docs-chunks"},
	}))(b.t)
	musttest.Get(blob.WriteJSON(ctx, b.art.Store, b.art.CurrentKey(),
		core.Pointer{Generation: "g1", Manifest: sha, Seq: 1, Epoch: 1}, blob.Cond{}))(b.t)
	return digest
}

func (b *bench) fail(letter extract.DeadLetter) {
	musttest.Get(blob.WriteJSON(b.t.Context(), b.art.Store, extract.DeadLetterKey(b.art, "g1", letter.Chunk),
		letter, blob.Cond{}))(b.t)
}

// A restore needs no corpus. It says where the next build will miss it.
func TestARestoreSaysWhyTheNextBuildWillFail(t *testing.T) {
	b := newBench(t)
	spec := musttest.Get(b.art.Spec(t.Context(), b.publish()))(b.t)
	b.must(os.Remove(spec.Corpus))
	run, err := b.RestoreIndex(t.Context(), "docs")
	assert.True(t, err == nil && strings.Contains(run.NoCorpus, spec.Corpus), "%+v, %v", run, err)
}

// An empty list of an index that is known is empty; one of a misspelt name is an error.
func TestAListOfAnUnknownIndexIsAnError(t *testing.T) {
	b := newBench(t)
	b.publish()
	for name, list := range map[string]func(index string) error{
		"purges": func(index string) error {
			return second(b.ListPurges(t.Context(), control.PurgesRequest{Index: index}))
		},
		"backfills": func(index string) error {
			return second(b.ListBackfills(t.Context(), control.BackfillNamed{Index: index}))
		},
		"operations": func(index string) error { return second(b.ListOperations(t.Context(), index, 0)) },
		"branches":   func(index string) error { return second(b.ListBranches(t.Context(), index)) },
	} {
		assert.NoError(t, list("docs"), name)
		assert.True(t, fault.Is(list("dosc"), fault.UnknownIndex), name)
	}
}

func TestARoundOfRetryFailedIsABuildOfWhatFailed(t *testing.T) {
	b := newBench(t)
	request := control.LettersRequest{Name: "docs"}
	_, err := b.RetryFailed(t.Context(), request)
	assert.True(t, fault.Is(err, fault.UnknownIndex), "of an index that was never built: %v", err)
	digest := b.publish()
	run, err := b.RetryFailed(t.Context(), request)
	assert.True(t, err == nil && run.Run == "" && len(b.temporal.Started) == 0, "nothing failed: %+v, %v", run, err)
	_, round, err := service.ChooseLetters(b.Service, t.Context(), "docs", &core.Manifest{
		Generation: "g1", Round: 2, Counts: core.Counts{Untranscribed: 1},
	}, nil)
	assert.True(t, err == nil && round == 3, "pages that failed: %d, %v", round, err)
	chunk := strings.Repeat("ab", 16)
	b.fail(extract.DeadLetter{Chunk: chunk, Document: "a.md", Reason: string(fault.BadOutput), Attempt: 4})
	_, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs", Chunks: []string{strings.Repeat("cd", 16)}})
	musttest.Fail(t, err, fault.NotFound, "dead-letters list docs")
	_, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs/g0"})
	musttest.Fail(t, err, fault.Usage, "g1 is the published generation")
	run, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs/g1"})
	require.True(t, err == nil && strings.HasPrefix(run.Run, "docs/"+workflows.RetryGeneration), "%+v, %v", run, err)
	operations := musttest.Get(b.ListOperations(t.Context(), "docs", 0))(b.t)
	assert.True(t, len(operations) == 1 && operations[0].Action == core.ActionRetry && operations[0].Run == run.Run,
		"recorded are %+v", operations)
	build := b.temporal.Inputs[0].(workflows.Build)
	assert.True(t, build.Attempt == 5 && build.Spec == digest.String(), "%+v", build)
	again, err := b.RetryFailed(t.Context(), request)
	assert.True(t, err == nil && again.Attached && again.Run == run.Run && again.RunID == run.RunID &&
		len(b.temporal.Started) == 1, "a second one: %+v, %v", again, err)
	_, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs", Chunks: []string{chunk}})
	musttest.Fail(t, err, fault.LeaseHeld, run.Run+" is retrying others", "add --wait")
	_, err = b.BuildIndex(t.Context(), control.IndexRequest{Spec: b.spec("docs")})
	musttest.Fail(t, err, fault.LeaseHeld, "does not read the corpus", "add --wait")
}

// Who discarded a letter, and which, is recorded; text that names no chunk is not.
func TestADiscardedLetterIsRecorded(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk"})
	b.publish()
	chunk := strings.Repeat("ab", 16)
	b.fail(extract.DeadLetter{Chunk: chunk, Document: "a.md"})
	b.must(b.DiscardLetters(ctx, control.LettersRequest{Name: "docs", Chunks: []string{chunk}, Why: "a table"}))
	musttest.Fail(t, b.DiscardLetters(ctx, control.LettersRequest{Name: "docs", Chunks: []string{"\x1b[31m"}}), fault.NotFound)
	operations := musttest.Get(b.ListOperations(ctx, "docs", 0))(b.t)
	assert.True(t, len(operations) == 2 && operations[1].Action == core.ActionDiscardLetters &&
		operations[1].By == "ada@desk" && operations[1].To == "g1" && operations[1].Name == chunk &&
		operations[1].Reason == "a table" && operations[0].Name == "" && operations[0].Outcome.Code == string(fault.NotFound),
		"%+v", operations)
}

// mortal counts the writes of a process down to its death: the last one is done or not, and nothing after it answers.
type mortal struct {
	left int
	done bool // the write that kills is done, and its answer lost
}

var errKilled = errors.New("killed")

// strike does a write, where the process lives to do it.
func (m *mortal) strike(write func() error) error {
	m.left--
	if m.left > 0 || m.left == 0 && m.done {
		if err := write(); err != nil {
			return err
		}
	}
	if m.left <= 0 {
		return errKilled
	}
	return nil
}

func (m *mortal) put(_ context.Context, op artifacttest.Op, _ string, call func() error) error {
	if op == artifacttest.Put {
		return m.strike(call)
	}
	return call()
}

type mortalStates struct {
	coordination.Store
	life *mortal
}

func (m mortalStates) SetState(ctx context.Context, run string, state []byte) error {
	return m.life.strike(func() error { return m.Store.SetState(ctx, run, state) })
}

type mortalEngine struct {
	*fakeTemporal
	life *mortal
}

func (m mortalEngine) ExecuteWorkflow(
	ctx context.Context, options client.StartWorkflowOptions, name any, inputs ...any,
) (run client.WorkflowRun, err error) {
	return run, m.life.strike(func() error {
		run, err = m.fakeTemporal.ExecuteWorkflow(ctx, options, name, inputs...)
		return err
	})
}

// A start of retry-failed that is killed at any of its writes leaves a round that is joined, or none: asked for again
// it is one round, and the build after it begins.
func TestARoundOfRetryFailedIsOneWhereverItsStartIsKilled(t *testing.T) {
	chunk := strings.Repeat("ab", 16)
	kills, joins := 0, 0
	for step := 1; ; step++ {
		lived := false
		for _, done := range []bool{false, true} {
			b := newBench(t)
			b.publish()
			b.fail(extract.DeadLetter{Chunk: chunk, Document: "a.md", Attempt: 1})
			request := control.LettersRequest{Name: "docs", Chunks: []string{chunk}}
			life := &mortal{left: step, done: done}
			dying := &service.Service{
				Client: mortalEngine{b.temporal, life}, Engine: b.Engine, Models: b.Models, Heartbeat: b.Heartbeat,
				Stores: &app.Stores{
					Artifacts:    artifacttest.Around{Store: b.Stores.Artifacts, Do: life.put},
					Coordination: mortalStates{b.Stores.Coordination, life},
				},
			}
			_, err := dying.RetryFailed(t.Context(), request)
			if life.left > 0 {
				b.must(err)
				lived = true
				continue
			}
			kills++
			for id := range b.temporal.Executions {
				b.temporal.Hidden[id] = true // visibility lags behind
			}
			begun := len(b.temporal.Started)
			round, err := b.RetryFailed(t.Context(), request)
			require.True(t, err == nil && round.Attached == (begun == 1) && len(b.temporal.Started) == 1,
				"write %d, done %t: %+v, %v after %d starts", step, done, round, err, len(b.temporal.Started))
			joins += begun
			musttest.Refuse(b.BuildIndex(t.Context(), indexRequest(b, "docs", "")))(t, fault.LeaseHeld, round.Run)
			b.temporal.Executions["build/"+round.Run] = completed
			if build, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", "")); err != nil || build.Attached {
				t.Errorf("write %d, done %t: the build after it: %+v, %v", step, done, build, err)
			}
		}
		if lived {
			break
		}
	}
	assert.True(t, kills >= 8 && joins >= 2, "%d kills, of which %d left a round", kills, joins)
}

// A run that wrote its report holds the index until its workflow has ended: builds and rounds wait for that.
func TestARunThatWroteItsReportIsWaitedFor(t *testing.T) {
	for _, prefix := range []string{"", workflows.RetryGeneration, workflows.PurgeGeneration} {
		for _, next := range []string{"a build", "a named build", "a round"} {
			inTime(t, func(t *testing.T, b *bench) {
				b.publish()
				b.fail(extract.DeadLetter{Chunk: strings.Repeat("ab", 16), Document: "a.md", Attempt: 1})
				ending := core.RunState{RunID: "r1", Stage: core.StageCollect}
				ending.Report.Run, ending.Report.Status = "docs/"+prefix+"1", core.StatusErrors
				b.setState(ending.Report.Run, ending)
				b.temporal.Executions["build/"+ending.Report.Run] = running
				time.AfterFunc(3*time.Second, func() {
					b.temporal.Mu.Lock()
					b.temporal.Executions["build/"+ending.Report.Run] = completed
					b.temporal.Mu.Unlock()
				})
				began := time.Now()
				var started control.Run
				var err error
				switch next {
				case "a round":
					started, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"})
				case "a named build":
					started, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", "mine"))
				default:
					started, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
				}
				assert.True(t, err == nil && !started.Attached && started.Run != ending.Report.Run &&
					len(b.temporal.Started) == 1 && time.Since(began) >= 3*time.Second, "%s, then %s: %+v, %v", ending.Report.Run,
					next, started, err)
			})
		}
	}
}

// A transfer is seen by its request while it runs, and no longer.
func TestATransferIsSeenWhileItRuns(t *testing.T) {
	b := newBench(t)
	request := core.ImageRequest{Action: core.TransferPull, Index: "copy"}
	var seen core.Transfer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen, _ = b.ReadTransfer(t.Context(), request)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	request.Where = "oci://" + strings.TrimPrefix(server.URL, "http://") + "/a:v1"
	_, err := b.MoveImage(t.Context(), request)
	assert.True(t, fault.Is(err, fault.StoreDenied) && seen.Stage == "resolve" && seen.Seconds < 3600,
		"%+v, %v", seen, err)
	assert.Zero(t, musttest.Get(b.ReadTransfer(t.Context(), request))(t))
	_, err = b.MoveImage(control.ForAnother(t.Context()), request)
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
}
