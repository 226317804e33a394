package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
	"github.com/unweaver/unweaver/internal/testkit/storm/proxy"
	"github.com/unweaver/unweaver/workflows"
)

// The size of a storm: UNWEAVER_STORM is the number of kills, 0 = a short one, UNWEAVER_STORM_OUT a folder for its
// report (make storm). Programs that tests start refuse variables that are no setting, so both are taken away.
var (
	stormKills = taken("UNWEAVER_STORM")
	stormOut   = taken("UNWEAVER_STORM_OUT")
)

func taken(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	return value
}

// bound of the time in seconds from a restart until work goes on: thirty where the machine has little else to do. What
// it must catch, work that waits for a timeout of the engine or of a lease, takes minutes.
const bound = 120.0

func stormOptions(t *testing.T, seed uint64, deadline time.Time) storm.Options {
	return storm.Options{
		Folder: t.TempDir(), Seed: seed, PerBuild: 4, Deadline: deadline, Documents: storm.Documents{Count: 400, Seed: 7},
		Flight: flight, Latency: 60 * time.Millisecond, Embed: 120 * time.Millisecond, Heartbeat: 2 * time.Second,
		Shape: workflows.Shape{Format: workflows.Format, ShardChunks: 200, BatchChunks: 32}, Log: t.Logf,
		Spec: func(index, documents, models string) (core.Spec, error) {
			return stormSpec(t, index, documents, models), nil
		},
	}
}

// stormSpec keeps one generation, so that every night has something to collect.
func stormSpec(t *testing.T, index, documents, models string) core.Spec {
	at := "indexes." + index + "."
	return spec(t, index, documents, nil, "models.chat.provider=openai", "models.chat.model=storm",
		"models.chat.api_key_env=E2E_KEY", "models.chat.base_url="+models, "models.embedding.provider=openai",
		"models.embedding.model=storm", "models.embedding.api_key_env=E2E_KEY", "models.embedding.base_url="+models,
		fmt.Sprintf("models.limits.concurrency=%d", flight), at+"chunking.strategy=document", at+"shortening.threshold=400",
		at+"keep=1", at+"grace=1s")
}

// Kills while work is in flight, in every stage and in the short activities between them: the same index as an
// undisturbed run, nothing paid twice beyond what was in flight, and work that goes on soon
// (docs/invariants.md, 1 and 2).
// Promises: 1, 110.
func TestKilledInEveryStageABuildEndsAsIfUndisturbed(t *testing.T) {
	longtest.Nightly(t)
	const least = 3 // of each kind
	lanes, each, builds, within := 3, least, 12, 4*time.Minute
	if kills, err := strconv.Atoi(stormKills); err == nil {
		each = max(least, (kills+len(storm.Activities)-1)/len(storm.Activities))
		builds, within = kills, time.Duration(kills)*10*time.Second
	}
	want, typical, err := storm.Calm(t.Context(), stormOptions(t, 0, time.Time{}))
	require.NoError(t, err)
	t.Logf("activities last %v", typical)
	deadline, results := time.Now().Add(within), make([]storm.Result, lanes)
	var wg sync.WaitGroup
	for lane := range lanes {
		options := stormOptions(t, uint64(lane+1), deadline)
		options.Quota, options.Builds = map[string]int{}, builds
		for i, activity := range storm.Activities { // the lanes share them
			options.Quota[activity] = (each + (lane+i)%lanes) / lanes
		}
		wg.Go(func() {
			var err error
			results[lane], err = storm.Run(context.WithoutCancel(t.Context()), options, typical)
			assert.NoError(t, err, "lane %d", lane)
		})
	}
	wg.Wait()
	all := storm.Join(results...)
	t.Logf("\n%s", all.Table())
	if stormOut != "" {
		assert.NoError(t, all.Write(stormOut, "storm-embedded"))
	}
	wanted := least
	if time.Now().After(deadline) { // a slow machine: no kind may have been left out all the same
		t.Logf("the time was over before every kind was hit %d times: %v", each, all.Left)
		wanted = 1
	}
	judge(t, all, want, wanted)
}

