package workflows_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

func TestABuildRunsEveryUnitOnceAndInOrder(t *testing.T) {
	f := newFake(130, 64)
	f.imports, f.pieces, f.batch, f.enrich = true, 3, true, 2
	completes(t, f, workflows.Build{}, nil)
	order := []struct {
		name  string
		calls int
	}{
		{workflows.TakeLease, 1}, {workflows.PlanBuild, 1}, {workflows.ChunkDocuments, 2}, {workflows.SealChunks, 1},
		{workflows.PayBatches, 1}, {workflows.ExtractChunks, 4}, {workflows.SealShard, 2}, {workflows.SealExtraction, 1},
		{workflows.ReducePartition, 2}, {workflows.ShortenPartition, 2}, {workflows.EmbedPart, 4},
		{workflows.LoadPart, 4}, {workflows.ImportVectors, 1}, {workflows.WritePiece, 3}, {workflows.WriteSegments, 1},
		{workflows.EnrichPart, 2}, {workflows.SealEnrichment, 1}, {workflows.VerifyPart, 4}, {workflows.PublishBuild, 1},
		{workflows.CollectGarbage, 1}, {workflows.EndBuild, 1},
	}
	before := -1
	for _, want := range order {
		assert.Equal(t, want.calls, f.count(want.name), "%s ran", want.name)
		// Shards are sealed one by one while others are extracted.
		first := f.first(want.name)
		assert.True(t, first >= before || want.name == workflows.SealShard, "%s began before call %d of %v", want.name, before, f.calls)
		before = f.last(want.name)
	}
}

func TestBeginStageIsToldEachStageBeforeItsUnits(t *testing.T) {
	f := newFake(64)
	completes(t, f, workflows.Build{}, nil)
	var stages []string
	for _, call := range f.calls {
		if stage, ok := strings.CutPrefix(call, workflows.BeginStage+" "); ok {
			stages = append(stages, stage)
		}
	}
	want := "plan chunk extract reduce shorten embed load segment verify publish collect"
	assert.Equal(t, want, strings.Join(stages, " "), "stages")
}

// How a build ends by what its activities say, how often it calls them, and how its end is written down.
// Promises: 4.
func TestABuildEndsAsItsActivitiesSay(t *testing.T) {
	fails := func(activity string, codes ...string) func(*fake) {
		return func(f *fake) {
			for _, code := range codes {
				f.fail[activity] = append(f.fail[activity], fatal(code))
			}
		}
	}
	planned := func(planned workflows.Planned) func(*fake) { return func(f *fake) { f.planned = planned } }
	comes := func(out workflows.Outcome) func(*fake) { return func(f *fake) { f.outcome = out } }
	for name, c := range map[string]struct {
		set            func(*fake)
		status, reason string
		unchanged      bool
		calls          map[string]int
	}{
		"to what its parent is": {func(f *fake) { f.sameStatus = "completed_with_errors" }, "completed_with_errors", "", true,
			map[string]int{workflows.ChunkDocuments: 2, workflows.ExtractChunks: 0, workflows.PublishBuild: 0}},
		"an unchanged corpus": {planned(workflows.Planned{Unchanged: true, Status: "completed"}), "completed", "", true,
			map[string]int{workflows.ChunkDocuments: 0, workflows.PublishBuild: 0}},
		"a gate that is known at plan time": {planned(workflows.Planned{Held: "mass_deletion", Units: 2, Documents: 20}),
			"held", "mass_deletion", false, map[string]int{workflows.ChunkDocuments: 0}},
		"stores that lost their memory": {planned(workflows.Planned{Unchanged: true, Status: "completed", Repair: 7}),
			"completed", "", true,
			map[string]int{workflows.RepairPart: 7, workflows.SealRepair: 1, workflows.ChunkDocuments: 0}},
		"a held build is not collected": {comes(workflows.Outcome{Status: "held", Reason: "mass_deletion"}),
			"held", "mass_deletion", false, map[string]int{workflows.PublishBuild: 1, workflows.CollectGarbage: 0}},
		"an empty corpus": {fails(workflows.ReducePartition, "corpus_empty"), "failed", "corpus_empty", false,
			map[string]int{workflows.PublishBuild: 0}},
		"damage": {fails(workflows.ReducePartition, "segment_damaged"), "failed", "segment_damaged", false,
			map[string]int{workflows.PublishBuild: 0}},
		"a parent that is damaged again": {func(f *fake) {
			fails(workflows.LoadPart, "parent_damaged")(f)
			fails(workflows.PublishBuild, "parent_damaged")(f)
		}, "failed", "parent_damaged", false, map[string]int{workflows.PlanBuild: 2}},
		"a store of another": {fails(workflows.ReducePartition, "store_owned_by_another"),
			"failed", "store_owned_by_another", false, map[string]int{workflows.PublishBuild: 0}},
		"a failure though others pause": {fails(workflows.EmbedPart, "model_auth", "segment_damaged"),
			"failed", "segment_damaged", false, nil},
	} {
		f := newFake(10)
		c.set(f)
		out, err := run(t, f, workflows.Build{}, nil)
		require.True(t, err == nil && out.Status == c.status && out.Reason == c.reason, "%s: %v %v", name, out, err)
		end := f.lastEnd()
		assert.True(t, len(f.ended) == 1 && end.Status == c.status && end.Unchanged == c.unchanged, "%s: %+v", name, f.ended)
		assert.True(t, c.status != "failed" || end.Ref == "ref-"+c.reason+".json", "%s: %+v", name, end)
		for call, times := range c.calls {
			assert.Equal(t, times, f.count(call), "%s: %s ran", name, call)
		}
	}
}

