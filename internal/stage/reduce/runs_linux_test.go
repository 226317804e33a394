package reduce_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/stagetest"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob/memory"
)

// openRuns counts the files of runs that this process has open (proc(5)); they have no name any more.
func openRuns(t *testing.T) (open int) {
	t.Helper()
	const descriptors = "/proc/self/fd"
	list, err := os.ReadDir(descriptors)
	stagetest.Ok(t, err)
	for _, one := range list {
		target, err := os.Readlink(filepath.Join(descriptors, one.Name()))
		if err == nil && strings.Contains(target, "unweaver-") {
			open++
		}
	}
	return open
}

// However a merge by way of runs ends, it gives the disk back.
func TestRunsOfAMergeThatEndsEarlyAreGone(t *testing.T) {
	art := artifact.Index{Store: memory.New(), Name: "i"}
	shards := manyShards(t, art, 60)
	reduce.SetFanIn(t, 4)
	run := func(ctx context.Context, tell func(int64)) error {
		_, err := reduce.Run(ctx, reduce.In{
			Spec: spec(16), Artifacts: art, Scratch: "s", Shards: shards, Partitions: 1, OnProgress: tell,
		})
		return err
	}
	for at := 1; at < 8; at++ {
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		err := run(ctx, func(int64) {
			if told++; told == at {
				cancel()
			}
		})
		cancel()
		if open := openRuns(t); open != 0 {
			t.Errorf("cancelled at %d: %v, %d files are open", at, err, open)
		}
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var before syscall.Rlimit
	stagetest.Ok(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	for _, limit := range []uint64{0, 1000} {
		stagetest.Ok(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: before.Max}))
		err := run(t.Context(), func(int64) {})
		stagetest.Ok(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
		if open := openRuns(t); open != 0 || !fault.Is(err, fault.StoreFull) {
			t.Errorf("files of %d bytes at most: %v, %d files are open", limit, err, open)
		}
	}
}
