// Package e2e proves the pipeline on the embedded stack: real Temporal, real files, a real HTTP model server.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"github.com/unweaver/unweaver/infra/embedded/stack"
	"github.com/unweaver/unweaver/internal/app"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/testkit/apitest"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/testkit/storm"
)

const sample = "../../../testdata/musique"

var shared *stack.Stack // one stack serves the tests that do not kill it

func TestMain(m *testing.M) {
	sandbox.RunChild()
	if storm.Serve() { // this process is a stack that is to be killed
		return
	}
	if os.Getenv("UNWEAVER_TEST_BIN") == "" && os.Getenv("UNWEAVER_RECORD_HISTORIES") == "" {
		fmt.Println("SKIPPED: UNWEAVER_TEST_BIN names no folder of programs: make test-servers sets it")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "unweaver-e2e-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	_ = os.Setenv("E2E_KEY", "e2e")
	if shared, err = start(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = shared.Stop(context.Background()) }()
	return m.Run()
}

func start(dir string) (*stack.Stack, error) { return startWith(stack.Options{DataDir: dir}) }

func startWith(options stack.Options) (*stack.Stack, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	own := config.Default()
	served.Lock()
	own.Models.Endpoints = append(own.Models.Endpoints, served.endpoints...)
	served.Unlock()
	options.Config, options.Log = own, log
	running, err := stack.Start(context.Background(), options)
	if err == nil {
		follows(running.Control.Models)
	}
	return running, err
}

// follows has models name every model server of the tests, also those to come.
func follows(models *app.Models) {
	served.Lock()
	defer served.Unlock()
	models.AllowEndpoints(served.endpoints...)
	served.models = append(served.models, models)
}

// served are the model servers of the tests, and the processes' models that name them.
var served struct {
	sync.Mutex
	endpoints []config.Endpoint
	models    []*app.Models
}

// name has the configuration of every stack name a model server, and that of those to come.
func name(url string) {
	served.Lock()
	defer served.Unlock()
	endpoint := config.Endpoint{BaseURL: url, APIKeyEnv: "E2E_KEY"}
	served.endpoints = append(served.endpoints, endpoint)
	for _, models := range served.models {
		models.AllowEndpoints(endpoint)
	}
}

func named() string {
	served.Lock()
	defer served.Unlock()
	items := make([]string, 0, len(served.endpoints))
	for _, endpoint := range served.endpoints {
		items = append(items, endpoint.BaseURL+"="+endpoint.APIKeyEnv)
	}
	return strings.Join(items, ",")
}

func serve(t testing.TB, o modeltest.Options) *modeltest.Server {
	server := modeltest.New(o)
	require.NoError(t, server.Replay(filepath.Join(sample, "corpus.jsonl"), filepath.Join(sample,
		"extractions_desc.jsonl")))
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	name(server.URL)
	return server
}

// spec returns the specification of an index; with a server, both models are the server's.
func spec(t testing.TB, index, docs string, server *modeltest.Server, set ...string) core.Spec {
	if server != nil {
		set = append(
			[]string{
				"models.chat.provider=openai", "models.chat.model=m-" + t.Name(), "models.chat.api_key_env=E2E_KEY",
				"models.chat.base_url=" + server.URL, "models.embedding.provider=openai", "models.embedding.model=e-" + t.Name(),
				"models.embedding.api_key_env=E2E_KEY", "models.embedding.base_url=" + server.URL,
			},
			set...)
	}
	cfg := musttest.Get(config.Load(config.Source{Set: set}))(t)
	return musttest.Get(cfg.Spec(index, musttest.Get(filepath.Abs(docs))(t)))(t)
}

// portOf returns a control, or that of what does its work.
func portOf(c any) control.Control {
	if port, ok := c.(control.Control); ok {
		return port
	}
	return control.Of(c)
}

func wait(t testing.TB, does any, run string) control.Status {
	t.Helper()
	c := portOf(does)
	for begin := time.Now(); time.Since(begin) < 3*time.Minute; time.Sleep(30 * time.Millisecond) {
		st, err := c.ReadStatus(t.Context(), run)
		if err == nil && (core.IsTerminal(st.Status) || st.Status == core.StatusPaused) {
			return st
		}
	}
	t.Fatalf("%s did not end", run)
	return control.Status{}
}

func index(t testing.TB, does any, sp core.Spec) control.Status {
	c := portOf(does)
	r := musttest.Get(c.BuildIndex(t.Context(),
		control.IndexRequest{Spec: sp, Generation: fmt.Sprintf("g%d", time.Now().UnixNano())}))(t)
	return wait(t, c, r.Run)
}

func completed(t testing.TB, st control.Status) control.Status {
	require.True(t, st.Status == core.StatusCompleted,
		"%s is %s: %s %s %v", st.Run, st.Status, st.Reason, st.Detail, st.Problems)
	return st
}

func do(t testing.TB, base, method, path string, body any) (int, map[string]any) {
	t.Helper()
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(musttest.Get(json.Marshal(body))(t))
	}
	req := musttest.Get(http.NewRequestWithContext(t.Context(), method, base+path, reader))(t)
	req.Header.Set("Content-Type", "application/json")
	client := http.DefaultClient
	if !strings.HasPrefix(path, httpapi.Prefix) { // every answer is as the server itself describes it
		client = &http.Client{Transport: apitest.Transport{Contract: contractOf(t, base), Report: func(err error) {
			t.Errorf("not as described: %v", err)
		}}}
	}
	res := musttest.Get(client.Do(req))(t)
	defer func() { _ = res.Body.Close() }()
	var out map[string]any
	require.NoError(t, json.NewDecoder(res.Body).Decode(&out))
	return res.StatusCode, out
}

