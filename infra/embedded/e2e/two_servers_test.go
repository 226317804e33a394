package e2e

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

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
	if got := answers(t, b.replica(), "k", "Cape Merrow"); len(got) != 1 {
		t.Errorf("b answers %v", got)
	}
	if got := answers(t, a.replica(), "k", question); len(got) != 5 {
		t.Errorf("a answers %v", got)
	}
}

func TestWhatIsMissingInAClusterIsNamed(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	c := newCluster(t)
	none := c.cfg.Engine
	none.Namespace = "no-such-namespace"
	if _, err := engine.Dial(t.Context(), none, slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "engine.namespace") {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	sp := spec(t, "k", ".", nil)
	sp.Corpus = "s3://no-such-bucket/x"
	checks := must(c.ctl.RunDoctor(t.Context(), sp))(t)
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
	st, err := c.ctl.ReadStatus(t.Context(), run)
	assert.True(t, err == nil && len(st.Problems) != 0 && st.Problems[0].Code == "no_worker",
		"a run without a worker: %+v, %v", st.Problems, err)
}

// Promises: 121.
func TestRowsOfAnAbandonedBuildAreGoneAfterAnImport(t *testing.T) {
	t.Parallel() // it has a stack or servers of its own
	c := newCluster(t)
	s := serve(t, modeltest.Options{Latency: 50 * time.Millisecond, Shuffle: true})
	c.worker()
	c.upload(
		write(t,
			map[string]string{"old.txt": "Lighthouse Merrow stands on Cape Merrow. It was painted by Ottoline Quarrie."}),
	)
	sp := clusterSpec(t, s)
	run := c.begin(control.IndexRequest{Spec: sp})
	c.reach(run, "verify", 0)
	if _, err := c.ctl.CancelRun(t.Context(), run); err != nil && !fault.Is(err, fault.RunNotFound) {
		t.Fatal(err)
	}
	first := wait(t, c.ctl, run)
	// What it would have left, had it been cancelled while it imported, and what another index is about to import.
	staging, copies := c.ctl.Stores.Staging, core.ImportPrefix(c.ctl.Stores.StoreID)
	_, generation, _ := strings.Cut(run, "/")
	left := copies + sp.Index + "/runs/" + generation + "/1/classes-0/ab.parquet"
	others := copies + "x" + sp.Index + "/runs/" + generation + "/1/classes-0/ab.parquet"
	for _, key := range []string{left, others} {
		_, err := blob.Write(t.Context(), staging, key, []byte("rows"), blob.Cond{})
		require.NoError(t, err)
	}
	c.upload(copySample(t))
	st := completed(t, wait(t, c.ctl, c.begin(control.IndexRequest{Spec: sp})))
	var found []string
	for info, err := range staging.List(t.Context(), copies, "") {
		require.NoError(t, err)
		found = append(found, info.Key)
	}
	assert.Equal(t, []string{others}, found, "copies are left")
	if first.Status == core.StatusCancelled {
		rows(t, c, st)
	} else {
		t.Logf("the first build ended as %s before it could be cancelled", first.Status)
	}
}