func judge(t *testing.T, got storm.Result, want storm.Result, each int) {
	t.Helper()
	for i, night := range got.Nights {
		calm := want.Nights[i%len(want.Nights)]
		same(t, night.Status, calm.Status)
		assert.True(t, slices.Equal(night.Answers, calm.Answers), "chunks %v, undisturbed %v", night.Answers, calm.Answers)
	}
	for _, activity := range storm.Activities {
		hits := got.Hits(activity)
		assert.True(t, hits >= each, "%s was hit %d times, want %d", activity, hits, each)
	}
	worst := got.Worst()
	assert.True(t, worst <= bound, "work went on after %.0f s, want %.0f at most", worst, bound)
	chat, texts := got.Bound(flight)
	pairs := int64(len(got.Nights)+1) / 2 // of nights, which pay a text twice without any kill, too
	assert.True(t, got.Twice <= chat+pairs*want.Twice && got.Texts <= texts+pairs*want.Texts,
		"paid twice: %d answers, %d may have been in flight; %d texts, %d may have been in flight", got.Twice, chat,
		got.Texts, texts)
	t.Logf("undisturbed, %d answers and %d texts are paid twice in two nights", want.Twice, want.Texts)
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
func engineOf(t *testing.T, dir string) int {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		raw, err := os.ReadFile(filepath.Join(dir, "engine.pid"))
		number, _, _ := strings.Cut(string(raw), " ")
		if pid, perr := strconv.Atoi(number); err == nil && perr == nil && pid > 0 {
			return pid
		}
	}
	t.Fatal(fmt.Errorf("no engine runs over %s", dir))
	return 0
}

// retryStages are those of a round in order; it is killed once it has come to each.
var retryStages = []string{
	"", core.StagePlan, core.StageChunk, core.StageBatch, core.StageExtract, core.StageReduce, core.StageShorten,
	core.StageEmbed, core.StageLoad, core.StageSegment, core.StageVerify, core.StagePublish, core.StageCollect,
}

// A round of retry-failed whose process is killed at any step goes on by itself after the restart: retry-failed joins
// it, builds begin after it, its answers are there, and a call is paid twice only where it was in flight.
// Promises: 1.
func TestKilledInEveryStageARoundOfRetryFailedGoesOnByItself(t *testing.T) {
	for _, mode := range []string{"online", "batch"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel() // it has a stack of its own
			stages := slices.Clone(retryStages)
			if mode == "online" {
				stages = slices.DeleteFunc(stages, func(stage string) bool { return stage == core.StageBatch })
			}
			if !longtest.On() {
				stages = []string{"", stages[3], core.StagePublish} // stage 3: where the model is asked
			}
			killRounds(t, mode, stages)
		})
	}
}

const poison = "Zyxpoison"

