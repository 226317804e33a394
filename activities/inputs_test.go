package activities_test

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/workflows"
)

// sound returns the input of a run that nothing is wrong with.
func sound() workflows.Build {
	return workflows.Build{
		Index: "docs", Generation: "g1", Spec: strings.Repeat("0", 64), Heartbeat: 1e9, Shape: workflows.DefaultShape(),
	}
}

// hostile returns inputs that no program of ours sends, by what is wrong with them.
func hostile() map[string]workflows.Build {
	good := sound()
	out := map[string]workflows.Build{}
	bad := func(name string, change func(*workflows.Build)) {
		b := good
		change(&b)
		out[name] = b
	}
	bad("an index that leads out", func(b *workflows.Build) { b.Index = "../../../.." })
	bad("an index that is absolute", func(b *workflows.Build) { b.Index = "/etc" })
	bad("no index", func(b *workflows.Build) { b.Index = "" })
	bad("the ledger as index", func(b *workflows.Build) { b.Index = "ledger" })
	bad("a generation that leads out", func(b *workflows.Build) { b.Generation = "../../other/generations/g" })
	bad("no generation", func(b *workflows.Build) { b.Generation = "" })
	bad("a digest that is a path", func(b *workflows.Build) { b.Spec = "../../../../home/me/spec" })
	bad("a reference out of the run", func(b *workflows.Build) { b.Anew = "other/runs/g1/1/errors/x.json" })
	bad("a fence below zero", func(b *workflows.Build) { b.Fence = -1 })
	return out
}

// inputOf makes an activity's input of a build: the build itself, or what embeds it.
func inputOf(typ reflect.Type, b workflows.Build) any {
	input := reflect.New(typ).Elem()
	if typ == reflect.TypeFor[workflows.Build]() {
		return b
	}
	input.FieldByName("Build").Set(reflect.ValueOf(b))
	if stage := input.FieldByName("Stage"); stage.IsValid() {
		stage.SetString("extract")
	}
	if command := input.FieldByName("Command"); command.IsValid() {
		command.SetString(workflows.UpdatePause)
	}
	return input.Interface()
}

// refusing runs activities over a store that reports whether it was asked anything.
func refusing(t *testing.T) (*testsuite.TestActivityEnvironment, *artifacttest.Memory) {
	store := artifacttest.New()
	all := &activities.Activities{Engine: closed{}, Log: slog.New(slog.DiscardHandler), Ports: &run.Ports{
		Artifacts: store, Coordination: coordmemory.New(), Log: slog.New(slog.DiscardHandler),
	}}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(all)
	return env, store
}

// refused checks that an activity ends with the code, for good, without a word of the input and before any store is
// asked.
func refused(t *testing.T, name string, err error, store *artifacttest.Memory) {
	var app *temporal.ApplicationError
	assert.True(t, errors.As(err, &app) && app.Type() == string(fault.InvalidParam) && app.NonRetryable() &&
		app.Message() == string(fault.InvalidParam), "%s: %v", name, err)
	for _, op := range []artifacttest.Op{artifacttest.Get, artifacttest.Put, artifacttest.Stat, artifacttest.List} {
		n := store.Calls(op)
		assert.True(t, n <= 0, "%s: %d calls of %v", name, n, op)
	}
}

// Anyone who reaches the engine may send anything: every activity refuses what is no name before it opens anything.
func TestEveryActivityRefusesWhatIsNoName(t *testing.T) {
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		input := method.Type.In(2)
		for what, b := range hostile() {
			bare := strings.HasSuffix(method.Name, "Restore") || method.Name == workflows.RestorePart ||
				strings.Contains(method.Name, "Audit")
			if bare && b.Spec == "" { // a restore and an audit have no configuration
				continue
			}
			env, store := refusing(t)
			_, err := env.ExecuteActivity(method.Name, inputOf(input, b))
			refused(t, method.Name+", "+what, err, store)
		}
	}
}

