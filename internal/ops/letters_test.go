package ops_test

import (
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ops"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

func TestARoundOfRetryFailedIsABuildOfWhatFailed(t *testing.T) {
	b := newBench(t)
	request := ops.LettersRequest{Name: "docs"}
	if _, err := b.RetryFailed(t.Context(), request); !fault.Is(err, fault.UnknownIndex) {
		t.Errorf("of an index that was never built: %v", err)
	}
	digest, err := b.art.PutSpec(t.Context(), b.spec("docs"))
	b.must(err)
	sha, err := b.art.PutManifest(t.Context(), &corpus.Manifest{Index: "docs", Generation: "g1", Seq: 1, Spec: digest})
	b.must(err)
	_, err = blob.WriteJSON(t.Context(), b.art.Store, b.art.CurrentKey(),
		corpus.Pointer{Generation: "g1", Manifest: sha, Seq: 1, Epoch: 1}, blob.Cond{})
	b.must(err)
	if run, err := b.RetryFailed(t.Context(), request); err != nil || run.Run != "" || len(b.temporal.started) != 0 {
		t.Errorf("nothing failed: %+v, %v", run, err)
	}
	chunk := strings.Repeat("ab", 16)
	letter := extract.DeadLetter{Chunk: chunk, Document: "a.md", Reason: string(fault.BadOutput), Attempt: 4}
	_, err = blob.WriteJSON(t.Context(), b.art.Store, extract.DeadLetterKey(b.art, "g1", chunk), letter, blob.Cond{})
	b.must(err)
	unknown := ops.LettersRequest{Name: "docs", Chunks: []string{strings.Repeat("cd", 16)}}
	if _, err := b.RetryFailed(t.Context(), unknown); !fault.Is(err, fault.NotFound) ||
		!strings.Contains(err.Error(), "dead-letters list --index docs") {
		t.Errorf("an unknown letter: %v", err)
	}
	if _, err := b.RetryFailed(t.Context(), ops.LettersRequest{Name: "docs/g0"}); !fault.Is(err, fault.Usage) ||
		!strings.Contains(err.Error(), "g1 is published") {
		t.Errorf("an older generation: %v", err)
	}
	run, err := b.RetryFailed(t.Context(), ops.LettersRequest{Name: "docs/g1"})
	if err != nil || !strings.HasPrefix(run.Run, "docs/"+workflows.RetryGeneration) {
		t.Fatalf("%+v, %v", run, err)
	}
	build := b.temporal.inputs[0].(workflows.Build)
	if build.Attempt != 5 || build.Spec != digest.String() {
		t.Errorf("%+v", build)
	}
	if _, err := b.RetryFailed(t.Context(), request); !fault.Is(err, fault.LeaseHeld) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := b.Index(t.Context(), ops.IndexRequest{Spec: b.spec("docs")}); !fault.Is(err, fault.LeaseHeld) ||
		!strings.Contains(err.Error(), "leaves the corpus as it was") {
		t.Errorf("a build does not join it: %v", err)
	}
}
