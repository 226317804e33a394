package workflows_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"

	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/workflows"
)

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
	t.Helper()
	key := must(codec.Create(filepath.Join(t.TempDir(), "codec.key"), "none"))(t)
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
			var out workflows.Outcome
			err := env.GetWorkflowError()
			if err == nil {
				err = env.GetWorkflowResult(&out)
			}
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
		raw := must(os.ReadFile(file))(t)
		for n, line := range strings.Split(string(raw), "\n") {
			assert.True(t, !strings.Contains(line, ".Get(") || !strings.Contains(line, ", nil)"),
				"%s:%d: decode the answer, as execute does: %s", file, n+1, line)
		}
	}
}
