package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestABranchIsMadeWithItsSettings(t *testing.T) {
	fake := &fakeControl{}
	got := run(t, fake, "branch", "docs", "--as", "exp", "--set", "shortening.threshold=900",
		"--set", "indexes.exp.models.chat.model=large", "--at", "g2", "--by", "ada@desk", "--reason", "compare")
	want := control.BranchRequest{
		Index: "docs", Name: "exp", Generation: "g2",
		Set: map[string]string{"shortening.threshold": "900", "models.chat.model": "large"},
	}
	asked := fake.branched
	if got.exit != cli.ExitDone || asked.Index != want.Index || asked.Name != want.Name ||
		asked.Generation != want.Generation || len(asked.Set) != 2 ||
		asked.Set["shortening.threshold"] != "900" || asked.Set["models.chat.model"] != "large" {
		t.Errorf("%+v, asked for %+v", got, asked)
	}
	assert.True(t, fake.operator.Reason == "compare" && strings.Contains(got.out, "exp begins with g2 of docs"),
		"%+v by %+v", got, fake.operator)
	got = run(t, fake, "branch", "docs", "--delete", "exp")
	assert.True(t, got.exit == cli.ExitDone && fake.branched.Delete && strings.Contains(got.out, "exp is deleted"),
		"%+v, asked for %+v", got, fake.branched)
}

func TestBadBranchesAreRefusedBeforeAnythingIsAsked(t *testing.T) {
	for args, says := range map[string]string{
		"branch docs --as exp --set shortening.treshold=900": "unknown key",
		"branch docs --as exp --set keep=many":               "keep",
		"branch docs --as exp --set keep":                    "path=value",
		"branch docs --set keep=2":                           "no name",
		"branch docs --delete exp --as other":                "cannot be combined",
		"branch":                                             "INDEX",
	} {
		fake := &fakeControl{}
		got := run(t, fake, strings.Fields(args)...)
		assert.True(t, got.exit == cli.ExitUsage && fake.branched.Name == "" && strings.Contains(got.err+got.out, says),
			"%s: %+v, asked for %+v", args, got, fake.branched)
	}
}

// What the store says of an index counts over the file, and what the file says as well is the file's.
func TestABuildTakesWhatTheStoreSaysOfItsIndex(t *testing.T) {
	file := filepath.Join(t.TempDir(), "unweaver.yaml")
	text := "indexes:\n  docs:\n    corpus: /corpus\n    keep: 7\n    shortening: {threshold: 900}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	fake := &fakeControl{statuses: []control.Status{{}}, overlays: map[string]control.Overlaid{
		"exp": {Overlay: core.Overlay{
			Index: "exp", Base: "docs", Set: map[string]string{"shortening.sample": "32"},
		}},
		"docs": {Overlay: core.Overlay{
			Index: "docs", Set: map[string]string{"shortening.threshold": "900", "shortening.sample": "64"},
		}},
	}}
	run(t, fake, "estimate", "--index", "exp", "--config", file)
	spec := fake.request.Spec
	if spec.Index != "exp" || spec.Corpus != "/corpus" || spec.Keep != 7 || spec.Shortening.Threshold != 900 ||
		spec.Shortening.Sample != 32 || spec.Overlay["shortening.sample"] != "32" {
		t.Errorf("the branch is estimated with %+v", spec)
	}
	run(t, fake, "estimate", "--index", "docs", "--config", file)
	spec = fake.request.Spec
	assert.True(t, spec.Shortening.Sample == 64 && len(spec.Overlay) == 1 && spec.Overlay["shortening.sample"] == "64",
		"the base is estimated with %+v", spec)
}

func TestAPromotionSaysWhatToWriteIntoTheFile(t *testing.T) {
	fake := &fakeControl{}
	got := run(t, fake, "promote", "exp", "--reason", "better")
	assert.True(t, got.exit == cli.ExitDone && fake.move.Action == core.ActionPromote && fake.move.Index == "exp",
		"%+v, asked for %+v", got, fake.move)
	assert.Contains(t, got.out, "indexes.exp.keep: 2", "it says")
}
