package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	storecoordination "github.com/unweaver/unweaver/internal/store/coordination"
	coordination "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

func ready(f *fixture) (int, object) {
	status, out, _ := f.do("GET", "/readyz", nil)
	checks, _ := out["checks"].(object)
	return status, checks
}

func TestAReplicaIsReadyOnlyOnceEveryPublishedIndexIsOpen(t *testing.T) {
	var release func()
	f := serve(t, func(f *fixture, _ *api.Config) { release = f.store.stall(f.built.Manifest.Segments.Splits[0].SHA256) })
	defer release()
	eventually(t, "the index is known", func() bool {
		status, checks := ready(f)
		require.True(t, status != 200, "ready while the first generation is being opened: %v", checks)
		return checks["index sample"] != nil
	})
	if status, checks := ready(f); status != 503 || !strings.Contains(checks["index sample"].(string), "being opened") {
		t.Errorf("while opening: %d %v", status, checks)
	}
	checks, able := f.server.CheckReadiness(t.Context())
	assert.True(t, !able && checks["index sample"] == "opening" && checks["artifacts"] == "ok", "opening: %v", checks)
	release()
	eventually(t, "ready", func() bool { status, _ := ready(f); return status == 200 })
}

func TestAReplicaIsNotReadyBeforeItKnowsTheIndexes(t *testing.T) {
	down := errors.New("the store is away")
	f := serve(t, func(f *fixture, config *api.Config) {
		config.Warm = []string{"sample"}
		f.store.fail("", down)
	})
	if status, checks := ready(f); status != 503 || checks["indexes"] == nil || checks["artifacts"] == "ok" {
		t.Errorf("without a store: %d %v", status, checks)
	}
	checks, able := f.server.CheckReadiness(t.Context())
	assert.True(t, !able && checks["artifacts"] == "internal", "a code and no text: %v", checks)
	f.store.fail("", nil)
	eventually(t, "ready once the store answers", func() bool { status, _ := ready(f); return status == 200 })
}

func TestReadinessNamesWhatDoesNotAnswer(t *testing.T) {
	f := serve(t, nil)
	eventually(t, "ready", func() bool { status, _ := ready(f); return status == 200 })
	f.stores.Records.Fail(errors.New("connection refused"))
	status, checks := ready(f)
	assert.True(t, status == 503 && checks["classes"] == "connection refused" && checks["artifacts"] == "ok",
		"%d %v", status, checks)
	alive := f.get("/livez")
	assert.True(t, alive["status"] == "alive", "a process without stores lives all the same: %v", alive)
}

func TestTheMirrorTellsTheNextQueryOfANewGeneration(t *testing.T) {
	f := serve(t, func(_ *fixture, config *api.Config) { config.Patience = long })
	f.ask(object{"query": "Fram"})
	pointer := must(json.Marshal(core.Pointer{Generation: "g2", Manifest: f.publishNext(2).SHA, Seq: 2, Epoch: 2}))(t)
	require.NoError(t, f.stores.Readers.Mirror(t.Context(), "sample", pointer))
	assert.Equal(t, "g2", f.ask(object{"query": "Fram"}).Generation, "the query after the flip")
}

func TestTheOldGenerationServesWhileTheNewOneIsOpenedAndWhereItCannotBe(t *testing.T) {
	f := serve(t, nil)
	f.ask(object{"query": "Fram"})
	documents := retrievetest.Sample()[:5]
	built := retrievetest.Build(t, f.stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
	release := f.store.stall(built.Manifest.Segments.Splits[0].SHA256)
	defer release()
	retrievetest.Publish(t, built, 2)
	eventually(t, "the opening has begun",
		func() bool { return f.store.reads(built.Manifest.Segments.Splits[0].SHA256) > 0 })
	assert.Equal(t, "g1", f.ask(fram).Generation, "while opening")
	status, checks := ready(f)
	assert.True(t, status == 200, "the old one serves, and yet: %d %v", status, checks)
}

func TestAPinnedGenerationStaysThroughASwitch(t *testing.T) {
	f := serve(t, nil)
	question := object{"query": "ship Fram", "generation": "g1"}
	require.Equal(t, "g1", f.ask(question).Generation)
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(fram).Generation == "g2" })
	out := f.ask(question)
	assert.True(t, out.Generation == "g1" && out.Release == nil, "pinned: %+v", out)
	reads := f.store.reads("manifest.json")
	f.ask(question)
	assert.Equal(t, reads, f.store.reads("manifest.json"), "an open generation is looked up again")
}