// In a fleet of two versions a worker may be given work of a run that the other began: it opens nothing, and another
// worker gets it.
func TestWorkOfAnotherFormatIsLeftToItsWorkers(t *testing.T) {
	other := sound()
	other.Shape.Format = workflows.Format + 1
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		method := typ.Method(i)
		env, store := refusing(t)
		_, err := env.ExecuteActivity(method.Name, inputOf(method.Type.In(2), other))
		var app *temporal.ApplicationError
		assert.True(t, errors.As(err, &app) && app.Type() == string(fault.EngineDown) && !app.NonRetryable(),
			"%s: %v", method.Name, err)
		n := store.Calls(artifacttest.Get) + store.Calls(artifacttest.Put)
		assert.True(t, n <= 0, "%s: %d calls of the store", method.Name, n)
	}
}

func TestPartsOfInputsThatAreNoNamesAreRefused(t *testing.T) {
	good := sound()
	outside := "docs/runs/g1/../../../other/current.json"
	for name, c := range map[string]struct {
		activity string
		input    any
	}{
		"a stage that is a path":        {workflows.BeginStage, workflows.StageState{Build: good, Stage: "../../x"}},
		"a unit's stage that is a path": {workflows.ExtractChunks, workflows.Unit{Build: good, Stage: "a/b"}},
		"a unit below zero":             {workflows.ReducePartition, workflows.Unit{Build: good, Stage: "reduce", N: -1}},
		"a batch below zero":            {workflows.SealShard, workflows.Unit{Build: good, Stage: "extract", Batch: -1}},
		"an end that quotes another index": {
			workflows.EndBuild, workflows.End{Build: good, Status: "failed", Ref: "other/current.json"},
		},
		"an end that quotes a file outside": {workflows.EndBuild, workflows.End{Build: good, Status: "failed", Ref: outside}},
		"a warning that quotes a file outside": {
			workflows.EndBuild,
			workflows.End{Build: good, Status: "completed", Warning: &workflows.Warning{Code: "x", Ref: outside}},
		},
		"the end of a restore that quotes another index": {
			workflows.EndRestore, workflows.End{Build: good, Status: "failed", Ref: "ledger/store.json"},
		},
		"an audit of no part": {workflows.OpenAudit, workflows.Audited{Build: good, Part: 8, Of: 7}},
		"the end of an audit that quotes another index": {
			workflows.EndAudit, workflows.End{Build: good, Status: "failed", Ref: "ledger/store.json"},
		},
		"a command that is none": {workflows.SteerRun, workflows.Steer{Build: good, Command: "rm"}},
	} {
		env, store := refusing(t)
		_, err := env.ExecuteActivity(c.activity, c.input)
		refused(t, name, err, store)
	}
}

// golden are the names that histories hold: a renamed activity breaks runs in progress.
const golden = `AimBackfill AuditPart BeginStage ChunkDocuments CollectGarbage EmbedPart EndAudit EndBackfill EndBuild EndRestore EnrichPart ExtractChunks ImportVectors LoadPart MeasureFleet NoteBackfill OpenAudit OpenBackfill OpenNight OpenRestore PayBackfill PayBatches PlanBuild
PublishBuild ReducePartition RepairPart RestorePart SealAudit SealChunks SealEnrichment SealExtraction SealRepair SealRestore SealShard SendNotice ShortenPartition SteerRun TakeLease VerifyPart WritePiece WriteSegments`

func TestRegisteredNamesAreTheGoldenOnes(t *testing.T) {
	var got []string
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		got = append(got, typ.Method(i).Name)
	}
	slices.Sort(got)
	want := strings.Fields(golden)
	assert.True(t, slices.Equal(got, want), "got %v\nwant %v", got, want)
}

// What an activity returns is what the codec seals: one without a value could be answered by everybody.
func TestEveryActivityReturnsAValue(t *testing.T) {
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		if of := typ.Method(i); of.Type.NumOut() != 2 || of.Type.Out(0).Kind() == reflect.Pointer {
			t.Errorf("%s returns no value, or one that may be nil", of.Name)
		}
	}
}
