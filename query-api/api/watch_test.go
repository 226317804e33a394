package api_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/query-api/api"
)

// manyIndexes is how many small ones a replica has to carry.
const manyIndexes = 1000

// counting publishes copies of the sample, mirrored or not, on stores that count their requests.
func counting(t *testing.T, copies int, mirrored bool) (*fixture, *distance.Requests, *coordination.Store) {
	t.Helper()
	requests, shared := distance.New(0), coordination.New()
	f := serve(t, func(f *fixture, config *api.Config) {
		roomFor(10, copies)(f, config)
		config.Artifacts = distance.Blob(config.Artifacts, requests)
		config.Readers = distance.Coordination(shared, requests)
		for i := range copies {
			if mirrored {
				f.mirrorIn(shared, name(i))
			}
		}
	})
	return f, requests, shared
}

// mirrorIn mirrors what current.json says.
func (f *fixture) mirrorIn(shared *coordination.Store, index string) {
	f.t.Helper()
	at := f.built.Index
	at.Name = index
	pointer, _, err := at.ReadPointer(f.t.Context())
	require.NoError(f.t, err)
	raw, err := json.Marshal(pointer)
	if err == nil {
		err = shared.Mirror(f.t.Context(), index, pointer.Epoch, raw)
	}
	require.NoError(f.t, err)
}

// leasedOf counts the indexes of which a generation is leased.
func leasedOf(t *testing.T, shared *coordination.Store, copies int) int {
	t.Helper()
	n := 0
	for i := range copies {
		leased, err := shared.ListLeased(t.Context(), name(i))
		require.NoError(t, err)
		n += len(leased)
	}
	return n
}

// All that is open stays leased, for one write in ten seconds however much it is.
// Promises: 123.
func TestWhateverIsOpenIsLeasedInOneWrite(t *testing.T) {
	const open, passed = 8, 5 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		f, requests, shared := counting(t, open, true)
		f.ready()
		for i := range open {
			f.must(name(i))
		}
		synctest.Wait()
		requests.Take()
		for range passed / time.Minute {
			time.Sleep(time.Minute)
			require.Equal(t, open, leasedOf(t, shared, open))
		}
		if n := requests.Take().Of("coordination/lease"); n > int64(passed/(9*time.Second)) {
			t.Errorf("leases of %d indexes were written %d times in %s", open, n, passed)
		}
	})
}

// A beat of the watcher is one look at all mirrors and a bounded number of pointers, however many indexes there are.
// Promises: 114.
func TestAThousandClosedIndexesCostAsManyRequestsAsTen(t *testing.T) {
	const passed = 10 * time.Minute
	beats := int64(passed / (250 * time.Millisecond))
	for _, mirrored := range []bool{true, false} {
		for _, copies := range []int{10, manyIndexes} {
			synctest.Test(t, func(t *testing.T) {
				f, requests, _ := counting(t, copies, mirrored)
				f.ready()
				requests.Take()
				time.Sleep(passed)
				counted := requests.Take()
				t.Logf("%d indexes, mirrored %v: in %d beats\n%s", copies, mirrored, beats, counted)
				if n := counted.Of("coordination/mirrors"); n > beats+1 {
					t.Errorf("mirrors were asked for %d times in %d beats", n, beats)
				}
				if n := counted.Of("index/current"); n > 2*beats {
					t.Errorf("%d pointers were read in %d beats", n, beats)
				}
				if n := counted.Of(""); n > 4*beats {
					t.Errorf("%d requests in %d beats", n, beats)
				}
			})
		}
	}
}

// Promises: 114.
func TestTheListOfAThousandIndexesTakesAFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, requests, _ := counting(t, manyIndexes, false)
		f.unchecked = true // a long answer
		f.ready()
		require.Len(t, f.get("/v1/indexes?limit=1000")["items"], 1000)
		time.Sleep(time.Minute)
		synctest.Wait()
		requests.Take()
		require.Len(t, f.get("/v1/indexes?limit=1000")["items"], 1000)
		counted := requests.Take()
		if n := counted.Of(""); n > 16+2 {
			t.Errorf("\n%s", counted)
		}
	})
}

func TestTheListFollowsWhatIsPublishedAndDropped(t *testing.T) {
	f := serve(t, roomFor(10, 40))
	f.ready()
	generation := func(index string) any {
		for _, one := range f.get("/v1/indexes?limit=1000")["items"].([]any) {
			if entry := one.(map[string]any); entry["index"] == index {
				return entry["generation"]
			}
		}
		return nil
	}
	if got := generation(name(7)); got != "g1" {
		t.Fatalf("%v", got)
	}
	f.publishNext(2)
	eventually(t, "the next generation", func() bool { return generation("sample") == "g2" })
	require.NoError(t, f.stores.Blobs.Delete(t.Context(), name(7)+"/current.json"))
	eventually(t, "the one that was dropped is gone", func() bool { return generation(name(7)) == nil })
	f.damaged(name(8))
	eventually(t, "the damaged one is named", func() bool {
		for _, one := range f.get("/v1/indexes?limit=1000")["items"].([]any) {
			if entry := one.(map[string]any); entry["index"] == name(8) {
				return entry["state"] == "damaged"
			}
		}
		return false
	})
}

// What the mirror has news of is read at once, also where a thousand others wait for their turn.
func TestAMirrorThatHasNewsOfOneOfAThousandIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, shared := counting(t, manyIndexes, true)
		f.ready()
		f.must(name(900))
		index := f.built.Index
		index.Name = name(900)
		pointer, _, err := index.ReadPointer(t.Context())
		require.NoError(t, err)
		f.flip(name(900), core.Pointer{
			Generation: pointer.Generation, Manifest: pointer.Manifest, Seq: pointer.Seq, Epoch: 2,
		})
		f.mirrorIn(shared, name(900))
		time.Sleep(time.Second)
		status, out, _ := f.askOf(name(900))
		assert.True(t, status == http.StatusOK && out["release"] == float64(2), "%d, release %v", status, out["release"])
	})
}

// A mirror that lies, or is lost, is found out by the artifacts.
func TestOfAThousandIndexesTheArtifactsCountAlsoWithoutAMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _, _ := counting(t, manyIndexes, false)
		f.ready()
		f.must(name(3))
		index := f.built.Index
		index.Name = name(3)
		pointer, _, err := index.ReadPointer(t.Context())
		require.NoError(t, err)
		pointer.Epoch = 5
		f.flip(name(3), pointer)
		time.Sleep(2 * time.Second) // of an open one
		if _, out, _ := f.askOf(name(3)); out["release"] != float64(5) {
			t.Errorf("release %v", out["release"])
		}
	})
}

// What a closed index costs is its entry: names, pointers and what the list says of it.
// Promises: 114.
func TestClosedIndexesTakeLittleMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	f := serve(t, roomFor(10, manyIndexes))
	f.unchecked = true // a long answer
	f.ready()
	before := heap()
	f.get("/v1/indexes")
	one := (heap() - min(before, heap())) / manyIndexes
	t.Logf("%d bytes for each closed index", one)
	assert.True(t, one <= 4<<10, "a closed index takes %d bytes", one)
}
