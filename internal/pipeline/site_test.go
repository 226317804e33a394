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
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	answering "github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// must returns a value that comes without an error.
func must[T any](value T, err error) func(testing.TB) T { return musttest.Get(value, err) }

// must2 returns two values that come without an error.
func must2[A, B any](a A, b B, err error) func(testing.TB) (A, B) { return musttest.Get2(a, b, err) }

// refuses checks that an error has this code and says so.
func refuses(t testing.TB, err error, code fault.Code, says, what string) {
	t.Helper()
	assert.True(t, fault.Is(err, code) && strings.Contains(err.Error(), says), "%s: %v", what, err)
}

// refused checks that what gives a value and an error has failed with this code and says so.
func refused[T any](_ T, err error) func(t testing.TB, code fault.Code, says, what string) {
	return func(t testing.TB, code fault.Code, says, what string) {
		t.Helper()
		refuses(t, err, code, says, what)
	}
}

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

// builtSite returns a site that has built its corpus once.
func builtSite(t testing.TB, files map[string]string) *site {
	s := newSite(t, files)
	s.night(t)
	return s
}

// buildFiles writes files into the corpus, and builds a night.
func (s *site) buildFiles(t testing.TB, files map[string]string) outcome {
	t.Helper()
	s.write(t, files)
	return s.night(t)
}

// copied returns a separate installation that holds what this one does, over the same corpus, as another process finds
// it.
func (s *site) copied(t *testing.T) *site {
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
	require.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(from, path)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		return os.Link(path, filepath.Join(to, name))
	}))
}

// open makes the ports of a site over its stores.
func (s *site) open(
	t testing.TB, artifacts *blobmemory.Store, records *recordsmemory.Store, vectors *vectorsmemory.Store,
) {
	coordination := coordinationmemory.New()
	cache := must(localfile.New(s.cache, 0))(t)
	id := must(artifact.OpenStoreID(t.Context(), artifacts))(t)
	s.Ports = &run.Ports{
		Artifacts: artifacts, Coordination: coordination, Records: records, Vectors: vectors,
		Corpora: func(_ context.Context, uri string) (blob.Store, error) { return dir.OpenCorpus(uri) },
		Models: func(core.Spec, model.Meter) (model.Set, error) {
			return model.Set{Chat: builtin.Chat{}, Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
		},
		Ledger: ledger.New(artifacts, coordination), StoreID: id, Cache: cache, CPU: make(chan struct{}, 2),
		Log: slog.New(slog.DiscardHandler), Parser: documenttest.Here{Limits: document.DefaultLimits()},
		Limits: document.DefaultLimits(), Quote: answering.QuotePassages,
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
	digest := must(artifact.Index{Store: s.Artifacts, Name: s.spec.Index}.PutSpec(t.Context(), s.spec))(t)
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
	job, holder := s.job(t)
	s.lease(t, &job, holder)
	return job, holder
}

// lease takes the lease for a job.
func (s *site) lease(t testing.TB, job *run.Job, holder run.Holder) {
	fence := must(run.TakeLease(t.Context(), artifact.Index{Store: s.Artifacts, Name: job.Index}, holder, nil))(t)
	job.Fence = fence
}

// night does what the workflow does, unit by unit, without an engine.
func (s *site) night(t testing.TB) outcome {
	job, holder := s.leased(t)
	out := must(s.stages(t.Context(), job, holder))(t)
	ending := run.Ending{Status: out.published.Status, Reason: out.published.Reason}
	switch {
	case out.planned.Held != "":
		ending = run.Ending{Status: core.StatusHeld, Reason: out.planned.Held}
	case out.planned.Unchanged:
		ending = run.Ending{Status: core.StatusCompleted, Unchanged: true}
	case out.equalsParent:
		ending = run.Ending{Status: core.StatusErrors, Unchanged: true}
	}
	require.NoError(t, s.finish(t.Context(), job, holder, ending))
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	current, _ := must2(index.ReadPointer(t.Context()))(t)
	if current.Manifest != "" {
		out.manifest = must(index.Manifest(t.Context(), current.Manifest))(t)
	}
	return out
}

func (s *site) unit(ctx context.Context, job run.Job, stage string, do func(context.Context, *upkeep.Run) error) error {
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
			return musttest.Err(work.RestorePart(ctx, part))
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
	do("reduce", partitions.Partitions, only((*upkeep.Run).Reduce))
	do("shorten", partitions.Partitions, only((*upkeep.Run).Shorten))
	both := partitions.Partitions + len(shards.Chunks)
	do("embed", both, only((*upkeep.Run).Embed))
	do("load", both, only((*upkeep.Run).Load))
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
		return musttest.Err(work.WriteSegments(ctx))
	})
	if len(s.spec.Enrich) > 0 {
		do("enrich", partitions.Partitions, func(ctx context.Context, work *upkeep.Run, n int) error {
			return work.EnrichPart(ctx, n)
		})
		do("enrich", 1, func(ctx context.Context, work *upkeep.Run, _ int) error { return work.SealEnrichment(ctx) })
	}
	do("verify", both, only((*upkeep.Run).Verify))
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

// only does a unit of a stage whose result is read from where it is stored.
func only[T any](do func(*upkeep.Run, context.Context, int) (T, error)) func(context.Context, *upkeep.Run, int) error {
	return func(ctx context.Context, work *upkeep.Run, n int) error { return musttest.Err(do(work, ctx, n)) }
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
		return musttest.Err(work.Extract(ctx, shard, batch))
	})
	if err != nil {
		return err
	}
	return s.unit(ctx, job, "extract", func(ctx context.Context, work *upkeep.Run) error {
		return musttest.Err(work.SealShard(ctx, shard, batches))
	})
}