// Plan and the chunks may settle what a configuration leaves open: all that follows goes by what they stored.
func TestABuildGoesOnUnderTheConfigurationThatWasSettled(t *testing.T) {
	f := newFake(10)
	f.planned.Spec, f.spec = strings.Repeat("a", 64), strings.Repeat("b", 64)
	completes(t, f, workflows.Build{Shape: workflows.DefaultShape()}, nil)
	specs := map[string]string{}
	for _, unit := range f.units {
		specs[unit.Stage] = unit.Spec[:1]
	}
	assert.Equal(t, "a", specs["chunk"])
	for _, stage := range []string{"extract", "reduce", "embed", "segment", "verify"} {
		assert.Equal(t, "b", specs[stage], "%v", specs)
	}
	assert.Equal(t, f.spec, f.lastEnd().Spec)
}

// Anyone who reaches the engine may start workflows with any input: nothing is done for one that is none.
func TestAnInputThatCannotBeBuiltFailsBeforeAnythingIsDone(t *testing.T) {
	for _, test := range []struct {
		says  string
		build workflows.Build
	}{
		{"shape.shard_chunks is -1", workflows.Build{Shape: workflows.Shape{ShardChunks: -1}}},
		{"bring the workers to the version", workflows.Build{Shape: workflows.Shape{Format: workflows.Format + 1}}},
		{"must not be negative", workflows.Build{Budget: &workflows.Budget{Calls: -5}}},
		{"index: want letters", workflows.Build{Index: "../../../.."}},
		{"index: want letters", workflows.Build{Index: "ledger"}},
		{"generation: want letters", workflows.Build{Generation: "../../x"}},
		{"spec: want 64 hex digits", workflows.Build{Spec: "../../../../etc/passwd"}},
		{"spec: want 64 hex digits", workflows.Build{Spec: strings.Repeat("A", 64)}},
	} {
		says, build := test.says, test.build
		f := newFake(10)
		build.Index, build.Generation = cmp.Or(build.Index, "i"), cmp.Or(build.Generation, "g")
		build.Shape.Format = cmp.Or(build.Shape.Format, workflows.Format)
		env := environment(f, nil)
		env.ExecuteWorkflow(workflows.BuildIndexName, build)
		var out workflows.Outcome
		err := env.GetWorkflowResult(&out)
		assert.True(t, err == nil && out.Status == "failed" && out.Reason == "bad_config", "%s: %+v, %v", says, out, err)
		assert.True(t, len(f.ended) == 1 && len(f.calls) <= 1 && strings.Contains(f.lastEnd().Detail, says),
			"%s: calls %v, end %+v", says, f.calls, f.lastEnd())
	}
}

