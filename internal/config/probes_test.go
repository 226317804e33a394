package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

func TestAProbeFileIsReadWhereItIsAndAnObjectIsNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probes.jsonl")
	line := `{"question":"Who?","documents":["a.md"]}`
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	spec := core.Spec{Index: "docs", Gate: core.Gate{Probes: file}}
	if raw, err := config.Probes(spec); err != nil || string(raw) != line {
		t.Errorf("%s, %v", raw, err)
	}
	for _, elsewhere := range []string{"", "s3://bucket/probes.jsonl"} {
		spec.Gate.Probes = elsewhere
		raw, err := config.Probes(spec)
		assert.True(t, err == nil && raw == nil, "%q: %s, %v", elsewhere, raw, err)
	}
	require.NoError(t, os.WriteFile(file, []byte(line+"\n{}"), 0o600))
	for _, bad := range []string{file, file + ".none"} {
		spec.Gate.Probes = bad
		_, err := config.Probes(spec)
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), bad), "%s: %v", bad, err)
	}
}
