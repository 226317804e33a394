package e2e

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/unweaver/unweaver/infra/embedded/devserver"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
	"github.com/unweaver/unweaver/workflows"
)

// cluster is an installation on real servers: workers and query-api replicas are processes, Redis and Temporal are the
// test's own, so that they can be killed; S3 and Milvus are those of make servers.
type cluster struct {
	t               testing.TB
	bin, dir        string
	id              string // prefix of everything in the shared servers
	redis, temporal *proc
	env             []string
	cfg             *config.Config
	ctl             *service.Service
	client          client.Client
	docs            string // URI of the corpus
	replicas        []*proc
}

type proc struct {
	t         testing.TB
	args, env []string
	log       *bytes.Buffer
	cmd       *exec.Cmd
}

func (p *proc) start() {
	p.cmd = exec.Command(p.args[0], p.args[1:]...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.log = &bytes.Buffer{}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(p.t, p.cmd.Start())
}

func (p *proc) kill() {
	if p.cmd != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

func (p *proc) restart() { p.kill(); p.start() }

func reachable(t testing.TB, port int) {
	t.Helper()
	for range 6000 {
		if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("port %d did not open", port)
}

// newCluster starts Redis and Temporal of its own and connects; it skips where a server is not to be had.
func newCluster(t testing.TB, set ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, bin: os.Getenv("UNWEAVER_TEST_BIN"), dir: t.TempDir()}
	home := os.Getenv("UNWEAVER_TEST_SERVERS")
	for _, v := range []string{"UNWEAVER_TEST_BIN", "UNWEAVER_TEST_SERVERS", "UNWEAVER_TEST_S3", "UNWEAVER_TEST_MILVUS",
		"UNWEAVER_TEST_REDIS"} {
		if os.Getenv(v) == "" {
			t.Skip(v + " is not set: make test-servers sets it")
		}
	}
	c.id = fmt.Sprintf("e2e-%012x", rand.Uint64()>>16)
	redisPort, temporalPort := musttest.FreePort(t), musttest.FreePort(t)
	c.redis = &proc{
		t: t,
		args: []string{
			filepath.Join(home, "redis", "redis-server"), "--bind", "127.0.0.1", "--port", fmt.Sprint(redisPort), "--dir",
			t.TempDir(), "--save", "", "--appendonly", "yes",
		},
	}
	program := musttest.Get(devserver.Finder{Say: func(line string) { t.Log(line) }}.Find(t.Context()))(t)
	database := filepath.Join(t.TempDir(), "engine.db")
	c.temporal = &proc{t: t, args: append([]string{program}, devserver.Arguments(database, temporalPort)...)}
	for _, p := range []*proc{c.redis, c.temporal} {
		p.start()
		t.Cleanup(p.kill)
	}
	c.set(redisPort, temporalPort, set)
	reachable(t, redisPort)
	reachable(t, temporalPort)
	stores := musttest.Get(app.Open(t.Context(), c.cfg.Stores))(t)
	t.Cleanup(func() {
		if names, err := stores.Vectors.List(context.Background(), "uw_"+core.Sum(stores.StoreID,
			"k").Short(8)+"_"); err == nil {
			for _, n := range names { // what the test left in the shared Milvus
				_ = stores.Vectors.Drop(context.Background(), n)
			}
		}
		_ = stores.Close()
	})
	var err error
	for range 3000 {
		if c.client, err = engine.Dial(t.Context(), c.cfg.Engine, slog.New(slog.DiscardHandler)); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.NoError(t, err)
	t.Cleanup(c.client.Close)
	c.ctl = &service.Service{
		Client: c.client, Engine: c.cfg.Engine, Stores: stores, Models: app.NewModels(stores.Coordination, c.cfg),
		Heartbeat: 3 * time.Second,
	}
	follows(c.ctl.Models)
	c.docs = "s3://corpus/" + c.id
	return c
}

func (c *cluster) set(redisPort, temporalPort int, more []string) {
	sets := append([]string{
		fmt.Sprintf("engine.address=127.0.0.1:%d", temporalPort), "engine.task_queue=" + c.id,
		"stores.artifacts=s3://unweaver/" + c.id, fmt.Sprintf("stores.classes=redis://127.0.0.1:%d/0", redisPort),
		"stores.vectors=" + os.Getenv("UNWEAVER_TEST_MILVUS"),
		"stores.milvus.bucket=milvus", "stores.s3.endpoint=" + os.Getenv("UNWEAVER_TEST_S3"), "stores.s3.path_style=true",
	}, more...)
	for _, s := range sets {
		k, v, _ := strings.Cut(s, "=")
		c.env = append(c.env, "UNWEAVER_"+strings.ToUpper(strings.ReplaceAll(k, ".", "_"))+"="+v)
	}
	c.cfg = musttest.Get(config.Load(config.Source{Set: sets}))(c.t)
}

func (c *cluster) upload(dir string) {
	store := musttest.Get(c.ctl.Stores.OpenCorpus(c.t.Context(), c.docs))(c.t)
	keep := map[string]bool{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		key, _ := filepath.Rel(dir, p)
		keep[key] = true
		_, err = blob.Write(c.t.Context(), store, filepath.ToSlash(key), raw, blob.Cond{})
		return err
	})
	for in, lerr := range store.List(c.t.Context(), "", "") {
		if lerr == nil && !keep[in.Key] {
			lerr = store.Delete(c.t.Context(), in.Key)
		}
		if err == nil {
			err = lerr
		}
	}
	require.NoError(c.t, err)
}

func (c *cluster) worker() *proc {
	c.t.Helper()
	p := &proc{
		t: c.t, args: []string{filepath.Join(c.bin, "unweaver-worker")},
		env: append(c.env, "UNWEAVER_CACHE_DIR="+c.t.TempDir(), "E2E_KEY=e2e", "UNWEAVER_MODELS_ENDPOINTS="+named()),
	}
	p.start()
	c.t.Cleanup(func() {
		p.kill()
		if c.t.Failed() {
			c.t.Logf("worker: %.3000s", p.log.String())
		}
	})
	return p
}

func (c *cluster) replica() string {
	c.t.Helper()
	port := musttest.FreePort(c.t)
	p := &proc{
		t: c.t, args: []string{filepath.Join(c.bin, "unweaver-query-api")},
		env: append(c.env, "UNWEAVER_CACHE_DIR="+c.t.TempDir(), "UNWEAVER_MODELS_ENDPOINTS="+named(), "E2E_KEY=e2e",
			fmt.Sprintf("UNWEAVER_QUERY_API_ADDRESS=127.0.0.1:%d", port)),
	}
	p.start()
	c.replicas = append(c.replicas, p)
	c.t.Cleanup(func() {
		p.kill()
		if c.t.Failed() {
			c.t.Logf("query-api: %.3000s", p.log.String())
		}
	})
	reachable(c.t, port)
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

func (c *cluster) begin(req control.IndexRequest) string {
	req.Spec.Corpus = c.docs
	if req.Generation == "" {
		req.Generation = fmt.Sprintf("g%d", time.Now().UnixNano())
	}
	return musttest.Get(c.ctl.BuildIndex(c.t.Context(), req))(c.t).Run
}

// reach waits until a run is in a stage with at least done of its items, or has ended.
func (c *cluster) reach(run, stage string, done int64) {
	c.t.Helper()
	for range 30_000 {
		st, err := c.ctl.ReadStatus(c.t.Context(), run)
		if err == nil {
			if st.Ended != nil {
				return
			}
			for _, s := range st.Stages {
				if s.Name == stage && s.Done >= done {
					return
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	c.t.Fatalf("%s did not reach %s", run, stage)
}

func servers(t testing.TB, args ...string) {
	cmd := exec.Command("../../servers/servers.sh", args...)
	out, err := cmd.CombinedOutput()
	require.True(t, err == nil, "%v: %v: %s", args, err, out)
}

func answers(t testing.TB, base, index, q string) []string {
	t.Helper()
	var last any
	for range 3000 {
		status, out := do(t, base, http.MethodPost, "/v1/indexes/"+index+"/query", map[string]any{"query": q})
		if status == http.StatusOK {
			var ids []string
			for _, ch := range chunksOf(out) {
				ids = append(ids, ch["id"].(string))
			}
			return ids
		}
		last = out
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no answer: %v", last)
	return nil
}

func redisCommand(t testing.TB, c *cluster, line string) string {
	conn := musttest.Get(net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(c.cfg.Stores.Classes, "redis://"), "/0")))(t)
	defer func() { _ = conn.Close() }()
	musttest.Get(conn.Write([]byte(line + "\r\n")))(t)
	buf := make([]byte, 8192)
	n := musttest.Get(conn.Read(buf))(t)
	return string(buf[:n])
}

func flushRedis(t testing.TB, c *cluster) {
	got := redisCommand(t, c, "FLUSHALL")
	require.True(t, strings.HasPrefix(got, "+OK"), "%v", got)
}

func redisMemory(t testing.TB, c *cluster) (used int64) {
	info := redisCommand(t, c, "INFO memory")
	if _, after, ok := strings.Cut(info, "used_memory:"); ok {
		musttest.Get(fmt.Sscan(after, &used))(t)
	}
	require.True(t, used != 0, "%.200s", info)
	return used
}

// parts of a cluster that a storm kills, in turn.
var parts = []string{"worker", "temporal", "redis", "s3", "milvus", "query-api"}

type strikeOn struct {
	Part     string
	Hit      string // the activity that was in flight
	Back     float64
	Progress float64 // from when the part is started again until work goes on
}

type clusterStorm struct {
	t               *testing.T
	c               *cluster
	server          *modeltest.Server
	worker, replica *proc
	base            string
	random          *rand.Rand
	kills           int
	hits            map[string]int // of the build, by activity
	done            []strikeOn
}

// Every part of a cluster is killed in turn while work is in flight: the same index as an undisturbed one, and nothing
// paid twice beyond what was in flight (docs/invariants.md, 1 and 2).
// Promises: 1, 2.
func TestEveryPartOfAClusterIsKilledInTurn(t *testing.T) {
	longtest.Nightly(t)
	s := &clusterStorm{t: t, c: newCluster(t), server: slowModels(t), random: rand.New(rand.NewPCG(60, 1))}
	s.kills = len(parts)
	if kills, err := strconv.Atoi(stormKills); err == nil {
		s.kills = max(s.kills, kills*3/10) // 60 of 200
	}
	s.c.behindProxies(1)["S3"].Set(distant) // so that every activity lasts a while
	s.worker = s.c.worker()
	s.base = s.c.replica()
	s.replica = s.c.replicas[len(s.c.replicas)-1]
	pauses := 0
	var want []calmNight
	var folders []string
	for build := 0; build < 2 || len(s.done) < s.kills && build < 20; build++ {
		pair := build / 2
		if build%2 == 0 { // an index of other documents, so that nothing of it was paid
			want, folders = calmNights(t, storm.Documents{Count: 250, Seed: uint64(9 + pair)}, 2)
		}
		s.c.upload(folders[build%2])
		spec := stormSpec(t, fmt.Sprintf("k%d", pair), ".", s.server.URL)
		run := s.c.begin(control.IndexRequest{Spec: spec, Generation: fmt.Sprintf("n%d", build)})
		s.storm(run)
		status, paused := resumed(t, s.c, run)
		same(t, status, want[build%2].status)
		pauses += paused
		if got := settled(t, s.base, spec.Index, want[build%2].chunks); !sameChunks(got, want[build%2].chunks) {
			t.Errorf("build %d: chunks %v, undisturbed %v", build, got, want[build%2].chunks)
		}
	}
	paid := s.server.Stats()
	s.report(paid, pauses)
	limit := int64(len(s.done)) * unsaved
	assert.True(t, paid.Duplicates <= limit, "%d answers were paid twice, %d may have been lost", paid.Duplicates, limit)
	assert.True(t, len(s.done) >= s.kills, "%d kills, want %d", len(s.done), s.kills)
}

// storm kills parts while a run goes on, at most twice in one kind of activity.
func (s *clusterStorm) storm(run string) {
	s.hits = map[string]int{}
	since, perBuild := time.Now(), max(len(parts)/2, (s.kills+3)/4)
	for n := 0; n < perBuild && len(s.done) < s.kills; n++ {
		flight, found := s.inFlight(run, since)
		if !found {
			return
		}
		s.hits[flight.Type]++
		kill := strikeOn{Part: parts[len(s.done)%len(parts)], Hit: flight.Type}
		begun := time.Now()
		s.restart(kill.Part)
		kill.Back = time.Since(begun).Seconds()
		kill.Progress = s.progress(run, begun)
		s.done = append(s.done, kill)
		s.t.Logf("%+v", kill)
		since = begun
	}
}

// inFlight waits for an activity that began since, of a kind that was not hit twice in this build, and then for a
// random instant of it. found is false once the run has ended.
func (s *clusterStorm) inFlight(run string, since time.Time) (aim storm.Flight, found bool) {
	for begun := time.Now(); time.Since(begun) < 2*time.Minute; time.Sleep(2 * time.Millisecond) {
		flights, open, err := storm.Flights(s.t.Context(), s.c.client, workflows.WorkflowID(run))
		if err == nil && !open {
			return aim, false
		}
		for _, flight := range flights {
			if flight.Running && flight.Started.After(since) && s.hits[flight.Type] < 2 {
				time.Sleep(time.Duration(s.random.IntN(300)) * time.Millisecond)
				return flight, true
			}
		}
		if status, err := s.c.ctl.ReadStatus(s.t.Context(), run); err == nil && status.Status == core.StatusPaused {
			return aim, false
		}
	}
	return aim, false
}

func (s *clusterStorm) restart(part string) {
	away := time.Duration(200+s.random.IntN(1500)) * time.Millisecond
	if part != "query-api" {
		s.c.restart(part, s.worker, away)
		return
	}
	s.replica.restart()
	for status := 0; status != http.StatusOK; time.Sleep(20 * time.Millisecond) {
		if response, err := http.Get(s.base + "/livez"); err == nil {
			status = response.StatusCode
			_ = response.Body.Close()
		}
	}
}

// restart kills a worker, or a server, which is away for a while, and starts it again.
func (c *cluster) restart(part string, worker *proc, away time.Duration) {
	switch server := map[string]*proc{"temporal": c.temporal, "redis": c.redis, "worker": worker}[part]; part {
	case "worker":
		server.restart()
	case "temporal", "redis":
		server.kill()
		time.Sleep(away)
		server.start()
	default:
		servers(c.t, "kill", part)
		time.Sleep(away)
		servers(c.t, "start", part)
	}
}

// progress waits until work goes on after a kill: an attempt begins, an activity ends, a model is called, or the run
// has ended. It gives the seconds since the kill.
func (s *clusterStorm) progress(run string, since time.Time) float64 {
	before, _, _ := storm.Flights(s.t.Context(), s.c.client, workflows.WorkflowID(run))
	back := time.Now()
	for time.Since(since) < 5*time.Minute {
		if s.server.StartedSince(back) > 0 {
			break
		}
		flights, open, err := storm.Flights(s.t.Context(), s.c.client, workflows.WorkflowID(run))
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		begun := func(flight storm.Flight) bool { return flight.Running && flight.Started.After(back) }
		gone := func(old storm.Flight) bool {
			return !slices.ContainsFunc(flights, func(now storm.Flight) bool {
				return now.Workflow == old.Workflow && now.ID == old.ID
			})
		}
		if !open || slices.ContainsFunc(flights, begun) || slices.ContainsFunc(before, gone) {
			break
		}
		status, err := s.c.ctl.ReadStatus(s.t.Context(), run)
		if err == nil && status.Status == core.StatusPaused {
			break // resumed when the storm is over
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(since).Seconds()
}

// report prints the kills of each part, and writes them where UNWEAVER_STORM_OUT says.
func (s *clusterStorm) report(paid modeltest.Stats, pauses int) {
	s.t.Helper()
	var table strings.Builder
	fmt.Fprint(&table, "| part | in flight | back (s) | work goes on (s) |\n|---|---|---:|---:|\n")
	for _, kill := range s.done {
		fmt.Fprintf(&table, "| %s | %s | %.1f | %.1f |\n", kill.Part, kill.Hit, kill.Back, kill.Progress)
	}
	fmt.Fprintf(&table, "\npaid twice: %d answers, %d texts; %d pauses resumed by hand\n", paid.Duplicates, paid.EmbedTwice, pauses)
	s.t.Logf("\n%s", table.String())
	if stormOut != "" {
		require.NoError(s.t, os.MkdirAll(stormOut, 0o755))
		writeFile(s.t, filepath.Join(stormOut, "storm-cluster.md"), table.String())
	}
}