func TestARestoreRunsItsPartsAndRecordsItsEnd(t *testing.T) {
	f := newFake()
	out, err := run(t, f, workflows.Build{Generation: "restore-1"}, nil)
	require.True(t, err == nil && out.Status == "completed" && f.count(workflows.RestorePart) == 3,
		"%v %v %v", out, err, f.calls)
	end := f.lastEnd()
	assert.True(t, end.Status == "completed" && end.Fence == fence, "end %+v", end)
	f = newFake() // it left something out
	f.fail[workflows.SealRestore] = []error{fatal("segment_damaged")}
	_, err = run(t, f, workflows.Build{Generation: "restore-x"}, nil)
	end = f.lastEnd()
	assert.True(t, err == nil && end.Status == "failed" && end.Reason == "segment_damaged" && end.Ref != "", "%+v", end)
}

func TestAnAuditLooksAtItsPartsAndFailsByDrift(t *testing.T) {
	f := newFake()
	out, err := run(t, f, workflows.Build{Generation: "audit-1"}, nil)
	require.True(t, err == nil && out.Status == "completed" && f.count(workflows.AuditPart) == 3 &&
		f.count(workflows.SealAudit) == 1, "%v %v %v", out, err, f.calls)
	asked := f.audited[0]
	assert.True(t, asked.Part == 2 && asked.Of == 7 && asked.Repair && asked.Index == "i" &&
		f.count(workflows.TakeLease) <= 0, "asked for %+v: %v", asked, f.calls)
	f = newFake()
	f.fail[workflows.SealAudit] = []error{fatal("drift")}
	out, err = run(t, f, workflows.Build{Generation: "audit-2"}, nil)
	if end := f.lastEnd(); err != nil || out.Status != "failed" || end.Reason != "drift" || end.Ref == "" {
		t.Errorf("%+v, %v, end %+v", out, err, end)
	}
}

func TestSearchAttributesFollowTheRunWhereTheServerKnowsThem(t *testing.T) {
	for _, known := range []bool{true, false} {
		f, seen := newFake(10), map[string]bool{}
		build := workflows.Build{SearchAttributes: known}
		musttest.Get(run(t, f, build, func(e *testsuite.TestWorkflowEnvironment) {
			e.OnUpsertTypedSearchAttributes(mock.Anything).Maybe().Run(func(args mock.Arguments) {
				attributes := args.Get(0).(temporal.SearchAttributes)
				index, _ := attributes.GetKeyword(workflows.IndexAttribute)
				generation, _ := attributes.GetKeyword(workflows.GenerationAttribute)
				stage, _ := attributes.GetKeyword(workflows.StageAttribute)
				status, _ := attributes.GetKeyword(workflows.StatusAttribute)
				seen[index+"/"+generation+" "+stage+" "+status] = true
			})
		}))(t)
		for _, want := range []string{"i/g extract running", "i/g publish running", "i/g collect completed"} {
			assert.True(t, seen[want] == known, "known %v: %q is %v in %v", known, want, seen[want], seen)
		}
	}
}

