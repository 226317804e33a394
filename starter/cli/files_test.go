package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// Every command that begins a build sends the files that the configuration names as they are now: a worker cannot read
// them.
func TestFilesOfTheConfigurationAreSentAsTheyAreNow(t *testing.T) {
	folder := t.TempDir()
	probes, aliases := filepath.Join(folder, "probes.jsonl"), filepath.Join(folder, "aliases.txt")
	require.NoError(t, os.WriteFile(aliases, []byte("pin Bern | Berne\n"), 0o600))
	settings := filepath.Join(folder, "unweaver.yaml")
	require.NoError(t, os.WriteFile(settings, fmt.Appendf(nil, "indexes: {docs: {corpus: %s, aliases: %s, "+
		"gate: {probes: %s}, schedule: {cron: '@daily'}}}\n", folder, aliases, probes), 0o600))
	for _, command := range []string{
		"index --index docs", "index --index docs --dry-run", "estimate --index docs", "schedule apply",
		"purge docs a.md --yes",
	} {
		seen := map[string]bool{}
		for _, question := range []string{"Who?", "Where?"} {
			line := fmt.Sprintf("{%q: %q, %q: [%q]}", "question", question, "documents", "a.md")
			require.NoError(t, os.WriteFile(probes, []byte(line), 0o600))
			c := &fakeControl{purging: purgeOf(), statuses: []control.Status{finished(core.StatusCompleted)}}
			got := run(t, c, append(strings.Fields(command), "--config", settings)...)
			sent, gate := c.sent, c.gate
			if len(c.request.Probes) > 0 {
				sent, gate = c.request.Files, c.request.Spec.Gate
			}
			assert.True(t, got.exit == 0 && string(sent.Probes) == line && strings.HasPrefix(gate.Probes, core.SentFile),
				"%s: %+v, sent %q as %q", command, got, sent.Probes, gate.Probes)
			assert.True(t, len(sent.Aliases) > 0 || strings.HasPrefix(command, "purge"), "%s sends no aliases", command)
			seen[gate.Probes] = true
		}
		assert.Len(t, seen, 2, "%s does not notice that the file changed", command)
	}
	for _, command := range []string{"schedule apply", "purge docs a.md --yes", "config validate"} {
		require.NoError(t, os.WriteFile(probes, []byte("{}"), 0o600))
		got := run(t, &fakeControl{purging: purgeOf()}, append(strings.Fields(command), "--config", settings)...)
		assert.True(t, got.exit != 0 && strings.Contains(got.err, probes), "%s with a bad file: %+v", command, got)
	}
}
