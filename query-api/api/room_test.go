package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordination "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// copies publishes the sample under further names, n0000 and so on.
func (f *fixture) copies(n int) {
	objects := map[string][]byte{}
	for info, err := range f.stores.Blobs.List(f.t.Context(), "sample/", "") {
		require.NoError(f.t, err)
		raw, _, err := blob.Read(f.t.Context(), f.stores.Blobs, info.Key)
		require.NoError(f.t, err)
		objects[strings.TrimPrefix(info.Key, "sample/")] = raw
	}
	spec := must(f.built.Index.Spec(f.t.Context(), f.built.Manifest.Spec))(f.t)
	for i := range n {
		for key, raw := range objects {
			must(blob.Write(f.t.Context(), f.stores.Blobs, name(i)+"/"+key, raw, blob.Cond{}))(f.t)
		}
		copied := retrievetest.Built{Index: artifact.Index{Store: f.stores.Blobs, Name: name(i)}}
		manifest := *f.built.Manifest
		copied.Manifest, manifest.Index, spec.Index = &manifest, name(i), name(i)
		manifest.Spec = must(copied.Index.PutSpec(f.t.Context(), spec))(f.t)
		copied.SHA = must(copied.Index.PutManifest(f.t.Context(), &manifest))(f.t)
		retrievetest.Publish(f.t, copied, 1)
	}
}

// flip writes the pointer of an index.
func (f *fixture) flip(index string, pointer core.Pointer) {
	key := artifact.Index{Name: index}.CurrentKey()
	must(blob.WriteJSON(f.t.Context(), f.stores.Blobs, key, pointer, blob.Cond{}))(f.t)
}

func name(i int) string { return fmt.Sprintf("n%04d", i) }

// roomFor lets so many copies of the sample be open, and opens the sample alone at start.
func roomFor(n, copies int) func(*fixture, *api.Config) {
	return func(f *fixture, config *api.Config) {
		f.copies(copies)
		config.Warm = []string{"sample"}
		config.OpenBytes = int64(n) * retrieve.EstimateFootprint(f.built.Manifest)
	}
}

// askOf asks an index.
func (f *fixture) askOf(index string) (int, object, http.Header) {
	f.t.Helper()
	return f.do("POST", "/v1/indexes/"+index+"/query", object{"query": "Fram", "method": "bm25"})
}

// must asks an index that has to answer.
func (f *fixture) must(index string) {
	status, out, _ := f.askOf(index)
	require.True(f.t, status == 200, "%s: %d %v", index, status, out)
}

// opened returns how often an index was opened.
func (f *fixture) opened(index string) int { return f.store.reads(index + "/specs/") }

// metric returns the value of a metric of the server, without labels.
func (f *fixture) metric(name string) int64 {
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(f.send("GET", "/metrics", "").Body.String())
	require.True(f.t, found != nil, "no metric %s", name)
	return int64(must(strconv.ParseFloat(found[1], 64))(f.t))
}

func (f *fixture) ready() {
	f.t.Helper()
	eventually(f.t, "ready", func() bool { status, _ := ready(f); return status == 200 })
}

// Promises: 125.
func TestAThousandIndexesAskedAtOnceWithRoomForTen(t *testing.T) {
	const all = 1000
	f := serve(t, roomFor(10, all))
	f.ready()
	most := 10 * retrieve.EstimateFootprint(f.built.Manifest)
	var asked sync.WaitGroup
	var failed atomic.Int64
	for i := range all {
		asked.Go(func() {
			if status, out, _ := f.askOf(name(i)); status != 200 {
				failed.Add(1)
				t.Errorf("%s: %d %v", name(i), status, out)
			}
		})
	}
	done := make(chan struct{})
	go func() { asked.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		bytes, open := f.metric("unweaver_open_bytes"), f.metric("unweaver_open_generations")
		require.True(t, bytes <= most && open <= 10, "%d generations of %d bytes are open", open, bytes)
	}
	for i := range all {
		n := f.opened(name(i))
		assert.True(t, n == 1, "%s was opened %d times", name(i), n)
	}
}

