package host_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/telemetry"
	"github.com/unweaver/unweaver/internal/telemetry/health"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/worker/host"
)

func TestMain(m *testing.M) {
	sandbox.RunChild()
	os.Exit(m.Run())
}

// server is as much of a Temporal server as a worker needs to begin: it has no work, and notes who polls.
type server struct {
	workflowservice.UnimplementedWorkflowServiceServer
	operatorservice.UnimplementedOperatorServiceServer

	mu         sync.Mutex
	activities []*workflowservice.PollActivityTaskQueueRequest
	computing  []*workflowservice.PollActivityTaskQueueRequest // of the queue beside it
	workflows  []*workflowservice.PollWorkflowTaskQueueRequest
	polls      map[string]int                // for activities that wait now, by queue
	most       int                           // of one queue at once
	status     enums.WorkflowExecutionStatus // of every run; 0: none is known
	attributes map[string]enums.IndexedValueType
	added      int
	refuse     error // of adding attributes
	pollers    []*taskqueue.PollerInfo
	cluster    string
	clusterErr error
}

func (s *server) GetClusterInfo(
	context.Context, *workflowservice.GetClusterInfoRequest,
) (*workflowservice.GetClusterInfoResponse, error) {
	return &workflowservice.GetClusterInfoResponse{ClusterId: s.cluster}, s.clusterErr
}

func (s *server) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{
		ServerVersion: "1.29.7", Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{},
	}, nil
}

func (s *server) DescribeNamespace(
	context.Context, *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

func (s *server) PollActivityTaskQueue(
	ctx context.Context, request *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	queue := request.GetTaskQueue().GetName()
	s.mu.Lock()
	if strings.HasSuffix(queue, "-cpu") {
		s.computing = append(s.computing, request)
	} else {
		s.activities = append(s.activities, request)
	}
	if s.polls == nil {
		s.polls = map[string]int{}
	}
	s.polls[queue]++
	s.most = max(s.most, s.polls[queue])
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polls[queue]--
	return &workflowservice.PollActivityTaskQueueResponse{}, nil
}

func (s *server) PollWorkflowTaskQueue(
	ctx context.Context, request *workflowservice.PollWorkflowTaskQueueRequest,
) (*workflowservice.PollWorkflowTaskQueueResponse, error) {
	s.mu.Lock()
	s.workflows = append(s.workflows, request)
	s.mu.Unlock()
	<-ctx.Done()
	return &workflowservice.PollWorkflowTaskQueueResponse{}, nil
}

func (s *server) DescribeWorkflowExecution(
	context.Context, *workflowservice.DescribeWorkflowExecutionRequest,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if s.status == 0 {
		return nil, serviceerror.ToStatus(serviceerror.NewNotFound("no such run")).Err()
	}
	if s.status == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED {
		return nil, status.Error(codes.PermissionDenied, "not yours")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{Status: s.status},
	}, nil
}

func (s *server) DescribeTaskQueue(
	context.Context, *workflowservice.DescribeTaskQueueRequest,
) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: s.pollers}, nil
}

func (s *server) ListSearchAttributes(
	context.Context, *operatorservice.ListSearchAttributesRequest,
) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: s.attributes}, nil
}

func (s *server) AddSearchAttributes(
	_ context.Context, request *operatorservice.AddSearchAttributesRequest,
) (*operatorservice.AddSearchAttributesResponse, error) {
	s.added++
	if s.refuse != nil {
		return nil, s.refuse
	}
	for name, kind := range request.SearchAttributes {
		s.attributes[name] = kind
	}
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

func connect(t *testing.T, s *server) client.Client {
	listener, serving := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t), grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(serving, s)
	operatorservice.RegisterOperatorServiceServer(serving, s)
	go func() { _ = serving.Serve(listener) }()
	t.Cleanup(serving.Stop)
	connected := musttest.Get(client.Dial(client.Options{
		HostPort: listener.Addr().String(), Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	}))(t)
	t.Cleanup(connected.Close)
	return connected
}

func configured(t *testing.T, s *server) host.Config {
	stores := musttest.Get(app.Open(t.Context(), app.FillPaths(config.Default().Stores, t.TempDir())))(t)
	t.Cleanup(func() { _ = stores.Close() })
	return host.Config{
		Client: connect(t, s), Engine: config.Engine{TaskQueue: "q"}, Stores: stores, Models: app.NewModels(stores.Coordination, nil),
		CacheDir: t.TempDir(), Drain: 10 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}
}

