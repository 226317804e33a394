package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
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
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
	"github.com/unweaver/unweaver/internal/testkit/storm/proxy"
	"github.com/unweaver/unweaver/workflows"
)

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
	stores := c.cfg.Stores
	all := map[string]*proxy.Proxy{}
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
	c := newCluster(t)
	server := slowModels(t)
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
			spec := stormSpec(t, "k", ".", server.URL)
			workers := []*proc{c.worker(), c.worker()}
			base := c.replica()
			c.upload(folders[0])
			before := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
			same(t, before, want[0].status)
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
		got := settled(t, replica, "k", want.chunks)
		assert.True(t, slices.Equal(got, want.chunks), "chunks %v, want %v", got, want.chunks)
	}
	paid := server.Stats()
	again := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: spec})))
	if now := server.Stats(); !again.Unchanged || now.Chat != paid.Chat || now.Embed != paid.Embed {
		t.Errorf("an unchanged corpus: unchanged %v, %d calls", again.Unchanged, now.Chat+now.Embed-paid.Chat-paid.Embed)
	}
	completed(t, wait(t, c.ctl, musttest.Get(c.ctl.RestoreIndex(t.Context(), "k"))(t).Run))
}
