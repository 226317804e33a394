package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/workflows"
)

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
		out, err := run(t, f, workflows.Build{}, nil)
		require.True(t, err == nil && out.Status == "completed", "%v %v %v", activity, out, err)
		if f.count(workflows.PlanBuild) != 2 || f.count(workflows.TakeLease) != 1 || f.count(workflows.EndBuild) != 1 {
			t.Errorf("%s: planned %d times, leases %d", activity, f.count(workflows.PlanBuild), f.count(workflows.TakeLease))
		}
		last := f.units[len(f.units)-1]
		assert.True(t, last.Rebuild && last.Anew == "ref-parent_damaged.json" && last.Fence == fence && !f.units[0].Rebuild,
			"%s: %+v, the first %+v", activity, last.Build, f.units[0].Build)
		assert.Equal(t, last.Anew, f.lastEnd().Anew, "%s: it ends in the scratch of the first attempt", activity)
	}
}

func TestABuildThatIsDamagedAgainFails(t *testing.T) {
	f := newFake(130)
	f.fail[workflows.LoadPart] = []error{fatal("parent_damaged"), nil, nil, nil, fatal("parent_damaged")}
	f.fail[workflows.PublishBuild] = []error{fatal("parent_damaged")}
	_, err := run(t, f, workflows.Build{}, nil)
	require.NoError(t, err)
	if end := f.lastEnd(); end.Status != "failed" || end.Reason != "parent_damaged" || f.count(workflows.PlanBuild) != 2 {
		t.Errorf("%+v, planned %d times", end, f.count(workflows.PlanBuild))
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

func TestARestoreThatLeftSomethingOutFails(t *testing.T) {
	f := newFake()
	f.fail[workflows.SealRestore] = []error{fatal("segment_damaged")}
	_, err := run(t, f, workflows.Build{Generation: "restore-x"}, nil)
	require.NoError(t, err)
	end := f.lastEnd()
	assert.True(t, end.Status == "failed" && end.Reason == "segment_damaged" && end.Ref != "", "%+v", end)
}