// polled starts a worker, waits until it asks for all work of its role, and stops it.
func polled(t *testing.T, config host.Config, s *server) {
	t.Helper()
	running := musttest.Get(host.Start(config))(t)
	defer running.Stop()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		s.mu.Lock()
		both := (len(s.activities) > 0 || config.Role == host.RoleCPU) &&
			(len(s.workflows) > 0 || config.Role == host.RoleCPU) && (len(s.computing) > 0 || config.Role == host.RoleIO)
		s.mu.Unlock()
		if both {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the worker did not poll")
}

func TestAWorkerAsksForWorkflowsAndActivitiesOfItsQueue(t *testing.T) {
	s := &server{}
	polled(t, configured(t, s), s)
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, "q", s.activities[0].GetTaskQueue().GetName(), "it polls queue")
	assert.Equal(t, "q-cpu", s.computing[0].GetTaskQueue().GetName(), "for what fills a core it polls queue")
	if s.workflows[0].GetDeploymentOptions().GetWorkerVersioningMode() == enums.WORKER_VERSIONING_MODE_VERSIONED {
		t.Error("a worker without a version says that it has one")
	}
}

func TestAWorkerOfARoleAsksForItsWorkAlone(t *testing.T) {
	for role, left := range map[host.Role]func(*server) int{
		host.RoleIO:  func(s *server) int { return len(s.computing) },
		host.RoleCPU: func(s *server) int { return len(s.activities) + len(s.workflows) },
	} {
		s := &server{}
		config := configured(t, s)
		config.Role = role
		polled(t, config, s)
		s.mu.Lock()
		assert.True(t, left(s) <= 0, "a worker of role %s polls the other's queue: %v %v", role, s.activities, s.computing)
		s.mu.Unlock()
	}
}

// A worker of one slot does one activity of each queue at a time; one of a thousand asks by no more calls for it.
func TestSlotsAreThoseOfEachQueue(t *testing.T) {
	for _, slots := range []int{1, 1000} {
		s := &server{}
		config := configured(t, s)
		config.Slots, config.CPUSlots = slots, slots
		polled(t, config, s)
		s.mu.Lock()
		asked := s.most
		s.mu.Unlock()
		assert.True(t, asked <= min(slots, 4), "%d slots: %d polls of a queue at once", slots, asked)
	}
}

func TestAVersionedWorkerBelongsToItsDeployment(t *testing.T) {
	s := &server{}
	config := configured(t, s)
	config.Engine.Deployment.Versioned, config.Engine.Deployment.Name, config.Engine.Deployment.BuildID = true, "unweaver", "v42"
	polled(t, config, s)
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.workflows[0].GetDeploymentOptions()
	assert.True(t, got.GetDeploymentName() == "unweaver" && got.GetBuildId() == "v42" &&
		got.GetWorkerVersioningMode() == enums.WORKER_VERSIONING_MODE_VERSIONED, "deployment %v", got)
}

func TestWhatTheEngineKnowsAboutARun(t *testing.T) {
	for _, test := range []struct {
		name   string
		status enums.WorkflowExecutionStatus
		want   run.Standing
		fails  bool
	}{
		{"unknown", 0, run.StandingUnknown, false},
		{"running", enums.WORKFLOW_EXECUTION_STATUS_RUNNING, run.StandingOpen, false},
		{"completed", enums.WORKFLOW_EXECUTION_STATUS_COMPLETED, run.StandingClosed, false},
		{"the server does not tell", enums.WORKFLOW_EXECUTION_STATUS_TERMINATED, run.StandingUnknown, true},
	} {
		engine := host.Engine{Client: connect(t, &server{status: test.status})}
		got, err := engine.DescribeRun(t.Context(), run.Holder{Workflow: "build/i/g", Run: "r"})
		assert.True(t, got == test.want && (err != nil) == test.fails, "%s: %v, %v", test.name, got, err)
	}
}