func TestTheFirstRequestsOfAnIndexShareAnOpeningAndHoldUpNoOther(t *testing.T) {
	f := serve(t, roomFor(10, 2))
	f.ready()
	release := f.store.stall(name(0) + "/segments/" + f.built.Manifest.Segments.Text[0].SHA256)
	defer release()
	var asked sync.WaitGroup
	var answered atomic.Int64
	for range 8 {
		asked.Go(func() {
			if status, _, _ := f.askOf(name(0)); status == 200 {
				answered.Add(1)
			}
		})
	}
	eventually(t, "it is being opened", func() bool { return f.opened(name(0)) == 1 })
	f.must(name(1))
	f.must("sample")
	_, entry := state(f, "/readyz", name(0))
	assert.True(t, entry["state"] == "opening", "while it is opened: %v", entry)
	status, _ := ready(f)
	assert.True(t, status == 200, "an index that is opened on first use makes the replica unready: %d", status)
	assert.Zero(t, answered.Load(), "an answer without a generation")
	release()
	asked.Wait()
	assert.True(t, answered.Load() == 8 && f.opened(name(0)) == 1, "%d of 8 answered, after %d openings", answered.Load(),
		f.opened(name(0)))
}

func TestWhoGivesUpIsToldThatTheIndexIsStillBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, func(f *fixture, config *api.Config) {
			roomFor(10, 1)(f, config)
			config.Timeout = 10 * time.Second
		})
		release := f.store.stall(name(0) + "/segments/" + f.built.Manifest.Segments.Text[0].SHA256)
		for range 3 {
			status, out, header := f.askOf(name(0))
			require.True(t, status == 503 && out["code"] == "generation_busy" &&
				strings.Contains(out["detail"].(string), "still being opened") && header.Get("Retry-After") != "", "%d %v", status,
				out)
		}
		release()
		synctest.Wait()
		f.must(name(0))
		assert.Equal(t, 1, f.opened(name(0)), "opened")
	})
}

func TestAStoreThatThrottlesForMinutesDelaysAnIndexAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, roomFor(10, 2))
		f.store.fail(name(0)+"/segments/", fault.StoreDown.At("read", name(0)).Because("503 SlowDown"))
		for range 30 {
			status, out, header := f.askOf(name(0))
			require.True(t, status == 503 && header.Get("Retry-After") != "", "%d %v", status, out)
			f.must(name(1))
			time.Sleep(10 * time.Second)
		}
		f.store.fail("", nil)
		time.Sleep(30 * time.Second) // no request comes
		assert.True(t, f.opened(name(0)) != 0, "it is not tried again beside requests")
		f.must(name(0))
	})
}

func TestTheIndexThatIsAskedAllTheTimeIsNotClosedForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, roomFor(3, 40))
		f.ready()
		f.must("sample")
		time.Sleep(2 * time.Second) // it is in steady use from a second on
		f.must("sample")
		for i := range 40 {
			f.must(name(i))
		}
		f.must("sample")
		assert.Equal(t, 1, f.opened("sample"), "it was opened")
		assert.Equal(t, int64(3), f.metric("unweaver_open_generations"))
		f.must(name(39))
		f.must(name(38))
		f.must(name(0))  // closes what was used longest ago
		f.must(name(38)) // and not this
		assert.Equal(t, 1, f.opened(name(38)), "the one used last was closed: opened")
	})
}

// Promises: 125.
func TestWhatARequestOrAListReadsIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, func(f *fixture, config *api.Config) {
			roomFor(2, 3)(f, config)
			config.Timeout = 5 * time.Second
		})
		f.ready()
		// A generation by name, as the pages of a list ask for it, and one that a request reads.
		f.publishNext(2)
		eventually(t, "the next generation", func() bool { return f.ask(fram).Generation == "g2" })
		pinned := object{"query": "Fram", "generation": "g1"}
		f.ask(pinned)
		f.ask(pinned)
		before := f.opened("sample")
		status, out, header := f.askOf(name(0)) // closes sample's g2, which is idle
		assert.True(t, status == 200 || out["code"] == "generation_busy" && header.Get("Retry-After") != "",
			"%d %v", status, out)
		f.ask(pinned)
		n := f.opened("sample")
		assert.True(t, n == before, "the pinned generation was opened %d times more", n-before)
	})
}