func killRounds(t *testing.T, mode string, stages []string) {
	server := serve(t, modeltest.Options{})
	heal := func(options modeltest.Options) {
		server.Set(options)
		server.SetBatchFaults(modeltest.BatchFaults{Reject: options.Poison})
	}
	docs := write(t, map[string]string{"base.md": "# Harbour\n\nThe harbour of Porto was built in 1901 by Carla Ruiz.\n"})
	sp := spec(t, "docs", docs, server, "indexes.docs.chunking.strategy=document", "models.embedding.dimension=256",
		"models.chat.mode="+mode, "models.chat.batch.poll=200ms")
	own := storm.Stack{Child: storm.Child{
		Dir: filepath.Join(t.TempDir(), "data"), Heartbeat: 2 * time.Second,
		Settings: []string{"models.endpoints=" + server.URL + "=E2E_KEY"},
	}}
	require.NoError(t, own.Start(t.Context()))
	t.Cleanup(own.Kill)
	for n, stage := range stages {
		heal(modeltest.Options{Poison: poison})
		writeFile(t, fmt.Sprintf("%s/stone-%d.md", docs, n),
			fmt.Sprintf("# Stone %d\n\nThe %s stone of Verin %d was found by Dora Sanz.\n", n, poison, n))
		if night := index(t, own.Control, sp); night.Status != core.StatusErrors || night.DeadLetters != 1 {
			t.Fatalf("night %d is %s with %d dead letters", n, night.Status, night.DeadLetters)
		}
		heal(modeltest.Options{Latency: 200 * time.Millisecond, EmbedLatency: 200 * time.Millisecond})
		round := musttest.Get(own.Control.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"}))(t)
		reach(t, own.Control, round.Run, stage)
		own.Kill()
		require.NoError(t, own.Start(t.Context()))
		meetRound(t, own.Control, sp, round)
		completed(t, wait(t, own.Control, round.Run))
		letters, err := own.Control.DeadLetters(t.Context(), "docs")
		assert.True(t, err == nil && len(letters) == 0, "killed at %q: letters %+v, %v", stage, letters, err)
		begun := musttest.Get(own.Control.BuildIndex(t.Context(), control.IndexRequest{Spec: sp}))(t)
		completed(t, wait(t, own.Control, begun.Run))
	}
	if stats := server.Stats(); stats.Duplicates > int64(len(stages)) {
		t.Errorf("%d answers are paid twice, after %d kills with one call in flight", stats.Duplicates, len(stages))
	}
}

func reach(t *testing.T, c control.Control, run, stage string) {
	at := slices.Index(retryStages, stage)
	for begun := time.Now(); at > 0; time.Sleep(5 * time.Millisecond) {
		status := musttest.Get(c.ReadStatus(t.Context(), run))(t)
		if slices.Index(retryStages, status.Stage) >= at || core.IsTerminal(status.Status) {
			return
		}
		require.True(t, time.Since(begun) <= 2*time.Minute, "%s does not come to %s: it is at %s", run, stage, status.Stage)
	}
}

// meetRound asks for a round and for a build after a restart: while the killed round goes on the one is joined, and the
// other refused by its name.
func meetRound(t *testing.T, c control.Control, sp core.Spec, round control.Run) {
	again := musttest.Get(c.RetryFailed(t.Context(), control.LettersRequest{Name: "docs"}))(t)
	assert.True(t, (again.Run == "" || again.Run == round.Run && again.Attached), "beside %s: %+v", round.Run, again)
	status := musttest.Get(c.ReadStatus(t.Context(), round.Run))(t)
	if again.Run == "" || core.IsTerminal(status.Status) {
		return
	}
	_, err := c.BuildIndex(t.Context(), control.IndexRequest{Spec: sp})
	assert.True(t, err == nil || fault.Is(err, fault.LeaseHeld), "a build beside %s: %v", round.Run, err)
}

// night is what a build of the generated corpus ends in when nothing disturbs it.
type calmNight struct {
	status control.Status
	chunks []string
}

const tides = "Ada Merrow and Joris Quarrie measured the tides"

// calmNights builds the nights of a generated corpus on the embedded stack, undisturbed, and gives a folder for each.
func calmNights(t *testing.T, documents storm.Documents, nights int) (want []calmNight, folders []string) {
	server := modeltest.New(modeltest.Options{Shuffle: true, Dimension: 64})
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	name(server.URL)
	called, dir := "calm-"+core.Sum(t.Name(), fmt.Sprint(documents.Seed)).Short(8), t.TempDir()
	for night := range nights {
		folder := t.TempDir()
		for _, to := range []string{folder, dir} {
			require.NoError(t, documents.Write(to, night))
		}
		status := completed(t, index(t, shared.Control, stormSpec(t, called, dir, server.URL)))
		want = append(want, calmNight{status, answers(t, shared.HTTP, called, tides)})
		folders = append(folders, folder)
	}
	return want, folders
}

func slowModels(t *testing.T) *modeltest.Server {
	server := modeltest.New(modeltest.Options{
		Latency: 60 * time.Millisecond, EmbedLatency: 120 * time.Millisecond, Shuffle: true, Dimension: 64,
	})
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	name(server.URL)
	return server
}

// behindProxies puts a proxy before each store of a cluster: processes that start from here on go through them.
func (c *cluster) behindProxies(seed uint64) map[string]*proxy.Proxy {
	c.t.Helper()
	stores, all := c.cfg.Stores, map[string]*proxy.Proxy{}
	for i, store := range []struct{ name, setting, url string }{
		{"Redis", "STORES_CLASSES", stores.Classes}, {"S3", "STORES_S3_ENDPOINT", stores.S3.Endpoint},
		{"Milvus", "STORES_VECTORS", stores.Vectors},
	} {
		scheme, rest, _ := strings.Cut(store.url, "://")
		address, path, _ := strings.Cut(rest, "/")
		all[store.name] = newProxy(c.t, address, seed+uint64(i))
		url := scheme + "://" + all[store.name].Address
		if path != "" {
			url += "/" + path
		}
		c.env = append(c.env, "UNWEAVER_"+store.setting+"="+url)
	}
	return all
}

func newProxy(t testing.TB, address string, seed uint64) *proxy.Proxy {
	made := musttest.Get(proxy.New(address, seed))(t)
	t.Cleanup(made.Close)
	return made
}

// storms makes the weather bad until the function that it gives is called, which waits until it is good again. Every
// few seconds one connection goes silent or all of one are dropped. It counts the drops of the models' connections.
func storms(seed uint64, all map[string]*proxy.Proxy) (calm func(), dropped *atomic.Int64) {
	bad := proxy.Weather{Delay: 8 * time.Millisecond, Lose: 0.01, Cut: 0.005, Refuse: 0.02}
	for _, p := range all {
		p.Set(bad)
	}
	names := []string{"Redis", "S3", "Milvus", "models"}
	random, stop, dropped := rand.New(rand.NewPCG(seed, 5)), make(chan struct{}), &atomic.Int64{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for turn := 0; ; turn++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1000+random.IntN(2000)) * time.Millisecond):
			}
			name := names[turn%len(names)]
			if random.IntN(2) == 0 {
				all[name].BlackHole(3 * time.Second)
			} else {
				all[name].Drop()
				if name == "models" {
					dropped.Add(1)
				}
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		for _, p := range all {
			p.Set(proxy.Weather{})
			p.BlackHole(0)
		}
	}, dropped
}

