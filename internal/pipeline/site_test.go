package pipeline_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// site is an installation in memory over a corpus in a folder.
type site struct {
	*run.Ports
	corpus   string
	cache    string
	spec     core.Spec
	runs     int
	shard    int                // chunks of a shard
	batch    int                // chunks of an extraction unit
	width    int                // units at once; 0: one
	replace  bool               // of the corpus
	attempt  int                // round of retry-failed of the next runs
	backfill string             // that the next runs publish
	alone    bool               // one unit of work writes all splits and class runs
	before   func(stage string) // called before each unit
}

func newSite(t testing.TB, files map[string]string) *site {
	t.Helper()
	s := &site{corpus: t.TempDir(), cache: t.TempDir(), shard: 50, batch: 8}
	s.write(t, files)
	s.open(t, blobmemory.New(), recordsmemory.New(), vectorsmemory.New())
	s.spec = core.Spec{
		Index: "docs", Corpus: s.corpus, Keep: 3,
		Chunking:   core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 1500},
		Shortening: core.Shortening{Threshold: 4000, Sample: 256},
		Retrieval:  core.Retrieval{Method: "hybrid", Rule: "weighted", TopChunks: 5, Language: "en"},
		Failures:   core.Failures{Share: 0.01}, Gate: core.Gate{MaxRemoved: 0.2},
		Chat: core.ChatModel{Provider: "builtin"}, Embedding: core.EmbedModel{Provider: "builtin"},
	}
	return s
}

// copied returns a separate installation that holds what this one does, over the same corpus, as another process finds
// it.
func (s *site) copied(t *testing.T) *site {
	t.Helper()
	out := &site{
		corpus: s.corpus, cache: t.TempDir(), spec: s.spec, runs: s.runs, replace: s.replace,
		shard: s.shard, batch: s.batch, width: s.width,
	}
	linked(t, s.cache, out.cache)
	out.open(t, s.Artifacts.(*blobmemory.Store).Clone(), s.Records.(*recordsmemory.Store).Clone(),
		s.Vectors.(*vectorsmemory.Store).Clone())
	return out
}

// linked gives the files of a folder a second name each in another one: they keep their identity and their times.
func linked(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(from, path)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		return os.Link(path, filepath.Join(to, name))
	})
	require.NoError(t, err)
}

// open makes the ports of a site over its stores.
func (s *site) open(
	t testing.TB, artifacts *blobmemory.Store, records *recordsmemory.Store, vectors *vectorsmemory.Store,
) {
	t.Helper()
	coordination := coordmemory.New()
	cache, err := localfile.New(s.cache, 0)
	require.NoError(t, err)
	id, err := artifact.OpenStoreID(t.Context(), artifacts)
	require.NoError(t, err)
	s.Ports = &run.Ports{
		Artifacts: artifacts, Coordination: coordination, Records: records, Vectors: vectors,
		Corpora: func(_ context.Context, uri string) (blob.Store, error) { return dir.OpenCorpus(uri) },
		Models: func(core.Spec, model.Meter) (model.Set, error) {
			return model.Set{Chat: builtin.Chat{}, Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
		},
		Ledger: ledger.New(artifacts, coordination), StoreID: id, Cache: cache, CPU: make(chan struct{}, 2),
		Log: slog.New(slog.DiscardHandler), Parser: documenttest.Here{Limits: document.DefaultLimits()},
		Limits: document.DefaultLimits(),
	}
}

func (s *site) write(t testing.TB, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(s.corpus, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have a second name
			t.Fatal(err)
		}
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// sample returns a corpus of n documents, each about a place and its neighbour.
func sample(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("place-%03d.md", i)] = fmt.Sprintf(
			"# Harbour %d\n\nThe harbour of Port Alma %d was built in 19%02d by Carla Ruiz. "+
				"Ships from Port Alma %d carry salt to Lake Verin.\n", i, i, i%100, (i+1)%n)
	}
	return files
}

// outcome is what a run came to.
type outcome struct {
	planned      unit.Planned
	published    release.Published
	collects     bool // all before collect is done
	batched      run.Batched
	equalsParent bool // nothing but what was tried again, and that is what it was
	manifest     *core.Manifest
}

func (s *site) job(t testing.TB) (run.Job, run.Holder) {
	t.Helper()
	digest, err := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}.PutSpec(t.Context(), s.spec)
	require.NoError(t, err)
	s.runs++
	job := run.Job{
		Index: s.spec.Index, Generation: fmt.Sprintf("g%03d", s.runs), Spec: digest.String(), Shard: s.shard, Batch: s.batch,
		ReplaceCorpus: s.replace, Attempt: s.attempt,
		Backfill: s.backfill,
	}
	return job, run.Holder{Workflow: "build/" + job.Name(), Run: "run"}
}

