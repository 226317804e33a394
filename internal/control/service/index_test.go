package service_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

func indexRequest(b *bench, index, generation string) control.IndexRequest {
	return control.IndexRequest{Spec: b.spec(index), Generation: generation}
}

func TestABuildIsStartedOnce(t *testing.T) {
	b := newBench(t)
	request := indexRequest(b, "docs", "")
	first := musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
	assert.True(t, !first.Attached && regexp.MustCompile(`^docs/\d{8}t\d{6}z$`).MatchString(first.Run), "%+v", first)
	b.temporal.Hidden["build/"+first.Run] = true // visibility lags behind
	again := musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
	assert.True(t, again.Attached && again.Run == first.Run && len(b.temporal.Started) == 1, "again %+v, %d starts", again,
		len(b.temporal.Started))
	options, input := b.temporal.Started[0], b.temporal.Inputs[0].(workflows.Build)
	assert.True(t, options.ID == "build/"+first.Run && options.TaskQueue == "unweaver" && input.Heartbeat != 0,
		"%+v with %+v", options, input)
}

// A client whose answer was lost asks again: it gets its run, whatever that came to.
func TestARequestWithANameIsAnsweredByTheRunItBegan(t *testing.T) {
	b := newBench(t)
	request := indexRequest(b, "docs", "")
	request.Once = "deploy-1"
	first := musttest.Get(b.BuildIndex(t.Context(), request))(t)
	for _, status := range []string{"", core.StatusRunning, core.StatusFailed} {
		if status != "" {
			state := core.RunState{}
			state.Report.Run, state.Report.Status = first.Run, status
			b.setState(first.Run, state)
		}
		if status == core.StatusFailed {
			b.temporal.Executions["build/"+first.Run] = completed
		}
		again := musttest.Get(b.BuildIndex(t.Context(), request))(t)
		assert.True(t, !first.Attached && again.Attached && again.Run == first.Run && len(b.temporal.Started) == 1,
			"%q: %+v, %d starts", status, again, len(b.temporal.Started))
	}
	other := request
	other.Rebuild = true
	musttest.Refuse(b.BuildIndex(t.Context(), other))(t, fault.InvalidParam, first.Run, "other options")
	refused := core.RunState{}
	refused.Report.Status, refused.Report.Reason = core.StatusFailed, string(fault.LeaseHeld)
	b.setState(first.Run, refused)
	again := musttest.Get(b.BuildIndex(t.Context(), request))(t)
	assert.True(t, !again.Attached && len(b.temporal.Started) == 2, "a run that did nothing counts: %+v", again)
}

// Who asks while another dials waits for the same answer, no longer than it likes.
func TestALineIsDialledOnceForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		line := &service.Line{Dial: func(ctx context.Context) (control.Control, error) {
			dials++
			<-ctx.Done()
			return nil, fault.EngineDown.At("connect", "")
		}}
		begun := time.Now()
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() { musttest.Refuse(line.Connect(t.Context()))(t, fault.EngineDown) })
		}
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := line.Connect(hasty)
		assert.True(t, err != nil && time.Since(begun) == time.Second, "%v after %s", err, time.Since(begun))
		wg.Wait()
		assert.True(t, dials == 1 && time.Since(begun) == 5*time.Second, "%d dials in %s", dials, time.Since(begun))
		musttest.Refuse(line.Connect(t.Context()))(t, fault.EngineDown)
		assert.Equal(t, 2, dials)
	})
}

// slowStates writes a state after a second, in which others act.
type slowStates struct{ coordination.Store }

func (s slowStates) SetState(ctx context.Context, run string, value []byte) error {
	time.Sleep(time.Second)
	return s.Store.SetState(ctx, run, value)
}

