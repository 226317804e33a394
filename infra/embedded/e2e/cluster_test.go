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
	"strings"
	"syscall"
	"testing"
	"time"

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
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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

// killAndShow ends the process, and shows what it printed where the test has failed.
func (p *proc) killAndShow() {
	p.kill()
	if p.t.Failed() {
		p.t.Logf("%s: %.3000s", filepath.Base(p.args[0]), p.log.String())
	}
}

func (p *proc) restart() { p.kill(); p.start() }

func reachable(t testing.TB, port int) {
	t.Helper()
	musttest.Reach(t, fmt.Sprint("port ", port), func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil && c.Close() == nil
	})
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
		t.Cleanup(p.killAndShow)
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
	defer func() {
		if err != nil {
			t.Log("the engine: ", err)
		}
	}()
	musttest.Reach(t, "the engine", func() bool {
		c.client, err = engine.Dial(t.Context(), c.cfg.Engine, slog.New(slog.DiscardHandler))
		return err == nil
	})
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

// program starts a program of the cluster.
func (c *cluster) program(name string, env ...string) *proc {
	c.t.Helper()
	p := &proc{t: c.t, args: []string{filepath.Join(c.bin, name)}, env: slices.Concat(c.env, env, []string{
		"UNWEAVER_CACHE_DIR=" + c.t.TempDir(), "E2E_KEY=e2e", "UNWEAVER_MODELS_ENDPOINTS=" + named(),
	})}
	p.start()
	c.t.Cleanup(p.killAndShow)
	return p
}

func (c *cluster) worker() *proc { return c.program("unweaver-worker") }

func (c *cluster) replica() string {
	c.t.Helper()
	port := musttest.FreePort(c.t)
	c.program("unweaver-query-api", fmt.Sprintf("UNWEAVER_QUERY_API_ADDRESS=127.0.0.1:%d", port))
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

func answers(t testing.TB, base, index, q string) (found []string) {
	t.Helper()
	musttest.Reach(t, "an answer", func() bool {
		status, out := do(t, base, http.MethodPost, "/v1/indexes/"+index+"/query", map[string]any{"query": q})
		if status == http.StatusOK {
			found = ids(chunksOf(out))
		}
		return status == http.StatusOK
	})
	return found
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
