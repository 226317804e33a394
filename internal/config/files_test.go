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

func TestAFileIsReadWhereItIsAndAnObjectIsNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "probes.jsonl")
	line := `{"question":"Who?","documents":["a.md"]}`
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	spec := core.Spec{Index: "docs", Gate: core.Gate{Probes: file}}
	files, err := config.ReadFiles(&spec)
	assert.True(t, err == nil && string(files.Probes) == line && files.Aliases == nil, "%+v, %v", files, err)
	for _, elsewhere := range []string{"", "s3://bucket/probes.jsonl", spec.Gate.Probes} {
		spec := core.Spec{Gate: core.Gate{Probes: elsewhere}, Aliases: elsewhere}
		files, err := config.ReadFiles(&spec)
		assert.True(t, err == nil && files.Probes == nil && files.Aliases == nil && spec.Gate.Probes == elsewhere,
			"%q: %+v, %v", elsewhere, files, err)
	}
	require.NoError(t, os.WriteFile(file, []byte(line+"\n{}"), 0o600))
	for _, bad := range []string{file, file + ".none"} {
		for _, spec := range []core.Spec{{Gate: core.Gate{Probes: bad}}, {Aliases: bad}} {
			_, err := config.ReadFiles(&spec)
			assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), bad), "%s: %v", bad, err)
		}
	}
}