func TestRunNamesMapToWorkflowIDs(t *testing.T) {
	for name, want := range map[string]string{
		"docs/g1": "build/docs/g1", "docs/restore-20261120t000000": "restore/docs", "docs/restored": "build/docs/restored",
		"docs/audit-20261120t000000": "audit/docs", "docs/audits": "build/docs/audits",
		workflows.BackfillRun("docs", "old"):   workflows.BackfillID("docs", "old"),
		"docs/backfill-old-20261123t030000z-1": workflows.BuildID("docs", "backfill-old-20261123t030000z-1"),
	} {
		assert.Equal(t, want, workflows.WorkflowID(name), "%s", name)
	}
	assert.True(t, workflows.ForBackfill("docs/backfill-old-20261123t030000z-1") &&
		!workflows.ForBackfill("docs/20261123t030000z"), "which builds are of backfills")
}

func TestAShapeThatCannotWorkIsRefusedWithTheSettingsName(t *testing.T) {
	for says, shape := range map[string]workflows.Shape{
		"shape.batch_chunks is -1":   {BatchChunks: -1},
		"shape.batch_chunks is 6000": {BatchChunks: 6000},
		"shape.shard_chunks is -2":   {ShardChunks: -2},
		"has 5000 batches":           {BatchChunks: 1},
		"shape.format is 2":          {Format: workflows.Format + 1},
		"shape.format is -1":         {Format: -1},
		"start it again":             {}, // of a start without a format
		"shape.outage is -1s":        {Outage: -time.Second},
		"shape.outage is 200h":       {Outage: 200 * time.Hour},
	} {
		if shape != (workflows.Shape{}) && shape.Format == 0 {
			shape.Format = workflows.Format
		}
		err := shape.Validate()
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%+v: %v, want %q", shape, err, says)
	}
}

// A corpus that has outgrown its table of word weights: all of it is made, from the same parent.
func TestABuildThatMakesAPartOfAGenerationBeginsAnewWhereItHasToMakeAll(t *testing.T) {
	f := newFake(130, 64)
	f.fail[workflows.SealChunks] = []error{fatal("outgrown")}
	completes(t, f, workflows.Build{}, nil)
	last := f.units[len(f.units)-1]
	if end := f.lastEnd(); last.Anew != "ref-outgrown.json" || last.Rebuild || end.Anew != last.Anew ||
		f.count(workflows.PlanBuild) != 2 || f.count(workflows.TakeLease) != 1 {
		t.Errorf("%+v, last unit %+v, planned %d times", end, last.Build, f.count(workflows.PlanBuild))
	}
}

func TestABuildThatMeetsADamagedParentBeginsAnewOnce(t *testing.T) {
	for _, activity := range []string{workflows.ChunkDocuments, workflows.LoadPart, workflows.PublishBuild} {
		f := newFake(130, 64)
		f.fail[activity] = []error{fatal("parent_damaged")}
		completes(t, f, workflows.Build{}, nil)
		if f.count(workflows.PlanBuild) != 2 || f.count(workflows.TakeLease) != 1 || f.count(workflows.EndBuild) != 1 {
			t.Errorf("%s: planned %d times, leases %d", activity, f.count(workflows.PlanBuild), f.count(workflows.TakeLease))
		}
		last := f.units[len(f.units)-1]
		assert.True(t, last.Rebuild && last.Anew == "ref-parent_damaged.json" && last.Fence == fence && !f.units[0].Rebuild,
			"%s: %+v, the first %+v", activity, last.Build, f.units[0].Build)
		assert.Equal(t, last.Anew, f.lastEnd().Anew, "%s: it ends in the scratch of the first attempt", activity)
	}
}

func TestWhatPlanDoubtsIsDoubtedByAllThatFollows(t *testing.T) {
	f := newFake(64)
	f.planned = workflows.Planned{Units: 1, Documents: 5, Rebuild: true}
	completes(t, f, workflows.Build{}, nil)
	for _, unit := range f.units {
		assert.True(t, unit.Rebuild && unit.Anew == "", "%+v", unit)
	}
}