func TestBuildsThatBeginAtTheSameTimeAreOne(t *testing.T) {
	b := newBench(t)
	b.Stores.Coordination = slowStates{b.Stores.Coordination}
	var runs [4]control.Run
	synctest.Test(t, func(t *testing.T) {
		for i := range runs {
			go func() {
				request := indexRequest(b, "docs", "")
				request.Once = fmt.Sprint("deploy-", i)
				runs[i] = musttest.Get(b.BuildIndex(t.Context(), request))(t)
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	for _, run := range runs {
		assert.Equal(t, runs[0].Run, run.Run)
	}
	assert.Len(t, b.temporal.Started, 1)
	named := indexRequest(b, "docs", "g7")
	musttest.Refuse(b.BuildIndex(t.Context(), named))(t, fault.LeaseHeld, "run "+runs[0].Run+" builds it")
}

// Tasks of a run are distinguished by its index, so that a small night of one need not wait for all that another has.
func TestARunHasThePriorityOfItsIndex(t *testing.T) {
	b := newBench(t)
	request := indexRequest(b, "docs", "")
	request.Priority = control.Priority{Level: 2, Weight: 4}
	musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
	musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "other", "")))(b.t)
	for i, want := range []temporal.Priority{
		{PriorityKey: 2, FairnessKey: "docs", FairnessWeight: 4}, {FairnessKey: "other"},
	} {
		got := b.temporal.Started[i].Priority
		assert.True(t, got == want, "run %d: %+v, want %+v", i, got, want)
	}
}

func TestABuildWithAnotherConfigurationIsNotJoined(t *testing.T) {
	b := newBench(t)
	request := indexRequest(b, "docs", "")
	first := musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
	b.setState(first.Run, core.RunState{Spec: musttest.Get(b.art.PutSpec(t.Context(), request.Spec))(b.t)})

	priced := request
	priced.Spec.Chat.Price.Prompt = 3 // rebuilds nothing
	joined, err := b.BuildIndex(t.Context(), priced)
	assert.True(t, err == nil && joined.Run == first.Run, "another price: %+v, %v", joined, err)
	other := request
	other.Spec.Shortening.Threshold = 99
	_, err = b.BuildIndex(t.Context(), other)
	musttest.Fail(t, err, fault.LeaseHeld, first.Run, "another configuration", "unweaver cancel "+first.Run)
	for apply, says := range map[string]string{"new": "with --extraction-to new", "all": "with --extraction-to all"} {
		other = request // and other passages for the same types
		other.Spec = request.Spec.WithApply(apply)
		_, err = b.BuildIndex(t.Context(), other)
		musttest.Fail(t, err, fault.LeaseHeld, first.Run, "without --extraction-to", says, "unweaver cancel "+first.Run)
	}
}

// A run that stands still goes on with the settings that it began with: a request for others is refused.
// Promises: 69.
func TestABuildThatStandsStillIsJoinedWithItsOwnSettingsAlone(t *testing.T) {
	for _, status := range []string{core.StatusPaused, core.StatusWaiting} {
		b := newBench(t)
		request := indexRequest(b, "docs", "")
		first := musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
		state := core.RunState{Spec: musttest.Get(b.art.PutSpec(t.Context(), request.Spec))(b.t)}
		state.Report.Run, state.Report.Status, state.Report.Reason = first.Run, status, string(fault.ModelAuth)
		b.setState(first.Run, state)

		if same, err := b.BuildIndex(t.Context(), request); err != nil || !same.Attached || same.Run != first.Run {
			t.Errorf("%s, the same settings: %+v, %v", status, same, err)
		}
		other := request
		other.Spec.Chat.Price.Prompt = 3                         // rebuilds nothing
		other.Spec.Chunking.MaxTokens = 77                       // rebuilds everything
		other.Spec.Chat.Timeout = core.Duration(7 * time.Minute) // was not set
		_, err := b.BuildIndex(t.Context(), other)
		musttest.Fail(t, err, fault.LeaseHeld, first.Run, status+" (model_auth)", "unweaver resume "+first.Run,
			"unweaver cancel "+first.Run, "models.chat.price.prompt: 3, was 0", "models.chat.timeout: 7m0s, was not set",
			"indexes.docs.chunking.max_tokens: 77, was ")
		many := other
		many.Spec.Keep, many.Spec.Parity, many.Spec.Limits.Concurrency = 99, true, 99
		musttest.Refuse(b.BuildIndex(t.Context(), many))(t, fault.LeaseHeld, "and 1 more")
	}
}

// Who asks for a build means the corpus as it is by then. A run that goes on says since when it does, one of which
// nothing but its end is left is not joined, and one that goes on ending is.
func TestABuildThatIsJoinedSaysSinceWhenAndOneThatEndsIsNotJoined(t *testing.T) {
	for name, c := range map[string]struct {
		stage, status string
		begun, joined bool
		ends          time.Duration
	}{
		"it has yet to begin":         {joined: true},
		"it works":                    {stage: core.StageExtract, status: core.StatusRunning, begun: true, joined: true},
		"it pauses":                   {stage: core.StageExtract, status: core.StatusPaused, begun: true, joined: true},
		"it collects":                 {stage: core.StageCollect, status: core.StatusRunning, begun: true, ends: 3 * time.Second},
		"it has its end written down": {status: core.StatusCompleted, begun: true, ends: 3 * time.Second},
		"it collects for hours": {
			stage: core.StageCollect, status: core.StatusRunning, begun: true, joined: true, ends: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, b *bench) {
				request := indexRequest(b, "docs", "")
				first := musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
				digest := musttest.Get(b.art.PutSpec(t.Context(), request.Spec))(b.t)
				state, since := core.RunState{Spec: digest, Stage: c.stage}, time.Now().UTC()
				state.Report.Run, state.Report.Status = first.Run, c.status
				if c.begun {
					state.Report.Started = since
					b.setState(first.Run, state)
				}
				if c.ends > 0 {
					end := time.AfterFunc(c.ends, func() {
						b.temporal.Mu.Lock()
						defer b.temporal.Mu.Unlock()
						b.temporal.Executions["build/"+first.Run] = completed
					})
					defer end.Stop()
				}
				second := musttest.Get(b.BuildIndex(t.Context(), request))(t)
				require.True(t, second.Attached == c.joined && (second.Run == first.Run) == c.joined, "%+v", second)
				known := second.Begun != nil
				assert.True(t, known == (c.begun && c.joined) && (!known || second.Begun.Equal(since)), "begun %v", second.Begun)
			})
		})
	}
}

