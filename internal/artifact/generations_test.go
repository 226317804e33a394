package artifact_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// generations makes g1 to g3, of which g2 is current and g3 is held.
func generations(t *testing.T) (artifact.Index, *artifacttest.Memory, map[string]string) {
	x, store := index()
	manifests := map[string]string{}
	for gen, seq := range map[string]int64{"g1": 1, "g2": 2, "g3": 3} {
		sha := musttest.Get(x.PutManifest(t.Context(), &core.Manifest{Format: core.ManifestFormat, Generation: gen, Seq: seq,
			Counts: core.Counts{Chunks: 100 * seq}, Segments: core.Segments{Splits: []core.Split{{}}}}))(t)
		state := map[bool]string{true: "held", false: "published"}[gen == "g3"]
		ref := core.GenerationRef{Manifest: sha, Seq: seq, State: state}
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
	musttest.Get(blob.WriteJSON(t.Context(), store, key, v, blob.Cond{}))(t)
}

func cut(raw []byte) []byte { return raw[:len(raw)/2] }

func listed(t *testing.T, x artifact.Index) (names, states []string) {
	for _, g := range musttest.Get(x.ListGenerations(t.Context()))(t) {
		names, states = append(names, g.Generation), append(states, g.State)
	}
	return names, states
}

func TestGenerationsAreListedTheCurrentFirstThenTheNewest(t *testing.T) {
	x, _, manifests := generations(t)
	names, states := listed(t, x)
	assert.Equal(t, []string{"g2", "g3", "g1"}, names)
	assert.Equal(t, []string{"current", "held", "published"}, states)
	first := musttest.Get(x.ListGenerations(t.Context()))(t)[0]
	assert.True(t, first.Chunks == 200 && first.Seq == 2 && first.Manifest == manifests["g2"], "%+v", first)
	refs, err := x.ListRefs(t.Context())
	assert.True(t, err == nil && len(refs) == 3 && refs["g3"].State == "held", "%v %v", refs, err)
}

// A generation that no server has open must not keep people from seeing the others.
func TestDamageOfAnOlderGenerationIsNamedAndHidesNoOther(t *testing.T) {
	for _, c := range []struct {
		situation string
		damage    func(store *artifacttest.Memory, manifest, ref string)
		readable  int
	}{
		{"its manifest is cut", func(store *artifacttest.Memory, manifest, _ string) { store.Change(manifest, cut) }, 3},
		{"its manifest is lost", func(store *artifacttest.Memory, manifest, _ string) {
			assert.NoError(t, store.Delete(t.Context(), manifest))
		}, 3},
		{"its reference is cut", func(store *artifacttest.Memory, _, ref string) { store.Change(ref, cut) }, 2},
	} {
		x, store, manifests := generations(t)
		c.damage(store, x.SegmentKey(manifests["g1"]), x.GenerationKey("g1", "manifest.json"))
		names, states := listed(t, x)
		assert.Equal(t, []string{"g2", "g3", "g1"}, names, c.situation)
		assert.Equal(t, []string{"current", "held", artifact.Damaged}, states, c.situation)
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
	names, states := listed(t, x)
	assert.True(t, names[0] == "g2" && states[0] == "current" && len(names) == 3, "no reference: %v %v", names, states)
	store.Change(x.SegmentKey(manifests["g2"]), cut)
	musttest.Refuse(x.ListGenerations(t.Context()))(t, fault.SegmentDamage)
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
	musttest.Refuse(x.GenerationRef(t.Context(), "g9"))(t, fault.UnknownGen)
	empty, _ := index()
	all, err := empty.ListGenerations(t.Context())
	assert.True(t, err == nil && all != nil && len(all) == 0, "an index without any: %v %v", all, err)
}

// A pointer that is cut, or that names no generation or two, is damage, and never an index without a generation.
// Promises: 139.
func TestAPointerNamesOneGenerationOrIsDamaged(t *testing.T) {
	x := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	pointer, etag, err := x.ReadPointer(t.Context())
	assert.True(t, err == nil && etag == "" && pointer == core.Pointer{}, "unpublished: %+v %q %v", pointer, etag, err)
	sha := musttest.Get(x.PutManifest(t.Context(), &core.Manifest{Generation: "g1", Seq: 3, Format: core.ManifestFormat}))(t)
	for name, c := range map[string]struct {
		raw  string
		read bool // Current gives it, and Pointed does not
	}{
		"empty": {"", false}, "cut": {`{"generation":"g1"`, false}, "null": {"null", false}, "nothing": {"{}", false},
		"no manifest":        {`{"generation":"g1","seq":3,"epoch":1}`, false},
		"no generation":      {`{"manifest":"` + sha + `","seq":3,"epoch":1}`, false},
		"an epoch below all": {`{"generation":"g1","manifest":"` + sha + `","seq":3,"epoch":-1}`, false},
		"two generations":    {`{"generation":"g2","manifest":"` + sha + `","seq":3,"epoch":1}`, true},
		"two numbers":        {`{"generation":"g1","manifest":"` + sha + `","seq":4,"epoch":1}`, true},
		"a manifest that is not there": {`{"generation":"g1","manifest":"` + strings.Repeat("0", 64) + `","seq":3,"epoch":1}`,
			true},
	} {
		musttest.Get(blob.Write(t.Context(), x.Store, x.CurrentKey(), []byte(c.raw), blob.Cond{}))(t)
		pointer, _, err := x.ReadPointer(t.Context())
		if c.read && err == nil {
			_, err = x.ManifestOf(t.Context(), pointer)
		} else if c.read {
			t.Errorf("%s: %v", name, err)
		}
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %+v %v", name, pointer, err)
	}
	manifest, err := x.ManifestOf(t.Context(), core.Pointer{Generation: "g1", Manifest: sha, Seq: 3, Epoch: 1})
	assert.True(t, err == nil && manifest.Generation == "g1", "%+v %v", manifest, err)
}

func TestAnObjectIsIntactWhereItIsWhatItsNameSays(t *testing.T) {
	x := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	file := musttest.Get(artifact.NewFile())(t)
	defer file.Discard()
	musttest.Get(file.Write([]byte("content")))(t)
	segment, _, err := file.PutSegment(t.Context(), x)
	require.NoError(t, err)
	key := x.SegmentKey(segment.SHA256)
	for _, content := range []string{"content", "contenT", "conten", "contents", ""} {
		musttest.Get(blob.Write(t.Context(), x.Store, key, []byte(content), blob.Cond{}))(t)
		assert.Equal(t, content == "content", musttest.Get(x.IsIntact(t.Context(), segment.SHA256, nil))(t), "%q", content)
	}
	require.NoError(t, x.Store.Delete(t.Context(), key))
	assert.False(t, musttest.Get(x.IsIntact(t.Context(), segment.SHA256, nil))(t), "one that is gone")
}

// Names come from all who reach the engine.
// Promises: 138.
func TestANameThatIsNoneNeverBecomesAPath(t *testing.T) {
	store := artifacttest.New()
	var keys []string
	for _, name := range []string{"../../../..", "..", "", "/etc", "docs/../..", "a/b", "ledger", "doctor", "Docs", ".tmp"} {
		x := artifact.Index{Store: store, Name: name}
		assert.True(t, fault.Is(x.Check(), fault.InvalidParam), "%q names an index", name)
		keys = append(keys, x.CurrentKey(), x.LeaseKey(), x.SegmentKey("ab"), x.GenerationKey("g", "report.json"),
			x.RunKey("g", "1", "build.json"), x.SpecKey(core.Digest{}))
	}
	good := artifact.Index{Store: store, Name: "docs"}
	for _, name := range []string{"..", "../other/current.json", "a/../b", "../..", "/etc/passwd", "a\x00", `a\b`} {
		keys = append(keys, good.SegmentKey(name), good.GenerationKey(name, "report.json"), good.RunKey(name, "x"),
			good.RunKey("g", name+"/.."), good.GenerationKey("g", "../"+name))
	}
	keys = append(keys, good.SegmentKey("a/b"), good.GenerationKey("a/b", "report.json"), good.RunKey("a/b", "x"))
	for _, key := range keys {
		assert.True(t, fault.Is(blob.CheckKey(key), fault.InvalidParam), "%q is taken by a store", key)
		_, err := store.Stat(t.Context(), key)
		assert.True(t, fault.Is(err, fault.InvalidParam), "%q: %v", key, err)
	}
}

// A configuration that another index has, or that a person put in its place, says where to read and whom to pay.
func TestAConfigurationOfAnotherIndexIsRefused(t *testing.T) {
	x, store := index()
	other := artifact.Index{Store: store, Name: "other"}
	digest := musttest.Get(other.PutSpec(t.Context(), core.Spec{Index: "other"}))(t)
	raw := musttest.Get(json.Marshal(core.Spec{Index: "other"}))(t)
	musttest.Get(blob.Write(t.Context(), store, x.SpecKey(digest), raw, blob.Cond{}))(t)
	musttest.Refuse(x.Spec(t.Context(), digest))(t, fault.InvalidParam, "other")
	musttest.Get(other.Spec(t.Context(), digest))(t)
}

// One look after the other, of which each is kept: how far the clock goes when the machine's goes so far.
// Promises: 113.
func TestAClockFollowsTheMachinesByBoundedSteps(t *testing.T) {
	const day = 24 * time.Hour
	for name, looks := range map[string][]struct{ machine, clock time.Duration }{ // since the first look
		"every night":         {{day, day}, {2 * day, 2 * day}, {3 * day, 3 * day}},
		"a year ahead once":   {{day, day}, {365 * day, 3 * day}, {3 * day, 3 * day}, {4 * day, 4 * day}},
		"ahead from now on":   {{365 * day, day}, {366 * day, 3 * day}, {367 * day, 7 * day}, {368 * day, 15 * day}},
		"an hour back":        {{day, day}, {day - time.Hour, day}, {2 * day, 2 * day}},
		"a year back once":    {{day, day}, {-365 * day, day}, {2 * day, 2 * day}},
		"a year back for two": {{day, day}, {-365 * day, day}, {-364 * day, day}, {2 * day, 2 * day}},
		"back from now on":    {{day, day}, {-365 * day, day}, {-364 * day, day}, {-363 * day, -363 * day}},
	} {
		store, began := blobmemory.New(), time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
		look := func(machine time.Duration) time.Duration {
			clock, err := artifact.ReadClock(t.Context(), store, "docs/clock.json", began.Add(machine), day)
			if err == nil {
				err = clock.Save(t.Context(), store, "docs/clock.json")
			}
			require.NoError(t, err)
			return clock.At.Sub(began)
		}
		look(0)
		for i, want := range looks {
			assert.Equal(t, want.clock, look(want.machine), "%s, look %d at %s: the clock is at", name, i, want.machine)
		}
		musttest.Get(blob.Write(t.Context(), store, "docs/clock.json", []byte("{"), blob.Cond{}))(t)
		assert.Equal(t, 500*day, look(500*day), "%s: one that is damaged is at", name)
	}
}