func TestANewGenerationOfAnOpenIndexIsOpenedAheadAndOfAClosedOneNothingIs(t *testing.T) {
	f := serve(t, roomFor(1, 1))
	f.ready()
	f.publishNext(2)
	eventually(t, "it is open before a query asks", func() bool {
		_, entry := state(f, "/readyz", "sample")
		return entry["generation"] == "g2"
	})
	f.must(name(0)) // closes the sample
	_, entry := state(f, "/readyz", "sample")
	require.True(t, entry["state"] == "closed", "%v", entry)
	last := retrievetest.Build(t, f.stores, "sample", retrievetest.Sample()[:3],
		retrievetest.Options{Generation: "g3", Seq: 3})
	retrievetest.Publish(t, last, 3)
	before := f.store.reads("sample/current.json")
	eventually(t, "the watcher has seen it", func() bool { return f.store.reads("sample/current.json") > before })
	assert.Zero(t, f.store.reads("sample/segments/"+last.SHA), "of a closed index")
	assert.Equal(t, "g3", f.ask(fram).Generation)
}

func TestAnIndexThatIsDroppedWhileItOpensIsGone(t *testing.T) {
	f := serve(t, roomFor(10, 1))
	f.ready()
	live := name(0) + "/segments/" + f.built.Manifest.Segments.Text[0].SHA256
	release := f.store.stall(live)
	defer release()
	var status int
	var out object
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		status, out, _ = f.askOf(name(0))
	}()
	eventually(t, "it is being opened", func() bool { return f.opened(name(0)) == 1 })
	var keys []string
	for info, err := range f.stores.Blobs.List(t.Context(), name(0)+"/", "") {
		require.NoError(t, err)
		keys = append(keys, info.Key)
	}
	require.NoError(t, f.stores.Blobs.DeleteAll(t.Context(), keys))
	release()
	<-asked
	assert.True(t, status == 410 || status == 404, "%d %v", status, out)
	eventually(t, "it is unknown", func() bool { status, _, _ := f.askOf(name(0)); return status == 404 })
	assert.Equal(t, int64(1), f.metric("unweaver_open_generations"))
	assert.Equal(t, retrieve.EstimateFootprint(f.built.Manifest), f.metric("unweaver_open_bytes"), "it still takes room")
}

func TestAFileThatIsDamagedWhileItsIndexIsClosedIsBroughtAgain(t *testing.T) {
	folder := t.TempDir()
	f := serve(t, func(f *fixture, config *api.Config) {
		roomFor(1, 1)(f, config)
		config.Cache = must(localfile.New(folder, 0))(t)
	})
	f.must("sample")
	next := f.publishNext(2) // other files than those of the copy
	eventually(t, "the next generation", func() bool { return f.ask(fram).Generation == "g2" })
	f.must(name(0))
	sha := next.Manifest.Segments.Splits[0].SHA256
	raw := must(os.ReadFile(filepath.Join(folder, sha)))(t)
	raw[len(raw)/2] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(folder, sha), raw, 0o600))
	before := f.store.reads(sha)
	assert.True(t, f.ask(fram).Generation == "g2" && f.store.reads(sha) > before, "it was not read again")
}

// What is read of a file that another program cut may be zeros: no question is answered from it.
func TestAFileThatIsCutWhileItsIndexIsOpenIsBroughtAgain(t *testing.T) {
	folder := t.TempDir()
	f := serve(t, func(f *fixture, config *api.Config) { config.Cache = must(localfile.New(folder, 0))(t) })
	want := f.ask(fram).Chunks
	for _, sha := range []string{f.built.Manifest.Segments.Splits[0].SHA256, f.built.Manifest.Segments.Runs[0].SHA256} {
		path := filepath.Join(folder, sha)
		raw := must(os.ReadFile(path))(t)
		require.NoError(t, os.WriteFile(path, raw[:len(raw)/3], 0o600))
		assert.Equal(t, want, f.ask(fram).Chunks)
	}
}