// resumed waits for a run's end and resumes it when it pauses, a few times: a store that is away for longer than
// retries last pauses a run. It gives how often it paused.
func resumed(t *testing.T, c *cluster, run string) (control.Status, int) {
	t.Helper()
	const longest = 20 * time.Minute
	pauses, reported := 0, time.Now()
	for begun := time.Now(); time.Since(begun) < longest; time.Sleep(50 * time.Millisecond) {
		status, err := c.ctl.ReadStatus(t.Context(), run)
		if err != nil {
			continue
		}
		if core.IsTerminal(status.Status) {
			return completed(t, status), pauses
		}
		if time.Since(reported) > 20*time.Second {
			reported = time.Now()
			flights, _, err := storm.Flights(t.Context(), c.client, workflows.WorkflowID(run))
			t.Logf("%s %s, in flight %+v %v, problems %v", status.Status, status.Stage, flights, err, status.Problems)
		}
		if status.Status != core.StatusPaused {
			continue
		}
		if err := c.ctl.ResumeRun(t.Context(), run, nil); err == nil { // it may be resumed already
			pauses++
			t.Logf("paused: %s %s %v", status.Reason, status.Detail, status.Problems)
		}
	}
	t.Fatalf("%s did not end in %s", run, longest)
	return control.Status{}, 0
}

