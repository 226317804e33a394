package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// mortal is a process that dies at one of its writes, by kill -9: the write takes place wholly, in part where it is of
// many, or not at all, no other process learns of it, and nothing that the process does afterwards reaches a store.
type mortal struct {
	mu    sync.Mutex
	left  int // writes until it dies; 0: it does not
	aimed int // writes of a bulk import until it dies
	share float64
	dead  bool
}

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	return nil
}

// write does what share of a write the process lives for: all of it, unless it dies.
func (m *mortal) write(do func(share float64) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	if m.left == 0 {
		return do(1)
	}
	if m.left--; m.left > 0 {
		return do(1)
	}
	m.dead = true
	if m.share > 0 {
		_ = do(m.share)
	}
	return errKilled
}

// imports does a write of a bulk import; the process dies at the one that aimed counts down to.
func (m *mortal) imports(do func(share float64) error) error {
	m.mu.Lock()
	if m.aimed > 0 {
		if m.aimed--; m.aimed == 0 {
			m.left = 1
		}
	}
	m.mu.Unlock()
	return m.write(do)
}

func part[T any](list []T, share float64) []T { return list[:int(float64(len(list))*share)] }

type mortalBlobs struct {
	artifacttest.Around
	*mortal
}

// blobs returns what the process sees of a store, which it writes by a way of its own.
func (m *mortal) blobs(store blob.Store, write func(do func(share float64) error) error) mortalBlobs {
	do := func(_ context.Context, op artifacttest.Op, _ string, call func() error) error {
		switch err := m.alive(); {
		case op == artifacttest.Put:
			return write(func(share float64) error {
				if share < 0.5 { // an object is there whole, or it is not
					return nil
				}
				return call()
			})
		case op == artifacttest.Delete:
			return m.write(func(float64) error { return call() })
		case err != nil:
			return err
		}
		return call()
	}
	return mortalBlobs{artifacttest.Around{Store: store, Do: do}, m}
}

func (s mortalBlobs) DeleteAll(ctx context.Context, keys []string) error {
	return s.write(func(share float64) error { return s.Store.DeleteAll(ctx, part(keys, share)) })
}

type mortalRecords struct {
	records.Store
	*mortal
}

func (s mortalRecords) PutRecords(ctx context.Context, list []records.Record) error {
	return s.write(func(share float64) error { return s.Store.PutRecords(ctx, part(list, share)) })
}

func (s mortalRecords) DeleteRecords(ctx context.Context, keys []string) error {
	return s.write(func(share float64) error { return s.Store.DeleteRecords(ctx, part(keys, share)) })
}

type mortalVectors struct {
	vectors.Store
	*mortal
}

func (s mortalVectors) Upsert(ctx context.Context, collection string, rows []vectors.Row) error {
	return s.write(func(share float64) error { return s.Store.Upsert(ctx, collection, part(rows, share)) })
}

func (s mortalVectors) Delete(ctx context.Context, collection string, keys []string) error {
	return s.write(func(share float64) error { return s.Store.Delete(ctx, collection, part(keys, share)) })
}

func (s mortalVectors) Create(ctx context.Context, collection string, dim int) error {
	return s.write(func(float64) error { return s.Store.Create(ctx, collection, dim) })
}

func (s mortalVectors) Load(ctx context.Context, collection string) error {
	return s.write(func(float64) error { return s.Store.Load(ctx, collection) })
}

func (s mortalVectors) Drop(ctx context.Context, collection string) error {
	return s.write(func(float64) error { return s.Store.Drop(ctx, collection) })
}

// mortalImporter imports as well.
type mortalImporter struct {
	mortalVectors
	importer vectors.Importer
}

func (s mortalImporter) Import(ctx context.Context, collection, path string) (job string, err error) {
	err = s.imports(func(share float64) error {
		if share < 0.5 { // a job is asked for, or it is not
			return nil
		}
		job, err = s.importer.Import(ctx, collection, path)
		return err
	})
	return job, err
}

func (s mortalImporter) ListImports(ctx context.Context, collection string) (map[string][]string, error) {
	if err := s.alive(); err != nil {
		return nil, err
	}
	return s.importer.ListImports(ctx, collection)
}

func (s mortalImporter) ImportState(ctx context.Context, job string) (vectors.ImportState, error) {
	if err := s.alive(); err != nil {
		return vectors.ImportState{}, err
	}
	return s.importer.ImportState(ctx, job)
}

// shop sells what the models of a site answer, and keeps a book of every answer by what it is a result of.
type shop struct {
	mu   sync.Mutex
	sold map[string]int
	open int // calls that are being answered
	most int // of them at once
}

