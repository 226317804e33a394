package api_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

func (f *fixture) mirror(built retrievetest.Built, epoch int64) {
	f.t.Helper()
	manifest := built.Manifest
	raw, err := json.Marshal(core.Pointer{
		Generation: manifest.Generation, Manifest: built.SHA, Seq: manifest.Seq, Epoch: epoch,
	})
	if err == nil {
		err = f.stores.Readers.Mirror(f.t.Context(), "sample", epoch, raw)
	}
	require.NoError(f.t, err)
}

var fram = map[string]any{"query": "Fram"}

// Promises: 53.
func TestABackupThatIsPutBackIsServedAlthoughTheMirrorIsAhead(t *testing.T) {
	f := serve(t, nil)
	next := f.publishNext(4)
	f.mirror(next, 4)
	eventually(t, "the new generation is served", func() bool { return f.ask(fram)["generation"] == "g2" })
	retrievetest.Publish(t, f.built, 1)
	eventually(t, "what current.json names is served", func() bool { return f.ask(fram)["generation"] == "g1" })
	next = f.publishNext(2) // a night after: its epoch is below what the mirror had once
	f.mirror(next, 2)
	eventually(t, "the next night is served", func() bool {
		out := f.ask(fram)
		return out["generation"] == "g2" && out["release"] == float64(2)
	})
}

// Promises: 53.
func TestAReplicaThatStartsDoesNotBelieveAMirrorThatIsAhead(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		gone := f.built
		gone.SHA = core.Sum("a manifest that no backup holds").String()
		f.mirror(gone, 9)
	})
	if out := f.ask(fram); out["generation"] != "g1" || out["release"] != float64(1) {
		t.Errorf("%v of release %v", out["generation"], out["release"])
	}
}

// Promises: 53.
func TestAnIndexThatIsRemovedAndBuiltAnewIsServed(t *testing.T) {
	f := serve(t, nil)
	next := f.publishNext(7)
	f.mirror(next, 7)
	eventually(t, "it is served", func() bool { return f.ask(fram)["generation"] == "g2" })
	key := f.built.Index.CurrentKey()
	require.NoError(t, f.stores.Blobs.Delete(t.Context(), key))
	require.NoError(t, f.stores.Readers.Mirror(t.Context(), "sample", 8, []byte(`{"epoch":8}`))) // as a deletion does
	status, _, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", fram)
	assert.Equal(t, http.StatusNotFound, status, "the very next query finds none")
	eventually(t, "its lease is given back", func() bool {
		leased, err := f.stores.Readers.ListLeased(t.Context(), "sample")
		return err == nil && !leased["g2"]
	})
	retrievetest.Publish(t, f.built, 1)
	f.mirror(f.built, 1)
	if out := f.ask(fram); out["generation"] != "g1" {
		t.Errorf("built again, and yet %v", out["generation"])
	}
}

// A mirror that is not renewed any more must not cost every query a request.
// Promises: 53.
func TestAMirrorThatStaysBehindCostsNoRequests(t *testing.T) {
	f := serve(t, nil)
	f.mirror(f.built, 1)
	f.publishNext(2)
	eventually(t, "the new generation is served", func() bool { return f.ask(fram)["generation"] == "g2" })
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
	_, err := blob.Write(t.Context(), f.stores.Blobs, f.built.Index.CurrentKey(), []byte("{"), blob.Cond{})
	require.NoError(t, err)
	before := f.store.reads("current.json")
	eventually(t, "the watcher met it", func() bool { return f.store.reads("current.json") > before+1 })
	if out := f.ask(fram); out["generation"] != "g1" {
		t.Errorf("%v", out["generation"])
	}
}

// A bit that flips in the name of current.json's generation must not have one generation served as another.
// Promises: 53.
func TestAPointerThatNamesTwoGenerationsServesNone(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		pointer := core.Pointer{Generation: "g3", Manifest: f.built.SHA, Seq: f.built.Manifest.Seq, Epoch: 1}
		key := f.built.Index.CurrentKey()
		_, err := blob.WriteJSON(t.Context(), f.stores.Blobs, key, pointer, blob.Cond{})
		require.NoError(t, err)
	})
	status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", fram)
	assert.True(t, status == http.StatusServiceUnavailable && out["code"] == "segment_damaged", "%d %v", status, out)
}
