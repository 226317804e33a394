package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/neural"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestModelsSaysWhatIsThereAndWhatToDo(t *testing.T) {
	dir := t.TempDir()
	setting := "models.dir=" + dir
	list := decoded(t, in(t, nil, nil, "models", "list", "--json", "--set", setting).out)
	if models := list["models"].([]any); len(models) != len(neural.Models) || list["ok"] != true || list["dir"] != dir {
		t.Errorf("%v", list)
	}
	got := in(t, nil, nil, "models", "verify", "--set", setting)
	assert.True(t, got.exit == cli.ExitUsage && strings.Contains(got.err, "unweaver models pull"),
		"nothing there: %+v", got)
	got = in(t, nil, nil, "models", "verify", "e5", "--set", setting)
	if got.exit != cli.ExitFailed || !strings.Contains(got.out, "missing") || !strings.Contains(got.out, "models pull e5") {
		t.Errorf("missing: %+v", got)
	}

	e5, _ := neural.Find("e5")
	damaged := filepath.Join(dir, "e5", e5.Files[0].Name)
	require.NoError(t, os.MkdirAll(filepath.Dir(damaged), 0o700))
	require.NoError(t, os.WriteFile(damaged, []byte("E5S1"), 0o600))
	verified := in(t, nil, nil, "models", "verify", "--json", "--set", setting)
	state := decoded(t, verified.out)["models"].([]any)[0].(map[string]any)
	if verified.exit != cli.ExitFailed || state["status"] != neural.Damaged ||
		!strings.Contains(state["problem"].(string), damaged) {
		t.Errorf("damaged: %+v", verified)
	}
	if got := in(t, nil, nil, "models", "list", "--set", setting); !strings.Contains(got.out, neural.Damaged) {
		t.Errorf("damaged: %+v", got)
	}

	for what, args := range map[string][]string{
		"no such model":     {"models", "pull", "none"},
		"none to verify":    {"models", "verify", "none"},
		"no such file":      {"models", "pull", "e5", "--from", filepath.Join(dir, "nowhere.whl")},
		"a file of another": {"models", "pull", "e5", "--from", damaged},
		"two names":         {"models", "pull", "e5", "minilm"},
	} {
		got := in(t, nil, nil, append(args, "--set", setting)...)
		assert.True(t, got.exit == cli.ExitUsage && got.err != "" && got.out == "", "%s: %+v", what, got)
	}
	if raw, err := os.ReadFile(damaged); err != nil || string(raw) != "E5S1" {
		t.Errorf("a pull that failed wrote: %v", err)
	}
}

func TestAModelInsideIsConfiguredByItsName(t *testing.T) {
	t.Chdir(t.TempDir())
	for setting, want := range map[string]string{
		"models.embedding.model=e5":                     "",
		"models.embedding.model=text-embedding-3-small": "not a built-in model",
	} {
		require.NoError(t, os.WriteFile("unweaver.yaml", []byte("indexes: {docs: {}}\n"), 0o600))
		got := in(t, nil, nil, "config", "show", "--json", "--set", setting)
		assert.True(t, (got.exit == cli.ExitDone) == (want == "") && strings.Contains(got.err, want), "%s: %+v", setting, got)
	}
}