// contracts are the descriptions of servers, by address.
var contracts sync.Map

func contractOf(t testing.TB, base string) *apitest.Contract {
	if known, ok := contracts.Load(base); ok {
		return known.(*apitest.Contract)
	}
	res := musttest.Get(http.Get(base + "/openapi.json"))(t)
	defer func() { _ = res.Body.Close() }()
	contract, err := apitest.New(musttest.Get(io.ReadAll(res.Body))(t))
	require.NoError(t, err, "%s/openapi.json", base)
	contracts.Store(base, contract)
	return contract
}

func ask(t testing.TB, base, index, q string, more map[string]any) map[string]any {
	body := map[string]any{"query": q}
	for k, v := range more {
		body[k] = v
	}
	status, out := do(t, base, http.MethodPost, "/v1/indexes/"+index+"/query", body)
	require.True(t, status == http.StatusOK, "query: %d %v", status, out)
	return out
}

func chunksOf(out map[string]any) []map[string]any {
	var cs []map[string]any
	for _, c := range out["chunks"].([]any) {
		cs = append(cs, c.(map[string]any))
	}
	return cs
}

func write(t testing.TB, files map[string]string) string {
	dir := t.TempDir()
	for name, s := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(s), 0o644))
	}
	return dir
}

func copySample(t testing.TB) string {
	raw := musttest.Get(os.ReadFile(filepath.Join(sample, "corpus.jsonl")))(t)
	return write(t, map[string]string{"corpus.jsonl": string(raw)})
}

func writeFile(t testing.TB, path, s string) {
	require.NoError(t, os.WriteFile(path, []byte(s), 0o644))
}

// flight is how many calls to a model a process has in flight at most.
const flight = 8

// unsaved is how many answers the death of a process may lose: those in flight, and for each of them one that arrived
// and is being stored while the next call runs in its place.
const unsaved = 2 * flight

// clusterSpec returns the spec of the tests on real servers: documents as chunks, some shortening, few calls in flight.
func clusterSpec(t testing.TB, s *modeltest.Server) core.Spec {
	return spec(t, "k", ".", s, "indexes.k.chunking.strategy=document",
		fmt.Sprintf("models.limits.concurrency=%d", flight), "indexes.k.shortening.threshold=400",
		"models.chat.model=cluster", "models.embedding.model=cluster") // hashes hold the models
}

