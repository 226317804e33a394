package artifact_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// generations makes g1 to g3, of which g2 is current and g3 is held.
func generations(t *testing.T) (artifact.Index, *artifacttest.Memory, map[string]string) {
	t.Helper()
	x, store := index()
	manifests := map[string]string{}
	for seq, gen := range []string{"", "g1", "g2", "g3"} {
		if gen == "" {
			continue
		}
		sha := must(x.PutManifest(t.Context(), &core.Manifest{Format: core.ManifestFormat, Generation: gen, Seq: int64(seq),
			Counts: core.Counts{Chunks: int64(100 * seq)}, Segments: core.Segments{Splits: []core.Split{{}}}}))
		state := map[bool]string{true: "held", false: "published"}[gen == "g3"]
		ref := core.GenerationRef{Manifest: sha, Seq: int64(seq), State: state}
		writeJSON(t, store, x.GenerationKey(gen, "manifest.json"), ref)
		writeJSON(t, store, x.GenerationKey(gen, "report.json"), map[string]string{})
		manifests[gen] = sha
	}
	writeJSON(t, store, x.GenerationKey("g9", "report.json"), map[string]string{}) // it failed: no manifest
	writeJSON(t, store, x.GenerationKey("g1", "parts/manifest.json"), map[string]string{})
	writeJSON(t, store, x.CurrentKey(), core.Pointer{Generation: "g2", Manifest: manifests["g2"], Seq: 2, Epoch: 7})
	return x, store, manifests
}

func writeJSON(t *testing.T, store blob.Store, key string, v any) {
	t.Helper()
	must(blob.WriteJSON(t.Context(), store, key, v, blob.Cond{}))
}

func cut(raw []byte) []byte { return raw[:len(raw)/2] }

func listed(t *testing.T, x artifact.Index) (names, states []string) {
	t.Helper()
	all := must(x.ListGenerations(t.Context()))
	for _, g := range all {
		names, states = append(names, g.Generation), append(states, g.State)
	}
	return names, states
}

func TestGenerationsAreListedTheCurrentFirstThenTheNewest(t *testing.T) {
	x, _, manifests := generations(t)
	names, states := listed(t, x)
	if !slices.Equal(names, []string{"g2", "g3", "g1"}) ||
		!slices.Equal(states, []string{"current", "held", "published"}) {
		t.Errorf("%v %v", names, states)
	}
	all, err := x.ListGenerations(t.Context())
	if err != nil || all[0].Chunks != 200 || all[0].Seq != 2 || all[0].Manifest != manifests["g2"] {
		t.Errorf("%+v %v", all[0], err)
	}
	refs, err := x.ListRefs(t.Context())
	assert.True(t, err == nil && len(refs) == 3 && refs["g3"].State == "held", "%v %v", refs, err)
}

// A generation that no server has open must not keep people from seeing the others.
func TestDamageOfAnOlderGenerationIsNamedAndHidesNoOther(t *testing.T) {
	for _, c := range []struct {
		situation string
		damage    func(artifact.Index, *artifacttest.Memory, map[string]string)
		readable  int
	}{
		{"its manifest is cut", func(x artifact.Index, s *artifacttest.Memory, m map[string]string) {
			s.Change(x.SegmentKey(m["g1"]), cut)
		}, 3},
		{"its manifest is lost", func(x artifact.Index, s *artifacttest.Memory, m map[string]string) {
			_ = s.Delete(context.Background(), x.SegmentKey(m["g1"]))
		}, 3},
		{"its reference is cut", func(x artifact.Index, s *artifacttest.Memory, _ map[string]string) {
			s.Change(x.GenerationKey("g1", "manifest.json"), cut)
		}, 2},
	} {
		x, store, manifests := generations(t)
		c.damage(x, store, manifests)
		names, states := listed(t, x)
		if !slices.Equal(names, []string{"g2", "g3", "g1"}) || states[2] != artifact.Damaged || states[0] != "current" {
			t.Errorf("%s: %v %v", c.situation, names, states)
		}
		refs, damaged, err := x.ReadableRefs(t.Context())
		assert.True(t, err == nil && len(refs) == c.readable && len(refs)+len(damaged) == 3,
			"%s: %v %v %v", c.situation, refs, damaged, err)
		_, err = x.ListRefs(t.Context())
		assert.True(t, (err != nil) == (c.readable == 2), "%s: strict references: %v", c.situation, err)
	}
}

func TestADamagedCurrentManifestIsAnErrorAndItsReferenceIsNotNeeded(t *testing.T) {
	x, store, manifests := generations(t)
	store.Change(x.GenerationKey("g2", "manifest.json"), cut)
	if names, states := listed(t, x); names[0] != "g2" || states[0] != "current" || len(names) != 3 {
		t.Errorf("without its reference: %v %v", names, states)
	}
	store.Change(x.SegmentKey(manifests["g2"]), cut)
	_, err := x.ListGenerations(t.Context())
	assert.True(t, fault.Is(err, fault.SegmentDamage), "%v", err)
}

func TestAStoreThatDoesNotAnswerIsNotTakenForDamage(t *testing.T) {
	x, store, manifests := generations(t)
	keys := []string{x.SegmentKey(manifests["g1"]), x.GenerationKey("g1", "manifest.json"), "docs/generations/"}
	for _, key := range keys {
		store.Fail = func(_ artifacttest.Op, k string) error {
			if k == key {
				return fault.StoreDown.At("read", k)
			}
			return nil
		}
		_, err := x.ListGenerations(t.Context())
		assert.True(t, fault.Is(err, fault.StoreDown), "%s: %v", key, err)
	}
	store.Fail = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := x.ReadableRefs(ctx)
	assert.True(t, errors.Is(err, context.Canceled), "cancelled: %v", err)
}

func TestAGenerationThatIsNotThereIsUnknown(t *testing.T) {
	x, _, _ := generations(t)
	_, err := x.GenerationRef(t.Context(), "g9")
	assert.True(t, fault.Is(err, fault.UnknownGen), "%v", err)
	empty, _ := index()
	all, err := empty.ListGenerations(t.Context())
	assert.True(t, err == nil && all != nil && len(all) == 0, "an index without any: %v %v", all, err)
}
