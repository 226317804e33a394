package workflows_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

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
		{workflows.TakeLease, 1},
		{workflows.PlanBuild, 1},
		{workflows.ChunkDocuments, 2},
		{workflows.SealChunks, 1},
		{workflows.PayBatches, 1},
		{workflows.ExtractChunks, 4},
		{workflows.SealShard, 2},
		{workflows.SealExtraction, 1},
		{workflows.ReducePartition, 2},
		{workflows.ShortenPartition, 2},
		{workflows.EmbedPart, 4},
		{workflows.LoadPart, 4},
		{workflows.ImportVectors, 1},
		{workflows.WritePiece, 3},
		{workflows.WriteSegments, 1},
		{workflows.EnrichPart, 2},
		{workflows.SealEnrichment, 1},
		{workflows.VerifyPart, 4},
		{workflows.PublishBuild, 1},
		{workflows.CollectGarbage, 1},
		{workflows.EndBuild, 1},
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

func TestABuildThatComesToWhatItsParentIsEndsAfterChunk(t *testing.T) {
	f := newFake(10)
	f.sameStatus = "completed_with_errors"
	out, err := run(t, f, workflows.Build{Shape: workflows.DefaultShape()}, nil)
	require.True(t, err == nil && out.Status == f.sameStatus, "%v %v", out, err)
	assert.True(t, f.count(workflows.ChunkDocuments) != 0 &&
		f.count(workflows.ExtractChunks)+f.count(workflows.PublishBuild) == 0, "%v", f.calls)
	end := f.lastEnd()
	assert.True(t, end.Unchanged && end.Status == f.sameStatus, "%+v", end)
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

func TestAnUnchangedCorpusDoesNothingAfterPlan(t *testing.T) {
	f := newFake()
	f.planned = workflows.Planned{Unchanged: true, Status: "completed"}
	completes(t, f, workflows.Build{}, nil)
	assert.True(t, f.count(workflows.ChunkDocuments)+f.count(workflows.PublishBuild) == 0 && f.lastEnd().Unchanged,
		"calls %v, end %+v", f.calls, f.ended)
}

func TestAGateThatIsKnownAtPlanTimeHoldsBeforeAnythingIsBuilt(t *testing.T) {
	f := newFake(130)
	f.planned = workflows.Planned{Held: "mass_deletion", Units: 2, Documents: 20}
	out, err := run(t, f, workflows.Build{}, nil)
	require.True(t, err == nil && out.Status == "held" && out.Reason == "mass_deletion", "%v %v", out, err)
	assert.True(t, f.count(workflows.ChunkDocuments) == 0 && f.count(workflows.EndBuild) == 1, "%d units were chunked",
		f.count(workflows.ChunkDocuments))
}

func TestStoresThatLostTheirMemoryAreRepairedAlsoWhenNothingChanged(t *testing.T) {
	f := newFake(130)
	f.planned = workflows.Planned{Unchanged: true, Status: "completed", Repair: 7}
	completes(t, f, workflows.Build{}, nil)
	if parts := f.count(workflows.RepairPart); parts != 7 || f.count(workflows.SealRepair) != 1 {
		t.Errorf("%d of 7 parts were verified, sealed %d times", parts, f.count(workflows.SealRepair))
	}
	assert.Zero(t, f.count(workflows.ChunkDocuments), "an unchanged corpus was built")
}

func TestAHeldBuildIsNotCollected(t *testing.T) {
	f := newFake(10)
	f.outcome = workflows.Outcome{Status: "held", Reason: "mass_deletion"}
	out, err := run(t, f, workflows.Build{}, nil)
	require.True(t, err == nil && out == f.outcome && f.count(workflows.CollectGarbage) == 0,
		"%v %v %v", out, err, f.calls)
}

func TestAnErrorThatNobodyCanMendEndsTheBuildWithItsCode(t *testing.T) {
	for _, code := range []string{"corpus_empty", "segment_damaged", "store_owned_by_another"} {
		f := newFake(10)
		f.fail[workflows.ReducePartition] = []error{fatal(code)}
		out, err := run(t, f, workflows.Build{}, nil)
		require.True(t, err == nil && out.Status == "failed" && out.Reason == code, "%v %v", out, err)
		end := f.lastEnd()
		assert.True(t, end.Ref == "ref-"+code+".json" && f.count(workflows.PublishBuild) == 0, "end %+v", end)
	}
}

func TestAFailureEndsTheStageThoughOthersPause(t *testing.T) {
	f := newFake(10)
	f.fail[workflows.EmbedPart] = []error{fatal("model_auth"), fatal("segment_damaged")}
	out, err := run(t, f, workflows.Build{}, nil)
	require.True(t, err == nil && out.Status == "failed" && out.Reason == "segment_damaged", "%v %v", out, err)
}

// Anyone who reaches the engine may start workflows with any input: nothing is done for one that is none.
func TestAnInputThatCannotBeBuiltFailsBeforeAnythingIsDone(t *testing.T) {
	for _, test := range []struct {
		says  string
		build workflows.Build
	}{
		{"shape.windows.load is -1", workflows.Build{Shape: workflows.Shape{Windows: workflows.Windows{Load: -1}}}},
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

func TestAnAuditPausesAndGoesOnWithTheUnitsThatAreLeft(t *testing.T) {
	f := newFake()
	f.fail["AuditPart 1"] = []error{fatal("store_denied")}
	out, err := run(t, f, workflows.Build{Generation: "audit-1"}, func(env *testsuite.TestWorkflowEnvironment) {
		resumeAt(t, env, time.Hour, workflows.Resume{})
	})
	require.True(t, err == nil && out.Status == "completed" && f.count("AuditPart 1") == 2 && f.count("AuditPart 0") == 1,
		"%v %v %v", out, err, f.calls)
}

func TestSearchAttributesFollowTheRunWhereTheServerKnowsThem(t *testing.T) {
	for _, known := range []bool{true, false} {
		f := newFake(10)
		seen := map[string]bool{}
		build := workflows.Build{SearchAttributes: known}
		_, err := run(t, f, build, func(e *testsuite.TestWorkflowEnvironment) {
			e.OnUpsertTypedSearchAttributes(mock.Anything).Maybe().Run(func(args mock.Arguments) {
				attributes := args.Get(0).(temporal.SearchAttributes)
				index, _ := attributes.GetKeyword(workflows.IndexAttribute)
				generation, _ := attributes.GetKeyword(workflows.GenerationAttribute)
				stage, _ := attributes.GetKeyword(workflows.StageAttribute)
				status, _ := attributes.GetKeyword(workflows.StatusAttribute)
				seen[index+"/"+generation+" "+stage+" "+status] = true
			})
		})
		require.NoError(t, err)
		for _, want := range []string{"i/g extract running", "i/g publish running", "i/g collect completed"} {
			assert.True(t, seen[want] == known, "known %v: %q is %v in %v", known, want, seen[want], seen)
		}
	}
}

func TestRunNamesMapToWorkflowIDs(t *testing.T) {
	for name, want := range map[string]string{
		"docs/g1": "build/docs/g1", "docs/restore-20261120t000000": "restore/docs", "docs/restored": "build/docs/restored",
		"docs/audit-20261120t000000": "audit/docs", "docs/audits": "build/docs/audits",
	} {
		assert.Equal(t, want, workflows.WorkflowID(name), "%s", name)
	}
}

// The whole of a build but for its stages must stay small, whatever the corpus.
func TestABuildOfManyShardsStartsAsManyChildrenAsOneOfFew(t *testing.T) {
	children := func(shards int) (n int) {
		f := newFake(make([]int, shards)...)
		for i := range f.shards {
			f.shards[i] = 64
		}
		_, err := run(t, f, workflows.Build{}, func(env *testsuite.TestWorkflowEnvironment) {
			env.OnWorkflow(workflows.StageName, mock.Anything, mock.Anything).
				Return(func(workflow.Context, workflows.StageInput) (workflows.StageResult, error) {
					n++
					return workflows.StageResult{}, nil
				})
		})
		require.NoError(t, err)
		return n
	}
	few, many := children(2), children(200)
	assert.True(t, few == many && few != 0, "%d children of 2 shards, %d of 200", few, many)
}