func TestAnEngineIsNamedByItsClusterAndElseByItsAddress(t *testing.T) {
	for name, test := range map[string]struct {
		cluster string
		answer  error
		want    string
		fails   bool
	}{
		"it has its id":         {cluster: "c-1", want: "c-1"},
		"it has no id":          {want: "address:temporal:7233"},
		"it does not let us":    {answer: status.Error(codes.PermissionDenied, "no"), want: "address:temporal:7233"},
		"it knows no such call": {answer: status.Error(codes.Unimplemented, "no"), want: "address:temporal:7233"},
		"it fails":              {answer: status.Error(codes.Internal, "broken"), fails: true},
	} {
		connected := connect(t, &server{cluster: test.cluster, clusterErr: test.answer})
		named, err := host.Engine{Client: connected, Place: config.Engine{Address: "temporal:7233", Namespace: "n"}}.Identity(t.Context())
		if test.fails {
			assert.True(t, fault.Is(err, fault.EngineDown), "%s: %v", name, err)
			continue
		}
		want := core.Engine{Cluster: test.want, Address: "temporal:7233", Namespace: "n"}
		assert.True(t, err == nil && named == want, "%s: %+v, %v", name, named, err)
	}
}

func TestAServerThatDoesNotLetUsIsNoError(t *testing.T) {
	for name, test := range map[string]struct {
		refuse error
		want   bool
	}{
		"no permission":             {status.Error(codes.PermissionDenied, "not yours"), false},
		"another worker was faster": {serviceerror.ToStatus(serviceerror.NewAlreadyExists("there")).Err(), true},
	} {
		s := &server{attributes: map[string]enums.IndexedValueType{}, refuse: test.refuse}
		var logged strings.Builder
		got := host.Register(t.Context(), connect(t, s), "default", slog.New(slog.NewTextHandler(&logged, nil)))
		assert.True(t, got == test.want && (logged.Len() == 0) == test.want, "%s: %v, log %q", name, got, logged.String())
	}
}

func TestTheProbeWantsAWorkerOnTheQueue(t *testing.T) {
	s := &server{}
	connected := connect(t, s)
	musttest.Fail(t, host.RequirePoller(t.Context(), connected, "q", host.RoleAll), fault.EngineDown)
	s.pollers = []*taskqueue.PollerInfo{{Identity: "w"}}
	assert.NoError(t, host.RequirePoller(t.Context(), connected, "q", host.RoleAll))
}

// fetch asks a server on loopback; a host is the name that it is asked by.
func fetch(t *testing.T, address, path, name string) (int, string) {
	request := musttest.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil))(t)
	if name != "" {
		request.Host = name
	}
	response := musttest.Get(http.DefaultClient.Do(request))(t)
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode, string(musttest.Get(io.ReadAll(response.Body))(t))
}

func TestAWorkerTellsWhetherItLivesAndIsReady(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	serving := musttest.Get(health.Serve("worker.address", "127.0.0.1:0", telemetry.New("worker"), quiet))(t)
	defer func() { _ = serving.Close() }()
	opened := serving.WatchStart(quiet)("engine")
	status, body := fetch(t, serving.Address(), "/readyz", "")
	assert.True(t, status == 503 && strings.Contains(body, `"engine":"opening"`), "ready before it works: %d %s", status, body)
	opened()
	serving.SetReady(host.CheckEngine(connect(t, &server{})))
	for path, want := range map[string]int{"/livez": 200, "/metrics": 200, "/": 404} {
		status, body := fetch(t, serving.Address(), path, "")
		assert.True(t, status == want, "%s: %d %s", path, status, body)
	}
	// The engine of this test knows no health check: it does not answer.
	status, body = fetch(t, serving.Address(), "/readyz", "")
	assert.True(t, status == 503 && strings.Contains(body, "engine_unavailable"), "ready without an engine: %d %s", status, body)
	err := health.Probe(t.Context(), "worker.address", serving.Address())
	musttest.Fail(t, err, fault.StoreDown, `"engine":"engine_unavailable"`)
	serving.Drain()
	status, body = fetch(t, serving.Address(), "/readyz", "")
	assert.True(t, status == 503 && strings.Contains(body, "stopping"), "ready while it stops: %d %s", status, body)
	status, _ = fetch(t, serving.Address(), "/metrics", "attacker.example")
	assert.True(t, status == 421, "a page of another name reads metrics: %d", status)
	musttest.Refuse(health.Serve("worker.address", serving.Address(), telemetry.New("worker"), quiet))(t, fault.PortTaken,
		"worker.address")
}