// A run has ended for one who reads its report a moment before it has for the engine.
func TestAnAuditBeginsOnceOneThatWroteItsReportHasEnded(t *testing.T) {
	inTime(t, func(t *testing.T, b *bench) {
		publish(b, "g1")
		first := musttest.Get(b.AuditIndex(t.Context(), control.AuditRequest{Index: "docs"}))(b.t)
		b.setState(first.Run, core.RunState{Report: core.Report{Run: first.Run, Status: core.StatusCompleted}})
		end := time.AfterFunc(3*time.Second, func() {
			b.temporal.Mu.Lock()
			defer b.temporal.Mu.Unlock()
			b.temporal.Executions["audit/docs"] = completed
		})
		defer end.Stop()
		second, err := b.AuditIndex(t.Context(), control.AuditRequest{Index: "docs"})
		assert.True(t, err == nil && second.Run != first.Run && len(b.temporal.Started) == 2, "%+v, %v: %d started", second,
			err, len(b.temporal.Started))
	})
}

func TestARebuildIsStartedAsOneAndJoinsNoOther(t *testing.T) {
	b := newBench(t)
	request := indexRequest(b, "docs", "")
	request.Rebuild = true
	first := musttest.Get(b.BuildIndex(t.Context(), request))(b.t)
	input := b.temporal.Inputs[0].(workflows.Build)
	assert.True(t, input.Rebuild, "%+v", input)
	musttest.Refuse(b.BuildIndex(t.Context(), request))(t, fault.LeaseHeld, first.Run, "unweaver cancel "+first.Run)
}