func TestAWebhookIsToldOfEveryPauseAndOfTheEnd(t *testing.T) {
	f := newFake(64)
	f.notify = true
	f.fail["ReducePartition 1"] = []error{fatal("model_quota")}
	var begun []workflows.Notice // what the run began and does not wait for
	completes(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnChildWorkflowStartedListener(
			func(info *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
				var notice workflows.Notice
				if info.WorkflowType.Name == workflows.NotifyName && args.Get(&notice) == nil {
					begun = append(begun, notice)
				}
			},
		)
		resumeAt(t, env, time.Hour, workflows.Resume{})
	})
	sent := f.notices()
	require.True(t, len(begun) == 2 && len(sent) != 0 && sent[0].ID == begun[0].ID, "begun %+v, sent %+v", begun, sent)
	pause, end := begun[0], begun[1]
	assert.True(t, pause.Status == "paused" && pause.Reason == "model_quota" && end.Status == "completed",
		"noticed %+v, %+v", pause, end)
	assert.True(t, pause.ID != end.ID && pause.RunID != "" && strings.HasPrefix(pause.ID, pause.RunID) &&
		pause.Index == end.Index, "ids %q, %q of %q", pause.ID, end.ID, pause.RunID)
}

// Promises: 108.
func TestAWebhookThatIsDownHoldsUpNoRun(t *testing.T) {
	f := newFake(64)
	f.notify = true
	var down []error
	for range 10_000 {
		down = append(down, errors.New("the receiver does not answer"))
	}
	f.fail[workflows.SendNotice] = down
	completes(t, f, workflows.Build{}, nil)
	if tries := f.count(workflows.SendNotice); tries > 20 { // a day's are some 150
		t.Errorf("the run went on for %d attempts", tries)
	}
}

// Promises: 108.
func TestANoticeIsTriedAgainForADay(t *testing.T) {
	f := newFake(1)
	f.fail[workflows.SendNotice] = []error{errors.New("down"), errors.New("down"), errors.New("down")}
	env := environment(f, nil)
	env.ExecuteWorkflow(workflows.Notify, workflows.Notice{ID: "run-1"})
	if err := env.GetWorkflowError(); err != nil || f.count(workflows.SendNotice) != 4 {
		t.Errorf("%v after %d attempts", err, f.count(workflows.SendNotice))
	}
}

