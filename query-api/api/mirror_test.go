package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/store/blob"
	storecoordination "github.com/unweaver/unweaver/internal/store/coordination"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

func (f *fixture) mirror(built retrievetest.Built, epoch int64) {
	manifest := built.Manifest
	raw, err := json.Marshal(core.Pointer{
		Generation: manifest.Generation, Manifest: built.SHA, Seq: manifest.Seq, Epoch: epoch,
	})
	if err == nil {
		err = f.stores.Readers.Mirror(f.t.Context(), "sample", epoch, raw)
	}
	require.NoError(f.t, err)
}

var fram = object{"query": "Fram"}

// Promises: 53.
func TestABackupThatIsPutBackIsServedAlthoughTheMirrorIsAhead(t *testing.T) {
	f := serve(t, nil)
	next := f.publishNext(4)
	f.mirror(next, 4)
	eventually(t, "the new generation is served", func() bool { return f.ask(fram).Generation == "g2" })
	retrievetest.Publish(t, f.built, 1)
	eventually(t, "what current.json names is served", func() bool { return f.ask(fram).Generation == "g1" })
	next = f.publishNext(2) // a night after: its epoch is below what the mirror had once
	f.mirror(next, 2)
	eventually(t, "the next night is served", func() bool {
		out := f.ask(fram)
		return out.Generation == "g2" && *out.Release == 2
	})
}

// Promises: 53.
func TestAReplicaThatStartsDoesNotBelieveAMirrorThatIsAhead(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		gone := f.built
		gone.SHA = core.Sum("a manifest that no backup holds").String()
		f.mirror(gone, 9)
	})
	out := f.ask(fram)
	assert.True(t, out.Generation == "g1" && *out.Release == 1, "%+v", out)
}

// endings notes which leases are ended, rather than left to run out.
type endings struct {
	storecoordination.Readers
	ended sync.Map
}

func (e *endings) Lease(ctx context.Context, index, generation, reader string, ttl time.Duration) error {
	if ttl < time.Second {
		e.ended.Store(generation, true)
	}
	return e.Readers.Lease(ctx, index, generation, reader, ttl)
}

// A deletion waits for every lease: also of the generation that was served before.
// Promises: 53.
func TestAnIndexThatIsRemovedAndBuiltAnewIsServed(t *testing.T) {
	leases := &endings{}
	f := serve(t, func(_ *fixture, config *api.Config) {
		leases.Readers = config.Readers
		config.Readers = leases
	})
	f.ask(fram)
	f.mirror(f.publishNext(7), 7)
	eventually(t, "it is served", func() bool { return f.ask(fram).Generation == "g2" })
	require.NoError(t, f.stores.Blobs.Delete(t.Context(), f.built.Index.CurrentKey()))
	require.NoError(t, f.stores.Readers.Mirror(t.Context(), "sample", 8, []byte(`{"epoch":8}`))) // as a deletion does
	f.refuse(404, "", "POST", sampleQuery, fram)
	eventually(t, "its leases are given back", func() bool {
		_, before := leases.ended.Load("g1")
		_, current := leases.ended.Load("g2")
		return before && current
	})
	retrievetest.Publish(t, f.built, 1)
	f.mirror(f.built, 1)
	assert.Equal(t, "g1", f.ask(fram).Generation, "built again")
}

// A mirror that is not renewed any more must not cost every query a request.
// Promises: 53.
func TestAMirrorThatStaysBehindCostsNoRequests(t *testing.T) {
	f := serve(t, nil)
	f.mirror(f.built, 1)
	f.publishNext(2)
	eventually(t, "the new generation is served", func() bool { return f.ask(fram).Generation == "g2" })
	begin := time.Now()
	before := f.store.reads("current.json")
	for range 50 {
		f.ask(fram)
	}
	n := f.store.reads("current.json") - before
	if beats := int(time.Since(begin)/(500*time.Millisecond)) + 2; n > beats { // what the watcher reads meanwhile
		t.Errorf("50 queries read the pointer %d times, the watcher may have %d times", n, beats)
	}
}

// Promises: 53.
func TestADamagedPointerLeavesWhatIsServed(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	must(blob.Write(t.Context(), f.stores.Blobs, f.built.Index.CurrentKey(), []byte("{"), blob.Cond{}))(t)
	before := f.store.reads("current.json")
	eventually(t, "the watcher met it", func() bool { return f.store.reads("current.json") > before+1 })
	assert.Equal(t, "g1", f.ask(fram).Generation)
}