// An installation runs any number of builds, of which one is ours.
func TestMoreRunsThanOnePageOfVisibility(t *testing.T) {
	for name, noPrefix := range map[string]bool{"visibility knows prefixes": false, "it does not": true} {
		onBench(t, name, func(t *testing.T, b *bench) {
			b.temporal.NoPrefix = noPrefix
			for i := range 250 {
				b.temporal.Executions[fmt.Sprintf("build/a%03d/g", i)] = running
				b.temporal.Executions[fmt.Sprintf("build/docs/g1/extract/%03d", i)] = running // its own children
			}
			b.temporal.Executions["build/docs-old/g9"] = running
			b.temporal.Executions["build/docs/g0"] = completed
			b.temporal.Executions["build/docs/g1"] = running
			run, err := b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
			assert.True(t, err == nil && run.Attached && run.Run == "docs/g1", "got %+v, %v; want to join docs/g1", run, err)
			assert.Contains(t, b.temporal.Queries[0], "WorkflowId STARTS_WITH 'build/docs/'", "asked for")
		})
	}
}

func TestTheLeaseShowsABuildThatVisibilityDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		lease    string
		attached bool
	}{
		"its holder runs":       {`{"workflow":"build/docs/g1","run":"r","fence":1}`, true},
		"its holder is gone":    {`{"workflow":"build/docs/g0","run":"r","fence":1}`, false},
		"its holder is unknown": {`{"workflow":"build/docs/gone","run":"r","fence":1}`, false},
		"never taken":           {``, false},
	} {
		onBench(t, name, func(t *testing.T, b *bench) {
			for id, status := range map[string]bool{
				"build/docs/g1": true, "build/docs/g0": false, "restore/docs": true, "build/other/g1": true,
			} {
				b.temporal.Executions[id], b.temporal.Hidden[id] = completed, true
				if status {
					b.temporal.Executions[id] = running
				}
			}
			if c.lease != "" {
				b.write(b.art.LeaseKey(), c.lease)
			}
			run := musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "docs", "")))(t)
			assert.True(t, run.Attached == c.attached && (!c.attached || run.Run == "docs/g1"), "got %+v", run)
		})
	}
}

func TestALeaseThatCannotBeRead(t *testing.T) {
	for name, lease := range map[string]string{
		"rubbish": "{not json", "empty": "", "of another index": `{"workflow":"build/other/g1","run":"r","fence":1}`,
		"of a restore": `{"workflow":"restore/docs","run":"r","fence":1}`,
	} {
		t.Run(name, func(t *testing.T) { unreadableLease(t, lease) })
	}
}

func unreadableLease(t *testing.T, lease string) {
	b := newBench(t)
	b.write(b.art.LeaseKey(), lease)
	b.writeReport("g1", core.StatusCompleted)
	status, err := b.ReadStatus(t.Context(), "docs")
	assert.True(t, err == nil && status.Status == core.StatusCompleted && len(status.Problems) == 1 &&
		strings.Contains(status.Problems[0].Object, "lease.json"), "status %+v, %v", status, err)
	// The build that is started decides by the engine who has the lease.
	_, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", ""))
	assert.True(t, err == nil && len(b.temporal.Started) == 1, "%d builds were started, %v", len(b.temporal.Started), err)
}

// The newest start of an index is remembered under a key that no run can have.
func TestAnIndexNamedLatest(t *testing.T) {
	b := newBench(t)
	first := musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "latest", "docs")))(b.t)
	b.setState(first.Run, core.RunState{Stage: "extract", Total: 7})
	musttest.Get(b.BuildIndex(t.Context(), indexRequest(b, "docs", "g1")))(b.t)
	status, err := b.ReadStatus(t.Context(), first.Run)
	assert.True(t, err == nil && status.Stage == "extract" && len(status.Problems) == 0,
		"the state of %s was overwritten: %+v, %v", first.Run, status, err)
}

func TestNamesThatCannotBeBuilt(t *testing.T) {
	b := newBench(t)
	nowhere, without := indexRequest(b, "docs", "g1"), indexRequest(b, "docs", "g1")
	nowhere.Spec.Corpus, without.Spec.Corpus = "/nowhere/at/all", ""
	for name, c := range map[string]struct {
		request control.IndexRequest
		code    fault.Code
		says    string
	}{
		"a generation like restores": {indexRequest(b, "docs", "restore-x"), fault.Usage, "reserved for restores"},
		"no corpus":                  {without, fault.CorpusMissing, "no corpus is given"},
		"a corpus that is not there": {nowhere, fault.CorpusMissing, "/nowhere/at/all"},
	} {
		t.Run(name, func(t *testing.T) { musttest.Refuse(b.BuildIndex(t.Context(), c.request))(t, c.code, c.says) })
	}
	assert.True(t, len(b.temporal.Started) == 0, "%d builds were started", len(b.temporal.Started))
}

