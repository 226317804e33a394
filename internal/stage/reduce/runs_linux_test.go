package reduce_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// openRuns counts the files of runs that this process has open (proc(5)); they have no name any more.
func openRuns(t *testing.T) (open int) {
	const descriptors = "/proc/self/fd"
	for _, one := range stagetest.Must(os.ReadDir(descriptors)) {
		target, err := os.Readlink(filepath.Join(descriptors, one.Name()))
		if err == nil && strings.Contains(target, "unweaver-") {
			open++
		}
	}
	return open
}

// However a merge by way of runs ends, it gives the disk back.
func TestRunsOfAMergeThatEndsEarlyAreGone(t *testing.T) {
	run := mergeByRuns(t)
	for at := 1; at < 8; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		reports := 0
		err := run(ctx, func(int64) {
			if reports++; reports == at {
				cancel()
			}
		})
		cancel()
		assert.Zero(t, openRuns(t), "cancelled at %d: %v", at, err)
	}
}

// fileBytes names the variable that limits for the process of TestRunsOnAFullDisk how large its files may become.
const fileBytes = "UNWEAVER_TEST_FILE_BYTES"

// A limit of file sizes holds for a whole process, so for the log that a test's process keeps for the go command
// too: what runs under it is a separate process, which keeps none.
func TestRunsOnAFullDisk(t *testing.T) {
	limit, limited := os.LookupEnv(fileBytes)
	if !limited {
		for _, limit := range []string{"0", "1000"} {
			limited := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
			limited.Env = append(os.Environ(), fileBytes+"="+limit)
			out, err := limited.CombinedOutput()
			assert.True(t, err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()),
				"files of %s bytes at most: %v\n%s", limit, err, out)
		}
		return
	}
	most := stagetest.Must(strconv.ParseUint(limit, 10, 64))
	run := mergeByRuns(t)
	signal.Ignore(syscall.SIGXFSZ)
	stagetest.Ok(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: most, Max: most}))
	err := run(t.Context(), func(int64) {})
	open := openRuns(t)
	assert.True(t, open == 0 && fault.Is(err, fault.StoreFull), "%v, %d files are open", err, open)
}

// mergeByRuns gives a merge of so many shards that it goes by way of runs.
func mergeByRuns(t *testing.T) func(ctx context.Context, tell func(int64)) error {
	art := artifact.Index{Store: blobmemory.New(), Name: "i"}
	shards := manyShards(t, art, 60)
	reduce.SetFanIn(t, 4)
	return func(ctx context.Context, tell func(int64)) error {
		_, err := reduce.Run(ctx, reduce.In{
			Spec: spec(16), Artifacts: art, Scratch: "s", Shards: shards, Partitions: 1, OnProgress: tell,
		})
		return err
	}
}