func (s *shop) models(spec core.Spec, _ model.Meter) (model.Set, error) {
	embedder := shopEmbedder{s, spec.Embedding.Model, &stagetest.Embedder{Dim: 8}}
	return model.Set{Chat: shopChat{s, spec.Chat.Model}, Classes: embedder, Chunks: embedder}, nil
}

func (s *shop) sell(keys ...string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.sold[key]++
	}
	s.open += len(keys)
	s.most = max(s.most, s.open)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open -= len(keys)
	}
}

// twice returns how many times an answer was sold again, and how many answers there are.
func (s *shop) twice() (again, all int) {
	for _, n := range s.sold {
		again += n - 1
		all++
	}
	return again, all
}

type shopChat struct {
	*shop
	model string
}

func (c shopChat) Info() model.Info {
	return model.Info{Provider: "openai", Model: c.model, Paid: true}
}

func (c shopChat) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	defer c.sell(fmt.Sprintf("%s %s %q", call.Task, c.model, call.User))()
	return builtin.Chat{}.Complete(ctx, call)
}

type shopEmbedder struct {
	*shop
	model string
	*stagetest.Embedder
}

func (e shopEmbedder) Info() model.Info {
	return model.Info{Provider: "openai", Model: e.model, Paid: true}
}

func (e shopEmbedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	keys := make([]string, len(texts))
	for i, text := range texts {
		keys[i] = e.model + " " + text
	}
	defer e.sell(keys...)()
	return e.Embedder.Embed(ctx, texts)
}

// lives is a site whose processes die.
type lives struct {
	*history
	shop    *shop
	blobs   blob.Store
	records records.Store
	vectors vectors.Store
	now     *mortal

	// coordination is what a process finds of it; nil: nothing, so that claims of a dead one have passed on.
	coordination func() coordination.Store
	staging      blob.Store // where the vector store imports from; nil: it does not
	aimed        []int      // the next processes die at these writes of an import, one each
	inImports    int        // processes that did
}

// vectorStore returns what a process sees of the store of vectors.
func (l *lives) vectorStore() vectors.Store {
	seen := mortalVectors{l.vectors, l.now}
	if importer, ok := vectors.As[vectors.Importer](l.vectors); ok && l.staging != nil {
		return mortalImporter{seen, importer}
	}
	return seen
}

// begin starts a process that dies at the write of that number; 0: at none.
func (l *lives) begin(left int, share float64) {
	l.now = &mortal{left: left, share: share}
	old := l.Ports
	var coordination coordination.Store = coordmemory.New()
	if l.coordination != nil {
		coordination = l.coordination()
	}
	artifacts := l.now.blobs(l.blobs, l.now.write)
	l.Ports = &run.Ports{
		Artifacts: artifacts, Coordination: coordination, Records: mortalRecords{l.records, l.now},
		Vectors: l.vectorStore(), Corpora: old.Corpora, Models: l.shop.models,
		Ledger: ledger.New(artifacts, coordination), StoreID: old.StoreID, Cache: old.Cache,
		CPU: make(chan struct{}, 2), Log: old.Log, Parser: old.Parser, Limits: old.Limits,
	}
	if l.staging != nil {
		l.Staging = l.now.blobs(l.staging, l.now.imports) // where an import reads from
	}
}

// survive does a night in as many processes as it takes; kills of them die at random writes.
func (l *lives) survive(t *testing.T, kills int) (out outcome, killed int) {
	t.Helper()
	l.begin(0, 0)
	job, holder := l.leased(t)
	for {
		left, share := 0, 0.0
		if killed < kills {
			left, share = 1+l.random.IntN(45), float64(l.random.IntN(5))/4
		}
		l.begin(left, share)
		aimed := len(l.aimed) > 0
		if aimed {
			l.now.left, l.now.aimed, l.aimed = 0, l.aimed[0], l.aimed[1:]
		}
		var err error
		if !out.collects {
			out, err = l.stages(t.Context(), job, holder)
		} else { // what the engine knows to be done is not done again
			err = l.collect(t.Context(), job, holder)
		}
		if err == nil {
			ending := run.Ending{Status: out.published.Status, Reason: out.published.Reason}
			if out.planned.Unchanged {
				ending = run.Ending{Status: core.StatusCompleted, Unchanged: true}
			}
			require.True(t, out.planned.Held == "" && out.published.Status != core.StatusHeld,
				"held: %+v %+v", out.planned, out.published)
			err = l.finish(t.Context(), job, holder, ending)
		}
		dead := l.now.alive() != nil
		switch {
		case dead:
			killed++
			if aimed {
				l.inImports++
			}
		case fault.Is(err, fault.Outgrown): // as the workflow does
			t.Fatalf("outgrown: %v", err)
		case err != nil:
			t.Fatal(err)
		default:
			l.begin(0, 0)
			out.manifest = l.current(t)
			return out, killed
		}
	}
}