// leased takes the lease for the next run and returns its job.
func (s *site) leased(t testing.TB) (run.Job, run.Holder) {
	t.Helper()
	job, holder := s.job(t)
	s.lease(t, &job, holder)
	return job, holder
}

// lease takes the lease for a job.
func (s *site) lease(t testing.TB, job *run.Job, holder run.Holder) {
	t.Helper()
	fence, err := run.TakeLease(t.Context(), artifact.Index{Store: s.Artifacts, Name: job.Index}, holder, nil)
	require.NoError(t, err)
	job.Fence = fence
}

// night does what the workflow does, unit by unit, without an engine.
func (s *site) night(t testing.TB) outcome {
	t.Helper()
	job, holder := s.leased(t)
	out, err := s.stages(t.Context(), job, holder)
	require.NoError(t, err)
	ending := run.Ending{Status: out.published.Status, Reason: out.published.Reason}
	switch {
	case out.planned.Held != "":
		ending = run.Ending{Status: core.StatusHeld, Reason: out.planned.Held}
	case out.planned.Unchanged:
		ending = run.Ending{Status: core.StatusCompleted, Unchanged: true}
	case out.equalsParent:
		ending = run.Ending{Status: core.StatusErrors, Unchanged: true}
	}
	s.unit(t.Context(), job, "end", func(ctx context.Context, work *upkeep.Run) error {
		require.NoError(t, work.End(ctx, holder, ending))
		return nil
	})
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	current, _, err := index.ReadPointer(t.Context())
	require.NoError(t, err)
	if current.Manifest != "" {
		out.manifest, err = index.Manifest(t.Context(), current.Manifest)
		require.NoError(t, err)
	}
	return out
}

func (s *site) unit(ctx context.Context, job run.Job, stage string, do func(context.Context,
	*upkeep.Run) error) error {
	if s.before != nil {
		s.before(stage)
	}
	work, err := s.Open(ctx, job, stage)
	if err != nil {
		return err
	}
	defer work.Close()
	watched, end := work.Watch(ctx)
	defer end()
	if err := work.CheckControl(watched); err != nil {
		return err
	}
	if err := do(watched, work); err != nil {
		if cause := context.Cause(watched); cause != nil && ctx.Err() == nil { // as an activity reports it
			return cause
		}
		return err
	}
	return work.Flush(ctx)
}