func publish(b *bench, generation string) {
	sha := musttest.Get(b.art.PutManifest(b.t.Context(),
		&core.Manifest{Format: core.ManifestFormat, Index: "docs", Generation: generation}))(b.t)
	ref := core.GenerationRef{Manifest: sha, Seq: 1, State: "published"}
	musttest.Get(blob.WriteJSON(b.t.Context(), b.art.Store, b.art.GenerationKey(generation, "manifest.json"),
		ref, blob.Cond{}))(b.t)
}

func TestARestoreIsStartedOnceSeenAndCancelled(t *testing.T) {
	b := newBench(t)
	musttest.Refuse(b.RestoreIndex(t.Context(), "docs"))(t, fault.UnknownIndex, "docs", "unweaver index")
	publish(b, "g1")
	run, err := b.RestoreIndex(t.Context(), "docs")
	require.True(t, err == nil && strings.HasPrefix(run.Run, "docs/restore-") && run.NoCorpus == "" &&
		b.temporal.Started[0].ID == "restore/docs", "%+v, %v", run, err)
	_, err = b.RestoreIndex(t.Context(), "docs")
	musttest.Fail(t, err, fault.LeaseHeld, "is already running", "unweaver status "+run.Run, "unweaver cancel "+run.Run)
	status := musttest.Get(b.ReadStatus(t.Context(), "docs"))(t)
	assert.True(t, status.Run == run.Run && status.Status == core.StatusRunning, "status of the index: %+v", status)
	b.must(b.CancelRun(t.Context(), "docs"))
	if last := b.temporal.Updates[0]; last.WorkflowID != "restore/docs" || last.UpdateName != "cancel" {
		t.Errorf("%s of %s", last.UpdateName, last.WorkflowID)
	}
	generations := musttest.Get(b.ListGenerations(t.Context(), "docs"))(t)
	assert.True(t, len(generations) == 1 && generations[0].Generation == "g1", "generations %+v", generations)
}

func TestAnAuditIsStartedOnceWithItsPart(t *testing.T) {
	b := newBench(t)
	musttest.Refuse(b.AuditIndex(t.Context(), control.AuditRequest{Index: "docs"}))(t, fault.UnknownIndex, "no generation")
	publish(b, "g1")
	run, err := b.AuditIndex(t.Context(), control.AuditRequest{Index: "docs", Sample: core.Sample{Part: 2, Of: 7}, Repair: true})
	require.True(t, err == nil && strings.HasPrefix(run.Run, "docs/audit-") && b.temporal.Started[0].ID == "audit/docs",
		"%+v, %v: %+v", run, err, b.temporal.Started)
	_, err = b.AuditIndex(t.Context(), control.AuditRequest{Index: "docs"})
	musttest.Fail(t, err, fault.LeaseHeld, "another audit of it is already running", run.Run)
	_, err = b.AuditIndex(t.Context(), control.AuditRequest{Index: "docs", Sample: core.Sample{Part: 8, Of: 7}})
	musttest.Fail(t, err, fault.InvalidParam, "8/7")
	musttest.Refuse(b.BuildIndex(t.Context(), indexRequest(b, "docs", "audit-x")))(t, fault.Usage, "reserved for audits")
	musttest.Fail(t, b.MarkLost(t.Context(), run.Run), fault.Usage, "audit")
}