// reconfigure changes a setting that results depend on, and says which.
func (l *lives) reconfigure() string {
	switch l.random.IntN(5) {
	case 0:
		l.spec.Shortening.Threshold = 300 + 100*l.random.IntN(4)
	case 1:
		l.spec.Chunking.MaxTokens = 150 + 50*l.random.IntN(3)
	case 2:
		l.spec.Embedding.Model = fmt.Sprint("embedder-", l.random.IntN(3))
	case 3:
		l.spec.Chat.Model = fmt.Sprint("chat-", l.random.IntN(3))
	default:
		l.spec.Shortening.Sample = 64 << l.random.IntN(3)
	}
	return fmt.Sprintf("%+v %+v %s %s", l.spec.Shortening, l.spec.Chunking, l.spec.Chat.Model, l.spec.Embedding.Model)
}

// A history of nights on which the corpus changes, or loses documents alone, or does not change, on which settings
// change, on which a document cannot be read for a while, and on which processes die at any of their writes: each night
// comes to what a build from nothing comes to, by its hashes and counts, and by the bits of what every method answers.
// Nothing is paid for twice but what was in flight when a process died.
// Promises: 1, 11.
func TestNightsOfDyingProcessesComeToWhatABuildFromNothingComesTo(t *testing.T) {
	for _, seed := range []uint64{3, 4}[:longtest.Count(1, 2)] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := newHistory(t, rand.New(rand.NewPCG(seed, 5)), 15)
			l := &lives{
				history: h, shop: &shop{sold: map[string]int{}},
				blobs: h.Artifacts, records: h.Records, vectors: h.Vectors,
			}
			h.spec.Chat = core.ChatModel{Provider: "openai", Model: "chat-0"}
			h.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "embedder-0", Dimension: 8}
			l.survive(t, 2)
			nights := longtest.Count(15, 100)
			deaths, changed, bound := 0, 0, 0
			unread := "" // the document that cannot be read, as it was
			for night := range nights {
				what := "documents"
				switch roll := h.random.IntN(12); {
				case unread != "":
					what = "readable again"
					text := h.files[unread] // as it was, or edited meanwhile
					if h.random.IntN(2) == 0 {
						text += "\n\n" + h.document()
					}
					h.put(t, unread, text)
					unread = ""
				case roll == 0:
					what = "nothing"
				case roll == 1 && len(h.keys()) > 14:
					what = "removals"
					h.remove(t, pick(h.random, h.keys()))
					h.remove(t, pick(h.random, h.keys()))
				case roll < 4:
					what = l.reconfigure()
				case roll == 4:
					what, unread = "unreadable", pick(h.random, h.keys())
					h.write(t, map[string]string{unread: "\x7fELF\x00\x01"})
				default:
					h.change(t)
				}
				kills := h.random.IntN(3)
				l.shop.most = 0
				out, killed := l.survive(t, kills)
				deaths += killed
				bound += killed * l.shop.most
				require.True(t, what != "nothing" || out.planned.Unchanged,
					"night %d: nothing changed, and it was made: %+v", night, out.planned)
				if unread != "" || out.planned.Unchanged {
					continue // what cannot be read stays what it was, which a build from nothing does not know
				}
				changed++
				fresh := h.freshSite(t)
				fresh.Models = (&shop{sold: map[string]int{}}).models
				want := fresh.night(t)
				t.Logf("night %d: %s, %d deaths, %d splits, %d vectors segments", night, strings.TrimSpace(what), killed,
					len(out.manifest.Segments.Splits), len(out.manifest.Segments.ChunkVecs))
				sameGeneration(t, night, out.manifest, want.manifest)
				wholeVectors(t, h.site, out.manifest)
				switch {
				case night == nights-1:
					sameAnswers(t, h.site, fresh, night, longtest.Count(30, 150))
				case night%10 == 9:
					sameAnswers(t, h.site, fresh, night, 15)
				}
			}
			assert.True(t, deaths >= nights/4 && changed >= nights/3,
				"%d deaths and %d generations in %d nights: too few to prove anything", deaths, changed, nights)
			again, all := l.shop.twice()
			t.Logf("%d nights, %d deaths, %d answers, %d of them paid for again (at most %d were in flight)", nights, deaths,
				all, again, bound)
			assert.True(t, again <= bound, "%d answers were paid for again, at most %d were in flight at deaths", again, bound)
		})
	}
}