func TestShutdownEndsAnOpening(t *testing.T) {
	f := serve(t, func(f *fixture, config *api.Config) {
		t.Cleanup(f.store.stall(f.built.Manifest.Segments.Splits[0].SHA256)) // never released before the end
	})
	eventually(t, "the opening has begun",
		func() bool { return f.store.reads(f.built.Manifest.Segments.Splits[0].SHA256) > 0 })
	f.shutdown() // it fails where an opening that does not end holds it up
	f.refuse(503, "", "POST", sampleQuery, fram)
}

// What is missing of a generation is damage as long as a reference names it, and nothing where it was collected.
func TestACollectedGenerationIsGoneAndADamagedOneIsDamaged(t *testing.T) {
	for part, gone := range map[string]func(retrievetest.Built) string{
		"manifest": func(built retrievetest.Built) string { return built.SHA },
		"split":    func(built retrievetest.Built) string { return built.Manifest.Segments.Splits[0].SHA256 },
	} {
		f := serve(t, nil)
		f.ask(object{"query": "Fram"})
		built := retrievetest.Build(t, f.stores, "sample", retrievetest.Sample()[:2], retrievetest.Options{Generation: "g0"})
		retrievetest.Hold(t, built, "published")
		lost := built.Index.SegmentKey(gone(built))
		require.NoError(t, f.stores.Blobs.Delete(t.Context(), lost))
		question := object{"query": "x", "generation": "g0"}
		out := f.refuse(503, "segment_damaged", "POST", sampleQuery, question)
		assert.Contains(t, fmt.Sprint(out), "index --rebuild --index sample", part)
		open := f.store.stall(lost)
		go func() { // it is collected between the reading of its reference and that of what it names
			for f.store.reads(lost) < 2 {
				time.Sleep(time.Millisecond)
			}
			_ = f.stores.Blobs.Delete(context.Background(), built.Index.GenerationKey("g0", "manifest.json"))
			open()
		}()
		f.refuse(410, "generation_collected", "POST", sampleQuery, question)
	}
}

// seventh is a method that the program does not have.
type seventh struct{}

func (seventh) Spec() retrieve.Spec {
	return retrieve.Spec{
		Name: "first", Doc: "the first chunks", Entities: 3,
		Params:   []retrieve.Param{retrieve.NewWhole("skip", "chunks to leave out", 0, 5, 1)},
		Explains: []retrieve.Shape{{Name: "ExplainFirst", Doc: "first", Zero: seventhExplain{}}},
	}
}

type seventhExplain struct {
	Skipped int `json:"skipped"`
}

func (seventh) Run(r *retrieve.Request) (retrieve.Explanation, error) {
	skip := r.Query.Params.Int("skip")
	_, chunks, _ := r.Generation.Live.Counts()
	for n := skip; n < chunks && len(r.Result.Chunks) < r.Query.TopChunks; n++ {
		if chunk := r.Generation.Live.ByNumber(n); r.Allows(chunk) {
			r.Result.Chunks = append(r.Result.Chunks, retrieve.Chunk{Live: chunk, Score: 1})
		}
	}
	return func() any { return seventhExplain{skip} }, nil
}

func TestAFurtherMethodNeedsNothingButTheRegistry(t *testing.T) {
	registry := must(retrieve.NewRegistry(append(methods.Registry().All(), seventh{})...))(t)
	f := serve(t, func(_ *fixture, config *api.Config) { config.Methods = registry })
	f.unchecked = true // it is described with the six methods of the program
	out := f.ask(object{
		"query": "x", "method": "first", "params": object{"skip": 2}, "top_chunks": 2, "explain": true,
		"filter": object{"document_prefix": "cities/oslo"},
	})
	assert.True(t, len(out.Chunks) == 2 && out.Chunks[0].Document == "cities/oslo.txt", "run: %+v", out.Chunks)
	assert.Equal(t, object{"skipped": 2.0}, out.Explain)
	for name, body := range map[string]object{
		"a value out of bounds":    {"query": "x", "method": "first", "params": object{"skip": 6}},
		"another's parameter":      {"query": "x", "method": "first", "params": object{"damping": 0.5}},
		"a rule for it":            {"query": "x", "method": "first", "rule": "weighted"},
		"its parameter on another": {"query": "x", "method": "ppr", "params": object{"skip": 1}},
	} {
		require.NotEmpty(t, f.refuse(422, "", "POST", sampleQuery, body), "%s", name)
	}
	raw := must(json.Marshal(f.get("/openapi.json")))(t)
	for _, want := range []string{`"first"`, `"skip"`, `"ExplainFirst"`, `"skipped"`, "first 3"} {
		assert.True(t, bytes.Contains(raw, []byte(want)), "the description does not say %s", want)
	}
}

