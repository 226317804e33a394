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
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
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
	f := serve(t, func(_ *fixture, config *api.Config) { config.WaitForNew(long) })
	f.ask(object{"query": "Fram"})
	pointer := must(json.Marshal(core.Pointer{Generation: "g2", Manifest: f.publishNext(2).SHA, Seq: 2, Epoch: 2}))(t)
	require.NoError(t, f.stores.Readers.Mirror(t.Context(), "sample", 2, pointer))
	out := f.ask(object{"query": "Fram"})
	assert.Equal(t, "g2", out.Generation, "the query after the flip")
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
		store, err := dir.Open(root)
		require.NoError(t, err)
		for info, err := range f.stores.Blobs.List(t.Context(), "", "") {
			require.NoError(t, err)
			require.NoError(t, blob.Copy(t.Context(), store, info.Key, f.stores.Blobs, info.Key))
		}
		config.Artifacts = store
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