// Every store and the model server behind connections that are delayed, cut, refused, silent for seconds, and that lose
// replies to requests that were carried out.
// Promises: 1, 2.
func TestBadConnectionsChangeNeitherAnIndexNorAnAnswer(t *testing.T) {
	longtest.Nightly(t)
	want, folders := calmNights(t, storm.Documents{Count: 200, Seed: 3}, 2)
	c, server := newCluster(t), slowModels(t)
	proxies := c.behindProxies(11)
	proxies["models"] = newProxy(t, strings.TrimSuffix(strings.TrimPrefix(server.URL, "http://"), "/v1"), 17)
	models := "http://" + proxies["models"].Address + "/v1"
	name(models)
	spec := stormSpec(t, "k", ".", models)
	c.worker()
	base := c.replica()
	for night, folder := range folders {
		c.upload(folder)
		calm, dropped := storms(uint64(night), proxies)
		before, paid := proxies["models"].Counts(), server.Stats()
		stop := make(chan struct{})
		var asking sync.WaitGroup
		if night > 0 {
			asking.Go(func() { askThrough(t, base, want, stop) })
		}
		status, pauses := resumed(t, c, c.begin(control.IndexRequest{Spec: spec, Generation: fmt.Sprintf("n%d", night)}))
		close(stop)
		asking.Wait()
		calm()
		same(t, status, want[night].status)
		if night == 0 { // later ones leave dead rows for a while
			rows(t, c, status)
		}
		got := settled(t, base, "k", want[night].chunks)
		assert.True(t, sameChunks(got, want[night].chunks), "chunks %v, undisturbed %v", got, want[night].chunks)
		after, now := proxies["models"].Counts(), server.Stats()
		lost := after.Lost + after.Cut - before.Lost - before.Cut + dropped.Load()*flight
		twice := now.Duplicates - paid.Duplicates
		t.Logf("night %d: %.0f s, %d pauses, %d answers paid twice, %d lost by connections",
			night, status.Seconds, pauses, twice, lost)
		for name, p := range proxies {
			t.Logf("%s: %+v", name, p.Counts())
		}
		assert.True(t, twice <= lost, "%d answers were paid twice, %d were lost by connections", twice, lost)
	}
}

// sameChunks reports whether two answers hold the same chunks. Two of nearly equal score may change places: Milvus
// searches its graph in another order than the embedded store, and adds floats in another.
func sameChunks(got, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
}

// settled asks until the answer is the wanted one, since a replica learns of a generation a few seconds late, and gives
// the last answer.
func settled(t *testing.T, base, index string, want []string) (got []string) {
	for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(200 * time.Millisecond) {
		if got = answers(t, base, index, tides); sameChunks(got, want) {
			return got
		}
	}
	return got
}

// askThrough queries until stop is closed: each answer is one generation's, as it is without disturbance, or an error
// that says that a store is away.
func askThrough(t *testing.T, base string, want []calmNight, stop <-chan struct{}) {
	codes := map[string]int{}
	for {
		select {
		case <-stop:
			t.Logf("queries: %v", codes)
			return
		default:
		}
		status, out := do(t, base, http.MethodPost, "/v1/indexes/k/query", map[string]any{"query": tides})
		codes[fmt.Sprint(status, " ", out["code"])]++
		if status != http.StatusOK {
			assert.True(t, status == http.StatusServiceUnavailable, "a query got %d: %v", status, out)
			continue
		}
		var ids []string
		for _, chunk := range chunksOf(out) {
			ids = append(ids, chunk["id"].(string))
		}
		night := 0
		if out["generation"] == "n1" {
			night = 1
		}
		assert.True(t, sameChunks(ids, want[night].chunks), "%v answers %v, undisturbed %v", out["generation"], ids,
			want[night].chunks)
		time.Sleep(50 * time.Millisecond)
	}
}

var distant = proxy.Weather{Delay: 30 * time.Millisecond}

func (p *proc) signal(t *testing.T, signal syscall.Signal) {
	require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, signal))
}

// caught waits until a worker has an activity of this kind and freezes that worker. It gives the frozen one and what it
// had; nil where the run ended before.
func caught(t *testing.T, c *cluster, run, activity string, workers []*proc) (*proc, storm.Flight) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(time.Millisecond) {
		flights, open, err := storm.Flights(t.Context(), c.client, workflows.WorkflowID(run))
		if err == nil && !open {
			return nil, storm.Flight{}
		}
		for _, flight := range flights {
			if !flight.Running || flight.Type != activity {
				continue
			}
			for _, worker := range workers {
				if strings.HasPrefix(flight.Worker, fmt.Sprint(worker.cmd.Process.Pid, "@")) {
					worker.signal(t, syscall.SIGSTOP)
					return worker, flight
				}
			}
		}
	}
	t.Fatalf("%s was never in flight", activity)
	return nil, storm.Flight{}
}

