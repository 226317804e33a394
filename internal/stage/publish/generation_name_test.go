package publish_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// The name of a generation stays that of its manifest: it may be what is served.
// Promises: 139.
func TestANameThatAGenerationHasIsNotGivenAgain(t *testing.T) {
	art := newIndex(t)
	stagetest.Ok(t, publish.CheckUnused(t.Context(), art, "g1"))
	sha := stagetest.Must(publish.Store(t.Context(), art, &core.Manifest{Generation: "g1", Seq: 1}, "published"))
	if err := publish.CheckUnused(t.Context(), art, "g1"); !fault.Is(err, fault.Usage) {
		t.Errorf("it is free: %v", err)
	}
	if _, err := publish.Store(t.Context(), art, &core.Manifest{Generation: "g1", Seq: 2}, "held"); !fault.Is(
		err, fault.Usage,
	) {
		t.Errorf("another has it: %v", err)
	}
	ref, err := art.GenerationRef(t.Context(), "g1")
	assert.True(t, err == nil && ref == (core.GenerationRef{Manifest: sha, Seq: 1, State: "published"}),
		"it names %+v, %v", ref, err)
}

// One whose reference cannot be read has one of the numbers that are left out.
func TestSeqPassesOverGenerationsThatCannotBeRead(t *testing.T) {
	art := newIndex(t)
	for _, gen := range []string{"g1", "g2", "g3"} {
		stagetest.Must(publish.Store(t.Context(), art, &core.Manifest{Generation: gen, Seq: 5}, "held"))
	}
	for _, gen := range []string{"g1", "g2"} {
		key := art.GenerationKey(gen, "manifest.json")
		stagetest.Must(blob.Write(t.Context(), art.Store, key, []byte("{"), blob.Cond{}))
	}
	assert.Equal(t, int64(8), stagetest.Must(publish.NextSeq(t.Context(), art)))
	served := core.Pointer{Generation: "g9", Manifest: "sha-g9", Seq: 20, Epoch: 1} // it counts, also without a reference
	stagetest.Must(blob.WriteJSON(t.Context(), art.Store, art.CurrentKey(), served, blob.Cond{}))
	if got, err := publish.NextSeq(t.Context(), art); err != nil || got != 23 {
		t.Errorf("%d, %v", got, err)
	}
}
