package collect_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A branch shares the segments, records and rows of its base: what its generations need stays when the base lets go of
// them, from before it has any of its own until it is deleted.
// Promises: 135.
func TestWhatABranchNeedsStaysUntilItIsDeleted(t *testing.T) {
	for name, begun := range map[string]bool{"that is being made": false, "that has begun": true} {
		t.Run("a branch "+name, func(t *testing.T) {
			w := newWorld(t)
			put := func(key string, value any) {
				t.Helper()
				_, err := blob.WriteJSON(t.Context(), w.store, key, value, blob.Cond{})
				w.check(err)
			}
			w.publish("g1", first)
			ref := core.GenerationRef{Manifest: w.manifest["g1"], Seq: w.seq, State: core.GenerationPublished}
			branch := artifact.Index{Store: w.store, Name: "trial"}
			w.check(branch.PutBase(t.Context(), "docs"))
			record := core.Branch{
				Name: "trial", Base: "docs", Generation: "g1", Manifest: ref.Manifest, Seq: ref.Seq, State: core.BranchOpen,
			}
			put(w.index.BranchKey("trial"), record)
			if begun {
				put(branch.GenerationKey("t1", "manifest.json"), ref)
				put(branch.CurrentKey(), core.Pointer{Generation: "t1", Manifest: ref.Manifest, Seq: ref.Seq, Epoch: 1})
			}
			w.publish("g2", second)
			for night := range 4 {
				w.collect(night)
			}
			assert.Equal(t, []string{"g2"}, generations(w), "the base keeps")
			missing := w.missing("g1", first)
			assert.True(t, missing == nil, "the branch lost %v", missing)
			record.State = core.BranchDeleted
			put(w.index.BranchKey("trial"), record)
			for night := 4; night < 12; night++ {
				w.collect(night)
			}
			if !begun {
				return // records and rows of what never was its own generation are not looked for again
			}
			w.alone("g2", second)
		})
	}
}
