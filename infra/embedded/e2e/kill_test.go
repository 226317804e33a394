package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// stormKills is UNWEAVER_STORM: the number of kills, empty = a short storm (make storm). Programs that tests start
// refuse variables that are no setting, so it is taken away.
var stormKills = taken("UNWEAVER_STORM")

func taken(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	return value
}

// The engine dies alone, again and again, while a build is under way: the stack starts it again, the build ends in the
// hashes of an undisturbed one, and no answer is paid twice.
// Promises: 56.
func TestAnEngineThatIsKilledAmidABuildChangesNothing(t *testing.T) {
	t.Parallel() // it has stacks of its own
	docs := copySample(t)
	build := func(kills int) (control.Status, modeltest.Stats) {
		dir := t.TempDir()
		running := musttest.Get(start(dir))(t)
		defer func() { require.NoError(t, running.Stop(context.Background())) }()
		server := serve(t, modeltest.Options{Latency: 300 * time.Millisecond})
		sp := spec(t, "killed", docs, server, "indexes.killed.chunking.strategy=document", "models.limits.concurrency=2")
		run := musttest.Get(running.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp, Generation: "g"}))(t)
		for n := range kills {
			before := server.Stats().Chat
			musttest.Reach(t, "calls", func() bool { return server.Stats().Chat >= before+3 })
			status, err := running.Control.ReadStatus(t.Context(), run.Run)
			require.True(t, err != nil || !core.IsTerminal(status.Status), "it ended before kill %d", n+1)
			require.NoError(t, syscall.Kill(engineOf(t, dir), syscall.SIGKILL))
		}
		return completed(t, wait(t, running.Control, run.Run)), server.Stats()
	}
	calm, calmly := build(0)
	killed, stats := build(3)
	same(t, killed, calm)
	assert.True(t, stats.Duplicates+stats.EmbedTwice == 0 && stats.Chat == calmly.Chat && stats.Embed >= calmly.Embed,
		"undisturbed %+v, with kills %+v", calmly, stats)
}

// engineOf waits until the engine of a data directory runs, and gives its process.
func engineOf(t *testing.T, dir string) (pid int) {
	t.Helper()
	musttest.Reach(t, "an engine over "+dir, func() bool {
		raw, _ := os.ReadFile(filepath.Join(dir, "engine.pid"))
		number, _, _ := strings.Cut(string(raw), " ")
		pid, _ = strconv.Atoi(number)
		return pid > 0
	})
	return pid
}