func TestTheFirstByNameAreOpenedAheadWithinHalfOfTheRoom(t *testing.T) {
	f := serve(t, func(f *fixture, config *api.Config) {
		roomFor(10, 20)(f, config)
		config.Warm = nil
	})
	f.ready()
	open := 0
	for i := range 20 {
		if _, entry := state(f, "/readyz", name(i)); entry["state"] == "ready" {
			open++
		} else if entry["state"] != "closed" {
			t.Errorf("%s: %v", name(i), entry)
		}
	}
	if open > 5 || open < 3 { // they are opened side by side, and one that finds the room of two taken is passed over
		t.Errorf("%d are open at start, with room for ten", open)
	}
	f.must("sample")
	_, entry := state(f, "/readyz?index=n0019", name(19))
	assert.True(t, entry["state"] != "closed", "asked about by name: %v", entry)
}

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
	at := f.built.Index
	at.Name = index
	pointer, _, err := at.ReadPointer(f.t.Context())
	require.NoError(f.t, err)
	raw, err := json.Marshal(pointer)
	if err == nil {
		err = shared.Mirror(f.t.Context(), index, raw)
	}
	require.NoError(f.t, err)
}

// leasedOf counts the indexes of which a generation is leased.
func leasedOf(t *testing.T, shared *coordination.Store, copies int) int {
	n := 0
	for i := range copies {
		n += len(must(shared.ListLeased(t.Context(), name(i)))(t))
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
				n := counted.Of("coordination/mirrors")
				assert.True(t, n <= beats+1, "mirrors were asked for %d times in %d beats", n, beats)
				n = counted.Of("index/current")
				assert.True(t, n <= 2*beats, "%d pointers were read in %d beats", n, beats)
				n = counted.Of("")
				assert.True(t, n <= 4*beats, "%d requests in %d beats", n, beats)
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
		assert.True(t, counted.Of("") <= 16+2, "\n%s", counted)
	})
}

func TestTheListFollowsWhatIsPublishedAndDropped(t *testing.T) {
	f := serve(t, roomFor(10, 40))
	f.ready()
	generation := func(index string) any {
		for _, one := range f.get("/v1/indexes?limit=1000")["items"].([]any) {
			if entry := one.(object); entry["index"] == index {
				return entry["generation"]
			}
		}
		return nil
	}
	require.Equal(t, "g1", generation(name(7)))
	f.publishNext(2)
	eventually(t, "the next generation", func() bool { return generation("sample") == "g2" })
	require.NoError(t, f.stores.Blobs.Delete(t.Context(), name(7)+"/current.json"))
	eventually(t, "the one that was dropped is gone", func() bool { return generation(name(7)) == nil })
	f.damaged(name(8))
	eventually(t, "the damaged one is named", func() bool {
		for _, one := range f.get("/v1/indexes?limit=1000")["items"].([]any) {
			if entry := one.(object); entry["index"] == name(8) {
				return entry["state"] == "damaged"
			}
		}
		return false
	})
}

// What the mirror has news of is read at once, also where a thousand others wait for their turn. Where the mirror has
// none, the artifacts are looked at, for what is open.
func TestAThousandIndexesAreFollowedWithAndWithoutAMirror(t *testing.T) {
	for mirrored, within := range map[bool]time.Duration{true: time.Second, false: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f, _, shared := counting(t, manyIndexes, mirrored)
			f.ready()
			f.must(name(900))
			index := f.built.Index
			index.Name = name(900)
			pointer, _, err := index.ReadPointer(t.Context())
			require.NoError(t, err)
			pointer.Epoch = 5
			f.flip(name(900), pointer)
			if mirrored {
				f.mirrorIn(shared, name(900))
			}
			time.Sleep(within)
			status, out, _ := f.askOf(name(900))
			assert.True(t, status == 200 && out["release"] == 5.0, "mirrored %v: %d, release %v", mirrored, status, out["release"])
		})
	}
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
