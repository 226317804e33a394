package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

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
	t.Helper()
	s := serve(t, modeltest.Options{Shuffle: true})
	sp := clusterSpec(t, s)
	sp.Corpus = copySample(t)
	sp.Index = "undisturbed-" + core.Sum(t.Name()).Short(8)
	st := completed(t, index(t, shared.Control, sp))
	return st, answers(t, shared.HTTP, sp.Index, question)
}

const question = "Who was the first president of the association which published Journal of Psychotherapy Integration?"

func same(t *testing.T, got, want control.Status) {
	t.Helper()
	assert.True(t, got.ContentHash == want.ContentHash && got.TextHash == want.TextHash &&
		got.VectorHash == want.VectorHash, "hashes %.12s %.12s %.12s, undisturbed %.12s %.12s %.12s", got.ContentHash,
		got.TextHash, got.VectorHash, want.ContentHash, want.TextHash, want.VectorHash)
	assert.True(t, got.Documents == want.Documents && got.Chunks == want.Chunks && got.Classes == want.Classes &&
		got.DeadLetters == 0, "%d documents, %d chunks, %d classes, %d dead letters; want %d, %d, %d", got.Documents,
		got.Chunks, got.Classes, got.DeadLetters, want.Documents, want.Chunks, want.Classes)
}

// rows checks that both collections hold each row once.
func rows(t *testing.T, c *cluster, st control.Status) {
	t.Helper()
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
			got := answers(t, base, "k", question)
			assert.True(t, slices.Equal(got, ids), "chunks %v, embedded %v", got, ids)
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
		until(t, "the new document on "+base, func() bool {
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
	sp := clusterSpec(t, server)
	dir := copySample(t)
	for i := range 5 { // enough for every worker
		raw := must(os.ReadFile(dir + "/corpus.jsonl"))(t)
		writeFile(t, fmt.Sprintf("%s/copy%d.jsonl", dir, i), string(raw))
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

// pollers counts the workers that completed activities of a run's extraction.
func pollers(t *testing.T, c *cluster, run string) int {
	t.Helper()
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
	memoryless := func(c *cluster) { // Redis from here on keeps nothing when it is killed
		c.redis.args[len(c.redis.args)-1] = "no"
		c.redis.restart()
		time.Sleep(300 * time.Millisecond)
	}
	for _, f := range []struct {
		name    string
		shared  bool // it kills a server that the other tests use: alone, and first
		before  func(*cluster)
		disturb func(c *cluster, run string, w *proc)
		bound   int64 // of answers paid twice
	}{
		{"Milvus during a load", true, nil, func(c *cluster, run string, _ *proc) {
			c.reach(run, "load", 0)
			servers(c.t, "kill", "milvus")
			servers(c.t, "start", "milvus")
		}, 0},
		{"S3 for ten seconds", true, nil, func(c *cluster, run string, _ *proc) {
			c.reach(run, "extract", 16)
			servers(c.t, "kill", "s3")
			time.Sleep(10 * time.Second)
			servers(c.t, "start", "s3")
		}, flight},
		{"a worker twice inside one batch", false, nil, func(c *cluster, run string, w *proc) {
			for _, n := range []int64{8, 24} {
				c.reach(run, "extract", n)
				w.restart()
			}
		}, 2 * unsaved},
		{"Temporal", false, nil, func(c *cluster, run string, _ *proc) {
			c.reach(run, "extract", 16)
			c.temporal.kill()
			time.Sleep(time.Second)
			c.temporal.start()
		}, flight},
		{"Redis with its file", false, nil, func(c *cluster, run string, _ *proc) {
			for _, s := range []string{"extract", "load"} {
				c.reach(run, s, 0)
				c.redis.kill()
				time.Sleep(500 * time.Millisecond)
				c.redis.start()
			}
		}, flight},
		{"Redis without its file", false, memoryless, func(c *cluster, run string, _ *proc) {
			for _, s := range []string{"extract", "verify"} {
				c.reach(run, s, 0)
				c.redis.kill()
				time.Sleep(300 * time.Millisecond)
				c.redis.start()
			}
		}, flight},
	} {
		t.Run(f.name, func(t *testing.T) {
			if !f.shared {
				t.Parallel()
			}
			c := newCluster(t)
			if f.before != nil {
				f.before(c)
			}
			server := serve(t,
				modeltest.Options{Latency: 150 * time.Millisecond, EmbedLatency: 60 * time.Millisecond, Shuffle: true})
			sp := clusterSpec(t, server)
			c.upload(copySample(t))
			w := c.worker()
			begin := time.Now()
			run := c.begin(control.IndexRequest{Spec: sp})
			f.disturb(c, run, w)
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
	want := answers(t, c.replica(), "k", question)
	paid := server.Stats()
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
			r := must(c.ctl.RestoreIndex(t.Context(), "k"))(t)
			res := completed(t, wait(t, c.ctl, r.Run))
			assert.True(t, strings.Contains(what, "Redis") == (res.Written.Records == st.Classes) &&
				strings.Contains(what, "Milvus") == (res.Written.Rows == st.Classes+st.Chunks), "restored %+v", res.Written)
			rows(t, c, st)
			c2 := *c
			c2.t = t
			got := answers(t, c2.replica(), "k", question)
			assert.True(t, slices.Equal(got, want), "chunks %v, before %v", got, want)
		})
	}
	now := server.Stats()
	assert.True(t, now.Chat == paid.Chat, "restoring paid for %d answers", now.Chat-paid.Chat)
}