func (s *site) stages(ctx context.Context, job run.Job, holder run.Holder) (out outcome, err error) {
	var shards run.Shards
	var partitions run.Partitions
	err = s.unit(ctx, job, "plan", func(ctx context.Context, work *upkeep.Run) error {
		out.planned, err = work.Plan(ctx)
		return err
	})
	if err != nil || out.planned.Held != "" {
		return out, err
	}
	job.Rebuild, job.Spec = job.Rebuild || out.planned.Rebuild, cmp.Or(out.planned.Spec, job.Spec)
	for part := range out.planned.Repair {
		if err := s.unit(ctx, job, "repair", func(ctx context.Context, work *upkeep.Run) error {
			_, err := work.RestorePart(ctx, part)
			return err
		}); err != nil {
			return out, err
		}
	}
	if out.planned.Repair > 0 {
		err = s.unit(ctx, job, "repair", func(ctx context.Context, work *upkeep.Run) error { return work.FinishRestore(ctx) })
	}
	if err != nil || out.planned.Unchanged {
		return out, err
	}
	do := func(stage string, units int, f func(ctx context.Context, work *upkeep.Run, number int) error) {
		if err == nil {
			err = s.units(ctx, job, stage, units, f)
		}
	}
	do("chunk", out.planned.Units, func(ctx context.Context, work *upkeep.Run, piece int) error {
		_, err := work.Chunk(ctx, piece)
		if err == nil && piece == 0 {
			err = work.RunPreflight(ctx, piece)
		}
		return err
	})
	do("chunk", 1, func(ctx context.Context, work *upkeep.Run, _ int) error {
		_, equalsParent, err := work.CompareParent(ctx)
		if out.equalsParent = equalsParent; err != nil || equalsParent {
			return err
		}
		var frozen run.Frozen
		shards, frozen, err = work.SealChunks(ctx)
		job.Spec = cmp.Or(frozen.Spec, job.Spec)
		return err
	})
	if out.equalsParent {
		return out, err
	}
	do("batch", 1, func(ctx context.Context, work *upkeep.Run, _ int) error {
		wanted, err := work.InBatches(ctx)
		if err == nil && wanted && len(shards.Chunks) > 0 {
			out.batched, err = work.PayBatches(ctx)
		}
		return err
	})
	if err == nil {
		err = s.each(ctx, len(shards.Chunks), s.width/2, func(ctx context.Context, shard int) error {
			return s.extractShard(ctx, job, shard, shards.Chunks[shard])
		})
	}
	do("extract", 1, func(ctx context.Context, work *upkeep.Run, _ int) error {
		var err error
		partitions, err = work.SealExtraction(ctx)
		return err
	})
	do("reduce", partitions.Partitions, func(ctx context.Context, work *upkeep.Run, part int) error {
		_, err := work.Reduce(ctx, part)
		return err
	})
	do("shorten", partitions.Partitions, func(ctx context.Context, work *upkeep.Run, part int) error {
		_, err := work.Shorten(ctx, part)
		return err
	})
	both := partitions.Partitions + len(shards.Chunks)
	do("embed", both, func(ctx context.Context, work *upkeep.Run, part int) error {
		_, err := work.Embed(ctx, part)
		return err
	})
	do("load", both, func(ctx context.Context, work *upkeep.Run, part int) error {
		_, err := work.Load(ctx, part)
		return err
	})
	if s.Staging != nil {
		do("load", 1, func(ctx context.Context, work *upkeep.Run, _ int) error { return work.Import(ctx) })
	}
	if s.alone {
		partitions.Pieces = run.Pieces{}
	}
	do("segment", partitions.Pieces.Count(), func(ctx context.Context, work *upkeep.Run, n int) error {
		return work.WritePiece(ctx, n)
	})
	do("segment", 1, func(ctx context.Context, work *upkeep.Run, _ int) error {
		_, err := work.WriteSegments(ctx)
		return err
	})
	if len(s.spec.Enrich) > 0 {
		do("enrich", partitions.Partitions, func(ctx context.Context, work *upkeep.Run, n int) error {
			return work.EnrichPart(ctx, n)
		})
		do("enrich", 1, func(ctx context.Context, work *upkeep.Run, _ int) error { return work.SealEnrichment(ctx) })
	}
	do("verify", both, func(ctx context.Context, work *upkeep.Run, part int) error {
		_, err := work.Verify(ctx, part)
		return err
	})
	do("publish", 1, func(ctx context.Context, work *upkeep.Run, _ int) error {
		var err error
		out.published, err = work.Publish(ctx)
		return err
	})
	if out.published.Status == core.StatusHeld {
		return out, err
	}
	if err == nil {
		out.collects = true
		err = s.collect(ctx, job, holder)
	}
	return out, err
}

// each does work of a number, one after another in the caller's goroutine unless it may be done side by side.
func (s *site) each(ctx context.Context, n, width int, do func(ctx context.Context, number int) error) error {
	if width > 1 {
		return parallel.Each(ctx, n, width, do)
	}
	for number := range n {
		if err := do(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// units does the units of a stage.
func (s *site) units(
	ctx context.Context, job run.Job, stage string, units int,
	do func(ctx context.Context, work *upkeep.Run, number int) error,
) error {
	return s.each(ctx, units, s.width, func(ctx context.Context, number int) error {
		return s.unit(ctx, job, stage, func(ctx context.Context, work *upkeep.Run) error { return do(ctx, work, number) })
	})
}

func (s *site) extractShard(ctx context.Context, job run.Job, shard, chunks int) error {
	batches := (chunks + job.Batch - 1) / job.Batch
	err := s.units(ctx, job, "extract", batches, func(ctx context.Context, work *upkeep.Run, batch int) error {
		_, err := work.Extract(ctx, shard, batch)
		return err
	})
	if err != nil {
		return err
	}
	return s.unit(ctx, job, "extract", func(ctx context.Context, work *upkeep.Run) error {
		_, err := work.SealShard(ctx, shard, batches)
		return err
	})
}

// collect does the last stage, which a workflow repeats without those before it.
func (s *site) collect(ctx context.Context, job run.Job, holder run.Holder) error {
	return s.unit(ctx, job, "collect", func(ctx context.Context, work *upkeep.Run) error { return work.Collect(ctx, holder) })
}

func (s *site) report(t testing.TB) core.Report {
	t.Helper()
	var report core.Report
	key := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}.GenerationKey(fmt.Sprintf("g%03d", s.runs),
		"report.json")
	_, err := blob.ReadJSON(t.Context(), s.Artifacts, key, &report)
	require.NoError(t, err)
	return report
}