func nightly(t *testing.T, f *fake, in workflows.Night) (workflows.NightOutcome, error) {
	env := environment(f, nil)
	env.SetStartTime(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
	in.Index, in.Shape, in.Heartbeat = "docs", workflows.DefaultShape(), time.Minute
	env.ExecuteWorkflow(workflows.NightlyName, in)
	return result[workflows.NightOutcome](env)
}

func TestANightBuildsAGenerationThatIsNamedAfterItsTime(t *testing.T) {
	f := newFake(10)
	out, err := nightly(t, f, workflows.Night{})
	want := workflows.NightOutcome{Run: "docs/20261122t030000z", Status: "completed"}
	assert.True(t, err == nil && out == want && f.lastEnd().Generation == "20261122t030000z", "%+v, %v; ended %+v", out,
		err, f.lastEnd())
}

func TestANightBesideABuildIsSkippedAndTellsWhy(t *testing.T) {
	f := newFake(10)
	f.builder = "docs/g7"
	out, err := nightly(t, f, workflows.Night{Skip: true})
	want := workflows.NightOutcome{Status: "skipped", Reason: workflows.ReasonRunning, By: "docs/g7"}
	assert.True(t, err == nil && out == want && f.count(workflows.TakeLease) == 0, "%+v, %v", out, err)
}

// A night whose configuration is gone, and one whose build fails, fail by their code, so that a schedule may pause.
func TestANightThatFailsTellsItsCode(t *testing.T) {
	gone := newFake(10)
	gone.fail[workflows.OpenNight] = []error{fatal("bad_config")}
	broken := newFake(10)
	broken.fail[workflows.TakeLease] = []error{fatal("lease_held")}
	for code, f := range map[string]*fake{"bad_config": gone, "lease_held": broken} {
		_, err := nightly(t, f, workflows.Night{})
		var failed *temporal.ApplicationError
		assert.True(t, errors.As(err, &failed) && failed.Type() == code && !strings.Contains(err.Error(), "broke"),
			"%s: %v", code, err)
	}
}

// silenced registers activities of which one is answered with nothing, as one without the codec's key can.
type silenced struct {
	registrar
	activity string
	asked    int
}

func (s *silenced) register(to registry) { s.registrar.register(silencing{to, s}) }

type silencing struct {
	registry
	of *silenced
}

func (s silencing) RegisterActivityWithOptions(function any, options activity.RegisterOptions) {
	if options.Name == s.of.activity {
		function = func(context.Context, map[string]any) error { s.of.asked++; return nil }
	}
	s.registry.RegisterActivityWithOptions(function, options)
}

// encrypt has an environment exchange what the codec encrypts.
func encrypt(t *testing.T, env *testsuite.TestWorkflowEnvironment) {
	key := musttest.Get(codec.Create(filepath.Join(t.TempDir(), "codec.key"), "none"))(t)
	var options client.Options
	codec.Apply(&options, key, slog.New(slog.DiscardHandler))
	env.SetDataConverter(options.DataConverter)
	env.SetFailureConverter(options.FailureConverter)
}

// Promises: 133.
func TestNoRunCompletesOnAnAnswerThatHoldsNothing(t *testing.T) {
	for _, name := range []string{
		"", workflows.TakeLease, workflows.BeginStage, workflows.SealRepair, workflows.SealShard, workflows.ReducePartition,
		workflows.ImportVectors, workflows.WriteSegments, workflows.SealEnrichment, workflows.PublishBuild,
		workflows.SealRestore, workflows.SealAudit,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(3)
			f.planned.Repair, f.imports, f.enrich = 2, true, 2
			build := workflows.Build{Index: "i", Generation: "g", Shape: workflows.DefaultShape()}
			workflow := workflows.BuildIndexName
			var input any = build
			switch name {
			case workflows.SealRestore:
				build.Generation, workflow = "restore-1", workflows.RestoreName
				input = build
			case workflows.SealAudit:
				build.Generation, workflow = "audit-1", workflows.AuditName
				input = workflows.Audited{Build: build, Part: 2, Of: 7}
			}
			s := &silenced{registrar: f, activity: name}
			env := environment(s, func(env *testsuite.TestWorkflowEnvironment) { encrypt(t, env) })
			env.ExecuteWorkflow(workflow, input)
			out, err := result[workflows.Outcome](env)
			if completed := err == nil && out.Status == "completed"; completed != (name == "") || s.asked == 0 && name != "" {
				t.Errorf("asked %d times: %+v, %v", s.asked, out, err)
			}
		})
	}
}

func TestWorkflowsDecodeEveryAnswer(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.True(t, err == nil && len(files) != 0, "%v %v", files, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		raw := musttest.Get(os.ReadFile(file))(t)
		for n, line := range strings.Split(string(raw), "\n") {
			assert.True(t, !strings.Contains(line, ".Get(") || !strings.Contains(line, ", nil)"),
				"%s:%d: decode the answer, as execute does: %s", file, n+1, line)
		}
	}
}

type filling struct {
	*fake
	units int
	notes []workflows.BackfillNote
	aims  int
}

func newFilling() *filling { return &filling{fake: newFake(10), units: 3} }

func (f *filling) listNotes() (lines []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, note := range f.notes {
		lines = append(lines, strings.Join([]string{note.Status, note.Run, note.Parent, note.Why}, "|"))
	}
	return lines
}