// old publishes an index whose postings this program cannot read.
func (f *fixture) old() {
	f.t.Helper()
	built := retrievetest.Build(f.t, f.stores, "old", retrievetest.Sample(), retrievetest.Options{Analyser: "en/1"})
	retrievetest.Publish(f.t, built, 1)
}

// damaged leaves an index whose pointer cannot be read.
func (f *fixture) damaged(name string) {
	key := artifact.Index{Store: f.stores.Blobs, Name: name}.CurrentKey()
	must(blob.Write(f.t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{}))(f.t)
}

// state returns the state of an index as /readyz has it.
func state(f *fixture, path, index string) (status int, entry object) {
	status, out, _ := f.do("GET", path, nil)
	list, _ := out["indexes"].([]any)
	for _, one := range list {
		if one.(object)["index"] == index {
			entry = one.(object)
		}
	}
	return status, entry
}

// Promises: 100.
func TestOneIndexThatCannotBeServedTakesNoReplicaAway(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) { f.old(); f.damaged("torn") })
	eventually(t, "ready, with the causes", func() bool {
		status, old := state(f, "/readyz", "old")
		_, torn := state(f, "/readyz", "torn")
		_, sample := state(f, "/readyz", "sample")
		return status == 200 && sample["state"] == "ready" && sample["generation"] == "g1" &&
			old["state"] == "failed" && old["code"] == "format_unknown" && strings.Contains(old["remedy"].(string), "index") &&
			torn["state"] == "failed" && strings.Contains(torn["remedy"].(string), "restore torn")
	})
	for path, want := range map[string]int{
		"/readyz?index=sample": 200, "/readyz?index=old": 503, "/readyz?index=torn": 503, "/readyz?index=nobody": 404,
		"/readyz?index=No%20Name": 404,
	} {
		status, _ := state(f, path, "")
		assert.True(t, status == want, "%s: %d, want %d", path, status, want)
	}
	metrics := f.send("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`unweaver_index_ready{index="sample"} 1`, `unweaver_index_ready{index="old"} 0`,
		`unweaver_index_ready{index="torn"} 0`,
	} {
		assert.Contains(t, metrics, want, "metrics lack")
	}
	var states []string
	for _, one := range f.get("/v1/indexes")["items"].([]any) {
		entry := one.(object)
		states = append(states, entry["index"].(string)+" "+entry["state"].(string))
	}
	assert.Equal(t, "old published, sample published, torn damaged", strings.Join(states, ", "), "the list")
}

// The only index of a replica, whose pointer was damaged when it started: no balancer sends it a request that would
// open the index, so it has to see by itself that the pointer was mended.
func TestAPointerThatIsMendedIsServedWithoutARequest(t *testing.T) {
	var whole []byte
	f := serve(t, func(f *fixture, _ *api.Config) {
		key := artifact.Index{Store: f.stores.Blobs, Name: "sample"}.CurrentKey()
		var err error
		whole, _, err = blob.Read(f.t.Context(), f.stores.Blobs, key)
		require.NoError(f.t, err)
		f.damaged("sample")
	})
	eventually(t, "it is reported", func() bool {
		status, sample := state(f, "/readyz", "sample")
		return status == 503 && sample["state"] == "failed"
	})
	key := artifact.Index{Store: f.stores.Blobs, Name: "sample"}.CurrentKey()
	must(blob.Write(t.Context(), f.stores.Blobs, key, whole, blob.Cond{}))(t)
	eventually(t, "ready again", func() bool {
		status, sample := state(f, "/readyz", "sample")
		return status == 200 && sample["state"] == "ready"
	})
}

func TestAnIndexThatIsServedByAnOlderGenerationIsBehind(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	next := retrievetest.Build(t, f.stores, "sample", retrievetest.Sample(),
		retrievetest.Options{Generation: "g2", Seq: 2, Analyser: "en/1"})
	retrievetest.Publish(t, next, 2)
	eventually(t, "behind, and ready", func() bool {
		status, entry := state(f, "/readyz?index=sample", "sample")
		return status == 200 && entry["state"] == "behind" && entry["generation"] == "g1" && entry["cause"] != nil
	})
}