// takenOver waits until another worker has the activity that a frozen one had, or it is done.
func takenOver(t *testing.T, c *cluster, run string, had storm.Flight) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
		flights, open, err := storm.Flights(t.Context(), c.client, workflows.WorkflowID(run))
		if err != nil {
			continue
		}
		there := func(flight storm.Flight) bool {
			return flight.Workflow == had.Workflow && flight.ID == had.ID && flight.Attempt == had.Attempt
		}
		if !open || !slices.ContainsFunc(flights, there) {
			return
		}
	}
	t.Fatalf("no worker took %s over in a minute", had.Type)
}

// A worker is frozen for longer than a heartbeat in the middle of an activity, another finishes the build, and then the
// frozen one goes on where it was: the index is as if nothing had been.
// Promises: 1, 2.
func TestAWorkerThatWasFrozenAndGoesOnHarmsNothing(t *testing.T) {
	longtest.Nightly(t)
	want, folders := calmNights(t, storm.Documents{Count: 120, Seed: 5}, 2)
	frozenIn := []string{workflows.CollectGarbage} // the one that could delete what another has published
	if longtest.On() {
		frozenIn = append(frozenIn, workflows.ExtractChunks, workflows.LoadPart, workflows.WriteSegments,
			workflows.VerifyPart, workflows.PublishBuild)
	}
	for _, activity := range frozenIn {
		t.Run(activity, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "stores.milvus.load=insert")
			c.behindProxies(3)["S3"].Set(distant) // what takes a moment can be frozen in it
			server := slowModels(t)
			spec, workers := stormSpec(t, "k", ".", server.URL), []*proc{c.worker(), c.worker()}
			base := c.replica()
			c.upload(folders[0])
			same(t, completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec}))), want[0].status)
			time.Sleep(time.Second) // what is collected is past its grace
			c.upload(folders[1])
			run := c.begin(control.IndexRequest{Spec: spec})
			frozen, had := caught(t, c, run, activity, workers)
			require.True(t, frozen != nil, "the build ended before %s was seen", activity)
			takenOver(t, c, run, had)
			status := completed(t, wait(t, c.ctl, run))
			same(t, status, want[1].status)
			// Back to the state before, so that what the frozen one may have condemned is used again.
			c.upload(folders[0])
			back := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
			frozen.signal(t, syscall.SIGCONT)
			time.Sleep(10 * time.Second) // it goes on, and learns that another worker has its activity
			same(t, back, want[0].status)
			intact(t, c, spec, server, base, want[0])
			paid := server.Stats()
			assert.True(t, paid.Duplicates <= 2*flight, "%d answers were paid twice", paid.Duplicates)
		})
	}
}

// intact checks that an index answers as it is to, from a replica with an empty cache too, that a restore finds all of
// it, and that an unchanged corpus has nothing to do.
func intact(t *testing.T, c *cluster, spec core.Spec, server *modeltest.Server, base string, want calmNight) {
	t.Helper()
	inner := *c
	inner.t = t
	for _, replica := range []string{base, inner.replica()} {
		assert.Equal(t, want.chunks, settled(t, replica, "k", want.chunks))
	}
	paid := server.Stats()
	again := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
	if now := server.Stats(); !again.Unchanged || now.Chat != paid.Chat || now.Embed != paid.Embed {
		t.Errorf("an unchanged corpus: unchanged %v, %d calls", again.Unchanged, now.Chat+now.Embed-paid.Chat-paid.Embed)
	}
	completed(t, wait(t, c.ctl, musttest.Get(c.ctl.RestoreIndex(t.Context(), "k"))(t).Run))
}