// A restore and a build write a damaged current.json again: they must start, and not fail on it.
func TestARestoreAndABuildAreStartedWhereThePointerIsDamaged(t *testing.T) {
	for situation, content := range map[string]string{
		"empty": "", "cut": `{"generation":"g1","man`, "names no generation": "{}", "no JSON": "\x00\x00\x00\x00",
	} {
		b := newBench(t)
		publish(b, "g1")
		b.write(b.art.CurrentKey(), content)
		_, err := b.ListGenerations(t.Context(), "docs")
		musttest.Fail(t, err, fault.SegmentDamage, "current.json", "unweaver restore docs")
		run := musttest.Get(b.RestoreIndex(t.Context(), "docs"))(t)
		assert.True(t, len(b.temporal.Started) == 1 && b.temporal.Started[0].ID == "restore/docs", "%s: %+v", situation, run)
		run, err = b.BuildIndex(t.Context(), indexRequest(b, "docs", "g2"))
		assert.True(t, err == nil && len(b.temporal.Started) == 2, "%s: a build: %+v, %v", situation, run, err)
	}
}

// An evaluation replays what lies beside its dataset, which no configuration names.
func TestOnlyTheOwnerReplaysAnotherRecording(t *testing.T) {
	b := newBench(t)
	spec := b.spec("docs")
	spec.Chat = core.ChatModel{Provider: "recorded", File: filepath.Join(t.TempDir(), "extractions.jsonl")}
	stranger := control.ForAnother(t.Context())
	musttest.Refuse(b.BuildIndex(stranger, control.IndexRequest{Spec: spec}))(t, fault.EndpointRefused)
	musttest.Get(b.BuildIndex(t.Context(), control.IndexRequest{Spec: spec}))(b.t)
}

func TestOnlyTheOwnerOpensAnotherFolder(t *testing.T) {
	b := newBench(t)
	spec := b.spec("docs")
	stranger := control.ForAnother(t.Context())
	musttest.Refuse(b.BuildIndex(stranger, control.IndexRequest{Spec: spec}))(t, fault.CorpusRefused)
	checks := musttest.Get(b.RunDoctor(stranger, spec))(b.t)
	for _, check := range checks {
		assert.False(t, check.Name == "corpus" && check.OK, "%+v", check)
	}
	musttest.Get(b.BuildIndex(t.Context(), control.IndexRequest{Spec: spec}))(b.t)
	musttest.Get(b.BuildIndex(stranger, control.IndexRequest{Spec: spec}))(b.t) // granted by then
}

// A folder that a key gave a branch is no corpus because the owner builds, estimates or checks the branch: it would be
// read, and written to, by that key.
func TestAFolderThatTheStoreNamesIsNotGranted(t *testing.T) {
	b := newBench(t)
	publish(b, "g1")
	spec := b.spec("docs")
	spec.Overlay = map[string]string{"corpus": spec.Corpus + "/"}
	_, err := b.BuildIndex(t.Context(), control.IndexRequest{Spec: spec})
	musttest.Fail(t, err, fault.BadConfig, "set to corpus by a branch")
	_, err = b.ApplySchedule(t.Context(), control.ScheduleRequest{Spec: spec})
	assert.Error(t, err)
	musttest.Get(b.RunDoctor(t.Context(), spec))(t)
	_, _ = b.EstimateBuild(t.Context(), control.IndexRequest{Spec: spec})
	musttest.Refuse(b.Stores.OpenCorpus(t.Context(), spec.Corpus))(t, fault.CorpusRefused)
	stranger := control.ForAnother(t.Context())
	for _, folder := range []string{spec.Corpus, "private"} {
		request := control.BranchRequest{Index: "docs", Name: "exp", Set: map[string]string{"corpus": folder}}
		_, err := b.ChangeBranch(stranger, request)
		assert.True(t, fault.Is(err, fault.CorpusRefused) || fault.Is(err, fault.Usage), "%s: %v", folder, err)
	}
	own := control.BranchRequest{Index: "docs", Name: "exp", Set: map[string]string{"corpus": spec.Corpus}}
	_, _ = b.ChangeBranch(t.Context(), own) // the owner's word is enough
	musttest.Get(b.Stores.OpenCorpus(t.Context(), spec.Corpus))(t)
}

