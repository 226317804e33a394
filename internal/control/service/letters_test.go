package service_test

import (
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/workflows"
)

func TestARoundOfRetryFailedIsABuildOfWhatFailed(t *testing.T) {
	b := newBench(t)
	request := control.LettersRequest{Name: "docs"}
	if _, err := b.RetryFailed(t.Context(), request); !fault.Is(err, fault.UnknownIndex) {
		t.Errorf("of an index that was never built: %v", err)
	}
	digest, err := b.art.PutSpec(t.Context(), b.spec("docs"))
	b.must(err)
	sha, err := b.art.PutManifest(t.Context(), &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g1", Seq: 1, Spec: digest,
	})
	b.must(err)
	_, err = blob.WriteJSON(t.Context(), b.art.Store, b.art.CurrentKey(),
		core.Pointer{Generation: "g1", Manifest: sha, Seq: 1, Epoch: 1}, blob.Cond{})
	b.must(err)
	if run, err := b.RetryFailed(t.Context(), request); err != nil || run.Run != "" || len(b.temporal.started) != 0 {
		t.Errorf("nothing failed: %+v, %v", run, err)
	}
	chunk := strings.Repeat("ab", 16)
	letter := extract.DeadLetter{Chunk: chunk, Document: "a.md", Reason: string(fault.BadOutput), Attempt: 4}
	_, err = blob.WriteJSON(t.Context(), b.art.Store, extract.DeadLetterKey(b.art, "g1", chunk), letter, blob.Cond{})
	b.must(err)
	unknown := control.LettersRequest{Name: "docs", Chunks: []string{strings.Repeat("cd", 16)}}
	if _, err := b.RetryFailed(t.Context(), unknown); !fault.Is(err, fault.NotFound) ||
		!strings.Contains(err.Error(), "dead-letters list --index docs") {
		t.Errorf("an unknown letter: %v", err)
	}
	if _, err := b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs/g0"}); !fault.Is(err, fault.Usage) ||
		!strings.Contains(err.Error(), "g1 is published") {
		t.Errorf("an older generation: %v", err)
	}
	run, err := b.RetryFailed(t.Context(), control.LettersRequest{Name: "docs/g1"})
	if err != nil || !strings.HasPrefix(run.Run, "docs/"+workflows.RetryGeneration) {
		t.Fatalf("%+v, %v", run, err)
	}
	operations, err := b.Operations(t.Context(), "docs", 0)
	b.must(err)
	if len(operations) != 1 || operations[0].Action != core.ActionRetry || operations[0].Run != run.Run {
		t.Errorf("recorded are %+v", operations)
	}
	build := b.temporal.inputs[0].(workflows.Build)
	if build.Attempt != 5 || build.Spec != digest.String() {
		t.Errorf("%+v", build)
	}
	if _, err := b.RetryFailed(t.Context(), request); !fault.Is(err, fault.LeaseHeld) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := b.Index(t.Context(), control.IndexRequest{Spec: b.spec("docs")}); !fault.Is(err, fault.LeaseHeld) ||
		!strings.Contains(err.Error(), "leaves the corpus as it was") {
		t.Errorf("a build does not join it: %v", err)
	}
}

// Who discarded a letter, and which, is recorded; text that names no chunk is not.
func TestADiscardedLetterIsRecorded(t *testing.T) {
	b := newBench(t)
	ctx := control.WithOperator(t.Context(), core.Operator{By: "ada@desk"})
	digest, err := b.art.PutSpec(ctx, b.spec("docs"))
	b.must(err)
	sha, err := b.art.PutManifest(ctx, &core.Manifest{
		Format: core.ManifestFormat, Index: "docs", Generation: "g1", Seq: 1, Spec: digest,
	})
	b.must(err)
	_, err = blob.WriteJSON(ctx, b.art.Store, b.art.CurrentKey(),
		core.Pointer{Generation: "g1", Manifest: sha, Seq: 1, Epoch: 1}, blob.Cond{})
	b.must(err)
	chunk := strings.Repeat("ab", 16)
	_, err = blob.WriteJSON(ctx, b.art.Store, extract.DeadLetterKey(b.art, "g1", chunk),
		extract.DeadLetter{Chunk: chunk, Document: "a.md"}, blob.Cond{})
	b.must(err)
	b.must(b.Discard(ctx, control.LettersRequest{Name: "docs", Chunks: []string{chunk}, Why: "a table"}))
	wants(t, b.Discard(ctx, control.LettersRequest{Name: "docs", Chunks: []string{"\x1b[31m"}}), fault.NotFound)
	operations, err := b.Operations(ctx, "docs", 0)
	b.must(err)
	if len(operations) != 2 || operations[1].Action != core.ActionDiscardLetters || operations[1].By != "ada@desk" ||
		operations[1].To != "g1" || operations[1].Name != chunk || operations[1].Reason != "a table" ||
		operations[0].Name != "" || operations[0].Outcome.Code != string(fault.NotFound) {
		t.Errorf("%+v", operations)
	}
}