// A bit that flips in the name of current.json's generation must not have one generation served as another.
// Promises: 53.
func TestAPointerThatNamesTwoGenerationsServesNone(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		pointer := core.Pointer{Generation: "g3", Manifest: f.built.SHA, Seq: f.built.Manifest.Seq, Epoch: 1}
		must(blob.WriteJSON(t.Context(), f.stores.Blobs, f.built.Index.CurrentKey(), pointer, blob.Cond{}))(t)
	})
	f.refuse(503, "segment_damaged", "POST", sampleQuery, fram)
}

// named serves the sample's generations g1 and g2, of which g2 is current and g1 has been asked for by its name.
func named(t *testing.T) (*fixture, *coordination.Store) {
	t.Helper()
	shared := coordination.New()
	f := serve(t, func(_ *fixture, config *api.Config) { config.Readers = shared })
	f.ready()
	f.publishNext(2)
	eventually(t, "the next generation", func() bool { return f.ask(fram).Generation == "g2" })
	f.ask(object{"query": "Fram", "generation": "g1"})
	return f, shared
}

// leased reports whether a reader's lease keeps a generation of the sample from being collected.
func leased(t *testing.T, shared *coordination.Store, generation string) bool {
	return must(shared.ListLeased(t.Context(), "sample"))(t)[generation]
}

// A held generation is named where nothing of its index is published, and answers by its name.
func TestAHeldGenerationOfAnUnpublishedIndexIsNamedAndCanBeAsked(t *testing.T) {
	f := serve(t, nil)
	retrievetest.Hold(t, retrievetest.Build(t, f.stores, "held", retrievetest.Sample(), retrievetest.Options{}), "held")
	const path = "/v1/indexes/held/query"
	ask := func(body object, want int) object {
		code, out, _ := f.do("POST", path, body)
		assert.True(t, code == want, "%v: %d %v", body, code, out)
		return out
	}
	if out := ask(fram, 404); !strings.Contains(fmt.Sprint(out["detail"]), "no published index") {
		t.Error(out)
	}
	state := `{"report":{"run":"held/g1","generation":"g1","status":"held","reason":"mass","content_hash":"c0ffee"}}`
	for key, value := range map[string]string{runlog.LatestBuild("held"): "held/g1", "held/g1": state} {
		require.NoError(t, f.runs.SetState(t.Context(), key, []byte(value)))
	}
	if out := ask(fram, 404); !strings.Contains(fmt.Sprint(out["detail"]), "g1 is held") {
		t.Error(out)
	}
	for range 2 {
		out := ask(object{"query": "Fram", "generation": "g1"}, 200)
		assert.True(t, out["generation"] == "g1", out)
	}
	ask(object{"query": "Fram", "generation": "g7"}, 404)
}

// A question about an old generation keeps it for a while, and not for as long as the replica lives.
// Promises: 122.
func TestAGenerationThatNobodyAsksForByNameAnyMoreIsNoLongerLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shared := named(t)
		for range 10 { // asked for every four minutes it stays
			time.Sleep(4 * time.Minute)
			if f.ask(object{"query": "Fram", "generation": "g1"}); !leased(t, shared, "g1") {
				t.Fatal("a generation that is asked for is not leased")
			}
		}
		opened := f.opened("sample")
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		assert.True(t, !leased(t, shared, "g1") && leased(t, shared, "g2"), "after six minutes: g1 leased %t, g2 %t",
			leased(t, shared, "g1"), leased(t, shared, "g2"))
		assert.True(t, f.opened("sample") == opened, "it was opened again before it was idle")
		assert.Equal(t, "g1", f.ask(object{"query": "Fram", "generation": "g1"}).Generation, "asked for again")
		assert.True(t, leased(t, shared, "g1"), "asked for again it is not leased")
	})
}

// Of a generation that holds what is purged nothing is reported any more: an open one is closed, its lease with it, and
// none is opened. Other generations do not have the document.
// Promises: 122.
func TestAPurgedGenerationIsClosedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shared := named(t)
		before := retrievetest.Build(t, f.stores, "sample", retrievetest.Sample()[:3], retrievetest.Options{Generation: "g0"})
		retrievetest.Hold(t, before, "published")
		for _, generation := range []string{"g0", "g1"} { // a purge marks them, and waits for their leases to end
			key := f.built.Index.CollectedKey(generation)
			must(blob.WriteJSON(t.Context(), f.stores.Blobs, key, map[string]bool{"purged": true}, blob.Cond{}))(t)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.False(t, leased(t, shared, "g1"), "a purged generation is leased a minute later")
		for _, generation := range []string{"g0", "g1"} {
			f.refuse(410, "generation_collected", "POST", sampleQuery, object{"query": "Fram", "generation": generation})
		}
		purged := retrievetest.Sample()[5].Key // which g2 does not have
		for _, path := range []string{"", "/text"} {
			f.refuse(404, "", "GET", fmt.Sprintf("/v1/indexes/sample/documents/%s%s", purged, path), nil)
		}
	})
}