// What is wrong with a file would say what it holds.
func TestOnlyTheOwnerNamesFilesInABranch(t *testing.T) {
	b := newBench(t)
	for _, key := range []string{
		"aliases", "gate.probes", "extraction.examples", "follow_links", "models.extraction.file", "models.chat.file",
	} {
		request := control.BranchRequest{Index: "docs", Name: "exp", Set: map[string]string{key: "/etc/hostname"}}
		musttest.Refuse(b.ChangeBranch(control.ForAnother(t.Context()), request))(t, fault.Forbidden)
		_, err := b.ChangeBranch(t.Context(), request)
		assert.False(t, fault.Is(err, fault.Forbidden), "%s: %v", key, err)
	}
}

// A purge that could not end is refused before anything is recorded, whichever side of a branch it names.
// Promises: 46.
func TestAPurgeBesideABranchIsRefused(t *testing.T) {
	b := newBench(t)
	b.publish()
	branch := artifact.Index{Store: b.Stores.Artifacts, Name: "exp"}
	b.must(branch.PutBase(t.Context(), "docs"))
	b.write(b.art.BranchKey("exp"), `{"name":"exp","base":"docs","generation":"g1","state":"open"}`)
	request := control.PurgeRequest{Index: "docs", Documents: []string{"a.md"}, Confirmed: true}
	musttest.Refuse(b.PurgeDocuments(t.Context(), request))(t, fault.Usage, "its branch exp shares its segments")
	assert.Empty(t, musttest.Get(b.ListOperations(t.Context(), "docs", 0))(t))
}

// A start is over once the engine shows the workers that a build needs, or with the patience of who starts.
func TestAStartWaitsUntilWorkersPoll(t *testing.T) {
	b := newBench(t)
	synctest.Test(t, func(t *testing.T) {
		for computers, want := range []time.Duration{10 * time.Second, 0} {
			b.temporal.Computers = computers
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			begun := time.Now()
			b.AwaitWorkers(ctx)
			cancel()
			assert.Equal(t, want, time.Since(begun), "%d computing workers", computers)
		}
	})
}

// An estimate of what this process would refuse is given all the same, and says so.
// What no configuration would take is refused before anything is stored, or paid for, with it.
func TestWhatAnIndexMayNotAddToThePromptIsRefused(t *testing.T) {
	b := newBench(t)
	request := control.IndexRequest{Spec: b.spec("docs")}
	request.Spec.Extraction = &core.Extraction{Share: 1, Guidance: strings.Repeat("x", 1<<20)}
	_, building := b.BuildIndex(t.Context(), request)
	_, estimating := b.EstimateBuild(t.Context(), request)
	for _, err := range []error{building, estimating} {
		musttest.Fail(t, err, fault.BadConfig, "indexes.docs.extraction.guidance", "want at most 4000")
	}
	request.Spec = b.spec("docs")
	request.Spec.Retrieval.TopChunks = -1
	musttest.Refuse(b.BuildIndex(t.Context(), request))(t, fault.BadConfig, "top_chunks is -1")
	request.Spec = b.spec("docs")
	request.Spec.Chat.Price.Prompt = -1 // it would give readers money
	musttest.Refuse(b.BuildIndex(t.Context(), request))(t, fault.BadConfig, "price of a model is -1")
}

func TestAnEstimateSaysThatTheModelServerWouldBeRefused(t *testing.T) {
	b := newBench(t)
	spec := b.spec("docs")
	spec.Chat = core.ChatModel{Provider: "openai", Model: "m", BaseURL: "http://elsewhere/v1", APIKeyEnv: "KEY"}
	report := core.Report{Problems: []core.Problem{{Code: "x"}}, ProblemsTotal: 1}
	service.Unallowed(b.Service, spec, &report)
	assert.True(t, report.ProblemsTotal == 2 && len(report.Problems) == 2 &&
		report.Problems[1].Code == string(fault.EndpointRefused), "%+v", report)
	spec.Chat.BaseURL, spec.Chat.APIKeyEnv = "http://127.0.0.1:1/v1", "OPS_TEST_KEY"
	service.Unallowed(b.Service, spec, &report)
	assert.Equal(t, int64(2), report.ProblemsTotal, "allowed: %+v", report)
}