// A client takes an empty list for true and a 404 for final, and drops what it has: while the store is missing, neither
// is an answer.
func TestAMissingStoreIsNotAnEmptyOne(t *testing.T) {
	root := filepath.Join(t.TempDir(), "artifacts")
	f := serve(t, func(f *fixture, config *api.Config) {
		store := musttest.Get(dir.Open(root))(t)
		for info, err := range f.stores.Blobs.List(t.Context(), "", "") {
			require.NoError(t, err)
			require.NoError(t, blob.Copy(t.Context(), store, info.Key, f.stores.Blobs, info.Key))
		}
		config.Artifacts = store
	})
	musttest.Reach(t, "readiness", func() bool { // not before the indexes were listed
		status, _, _ := f.do("GET", "/readyz", nil)
		return status == 200
	})
	f.ask(fram)
	question := object{"query": "Oslo"}
	requests := []struct {
		method, path string
		body         any
	}{
		{"GET", "/v1/indexes", nil},
		{"GET", "/v1/models", nil},
		{"GET", "/v1/models/unweaver/sample", nil},
		{"GET", "/v1/indexes/sample", nil},
		{"GET", "/v1/indexes/sample/generations", nil},
		{"GET", "/v1/indexes/sample/generations/g1", nil},
		{"GET", "/v1/indexes/sample/runs", nil},
		{"GET", "/v1/indexes/sample/runs/g1", nil},
		{"GET", "/v1/indexes/sample/trends", nil},
		{"GET", "/v1/indexes/other/documents", nil},
		{"POST", "/v1/indexes/other/query", question},
		{"POST", completions, norway(object{"model": "unweaver/other"})},
	}
	for name, put := range map[string]func() error{
		"moved away":   func() error { return nil },
		"an empty one": func() error { return os.Mkdir(root, 0o700) }, // as a mount point is
	} {
		require.NoError(t, os.Rename(root, root+".away"))
		require.NoError(t, put())
		for _, one := range requests {
			status, out, header := f.do(one.method, one.path, one.body)
			if inner, ok := out["error"].(object); ok {
				out = inner
			}
			assert.True(t, status == 503 && out["code"] == "store_unavailable" &&
				header.Get("Retry-After") != "", "%s: %s %s: %d %v", name, one.method, one.path, status, out)
		}
		status, out, _ := f.do("POST", sampleQuery, question) // it is open: what it has is right
		assert.True(t, status == 200 || out["code"] == "store_unavailable", "%s: %d %v", name, status, out)
		status, _, _ = f.do("GET", "/readyz", nil)
		assert.Equal(t, 503, status, "%s", name)
		if err := os.Remove(root); name == "an empty one" {
			require.NoError(t, err, "something was written into it")
		} else {
			require.ErrorIs(t, err, os.ErrNotExist, "it was made again")
		}
		require.NoError(t, os.Rename(root+".away", root))
		f.get("/readyz")
		f.ask(question)
	}
}

func (f *fixture) mirror(built retrievetest.Built, epoch int64) {
	manifest := built.Manifest
	raw, err := json.Marshal(core.Pointer{
		Generation: manifest.Generation, Manifest: built.SHA, Seq: manifest.Seq, Epoch: epoch,
	})
	if err == nil {
		err = f.stores.Readers.Mirror(f.t.Context(), "sample", raw)
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

func (e *endings) Lease(
	ctx context.Context, held []storecoordination.Held, reader string, ttl time.Duration,
) error {
	for _, one := range held {
		if ttl < time.Second {
			e.ended.Store(one.Generation, true)
		}
	}
	return e.Readers.Lease(ctx, held, reader, ttl)
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
	require.NoError(t, f.stores.Readers.Mirror(t.Context(), "sample", []byte(`{"epoch":8}`))) // as a deletion does
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

// A discarded generation answers nobody by its name: it is not opened, and an open one is closed within a minute.
func TestADiscardedGenerationIsClosedAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := named(t)
		for state, code := range map[string]int{core.GenerationHeld: 200, core.GenerationDiscarded: 404} {
			options := retrievetest.Options{Generation: state, Seq: 8}
			retrievetest.Hold(t, retrievetest.Build(t, f.stores, "sample", retrievetest.Sample(), options), state)
			got, _, _ := f.do("POST", sampleQuery, object{"query": "Fram", "generation": state})
			assert.Equal(t, code, got, state)
		}
		held := retrievetest.Built{Index: f.built.Index, Manifest: &core.Manifest{Generation: core.GenerationHeld}}
		retrievetest.Hold(t, held, core.GenerationDiscarded)
		time.Sleep(time.Minute)
		synctest.Wait()
		got := f.refuse(404, "unknown_generation", "POST", sampleQuery, object{"query": "Fram", "generation": "held"})
		assert.Contains(t, got["detail"], "was discarded")
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