func (f *filling) register(to registry) {
	f.fake.register(to)
	gives(f.fake, to, workflows.OpenBackfill, func(workflows.Build) workflows.Backfilled {
		return workflows.Backfilled{Units: f.units, Documents: 30}
	})
	to.RegisterActivityWithOptions(func(_ context.Context, u workflows.Unit) (workflows.UnitResult, error) {
		if u.Fence != 0 {
			return workflows.UnitResult{}, fmt.Errorf("payments have no lease, and got fence %d", u.Fence)
		}
		return workflows.UnitResult{Done: 1}, f.call(workflows.PayBackfill, u)
	}, activity.RegisterOptions{Name: workflows.PayBackfill})
	gives(f.fake, to, workflows.AimBackfill, func(workflows.Build) workflows.Aimed {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.aims++
		return workflows.Aimed{Spec: strings.Repeat("0", 64), Parent: fmt.Sprintf("g%d", f.aims)}
	})
	gives(f.fake, to, workflows.NoteBackfill, func(note workflows.BackfillNote) workflows.Receipt {
		keep(f.fake, &f.notes, note)
		return workflows.Receipt{}
	})
	gives(f.fake, to, workflows.EndBackfill, func(end workflows.End) workflows.Ended {
		keep(f.fake, &f.ended, end)
		return workflows.Ended{}
	})
}

func (f *filling) run(t *testing.T, with func(*testsuite.TestWorkflowEnvironment)) (workflows.Outcome, error) {
	env := environment(f, with)
	env.ExecuteWorkflow(workflows.BackfillName, workflows.Build{
		Index: "docs", Generation: "backfill-old-1", Spec: strings.Repeat("0", 64), Backfill: "old",
		Heartbeat: 1000 * time.Hour, Shape: workflows.DefaultShape(),
	})
	require.True(t, env.IsWorkflowCompleted(), "the backfill did not end")
	return result[workflows.Outcome](env)
}

func TestABackfillPaysUnitByUnitAndThenPublishes(t *testing.T) {
	f := newFilling()
	out, err := f.run(t, nil)
	assert.True(t, err == nil && out.Status == "completed" && f.count(workflows.PayBackfill) == 3 &&
		f.count(workflows.TakeLease) == 1, "%+v, %v: %v", out, err, f.calls)
	assert.True(t, f.last(workflows.PayBackfill) <= f.first(workflows.TakeLease),
		"it took the lease before everything was paid for: %v", f.calls)
	want := []string{"paying|||", "publishing|docs/backfill-old-1-1|g1|"}
	assert.Equal(t, want, f.listNotes())
}

func TestABackfillOfNothingPublishesNothing(t *testing.T) {
	f := newFilling()
	f.units = 0
	out, err := f.run(t, nil)
	assert.True(t, err == nil && out.Status == "completed" && f.count(workflows.TakeLease) == 0 && f.lastEnd().Unchanged,
		"%+v, %v: %v", out, err, f.calls)
}

// A build whose pointer moved, or that another build of the index was faster than, is followed by another one on what
// is served by then; payments are not repeated.
// Promises: 45.
func TestABackfillFollowsThePointer(t *testing.T) {
	f := newFilling()
	f.fail[workflows.TakeLease] = []error{fatal("lease_held")}
	f.outcome = workflows.Outcome{Status: "held", Reason: "pointer_moved"}
	f.before = func(call string) {
		if call == workflows.AimBackfill {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.aims == 3 {
				f.outcome = workflows.Outcome{Status: "completed"}
			}
		}
	}
	out, err := f.run(t, nil)
	assert.True(t, err == nil && out.Status == "completed" && f.count(workflows.PayBackfill) == 3, "%+v, %v", out, err)
	want := []string{
		"paying|||", "publishing|docs/backfill-old-1-1|g1|", "publishing|||lease_held",
		"publishing|docs/backfill-old-1-2|g2|", "publishing|||pointer_moved", "publishing|docs/backfill-old-1-3|g3|",
	}
	assert.Equal(t, want, f.listNotes())
}

