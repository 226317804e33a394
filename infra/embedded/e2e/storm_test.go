package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/workflows"
)

// childVariable holds the settings of a child, as JSON: where it is set, this program is the embedded stack.
const childVariable = "UNWEAVER_STORM_CHILD"

// child is an embedded stack in a process of its own, which can be killed and started again.
type child struct {
	Dir       string        `json:"dir"`
	Heartbeat time.Duration `json:"heartbeat"` // of the runs that it starts; 0: the stack's own
	Small     bool          `json:"small"`     // builds have small shards and batches, so that a small corpus lasts
	Settings  []string      `json:"settings"`

	begun   time.Time // when the process was started last
	control control.Control
	engine  client.Client
	http    string
	process *exec.Cmd
}

// serveChild runs the stack until it is killed, where this process is a child.
func serveChild() bool {
	raw := os.Getenv(childVariable)
	if raw == "" {
		return false
	}
	var of child
	err := json.Unmarshal([]byte(raw), &of)
	cfg, wrong := config.Load(config.Source{Set: of.Settings})
	if err == nil && wrong == nil {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		var running *stack.Stack
		running, err = stack.Start(context.Background(), stack.Options{DataDir: of.Dir, Config: cfg, Log: log})
		if err == nil {
			if of.Heartbeat > 0 {
				running.Control.Heartbeat = of.Heartbeat
			}
			if of.Small {
				running.Control.Client = shaper{running.Control.Client}
			}
			err = <-running.WatchFailure()
		}
	}
	fmt.Fprintln(os.Stderr, "stack:", err, wrong)
	os.Exit(1)
	return true
}

// shaper starts builds in small pieces.
type shaper struct{ service.Temporal }

func (s shaper) ExecuteWorkflow(
	ctx context.Context, options client.StartWorkflowOptions, name any, inputs ...any,
) (client.WorkflowRun, error) {
	for i, input := range inputs {
		if build, ok := input.(workflows.Build); ok {
			build.Shape.ShardChunks, build.Shape.BatchChunks = 200, 32
			inputs[i] = build
		}
	}
	return s.Temporal.ExecuteWorkflow(ctx, options, name, inputs...)
}