// undisturbed builds the sample on the embedded stack: what every build on servers must equal.
func undisturbed(t *testing.T) (control.Status, []string) {
	sp := clusterSpec(t, serve(t, modeltest.Options{Shuffle: true}))
	sp.Corpus = copySample(t)
	sp.Index = "undisturbed-" + core.Sum(t.Name()).Short(8)
	return completed(t, index(t, shared.Control, sp)), answers(t, shared.HTTP, sp.Index, question)
}

const question = "Who was the first president of the association which published Journal of Psychotherapy Integration?"

func same(t *testing.T, got, want control.Status) {
	assert.True(t, got.ContentHash == want.ContentHash && got.TextHash == want.TextHash &&
		got.VectorHash == want.VectorHash, "hashes %.12s %.12s %.12s, undisturbed %.12s %.12s %.12s", got.ContentHash,
		got.TextHash, got.VectorHash, want.ContentHash, want.TextHash, want.VectorHash)
	assert.True(t, got.Documents == want.Documents && got.Chunks == want.Chunks && got.Classes == want.Classes &&
		got.DeadLetters == 0, "%d documents, %d chunks, %d classes, %d dead letters; want %d, %d, %d", got.Documents,
		got.Chunks, got.Classes, got.DeadLetters, want.Documents, want.Chunks, want.Classes)
}

func rows(t *testing.T, c *cluster, st control.Status) {
	names, err := c.ctl.Stores.Vectors.List(t.Context(), "uw_"+core.Sum(c.ctl.Stores.StoreID, "k").Short(8)+"_")
	require.True(t, err == nil && len(names) == 2, "collections %v, %v", names, err)
	for _, n := range names {
		want := st.Classes
		if strings.Contains(n, "_chunks_") {
			want = st.Chunks
		}
		got, err := c.ctl.Stores.Vectors.Count(t.Context(), n)
		assert.True(t, err == nil && got == want, "%s holds %d rows, want %d (%v)", n, got, want, err)
	}
}

// Promises: 1, 2.
func TestThePipelineOnRealServersEqualsTheEmbeddedOne(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	want, ids := undisturbed(t)
	for _, how := range []string{"import", "insert"} {
		t.Run(how, func(t *testing.T) {
			c := newCluster(t, "stores.milvus.load="+how)
			server := serve(t, modeltest.Options{Shuffle: true})
			sp := clusterSpec(t, server)
			c.upload(copySample(t))
			c.worker()
			base := c.replica()
			st := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
			same(t, st, want)
			rows(t, c, st)
			assert.Equal(t, ids, answers(t, base, "k", question))
			paid := server.Stats()
			again := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
			now := server.Stats()
			assert.True(t, again.Unchanged && now.Chat == paid.Chat && now.Embed == paid.Embed &&
				again.Written == (core.Written{}), "an unchanged corpus: %+v", again.Report)
			assert.Zero(t, paid.Duplicates+paid.EmbedTwice, "paid twice: %+v", paid)
			night(t, c, sp, server, copySample(t), base)
		})
	}
}

// night adds a document to a folder: a small night is upserted into the same collections, and each replica finds it.
func night(t *testing.T, c *cluster, sp core.Spec, server *modeltest.Server, dir string, bases ...string) {
	writeFile(t, dir+"/new.txt", "Lighthouse Merrow stands on Cape Merrow. It was painted by Ottoline Quarrie.")
	c.upload(dir)
	before := server.Stats()
	st := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	d := server.Stats().Extract - before.Extract
	assert.True(t, d == 1 && st.Diff.Added == 1, "one new document cost %d extractions: %+v", d, st.Diff)
	for _, base := range bases {
		musttest.Reach(t, "the new document on "+base, func() bool {
			return slices.ContainsFunc(chunksOf(ask(t, base, "k", "Cape Merrow lighthouse", nil)), func(chunk map[string]any) bool {
				return chunk["document"] == "new.txt"
			})
		})
	}
}

