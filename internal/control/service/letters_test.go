package service_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/workflows"
)

// segment is what generation g1 of publish has.
var segment = strings.Repeat("ab", 32)

// publish has index docs serve generation g1, which holds nothing.
func (b *bench) publish() core.Digest {
	ctx := b.t.Context()
	digest := must(b.art.PutSpec(ctx, b.spec("docs")))(b.t)
	b.write(b.art.SegmentKey(segment), "x")
	sha := must(b.art.PutManifest(ctx, &core.Manifest{
		Segments: core.Segments{Documents: []core.Segment{{SHA256: segment, Bytes: 1}}},
		Format:   core.ManifestFormat, Index: "docs", Generation: "g1", Seq: 1, Spec: digest,
		Collections: core.Collections{Classes: "docs-classes", Chunks: "docs-chunks"},
	}))(b.t)
	must(blob.WriteJSON(ctx, b.art.Store, b.art.CurrentKey(),
		core.Pointer{Generation: "g1", Manifest: sha, Seq: 1, Epoch: 1}, blob.Cond{}))(b.t)
	return digest
}

// fail gives generation g1 a dead letter.
func (b *bench) fail(letter extract.DeadLetter) {
	must(blob.WriteJSON(b.t.Context(), b.art.Store, extract.DeadLetterKey(b.art, "g1", letter.Chunk),
		letter, blob.Cond{}))(b.t)
}

// A restore needs no corpus. It says where the next build will miss it.
func TestARestoreSaysWhyTheNextBuildWillFail(t *testing.T) {
	b := newBench(t)
	spec := must(b.art.Spec(t.Context(), b.publish()))(b.t)
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
	if run, err := b.RetryFailed(t.Context(), request); err != nil || run.Run != "" || len(b.temporal.started) != 0 {
		t.Errorf("nothing failed: %+v, %v", run, err)
	}
	chunk := strings.Repeat("ab", 16)
	b.fail(extract.DeadLetter{Chunk: chunk, Document: "a.md", Reason: string(fault.BadOutput), Attempt: 4})
	_, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs", Chunks: []string{strings.Repeat("cd", 16)}})
	assert.True(t, fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "dead-letters list docs"),
		"an unknown letter: %v", err)
	_, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs/g0"})
	assert.True(t, fault.Is(err, fault.Usage) && strings.Contains(err.Error(), "g1 is the published generation"),
		"an older generation: %v", err)
	run, err := b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs/g1"})
	require.True(t, err == nil && strings.HasPrefix(run.Run, "docs/"+workflows.RetryGeneration), "%+v, %v", run, err)
	operations := must(b.ListOperations(t.Context(), "docs", 0))(b.t)
	assert.True(t, len(operations) == 1 && operations[0].Action == core.ActionRetry && operations[0].Run == run.Run,
		"recorded are %+v", operations)
	build := b.temporal.inputs[0].(workflows.Build)
	assert.True(t, build.Attempt == 5 && build.Spec == digest.String(), "%+v", build)
	again, err := b.RetryFailed(t.Context(), request)
	assert.True(t, err == nil && again.Attached && again.Run == run.Run && again.RunID == run.RunID &&
		len(b.temporal.started) == 1, "a second one: %+v, %v", again, err)
	_, err = b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs", Chunks: []string{chunk}})
	wants(t, err, fault.LeaseHeld, run.Run+" is retrying others", "add --wait")
	_, err = b.BuildIndex(t.Context(), control.IndexRequest{Spec: b.spec("docs")})
	assert.True(t, fault.Is(err, fault.LeaseHeld) && strings.Contains(err.Error(), "does not read the corpus") &&
		strings.Contains(err.Error(), "add --wait"), "a build does not join it: %v", err)
}

// Who discarded a letter, and which, is recorded; text that names no chunk is not.
func TestADiscardedLetterIsRecorded(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk"})
	b.publish()
	chunk := strings.Repeat("ab", 16)
	b.fail(extract.DeadLetter{Chunk: chunk, Document: "a.md"})
	b.must(b.DiscardLetters(ctx, control.LettersRequest{Name: "docs", Chunks: []string{chunk}, Why: "a table"}))
	wants(t, b.DiscardLetters(ctx, control.LettersRequest{Name: "docs", Chunks: []string{"\x1b[31m"}}), fault.NotFound)
	operations := must(b.ListOperations(ctx, "docs", 0))(b.t)
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

type mortalBlobs struct {
	blob.Store
	life *mortal
}

func (m mortalBlobs) Put(
	ctx context.Context, key string, body io.Reader, size int64, c blob.Cond,
) (info blob.Info, err error) {
	return info, m.life.strike(func() error {
		info, err = m.Store.Put(ctx, key, body, size, c)
		return err
	})
}

type mortalStates struct {
	coordination.Store
	life *mortal
}

func (m mortalStates) SetState(ctx context.Context, run string, state []byte) error {
	return m.life.strike(func() error { return m.Store.SetState(ctx, run, state) })
}

type mortalEngine struct {
	*temporalFake
	life *mortal
}

func (m mortalEngine) ExecuteWorkflow(
	ctx context.Context, options client.StartWorkflowOptions, name any, inputs ...any,
) (run client.WorkflowRun, err error) {
	return run, m.life.strike(func() error {
		run, err = m.temporalFake.ExecuteWorkflow(ctx, options, name, inputs...)
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
			dying := *b.Service
			dying.Client = mortalEngine{b.temporal, life}
			dying.Stores = &app.Stores{
				Artifacts: mortalBlobs{b.Stores.Artifacts, life}, Coordination: mortalStates{b.Stores.Coordination, life},
			}
			_, err := dying.RetryFailed(t.Context(), request)
			if life.left > 0 {
				b.must(err)
				lived = true
				continue
			}
			kills++
			for id := range b.temporal.executions {
				b.temporal.hidden[id] = true // visibility lags behind
			}
			begun := len(b.temporal.started)
			round, err := b.RetryFailed(t.Context(), request)
			require.True(t, err == nil && round.Attached == (begun == 1) && len(b.temporal.started) == 1,
				"write %d, done %t: %+v, %v after %d starts", step, done, round, err, len(b.temporal.started))
			joins += begun
			_, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
			wants(t, err, fault.LeaseHeld, round.Run)
			b.temporal.executions["build/"+round.Run] = completed
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
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.publish()
				b.fail(extract.DeadLetter{Chunk: strings.Repeat("ab", 16), Document: "a.md", Attempt: 1})
				ending := core.RunState{RunID: "r1", Stage: core.StageCollect}
				ending.Report.Run, ending.Report.Status = "docs/"+prefix+"1", core.StatusErrors
				b.setState(ending.Report.Run, ending)
				b.temporal.executions["build/"+ending.Report.Run] = running
				time.AfterFunc(3*time.Second, func() {
					b.temporal.mu.Lock()
					b.temporal.executions["build/"+ending.Report.Run] = completed
					b.temporal.mu.Unlock()
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
					len(b.temporal.started) == 1 && time.Since(began) >= 3*time.Second, "%s, then %s: %+v, %v", ending.Report.Run,
					next, started, err)
			})
		}
	}
}