func metrics(t *testing.T, process *telemetry.Process, until string) string {
	t.Helper()
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	serving := &http.Server{Handler: process.Handler(), ReadHeaderTimeout: time.Second}
	go func() { _ = serving.Serve(listener) }()
	defer func() { _ = serving.Close() }()
	text := ""
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		if _, text = fetch(t, listener.Addr().String(), "/", ""); strings.Contains(text, until) {
			return text
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("metrics never held %q:\n%s", until, text)
	return ""
}

func TestAWorkerTellsHowIndexesStand(t *testing.T) {
	config := configured(t, &server{})
	config.Telemetry = telemetry.New("worker")
	config.Stores.SetObserver(config.Telemetry)
	index := artifact.Index{Store: config.Stores.Artifacts, Name: "docs"}
	made := time.Now().Add(-2 * time.Hour).UTC()
	manifest := &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g1", Created: made, Seq: 1,
		Segments: core.Segments{Splits: []core.Split{{}}},
	}
	manifest.Counts.Documents, manifest.Counts.Chunks, manifest.Counts.DeadLetters = 7, 21, 2
	sha := musttest.Get(publish.Store(t.Context(), index, manifest, "published"))(t)
	if _, err := release.Flip(t.Context(), release.FlipIn{
		Artifacts: index, Mirror: config.Stores.Coordination, Generation: "g1", Manifest: sha, Seq: 1,
	}); err != nil {
		t.Fatal(err)
	}
	runs := config.Stores.Coordination
	state := core.RunState{Stage: "extract", Total: 50, RunID: "r"}
	state.Report.Status = core.StatusRunning
	raw := musttest.Get(json.Marshal(state))(t)
	account := musttest.Get(json.Marshal(run.Account{Done: map[string]int64{"extract": 30}}))(t)
	for key, value := range map[string][]byte{"docs/g2": raw, runlog.LatestBuild("docs"): []byte("docs/g2")} {
		require.NoError(t, runs.SetState(t.Context(), key, value))
	}
	for name, settled := range map[string]string{"approved": "published", "dropped": "discarded", "open": "held"} {
		one := artifact.Index{Store: config.Stores.Artifacts, Name: name}
		state := core.RunState{RunID: "r"}
		state.Report = core.Report{Index: name, Generation: "g1", Status: "held", Reason: "recall"}
		raw := musttest.Get(json.Marshal(state))(t)
		for key, value := range map[string][]byte{name + "/g1": raw, runlog.LatestBuild(name): []byte(name + "/g1")} {
			require.NoError(t, runs.SetState(t.Context(), key, value))
		}
		musttest.Get(blob.Write(t.Context(), one.Store, one.GenerationKey("g1", "manifest.json"),
			[]byte(`{"state":"`+settled+`"}`), blob.Cond{}))(t)
	}
	require.NoError(t, runs.SetAccount(t.Context(), "docs/g2", "w", account))
	config.CPUSlots = 6
	authority := musttest.Get(pki.New("test", time.Hour))(t)
	pair := musttest.Get(authority.IssueClient("worker", time.Hour))(t)
	config.Engine.TLSCert = filepath.Join(t.TempDir(), "client.pem")
	require.NoError(t, os.WriteFile(config.Engine.TLSCert, pair.Cert, 0o600))
	running := musttest.Get(host.Start(config))(t)
	defer running.Stop()
	for _, want := range []string{
		`unweaver_index_documents{index="docs"} 7`, `unweaver_index_chunks{index="docs"} 21`,
		`unweaver_index_dead_letters{index="docs"} 2`, `unweaver_index_generation_age_seconds{index="docs"} 720`,
		`unweaver_run_status{index="docs",reason="",status="running"} 1`,
		`unweaver_run_status{index="approved",reason="",status="completed"} 1`,
		`unweaver_run_status{index="dropped",reason="",status="cancelled"} 1`,
		`unweaver_run_status{index="open",reason="recall",status="held"} 1`,
		`unweaver_stage_done{index="docs",stage="extract"} 30`, `unweaver_stage_total{index="docs",stage="extract"} 50`,
		`unweaver_index_last_success_timestamp_seconds{index="docs"} 1.`, `unweaver_activity_slots{type="activity"} 64`,
		`unweaver_activity_slots{type="computing"} 6`, "unweaver_certificate_expires_timestamp_seconds 1.",
		`unweaver_store_operation_seconds_count{operation="get",store="artifacts"} `,
		`unweaver_store_operation_seconds_count{operation="state",store="coordination"} `,
	} {
		metrics(t, config.Telemetry, want) // one look at the indexes sets them one after another
	}
	config.Telemetry.CountPaid("docs", model.Extract, model.Usage{Prompt: 5, Completion: 2}, 0.5)
	metrics(t, config.Telemetry, `unweaver_index_cost_total{index="docs",task="extract"} 0.5`)
}