// Promises: 1, 2.
func TestThreeWorkersShareABuildAndReplicasSwitch(t *testing.T) {
	c := newCluster(t, "stores.milvus.load=insert")
	server := serve(t, modeltest.Options{Latency: 100 * time.Millisecond, Shuffle: true})
	sp, dir := clusterSpec(t, server), copySample(t)
	for i := range 5 { // enough for every worker
		writeFile(t, fmt.Sprintf("%s/copy%d.jsonl", dir, i), string(musttest.Get(os.ReadFile(dir+"/corpus.jsonl"))(t)))
	}
	c.upload(dir)
	ws := []*proc{c.worker(), c.worker(), c.worker()}
	bases := []string{c.replica(), c.replica()}
	run := c.begin(control.IndexRequest{Spec: sp})
	c.reach(run, "extract", 100)
	ws[0].kill()
	st := completed(t, wait(t, c.ctl, run))
	if n := pollers(t, c, run); n < 2 { // attempts of the killed one are not kept in history
		t.Errorf("%d workers took part", n)
	}
	want, got := st.Chunks/6, server.Stats() // six equal files: one answer each serves all
	assert.True(t, got.Extract <= want+unsaved && got.Duplicates <= unsaved,
		"%d extractions were paid for %d texts, %d of them twice", got.Extract, want, got.Duplicates)
	for _, base := range bases {
		answers(t, base, "k", question)
	}
	night(t, c, sp, server, dir, bases...)
}

func pollers(t *testing.T, c *cluster, run string) int {
	ids := map[string]bool{}
	for _, id := range []string{"build/" + run, "build/" + run + "/extract", "build/" + run + "/extract/s-00000",
		"build/" + run + "/chunk"} {
		it := c.client.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			event, err := it.Next()
			if err != nil {
				break
			}
			if a := event.GetActivityTaskStartedEventAttributes(); a != nil {
				ids[a.GetIdentity()] = true
			}
			if a := event.GetActivityTaskCompletedEventAttributes(); a != nil {
				ids[a.GetIdentity()] = true
			}
		}
	}
	return len(ids)
}

// Promises: 1, 2.
func TestKilledPartsOfAClusterEndInTheSameIndex(t *testing.T) {
	want, _ := undisturbed(t)
	type moment struct {
		stage string
		done  int64
	}
	for _, f := range []struct {
		name, part string
		amid       []moment
		away       time.Duration
		bound      int64 // of answers paid twice
	}{
		// Milvus and S3 are servers that the other tests use: alone, and first.
		{"Milvus during a load", "milvus", []moment{{"load", 0}}, 0, 0},
		{"S3 for ten seconds", "s3", []moment{{"extract", 16}}, 10 * time.Second, flight},
		{"a worker twice inside one batch", "worker", []moment{{"extract", 8}, {"extract", 24}}, 0, 2 * unsaved},
		{"Temporal", "temporal", []moment{{"extract", 16}}, time.Second, flight},
		{"Redis with its file", "redis", []moment{{"extract", 0}, {"load", 0}}, 500 * time.Millisecond, flight},
		{"Redis without its file", "redis", []moment{{"extract", 0}, {"verify", 0}}, 300 * time.Millisecond, flight},
	} {
		t.Run(f.name, func(t *testing.T) {
			if f.part != "milvus" && f.part != "s3" {
				t.Parallel()
			}
			c := newCluster(t)
			if f.name == "Redis without its file" { // from here on it keeps nothing when it is killed
				c.redis.args[len(c.redis.args)-1] = "no"
				c.redis.restart()
				time.Sleep(300 * time.Millisecond)
			}
			server := serve(t,
				modeltest.Options{Latency: 150 * time.Millisecond, EmbedLatency: 60 * time.Millisecond, Shuffle: true})
			sp := clusterSpec(t, server)
			c.upload(copySample(t))
			w, begin := c.worker(), time.Now()
			run := c.begin(control.IndexRequest{Spec: sp})
			for _, at := range f.amid {
				c.reach(run, at.stage, at.done)
				c.restart(f.part, w, f.away)
			}
			st := wait(t, c.ctl, run)
			if st.Status == core.StatusPaused { // a store was away for longer than retries last: a person resumes
				t.Logf("paused: %s %s", st.Reason, st.Detail)
				require.NoError(t, c.ctl.ResumeRun(t.Context(), run, nil))
				st = wait(t, c.ctl, run)
			}
			completed(t, st)
			same(t, st, want)
			rows(t, c, st)
			paid := server.Stats()
			t.Logf("%s: %.0f s, paid twice: %d chat answers, %d embedded texts", f.name, time.Since(begin).Seconds(),
				paid.Duplicates, paid.EmbedTwice)
			assert.True(t, paid.Duplicates <= f.bound,
				"%d chat answers were paid twice, want at most %d", paid.Duplicates, f.bound)
			answers(t, c.replica(), "k", question)
		})
	}
}

