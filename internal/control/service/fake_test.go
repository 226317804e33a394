package service_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors/files"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

const (
	running    = controltest.Running
	completed  = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	terminated = enums.WORKFLOW_EXECUTION_STATUS_TERMINATED
)

// faulty is a coordination store some of whose sources fail.
type faulty struct {
	coordination.Store
	state, progress error
}

// deaf is a record store that may not answer.
type deaf struct {
	records.Store
	ping error
}

func (f *faulty) ReadState(ctx context.Context, run string) ([]byte, error) {
	if f.state != nil {
		return nil, f.state
	}
	return f.Store.ReadState(ctx, run)
}

func (f *faulty) ReadAccounts(ctx context.Context, run string) (map[string][]byte, error) {
	if f.progress != nil {
		return nil, f.progress
	}
	return f.Store.ReadAccounts(ctx, run)
}

func (d *deaf) Ping(ctx context.Context) error {
	if d.ping != nil {
		return d.ping
	}
	return d.Store.Ping(ctx)
}

// bench is a service over stores of its own and a Temporal in memory.
type bench struct {
	*service.Service
	t        *testing.T
	temporal *controltest.Temporal
	classes  *faulty
	records  *deaf
	art      artifact.Index // of index docs
}

// PauseRun and Cancel are those of the service without their answer.
func (b *bench) PauseRun(ctx context.Context, run string) error {
	return musttest.Err(b.Service.PauseRun(ctx, run))
}
func (b *bench) CancelRun(ctx context.Context, run string) error {
	return musttest.Err(b.Service.CancelRun(ctx, run))
}

func newBench(t *testing.T) *bench {
	root := t.TempDir()
	artifacts := musttest.Get(dir.Open(filepath.Join(root, "artifacts")))(t)
	musttest.Get(artifact.OpenStoreID(t.Context(), artifacts))(t)
	vectors := musttest.Get(files.Open(filepath.Join(root, "vectors")))(t)
	store, kept := &faulty{Store: memory.New()}, &deaf{Store: recordsmemory.New()}
	stores := &app.Stores{Artifacts: artifacts, Records: kept, Coordination: store, Vectors: vectors}
	t.Cleanup(func() { _ = stores.Close() })
	fake := &controltest.Temporal{
		Executions: map[string]enums.WorkflowExecutionStatus{}, Hidden: map[string]bool{}, Runs: map[string]int{},
		Pollers: 1, Computers: 1,
	}
	own := config.Default()
	own.Models.Endpoints = []config.Endpoint{
		{APIKeyEnv: "OPS_TEST_UNSET"}, {BaseURL: "http://127.0.0.1:1/v1", APIKeyEnv: "OPS_TEST_KEY"},
	}
	require.NoError(t, stores.LoadGrants(filepath.Join(root, "roots.json")))
	svc := &service.Service{
		Client: fake, Engine: config.Engine{Address: "127.0.0.1:7233", Namespace: "default", TaskQueue: "unweaver"},
		Stores: stores, Models: app.NewModels(store, own), Heartbeat: time.Minute, Grant: stores.GrantCorpora,
	}
	return &bench{svc, t, fake, store, kept, artifact.Index{Store: artifacts, Name: "docs"}}
}

// onBench tests a bench in a test of its own.
func onBench(t *testing.T, name string, test func(t *testing.T, b *bench)) {
	t.Run(name, func(t *testing.T) { test(t, newBench(t)) })
}

// inTime tests a bench in a time of its own.
func inTime(t *testing.T, test func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) { test(t, newBench(t)) })
}

func (b *bench) must(err error) { require.NoError(b.t, err) }

func (b *bench) setState(run string, state core.RunState) {
	state.Report.Run = run
	state.Report.Index, state.Report.Generation, _ = strings.Cut(run, "/")
	b.must(b.Stores.Coordination.SetState(b.t.Context(), run, encode(b.t, state)))
}

func (b *bench) writeReport(generation, status string) {
	report := core.Report{Index: "docs", Generation: generation, Run: "docs/" + generation, Status: status}
	musttest.Get(blob.WriteJSON(b.t.Context(), b.art.Store, b.art.GenerationKey(generation, "report.json"), report,
		blob.Cond{}))(b.t)
}

func (b *bench) write(key, content string) {
	musttest.Get(blob.Write(b.t.Context(), b.art.Store, key, []byte(content), blob.Cond{}))(b.t)
}

func (b *bench) spec(index string) core.Spec {
	return core.Spec{
		Index: index, Corpus: b.t.TempDir(), Chat: core.ChatModel{Provider: "builtin"},
		Embedding: core.EmbedModel{Provider: "builtin"},
	}
}

var errDown = errors.New("connection refused")

type readOnly struct{ blob.Store }

func (r readOnly) Put(context.Context, string, io.Reader, int64, blob.Cond) (blob.Info, error) {
	return blob.Info{}, fault.StoreDenied.At("write", "bucket").Because("read only").Advise("check the credentials")
}

var errNoRight = fault.StoreDenied.At("ask", "bucket").Because("no such right")

type unlisted struct{ blob.Store }

func (u unlisted) List(context.Context, string, string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, errNoRight) }
}

type undeleted struct{ blob.Store }

func (u undeleted) DeleteAll(context.Context, []string) error { return errNoRight }

type unconditional struct{ blob.Store }

func (u unconditional) Put(ctx context.Context, key string, r io.Reader, n int64, _ blob.Cond) (blob.Info, error) {
	return u.Store.Put(ctx, key, r, n, blob.Cond{})
}