// finish records how a run ends.
func (s *site) finish(ctx context.Context, job run.Job, holder run.Holder, ending run.Ending) error {
	return s.unit(ctx, job, "end", func(ctx context.Context, work *upkeep.Run) error { return work.End(ctx, holder, ending) })
}

// collect does the last stage, which a workflow repeats without those before it.
func (s *site) collect(ctx context.Context, job run.Job, holder run.Holder) error {
	return s.unit(ctx, job, "collect", func(ctx context.Context, work *upkeep.Run) error { return work.Collect(ctx, holder) })
}

func (s *site) report(t testing.TB) core.Report {
	var report core.Report
	key := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}.GenerationKey(fmt.Sprintf("g%03d", s.runs),
		"report.json")
	must(blob.ReadJSON(t.Context(), s.Artifacts, key, &report))(t)
	return report
}

// setMade has this program claim other rules for one test; empty fields stay as they are.
func setMade(t *testing.T, other core.Made) {
	was := run.Rules
	t.Cleanup(func() { run.Rules = was })
	for _, field := range []struct{ to, from *string }{
		{&run.Rules.Parser, &other.Parser},
		{&run.Rules.Chunker, &other.Chunker},
		{&run.Rules.Names, &other.Names},
		{&run.Rules.Analyser, &other.Analyser},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
}

// setSizes makes splits of so many chunks, class runs of so many rows, and partitions of so many mentions for one test.
func setSizes(t *testing.T, chunks, rows, mentions int64) {
	was := [...]int64{unit.LeastChunks, unit.LeastRows, unit.MentionsPerPartition}
	t.Cleanup(func() { unit.LeastChunks, unit.LeastRows, unit.MentionsPerPartition = was[0], was[1], was[2] })
	unit.LeastChunks, unit.LeastRows, unit.MentionsPerPartition = chunks, rows, mentions
}

// rowsOf returns what reports whether a vector row counts in a generation, by its key.
func rowsOf(t *testing.T, ports *run.Ports, manifest *core.Manifest) func(key string) bool {
	begun := upkeep.OpenBare(ports, run.Job{Index: manifest.Index}, core.StageSegment, "test")
	t.Cleanup(begun.Close)
	table := must(begun.OpenTable(t.Context(), manifest))(t)
	t.Cleanup(table.Release)
	return func(key string) bool { return verify.RowCounts(table, key) }
}

// portsOfAnother returns the ports of another process on the same stores.
func portsOfAnother(p *run.Ports) *run.Ports {
	return &run.Ports{
		Artifacts: p.Artifacts, Corpora: p.Corpora, Records: p.Records, Coordination: p.Coordination, Vectors: p.Vectors,
		Models: p.Models, Ledger: p.Ledger, StoreID: p.StoreID, Cache: p.Cache, CPU: p.CPU, Log: p.Log,
	}
}

// runsOf returns how many class runs partitions of classes make.
func runsOf(classes []core.Segment) int { return len(unit.RunCuts(classes)) }

// plannedRuns returns how many units of work a build of so many splits has for them.
func plannedRuns(splits int, classes int64, partitions int) int {
	return unit.PiecesOf(make([]unit.SplitCut, splits), classes, partitions).Runs
}

// Open begins a unit of work with all that a run can do.
func (s *site) Open(ctx context.Context, job run.Job, stage string) (*upkeep.Run, error) {
	begun := s.Bare(job, stage, "")
	return begun, begun.Configure(ctx)
}

// Bare begins a unit of work without its configuration.
func (s *site) Bare(job run.Job, stage, scratch string) *upkeep.Run {
	return upkeep.OpenBare(s.Ports, job, stage, scratch)
}

// keyVariable has the key of a paidSite.
const keyVariable = "UNWEAVER_TEST_KEY"

func init() { _ = os.Setenv(keyVariable, "secret") }

var errKilled = errors.New("killed")

// process is what dies by kill -9: from then on nothing that it does reaches a store, or another process. What it
// sent to a model server is answered, and paid for, all the same.
type process struct {
	dead     atomic.Bool
	put, get func(key string) error // asked before each write or read of an artifact; may be nil
}

func (p *process) alive() error {
	if p.dead.Load() {
		return errKilled
	}
	return nil
}

// do calls a store of artifacts as long as the process lives.
func (p *process) do(_ context.Context, op artifacttest.Op, key string, call func() error) error {
	ask, err := map[artifacttest.Op]func(string) error{artifacttest.Put: p.put, artifacttest.Get: p.get}[op], error(nil)
	if op == artifacttest.Put || op == artifacttest.Delete {
		err = p.alive()
	}
	if err == nil && ask != nil {
		err = ask(key)
	}
	if err != nil {
		return err
	}
	return call()
}

// runs is a coordination store whose methods those beside it take the place of.
type runs struct{ coordination.Store }

// processRuns has claims of its own: those of a dead process pass on before the next one asks.
type processRuns struct {
	runs
	*coordmemory.Claims
	*process
}

func (s processRuns) ExchangeAccount(
	ctx context.Context, work, worker string, value []byte,
) ([]byte, map[string][]byte, error) {
	if err := s.alive(); err != nil {
		return nil, nil, err
	}
	return s.Store.ExchangeAccount(ctx, work, worker, value)
}

// paidSite is a site whose models are those of a server that keeps a book.
type paidSite struct {
	*site
	server  *modeltest.Server
	blobs   blob.Store
	runs    coordination.Store
	mu      sync.Mutex
	current *process
}

// newPaidSite makes one of n documents. script is asked about each request.
func newPaidSite(t *testing.T, n int, script func(s *paidSite, seen modeltest.Seen) modeltest.Injection) *paidSite {
	s := &paidSite{site: newSite(t, sample(n))}
	s.blobs, s.runs = s.Artifacts, s.Coordination
	s.server = modeltest.Start(t, modeltest.Options{Dimension: 16, Script: func(seen modeltest.Seen) modeltest.Injection {
		return script(s, seen)
	}})
	price := core.Price{Prompt: 3, Completion: 15}
	s.spec.Chat = core.ChatModel{
		Provider: "openai", BaseURL: s.server.URL, APIKeyEnv: keyVariable, Model: "m", Price: price,
	}
	s.spec.Embedding = core.EmbedModel{
		Provider: "openai", BaseURL: s.server.URL, APIKeyEnv: keyVariable, Model: "e", Dimension: 16, Classes: "model",
		Price: core.Price{Prompt: 1},
	}
	s.spec.Limits.Concurrency = 16
	s.spec.Shortening.Threshold = 300
	s.begin()
	return s
}

// begin starts a process in place of the one before.
func (s *paidSite) begin() *process {
	next := &process{}
	s.mu.Lock()
	s.current = next
	s.mu.Unlock()
	old := s.Ports
	s.Ports = &run.Ports{
		Artifacts:    artifacttest.Around{Store: s.blobs, Do: next.do},
		Coordination: processRuns{runs{s.runs}, coordmemory.NewClaims(), next},
		Corpora:      old.Corpora, Records: old.Records, Vectors: old.Vectors, StoreID: old.StoreID, Cache: old.Cache,
		CPU: make(chan struct{}, 2), Log: old.Log, Parser: old.Parser, Limits: old.Limits, Quote: old.Quote,
	}
	models := app.NewModels(s.Coordination, nil)
	models.AllowEndpoints(
		config.Endpoint{BaseURL: s.spec.Chat.BaseURL, APIKeyEnv: s.spec.Chat.APIKeyEnv},
		config.Endpoint{BaseURL: s.spec.Embedding.BaseURL, APIKeyEnv: s.spec.Embedding.APIKeyEnv},
	)
	s.Models = models.NewBuildSet
	s.Ledger = ledger.New(s.Artifacts, s.Coordination)
	return next
}

// process returns the process that works now.
func (s *paidSite) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// start takes the lease of a new run.
func (s *paidSite) start(t *testing.T) (run.Job, run.Holder) {
	job, holder := s.job(t)
	fence := must(run.TakeLease(t.Context(), artifact.Index{Store: s.blobs, Name: job.Index}, holder, nil))(t)
	job.Fence, job.Batch = fence, 16
	return job, holder
}

// end records how the run ends, or that it pauses, and gives its report.
func (s *paidSite) end(t *testing.T, job run.Job, holder run.Holder, ending run.Ending) core.Report {
	work := must(s.Open(t.Context(), job, "end"))(t)
	defer work.Close()
	require.NoError(t, work.End(t.Context(), holder, ending))
	return s.report(t)
}

// steer gives a command as a person does.
func (s *paidSite) steer(job run.Job, command string, budget *core.Budget) error {
	work, err := s.Open(context.Background(), job, "steer")
	if err != nil {
		return err
	}
	defer work.Close()
	_, err = work.Steer(context.Background(), command, budget)
	return err
}