// Promises: 1, 2.
func TestRestoreBringsBackWipedStoresWithoutAModelCall(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	c := newCluster(t, "stores.milvus.load=insert")
	server := serve(t, modeltest.Options{Shuffle: true})
	c.upload(copySample(t))
	c.worker()
	st := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: clusterSpec(t, server)})))
	want, paid := answers(t, c.replica(), "k", question), server.Stats()
	for _, what := range []string{"Redis", "Milvus", "Redis and Milvus"} {
		t.Run(what, func(t *testing.T) {
			if strings.Contains(what, "Redis") {
				flushRedis(t, c)
			}
			if strings.Contains(what, "Milvus") {
				names, err := c.ctl.Stores.Vectors.List(t.Context(), "uw_"+core.Sum(c.ctl.Stores.StoreID, "k").Short(8)+"_")
				require.True(t, err == nil && len(names) == 2, "%v %v", names, err)
				for _, n := range names {
					require.NoError(t, c.ctl.Stores.Vectors.Drop(t.Context(), n))
				}
			}
			res := completed(t, wait(t, c.ctl, musttest.Get(c.ctl.RestoreIndex(t.Context(), "k"))(t).Run))
			assert.True(t, strings.Contains(what, "Redis") == (res.Written.Records == st.Classes) &&
				strings.Contains(what, "Milvus") == (res.Written.Rows == st.Classes+st.Chunks), "restored %+v", res.Written)
			rows(t, c, st)
			c2 := *c
			c2.t = t
			assert.Equal(t, want, answers(t, c2.replica(), "k", question))
		})
	}
	now := server.Stats()
	assert.True(t, now.Chat == paid.Chat, "restoring paid for %d answers", now.Chat-paid.Chat)
}

