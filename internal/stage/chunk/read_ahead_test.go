package chunk_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// At 15 ms a request 400 small documents are read side by side: 6 s one after another.
func TestSmallDocumentsOfADistantCorpusAreReadSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 400
		objects := map[string]string{}
		for i := range count {
			objects[fmt.Sprintf("%03d.txt", i)] = fmt.Sprintf("Document %d.", i)
		}
		near := documenttest.New(objects)
		near.OneVersion = true
		requests := distance.New(15 * time.Millisecond)
		index := artifact.Index{Store: blobmemory.New(), Name: "i"}
		spec := core.Spec{
			Index: "i", Corpus: "memory", Chunking: core.Chunking{Strategy: "text", Boundaries: "stable", MaxTokens: 60},
		}
		begin := time.Now()
		stagetest.Must(plan.Run(t.Context(), plan.In{
			Spec: spec, Corpus: distance.Blob(near, requests), Artifacts: index, Scratch: "s",
			Limits: document.DefaultLimits(), OnProgress: func(int64) {},
		}))
		passed := time.Since(begin)
		assert.True(t, passed <= 100*time.Millisecond, "plan took %s of a store at 15 ms", passed)
		begin = time.Now()
		result := stagetest.Must(chunk.Run(t.Context(), chunk.In{
			Spec: spec, Corpus: distance.Blob(near, requests), Artifacts: index, Scratch: "s", To: -1,
			Plan: stagetest.Stored(t, index.Store, plan.RowsKey("s")), Limits: document.DefaultLimits(),
			Parser: documenttest.Here{Limits: document.DefaultLimits()}, OnProgress: func(int64) {},
		}))
		if passed := time.Since(begin); result.Counts.Documents != count || passed > 15*time.Millisecond*count/10 {
			t.Errorf("%d documents in %s", result.Counts.Documents, passed)
		}
		for key := range objects {
			assert.Equal(t, 1, near.Reads(key), "%s was read", key)
		}
	})
}

// What fails while it is read ahead fails that document, when its turn comes.
func TestAReadingAheadFailsItsOwnDocument(t *testing.T) {
	r := newRun(t, map[string]string{"a.txt": "first", "b.txt": "second", "c.txt": "third", "d.txt": "fourth"})
	units := r.plan().Units
	r.corpus.Open["b.txt"] = fault.StoreDenied.At("read", "b.txt")
	r.corpus.Break["c.txt"] = fault.Unreadable.At("read", "c.txt")
	res := stagetest.Must(r.chunk(t.Context(), 0, units))
	documents := r.documents(res)
	for key, want := range map[string]string{
		"a.txt": "", "b.txt": string(fault.StoreDenied), "c.txt": string(fault.Unreadable), "d.txt": "",
	} {
		assert.Equal(t, want, documents[key].Problem, "%s has problem", key)
	}
	assert.True(t, res.Counts.Documents == 2 && res.Failed == 2, "%+v", res)
}
