package pipeline_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	coordmemory "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// keyVariable is set by tests with a paidSite.
const keyVariable = "UNWEAVER_TEST_KEY"

var errKilled = errors.New("killed")

// process is what dies by kill -9: from then on nothing that it does reaches a store, or another process. What it
// sent to a model server is answered, and paid for, all the same.
type process struct {
	dead atomic.Bool
	put  func(key string) error // asked before each write of an artifact; may be nil
}

func (p *process) alive() error {
	if p.dead.Load() {
		return errKilled
	}
	return nil
}

type processBlobs struct {
	blob.Store
	*process
}

func (s processBlobs) Put(
	ctx context.Context, key string, body io.Reader, size int64, condition blob.Cond,
) (blob.Info, error) {
	err := s.alive()
	if err == nil && s.put != nil {
		err = s.put(key)
	}
	if err != nil {
		return blob.Info{}, err
	}
	return s.Store.Put(ctx, key, body, size, condition)
}

func (s processBlobs) Delete(ctx context.Context, key string) error {
	if err := s.alive(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

// processRuns has claims of its own: those of a dead process pass on before the next one asks.
type processRuns struct {
	coordination.Store
	*process
	claims *coordmemory.Claims
}

func (s processRuns) Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	return s.claims.Claim(ctx, key, owner, ttl)
}

func (s processRuns) Release(ctx context.Context, key, owner string) error {
	return s.claims.Release(ctx, key, owner)
}

func (s processRuns) ClaimAll(ctx context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error) {
	return s.claims.ClaimAll(ctx, keys, owner, ttl)
}

func (s processRuns) ReleaseAll(ctx context.Context, keys []string, owner string) error {
	return s.claims.ReleaseAll(ctx, keys, owner)
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
	t.Helper()
	s := &paidSite{site: newSite(t, sample(n))}
	s.blobs, s.runs = s.Artifacts, s.Coordination
	s.server = modeltest.New(modeltest.Options{Dimension: 16, Script: func(seen modeltest.Seen) modeltest.Injection {
		return script(s, seen)
	}})
	require.NoError(t, s.server.Listen("127.0.0.1:0"))
	t.Cleanup(s.server.Close)
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
		Artifacts: processBlobs{s.blobs, next}, Coordination: processRuns{s.runs, next, coordmemory.NewClaims()},
		Corpora: old.Corpora, Records: old.Records, Vectors: old.Vectors, StoreID: old.StoreID, Cache: old.Cache,
		CPU: make(chan struct{}, 2), Log: old.Log, Parser: old.Parser, Limits: old.Limits,
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
	t.Helper()
	job, holder := s.job(t)
	fence, err := run.TakeLease(t.Context(), artifact.Index{Store: s.blobs, Name: job.Index}, holder, nil)
	require.NoError(t, err)
	job.Fence, job.Batch = fence, 16
	return job, holder
}

// end records how the run ends, or that it pauses, and gives its report.
func (s *paidSite) end(t *testing.T, job run.Job, holder run.Holder, ending run.Ending) core.Report {
	t.Helper()
	work, err := s.Open(t.Context(), job, "end")
	require.NoError(t, err)
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