// A worker that is killed in stage after stage of a purge, on real servers, leaves a purge that ends: nothing that is
// stored reports the document, and the index is what a build from nothing without it makes.
// Promises: 1, 2.
func TestAPurgeOnRealServersEndsThoughWorkersAreKilled(t *testing.T) {
	t.Parallel()
	want, _ := undisturbed(t)
	c, server := newCluster(t), serve(t, modeltest.Options{Shuffle: true})
	sp, folder := clusterSpec(t, server), copySample(t)
	const document = "letters/heron.md"
	text := "# Quastenberg\n\nMarlene Quastenberg paid the ferryman in opals. Carla Ruiz wrote about Zuckmayer Lane.\n"
	require.NoError(t, os.Mkdir(filepath.Join(folder, "letters"), 0o755))
	writeFile(t, filepath.Join(folder, filepath.FromSlash(document)), text)
	c.upload(folder)
	worker, base := c.worker(), c.replica()
	completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	writeFile(t, filepath.Join(folder, filepath.FromSlash(document)), strings.Replace(text, "opals", "pearls", 1))
	c.upload(folder)
	completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	answers(t, base, "k", question) // a replica holds the generation that goes
	words := []string{"quastenberg", "zuckmayer", "letters/heron"}
	stored := func() []string {
		stores := c.ctl.Stores
		return stagetest.Holding(t, stores.Artifacts, stores.Records, stores.StoreID[:8]+":c:", words...)
	}
	where := stored()
	require.True(t, len(where) >= 8, "the search finds too little of what is there: %q", where)
	paid, begun := server.Stats().Chat, time.Now()
	purging := musttest.Get(c.ctl.PurgeDocuments(t.Context(),
		control.PurgeRequest{Index: "k", Documents: []string{document}, Confirmed: true}))(t)
	deadly := []string{ // in which a purge has work to do
		core.StagePlan, core.StageReduce, core.StageSegment, core.StageVerify, core.StagePublish,
		core.StageCollect,
	}
	var killedIn []string
	for {
		st := musttest.Get(c.ctl.ReadStatus(t.Context(), purging.Run.Run))(t)
		if core.IsTerminal(st.Status) || time.Since(begun) > 5*time.Minute {
			break
		}
		if n := len(st.Stages); n > 0 {
			if stage := st.Stages[n-1].Name; slices.Contains(deadly, stage) && !slices.Contains(killedIn, stage) {
				killedIn = append(killedIn, stage)
				worker.restart()
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ended := completed(t, wait(t, c.ctl, purging.Run.Run))
	t.Logf("%.0f s; killed in %q", time.Since(begun).Seconds(), killedIn)
	assert.True(t, len(killedIn) >= 3 && slices.Contains(killedIn, core.StageCollect),
		"it was killed in %q alone", killedIn)
	stand := musttest.Get(c.ctl.ListPurges(t.Context(), control.PurgesRequest{Index: "k"}))(t)
	assert.True(t, len(stand.Purges) == 1 && stand.Purges[0].State == core.PurgeDone, "%+v", stand.Purges)
	assert.Empty(t, stored())
	same(t, ended, want)
	rows(t, c, ended)
	assert.Zero(t, server.Stats().Chat-paid, "the purge asked models")
}

// Promises: 1, 2.
func TestTwoInstallationsShareServersAndNeverMeet(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	a := newCluster(t, "stores.milvus.load=insert")
	a.worker()
	a.upload(copySample(t))
	one := completed(t,
		wait(t, a.ctl, a.begin(control.IndexRequest{Spec: spec(t, "k", ".", nil, "indexes.k.chunking.strategy=document")})))
	b := newCluster(t, "stores.milvus.load=insert", "stores.classes="+a.cfg.Stores.Classes)
	b.worker()
	b.upload(
		write(t, map[string]string{"x.txt": "Lighthouse Merrow stands on Cape Merrow. It was painted by Ottoline Quarrie."}),
	)
	two := completed(t, wait(t, b.ctl, b.begin(control.IndexRequest{Spec: spec(t, "k", ".", nil)})))
	rows(t, a, one)
	rows(t, b, two)
	got := answers(t, b.replica(), "k", "Cape Merrow")
	assert.True(t, len(got) == 1, "b answers %v", got)
	got = answers(t, a.replica(), "k", question)
	assert.True(t, len(got) == 5, "a answers %v", got)
}

func TestWhatIsMissingInAClusterIsNamed(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	c := newCluster(t)
	none := c.cfg.Engine
	none.Namespace = "no-such-namespace"
	_, err := engine.Dial(t.Context(), none, slog.New(slog.DiscardHandler))
	assert.True(t, err != nil && strings.Contains(err.Error(), "engine.namespace"),
		"a namespace that does not exist: %v", err)
	sp := spec(t, "k", ".", nil)
	sp.Corpus = "s3://no-such-bucket/x"
	checks := musttest.Get(c.ctl.RunDoctor(t.Context(), sp))(t)
	said := map[string]control.Check{}
	for _, x := range checks {
		said[x.Name] = x
	}
	for name, says := range map[string]string{"worker": "engine.task_queue", "corpus": "the corpus"} {
		x := said[name]
		assert.True(t, !x.OK && strings.Contains(x.Detail, says), "doctor on %s: %+v", name, x)
	}
	for _, name := range []string{"artifacts", "conditional writes", "import bucket", "classes", "vectors", "temporal"} {
		assert.True(t, said[name].OK, "doctor on %s: %+v", name, said[name])
	}
	c.upload(copySample(t))
	run := c.begin(control.IndexRequest{Spec: spec(t, "k", ".", nil)})
	st := musttest.Get(c.ctl.ReadStatus(t.Context(), run))(t)
	assert.True(t, len(st.Problems) != 0 && st.Problems[0].Code == "no_worker", "a run without a worker: %+v", st.Problems)
}