// A gate that holds its build, and a failure of it, are the backfill's.
func TestABackfillEndsAsItsBuildDoes(t *testing.T) {
	held := newFilling()
	held.outcome = workflows.Outcome{Status: "held", Reason: "recall"}
	out := musttest.Get(held.run(t, nil))(t)
	assert.True(t, out.Status == "held" && out.Reason == "recall" && held.count(workflows.TakeLease) == 1, "%+v", out)
	failed := newFilling()
	failed.fail[workflows.PlanBuild] = []error{fatal("plan_moved")}
	out, err := failed.run(t, nil)
	assert.True(t, err == nil && out.Status == "failed" && out.Reason == "plan_moved", "%+v, %v", out, err)
}

// A pause while it is published ends its build, which holds the lease, and nothing of it is asked any more; resumed,
// another build follows, and payments are not repeated.
// Promises: 45.
func TestAPausedBackfillHoldsNoLease(t *testing.T) {
	f := newFilling()
	var pause *answer
	out, err := f.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f.fake, env, workflows.VerifyPart, time.Hour)
		env.RegisterDelayedCallback(func() { pause = send(env, workflows.UpdatePause) }, time.Minute)
		env.RegisterDelayedCallback(func() {
			end := f.lastEnd()
			assert.True(t, end.Status == "paused" && end.Generation == "backfill-old-1", "%+v", end)
			assert.True(t, f.count(workflows.AimBackfill) == 1 && f.count(workflows.EndBuild) == 1, "%v", f.calls)
		}, 10*time.Hour)
		resumeAt(t, env, 11*time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && out.Status == "completed" && pause.completed && f.count(workflows.PayBackfill) == 3,
		"%v %v %v %v", out, err, pause, f.calls)
	var steered []string
	for _, s := range f.steered {
		steered = append(steered, s.Generation+" "+s.Command)
	}
	want := []string{"backfill-old-1 pause", "backfill-old-1-1 cancel", "backfill-old-1 resume"}
	assert.True(t, slices.Equal(steered, want), "written down: %q, want %q", steered, want)
	notes := []string{
		"paying|||", "publishing|docs/backfill-old-1-1|g1|", "publishing|||paused", "publishing|docs/backfill-old-1-2|g2|",
	}
	assert.Equal(t, notes, f.listNotes())
}

// A build that needs the lease ends the one that has it for a backfill; another one follows.
// Promises: 45.
func TestABuildOfABackfillYields(t *testing.T) {
	f := newFilling()
	out, err := f.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		slowly(f.fake, env, workflows.VerifyPart, time.Hour)
		env.RegisterDelayedCallback(func() {
			env.CancelWorkflowByID(workflows.BuildID("docs", "backfill-old-1-1"), "")
		}, time.Minute)
	})
	require.True(t, err == nil && out.Status == "completed" && f.count(workflows.PayBackfill) == 3, "%v %v", out, err)
	want := []string{
		"paying|||", "publishing|docs/backfill-old-1-1|g1|", "publishing|||yielded", "publishing|docs/backfill-old-1-2|g2|",
	}
	assert.Equal(t, want, f.listNotes())
}

// Cancelled in the middle of its payments, and while it is published, a backfill ends cancelled, and its build with it.
func TestACancelledBackfillPublishesNothing(t *testing.T) {
	for _, slow := range []string{workflows.PayBackfill, workflows.VerifyPart} {
		f := newFilling()
		_, err := f.run(t, func(env *testsuite.TestWorkflowEnvironment) {
			slowly(f.fake, env, slow, time.Hour)
			env.RegisterDelayedCallback(func() { send(env, workflows.UpdateCancel) }, time.Minute)
		})
		assert.True(t, temporal.IsCanceledError(err) && f.count(workflows.PublishBuild) == 0 &&
			f.lastEnd().Status == "cancelled" && f.lastEnd().Generation == "backfill-old-1", "%s: %v, %+v", slow, err,
			f.lastEnd())
	}
}