// start starts the process and returns when it answers.
func (s *child) start(t testing.TB) {
	t.Helper()
	require.NoError(t, os.MkdirAll(s.Dir, 0o700))
	log := musttest.Get(os.OpenFile(s.Dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(t)
	defer func() { _ = log.Close() }()
	s.process = exec.Command(musttest.Get(os.Executable())(t))
	s.process.Env = append(os.Environ(), childVariable+"="+string(musttest.Get(json.Marshal(s))(t)))
	s.process.Stdout, s.process.Stderr, s.process.SysProcAttr = log, log, devserver.ChildAttributes()
	s.begun = time.Now()
	require.NoError(t, s.process.Start())
	for time.Since(s.begun) < 2*time.Minute {
		dev, ok := stack.ReadDev(s.Dir)
		if !ok || dev.PID != s.process.Process.Pid {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		s.http, s.control = dev.HTTP, httpapi.NewClient(dev.HTTP, dev.Token).Control
		at := config.Engine{Address: dev.Temporal, Namespace: devserver.Namespace, CodecKey: stack.CodecKey(s.Dir)}
		s.engine = musttest.Get(engine.Dial(t.Context(), at, slog.New(slog.DiscardHandler)))(t)
		return
	}
	s.kill()
	raw, _ := os.ReadFile(s.Dir + ".log")
	t.Fatalf("the stack was not ready in two minutes: %s", raw[max(0, len(raw)-2000):])
}

// kill ends the process at once, as kill -9 does.
func (s *child) kill() {
	if s.process == nil {
		return
	}
	_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL)
	_ = s.process.Wait()
	s.process = nil
	s.engine.Close()
}

var (
	people = strings.Fields("Ada Bela Cato Dora Edda Fenna Gero Hanno Ilka Joris Karla Levin Mira Nils Oda Piet")
	family = strings.Fields("Abend Bruck Corvin Dorn Ehlers Falk Gerlach Hofer Imhof Jansen Kolb Lorenz Merrow Quarrie")
	places = strings.Fields("Ashford Birkdale Carlow Dunmore Elgin Fermoy Galway Harwich Ilford Jarrow Kelso Oban")
	deeds  = []string{
		"repaired the harbour crane at", "wrote a long report about the bridge of", "sold the old observatory of",
		"planted four hundred lime trees near", "measured the tides at", "ran the ferry that leaves from",
	}
)

// writeDocuments writes a generated corpus, dense in names, as it is in night 0 or 1. In night 1 a fifth of the
// documents has another ending, one in thirty is gone, and some are new.
func writeDocuments(t *testing.T, folder string, count, night int) {
	text := func(document, night int) string {
		random := rand.New(rand.NewPCG(7+uint64(night)<<32, uint64(document)))
		of := func(words []string) string { return words[random.IntN(len(words))] }
		var out strings.Builder
		for range 5 + random.IntN(4) {
			fmt.Fprintf(&out, "In %d %s %s %s %s together with %s %s. ", 1850+random.IntN(150), of(people), of(family),
				of(deeds), of(places), of(people), of(family))
		}
		return out.String()
	}
	for i := range count + count/20 {
		path := filepath.Join(folder, fmt.Sprintf("d%04d.txt", i))
		if night == 0 && i >= count || night > 0 && i < count && i%30 == 7 {
			require.NoError(t, os.RemoveAll(path))
			continue
		}
		content := text(i, 0)
		if night > 0 && i < count && i%5 == 3 {
			content += text(i, night)
		}
		writeFile(t, path, content)
	}
}

const tides = "Ada Merrow and Joris Quarrie measured the tides"

// inFlight is an activity that a worker has.
type inFlight struct {
	kind    string
	started time.Time
}

// listFlights asks the engine what workers have of a workflow and its children. open is false once it has ended.
func listFlights(ctx context.Context, engine client.Client, id string) (all []inFlight, open bool, err error) {
	described, err := engine.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return nil, true, err
	}
	for _, pending := range described.GetPendingActivities() {
		if pending.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED {
			all = append(all, inFlight{pending.GetActivityType().GetName(), pending.GetLastStartedTime().AsTime()})
		}
	}
	for _, child := range described.GetPendingChildren() {
		if more, _, err := listFlights(ctx, engine, child.GetWorkflowId()); err == nil { // it may have ended meanwhile
			all = append(all, more...)
		}
	}
	return all, described.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// countLost adds, by kind, the attempts of activities that did not end by themselves: each began anew after a kill.
func countLost(t *testing.T, engine client.Client, run *commonpb.WorkflowExecution, lost map[string]int) {
	kinds := map[int64]string{}
	events := engine.GetWorkflowHistory(
		t.Context(), run.GetWorkflowId(), run.GetRunId(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event := musttest.Get(events.Next())(t)
		if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
			kinds[event.GetEventId()] = scheduled.GetActivityType().GetName()
		}
		if started := event.GetActivityTaskStartedEventAttributes(); started.GetAttempt() > 1 {
			lost[kinds[started.GetScheduledEventId()]] += int(started.GetAttempt()) - 1
		}
		if child := event.GetChildWorkflowExecutionStartedEventAttributes(); child != nil {
			countLost(t, engine, child.GetWorkflowExecution(), lost)
		}
	}
}

// stormed are the activities of a build, in the order in which they first begin.
var stormed = []string{
	workflows.TakeLease, workflows.BeginStage, workflows.PlanBuild, workflows.ChunkDocuments, workflows.SealChunks,
	workflows.ExtractChunks, workflows.SealShard, workflows.SealExtraction, workflows.ReducePartition,
	workflows.ShortenPartition, workflows.EmbedPart, workflows.LoadPart, workflows.WriteSegments, workflows.VerifyPart,
	workflows.PublishBuild, workflows.CollectGarbage, workflows.EndBuild,
}

// storm kills a stack while activities are in flight of which kills are still wanted.
type storm struct {
	t                 *testing.T
	stack             *child
	models            *modeltest.Server
	random            *rand.Rand
	wanted, lost, now map[string]int // kills in each kind of activity: wanted, done, of this build
	chat, texts       int64          // what may have been paid twice: what was in flight at kills, or not yet stored
	begun             chan struct{}  // closed once the request for a build was answered
}

// start asks for the build, also again where a kill came before the engine had it. It does not wait: what the build
// does first is to be hit as well.
func (s *storm) start(request control.IndexRequest) {
	if s.begun != nil {
		select {
		case <-s.begun:
		default:
			return
		}
	}
	begun, serving := make(chan struct{}), s.stack.control
	s.begun = begun
	go func() {
		defer close(begun)
		_, _ = serving.BuildIndex(context.WithoutCancel(s.t.Context()), request) // the engine is asked whether it is there
	}()
}

// build does one build and kills the stack while there is something to hit.
func (s *storm) build(request control.IndexRequest) control.Status {
	run := request.Spec.Index + "/" + request.Generation
	s.begun, s.now = nil, map[string]int{}
	s.start(request)
	for begun, turn := time.Now(), 0; ; time.Sleep(time.Millisecond) {
		require.True(s.t, time.Since(begun) < 10*time.Minute, "%s does not end", run)
		flights, open, err := listFlights(s.t.Context(), s.stack.engine, workflows.WorkflowID(run))
		if err != nil { // the engine does not know it yet
			s.start(request)
			continue
		}
		if !open {
			break
		}
		hit := s.choose(flights)
		if hit == "" {
			continue
		}
		if turn++; turn%2 == 0 { // a random instant of it, if it lasts as long
			time.Sleep(time.Duration(s.random.IntN(200)) * time.Millisecond)
			if flights, _, err = listFlights(s.t.Context(), s.stack.engine, workflows.WorkflowID(run)); err != nil ||
				s.choose(flights) == "" {
				continue
			}
			hit = s.choose(flights)
		}
		s.now[hit]++
		s.strike(run, hit, flights)
	}
	status := completed(s.t, wait(s.t, s.stack.control, run))
	countLost(s.t, s.stack.engine, &commonpb.WorkflowExecution{WorkflowId: workflows.WorkflowID(run)}, s.lost)
	return status
}

// choose returns the kind of an activity in flight of which kills are wanted; empty: there is none. Of one build a kind
// is hit four times at most: each costs it a retry.
func (s *storm) choose(flights []inFlight) string {
	for _, one := range flights {
		if one.started.After(s.stack.begun) && s.now[one.kind] < min(4, s.wanted[one.kind]-s.lost[one.kind]) {
			return one.kind
		}
	}
	return ""
}

// strike kills the stack, starts it again, and waits until work goes on.
func (s *storm) strike(run, hit string, flights []inFlight) {
	for _, one := range flights {
		switch one.kind {
		case workflows.ExtractChunks, workflows.ShortenPartition:
			s.chat += unsaved // a disk that is slower than the model keeps as many answers waiting
		case workflows.ChunkDocuments: // with the first unit's chunks it is seen whether models answer
			s.chat, s.texts = s.chat+1, s.texts+1
		case workflows.EmbedPart:
			s.texts += flight * embed.MaxItems
		}
	}
	s.stack.kill()
	s.stack.start(s.t)
	for {
		flights, open, err := listFlights(s.t.Context(), s.stack.engine, workflows.WorkflowID(run))
		if err != nil || !open || len(flights) > 0 && flights[0].started.After(s.stack.begun) {
			break // it was not there yet, has ended, or goes on
		}
		require.True(s.t, time.Since(s.stack.begun) < bound, "no work went on after a kill in %s", hit)
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Logf("killed in %s: work goes on after %s", hit, time.Since(s.stack.begun).Round(time.Millisecond))
}

// isWanted reports whether kills are wanted still.
func (s *storm) isWanted() bool {
	for kind, kills := range s.wanted {
		if s.lost[kind] < kills {
			return true
		}
	}
	return false
}

// settle checks that two nights paid nothing twice beyond what was in flight at kills, and forgets them.
func (s *storm) settle(calm modeltest.Stats) {
	for s.models.Stats().InFlight > 0 { // answers to those who have gone
		time.Sleep(10 * time.Millisecond)
	}
	paid := s.models.Stats()
	chat, texts := s.chat+calm.Duplicates, s.texts+calm.EmbedTwice+2 // each night's question is embedded by a new process
	assert.True(s.t, paid.Duplicates <= chat && paid.EmbedTwice <= texts, "paid twice: %d answers, %d texts; %d and %d may "+
		"have been in flight", paid.Duplicates, paid.EmbedTwice, chat, texts)
	s.chat, s.texts = 0, 0
	s.models.Reset()
}

// bound of the time from a restart until work goes on: thirty seconds where the machine has little else to do. What it
// must catch, work that waits for a timeout of the engine or of a lease, takes minutes.
const bound = 2 * time.Minute

// stormSpec keeps one generation, so that every night has something to collect.
func stormSpec(t *testing.T, index, documents, models string) core.Spec {
	at := "indexes." + index + "."
	return spec(t, index, documents, nil, "models.chat.provider=openai", "models.chat.model=storm",
		"models.chat.api_key_env=E2E_KEY", "models.chat.base_url="+models, "models.embedding.provider=openai",
		"models.embedding.model=storm", "models.embedding.api_key_env=E2E_KEY", "models.embedding.base_url="+models,
		fmt.Sprintf("models.limits.concurrency=%d", flight), at+"chunking.strategy=document", at+"shortening.threshold=400",
		at+"keep=1", at+"grace=1s")
}

// stormModels starts a model server for storms.
func stormModels(t *testing.T, latency time.Duration) *modeltest.Server {
	options := modeltest.Options{Latency: latency, EmbedLatency: 2 * latency, Shuffle: true, Dimension: 64}
	server := modeltest.Start(t, options)
	name(server.URL)
	return server
}

// Kills while work is in flight, in every stage and in the short activities between them: the same index as an
// undisturbed run, nothing paid twice beyond what was in flight, and work that goes on soon. UNWEAVER_STORM is how many
// kills there are at least (make storm).
// Promises: 1, 2, 110.
func TestKilledInEveryStageABuildEndsAsIfUndisturbed(t *testing.T) {
	longtest.Nightly(t)
	const documents, lanes = 400, 3
	each := 3 // kills of each kind
	if kills, err := strconv.Atoi(stormKills); err == nil {
		each = max(each, (kills+len(stormed)-1)/len(stormed))
	}
	type night struct {
		status control.Status
		chunks []string
	}
	calm, folder, calmly := stormModels(t, 0), t.TempDir(), []night{}
	for n := range 2 {
		writeDocuments(t, folder, documents, n)
		status := completed(t, index(t, shared.Control, stormSpec(t, "calm", folder, calm.URL)))
		calmly = append(calmly, night{status, answers(t, shared.HTTP, "calm", tides)})
	}
	twice := calm.Stats() // two nights pay some texts twice without any kill, too
	for lane := range lanes {
		t.Run(fmt.Sprint(lane), func(t *testing.T) {
			t.Parallel()
			s := &storm{
				t: t, random: rand.New(rand.NewPCG(uint64(lane), 26)), wanted: map[string]int{}, lost: map[string]int{},
				models: stormModels(t, 60*time.Millisecond),
			}
			for i := lane; i < len(stormed); i += lanes {
				s.wanted[stormed[i]] = each
			}
			s.stack = &child{
				Dir: filepath.Join(t.TempDir(), "data"), Heartbeat: 2 * time.Second, Small: true,
				Settings: []string{"models.endpoints=" + s.models.URL + "=E2E_KEY"},
			}
			s.stack.start(t)
			t.Cleanup(s.stack.kill)
			folder := t.TempDir()
			for n := 0; n < 2 || n%2 == 1 || s.isWanted() && n < 4*each; n++ {
				if n > 0 && n%2 == 0 { // from nothing again: everything is paid again, and is to be
					s.stack.kill()
					s.settle(twice)
					require.NoError(t, os.RemoveAll(s.stack.Dir))
					s.stack.start(t)
				}
				writeDocuments(t, folder, documents, n%2)
				got := s.build(control.IndexRequest{
					Spec: stormSpec(t, "storm", folder, s.models.URL), Generation: fmt.Sprint("n", n),
				})
				same(t, got, calmly[n%2].status)
				assert.Equal(t, calmly[n%2].chunks, answers(t, s.stack.http, "storm", tides))
			}
			s.settle(twice)
			for kind, kills := range s.wanted {
				assert.True(t, s.lost[kind] >= kills, "%s was hit %d times, want %d", kind, s.lost[kind], kills)
			}
			t.Logf("attempts that kills ended: %v", s.lost)
		})
	}
}

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
