package e2e

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/engine"
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
	got := answers(t, b.replica(), "k", "Cape Merrow")
	assert.True(t, len(got) == 1, "b answers %v", got)
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
