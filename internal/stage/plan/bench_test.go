package plan_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"iter"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// numbered is a corpus of so many files of 1 KB that are made as they are listed, so that memory is the plan's own.
type numbered struct {
	blob.Store
	files int
}

func (n numbered) info(i int) blob.Info {
	return blob.Info{
		Key: fmt.Sprintf("d%05d/%08d.txt", i/1000, i), Size: 1000, ETag: fmt.Sprintf("%032x", i),
		Modified: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
	}
}

func (n numbered) List(ctx context.Context, prefix, after string) iter.Seq2[blob.Info, error] {
	return n.ListRange(ctx, prefix, after, "")
}

func (n numbered) ListRange(_ context.Context, _, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		first := sort.Search(n.files, func(i int) bool { return n.info(i).Key > after })
		for i := first; i < n.files; i++ {
			info := n.info(i)
			if until != "" && info.Key > until || !yield(info, nil) {
				return
			}
		}
	}
}

// published writes the documents of all files as the units of a build do.
func (n numbered) published(b *testing.B, index artifact.Index) *core.Manifest {
	b.Helper()
	parent := &core.Manifest{Generation: "g0", Limits: document.Limits{}.Key()}
	for from := 0; from < n.files; from += 5000 {
		out := stagetest.Must(artifact.NewRows())
		for i := from; i < min(n.files, from+5000); i++ {
			info := n.info(i)
			version := core.Digest(sha256.Sum256([]byte(info.Key)))
			out.Append(info.Key, rows.Document{
				Object: info.Key, Version: version, ETag: info.ETag, Size: info.Size, Modified: info.Modified,
				Chunks: []rows.Place{{ID: core.ChunkID(info.Key, version.String(), 0), End: 1000}},
			}.Encode())
		}
		segment, _, err := out.StoreSegment(b.Context(), index, len(parent.Segments.Documents))
		out.Discard()
		require.NoError(b, err)
		parent.Segments = oneSplit(append(parent.Segments.Documents, segment)...)
	}
	return parent
}

// anonymous returns the memory of this process that no file lies behind, in bytes; 0 where the system does not say.
func anonymous() float64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kilobytes, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kilobytes * 1024
		}
	}
	return 0
}

// peak returns the most anonymous memory while something is done.
func peak(do func()) float64 {
	most, stop, stopped := anonymous(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ticker.C:
				most = max(most, anonymous())
			case <-stop:
				ticker.Stop()
				return
			}
		}
	}()
	do()
	close(stop)
	<-stopped
	return most
}

// BenchmarkPlan measures a night on which nothing changed, with requests of 15 ms to the corpus and to the artifacts:
// listed in one, and in ranges. UNWEAVER_BENCH_OBJECTS is how many files there are.
func BenchmarkPlan(b *testing.B) {
	files := 20_000
	if asked := os.Getenv("UNWEAVER_BENCH_OBJECTS"); asked != "" {
		files = stagetest.Must(strconv.Atoi(asked))
	}
	near := stagetest.Must(dir.Open(b.TempDir()))
	listed := numbered{blobmemory.New(), files}
	parent := listed.published(b, artifact.Index{Store: near, Name: "i"})
	requests := distance.New(15 * time.Millisecond)
	far := artifact.Index{Store: distance.Blob(near, requests), Name: "i"}
	night := func(parent *core.Manifest) time.Duration {
		began := time.Now()
		res, err := plan.Run(b.Context(), plan.In{
			Spec: core.Spec{Index: "i", Corpus: "memory"}, Corpus: distance.Blob(listed, requests), Artifacts: far,
			Scratch: "i/runs/1", Parent: parent, OnProgress: func(int64) {},
		})
		require.True(b, err == nil && res.Unchanged && res.Diff.Same == int64(files), "%+v %v", res, err)
		return time.Since(began)
	}
	for b.Loop() {
		var one, ranges time.Duration
		most := peak(func() { ranges = night(parent) })
		chain := requests.Take().Chain
		one = night(uncut(parent))
		b.ReportMetric(one.Seconds(), "one-s")
		b.ReportMetric(ranges.Seconds(), "ranges-s")
		b.ReportMetric(one.Seconds()/ranges.Seconds(), "ratio")
		b.ReportMetric(float64(requests.Take().Chain), "one-chain")
		b.ReportMetric(float64(chain), "ranges-chain")
		b.ReportMetric(most/(1<<20), "ranges-anonymous-MiB")
	}
}
