package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

func ready(f *fixture) (int, map[string]any) {
	status, out, _ := f.do(http.MethodGet, "/readyz", nil)
	checks, _ := out["checks"].(map[string]any)
	return status, checks
}

func TestAReplicaIsReadyOnlyOnceEveryPublishedIndexIsOpen(t *testing.T) {
	var release func()
	f := serve(t, func(f *fixture, _ *api.Config) {
		release = f.store.stall(f.built.Manifest.Segments.Splits[0].SHA256)
	})
	defer release()
	eventually(t, "the index is known", func() bool {
		status, checks := ready(f)
		require.True(t, status != http.StatusOK, "ready while the first generation is being opened: %v", checks)
		return checks["index sample"] != nil
	})
	if status, checks := ready(f); status != 503 || !strings.Contains(checks["index sample"].(string), "being opened") {
		t.Errorf("while opening: %d %v", status, checks)
	}
	release()
	eventually(t, "ready", func() bool { status, _ := ready(f); return status == http.StatusOK })
}

func TestAReplicaIsNotReadyBeforeItKnowsTheIndexes(t *testing.T) {
	down := errors.New("the store is away")
	f := serve(t, func(f *fixture, config *api.Config) {
		config.Warm = []string{"sample"}
		f.store.fail(down)
	})
	if status, checks := ready(f); status != 503 || checks["indexes"] == nil || checks["artifacts"] == "ok" {
		t.Errorf("without a store: %d %v", status, checks)
	}
	f.store.fail(nil)
	eventually(t, "ready once the store answers", func() bool { status, _ := ready(f); return status == http.StatusOK })
}

func TestReadinessNamesWhatDoesNotAnswer(t *testing.T) {
	f := serve(t, nil)
	eventually(t, "ready", func() bool { status, _ := ready(f); return status == http.StatusOK })
	f.stores.Records.Fail(errors.New("connection refused"))
	status, checks := ready(f)
	assert.True(t, status == 503 && checks["classes"] == "connection refused" && checks["artifacts"] == "ok",
		"%d %v", status, checks)
	if alive := f.get("/livez"); alive["status"] != "alive" {
		t.Errorf("a process without stores lives all the same: %v", alive)
	}
}

func TestPostingsOfAnotherAnalyserAreRefusedByName(t *testing.T) {
	f := serve(t, func(f *fixture, _ *api.Config) {
		built := retrievetest.Build(f.t, f.stores, "old", retrievetest.Sample(), retrievetest.Options{Analyser: "en/1"})
		retrievetest.Publish(f.t, built, 1)
	})
	eventually(t, "the old index is reported", func() bool {
		status, checks := ready(f)
		why, _ := checks["index old"].(string)
		return status == 200 && strings.Contains(why, "analyser en/1") && strings.Contains(why, "unweaver index")
	})
	status, out, _ := f.do(http.MethodPost, "/v1/indexes/old/query", map[string]any{"query": "Oslo"})
	if status != 503 || out["code"] != "format_unknown" || !strings.Contains(out["hint"].(string), "unweaver index") {
		t.Errorf("%d %v", status, out)
	}
	if out := f.ask(map[string]any{"query": "Oslo"}); out["generation"] != "g1" {
		t.Errorf("the other index suffers: %v", out)
	}
}

func TestAQueryCostsNoRequestForThePointer(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "What is the capital of Norway?"})
	eventually(t, "the watcher has read the pointer", func() bool { return f.store.reads("current.json") > 1 })
	begin := time.Now()
	before := f.store.reads("current.json")
	for range 50 {
		f.ask(map[string]any{"query": "What is the capital of Norway?", "top_chunks": 1})
	}
	n := f.store.reads("current.json") - before
	if beats := int(time.Since(begin)/(500*time.Millisecond)) + 1; n > beats { // what the watcher reads meanwhile
		t.Errorf("50 queries read the pointer %d times, the watcher may have %d times", n, beats)
	}
}

func TestANewGenerationIsServedWithoutAMirror(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	f.publishNext(2)
	eventually(t, "the new generation is served", func() bool {
		return f.ask(map[string]any{"query": "Fram"})["generation"] == "g2"
	})
}

func TestTheMirrorTellsTheNextQueryOfANewGeneration(t *testing.T) {
	f := serve(t, func(_ *fixture, config *api.Config) { config.WaitForNew(long) })
	f.ask(map[string]any{"query": "Fram"})
	built := f.publishNext(2)
	pointer, err := json.Marshal(core.Pointer{Generation: "g2", Manifest: built.SHA, Seq: 2, Epoch: 2})
	require.NoError(t, err)
	require.NoError(t, f.stores.Readers.Mirror(t.Context(), "sample", 2, pointer))
	if out := f.ask(map[string]any{"query": "Fram"}); out["generation"] != "g2" {
		t.Errorf("the query after the flip saw %v", out["generation"])
	}
}

func TestTheOldGenerationServesWhileTheNewOneIsOpenedAndWhereItCannotBe(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	documents := retrievetest.Sample()[:5]
	built := retrievetest.Build(t, f.stores, "sample", documents, retrievetest.Options{Generation: "g2", Seq: 2})
	release := f.store.stall(built.Manifest.Segments.Splits[0].SHA256)
	defer release()
	retrievetest.Publish(t, built, 2)
	eventually(t, "the opening has begun", func() bool {
		return f.store.reads(built.Manifest.Segments.Splits[0].SHA256) > 0
	})
	if out := f.ask(map[string]any{"query": "Fram"}); out["generation"] != "g1" {
		t.Errorf("while opening: %v", out["generation"])
	}
	if status, checks := ready(f); status != http.StatusOK {
		t.Errorf("the old one serves, and yet: %d %v", status, checks)
	}
}

func TestAPinnedGenerationStaysThroughASwitch(t *testing.T) {
	f := serve(t, nil)
	question := map[string]any{"query": "ship Fram", "generation": "g1"}
	if out := f.ask(question); out["generation"] != "g1" {
		t.Fatalf("%v", out["generation"])
	}
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(map[string]any{"query": "Fram"})["generation"] == "g2" })
	out := f.ask(question)
	assert.True(t, out["generation"] == "g1" && out["release"] == nil,
		"pinned: %v of release %v", out["generation"], out["release"])
	reads := f.store.reads("manifest.json")
	f.ask(question)
	assert.Equal(t, reads, f.store.reads("manifest.json"), "an open generation is looked up again")
}

func TestRequestsForOneGenerationOpenItOnce(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(map[string]any{"query": "Fram"})["generation"] == "g2" })
	before := f.store.reads("segments/" + f.built.SHA)
	release := f.store.stall("segments/" + f.built.SHA)
	var answered sync.WaitGroup
	var ok atomic.Int64
	for range 8 {
		answered.Go(func() {
			status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query",
				map[string]any{"query": "Fram", "generation": "g1"})
			if status == http.StatusOK && out["generation"] == "g1" {
				ok.Add(1)
			}
		})
	}
	eventually(t, "the opening has begun", func() bool { return f.store.reads("segments/"+f.built.SHA) > before })
	time.Sleep(50 * time.Millisecond) // the others arrive
	release()
	answered.Wait()
	assert.Equal(t, int64(8), ok.Load())
	assert.Equal(t, 1, f.store.reads("segments/"+f.built.SHA)-before, "the manifest was read")
}

func TestShutdownEndsAnOpening(t *testing.T) {
	f := serve(t, func(f *fixture, config *api.Config) {
		t.Cleanup(f.store.stall(f.built.Manifest.Segments.Splits[0].SHA256)) // never released before the end
	})
	eventually(t, "the opening has begun", func() bool {
		return f.store.reads(f.built.Manifest.Segments.Splits[0].SHA256) > 0
	})
	f.shutdown() // it fails where an opening that does not end holds it up
	status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", map[string]any{"query": "Fram"})
	assert.True(t, status == http.StatusServiceUnavailable, "after shutdown: %d %v", status, out)
}

func TestAGenerationThatIsReadIsLeased(t *testing.T) {
	f := serve(t, nil)
	f.ask(map[string]any{"query": "Fram"})
	f.publishNext(2)
	eventually(t, "switched", func() bool { return f.ask(map[string]any{"query": "Fram"})["generation"] == "g2" })
	f.stores.Readers.Forget()
	f.ask(map[string]any{"query": "Fram", "generation": "g1"})
	leased, err := f.stores.Readers.ListLeased(t.Context(), "sample")
	assert.True(t, err == nil && leased["g1"], "a pinned generation is not leased when it is opened: %v %v", leased, err)
}

// What is missing of a generation is damage as long as a reference names it, and nothing where it was collected.
func TestACollectedGenerationIsGoneAndADamagedOneIsDamaged(t *testing.T) {
	for part, gone := range map[string]func(retrievetest.Built) string{
		"manifest": func(built retrievetest.Built) string { return built.SHA },
		"split":    func(built retrievetest.Built) string { return built.Manifest.Segments.Splits[0].SHA256 },
	} {
		f := serve(t, nil)
		f.ask(map[string]any{"query": "Fram"})
		built := retrievetest.Build(t, f.stores, "sample", retrievetest.Sample()[:2], retrievetest.Options{Generation: "g0"})
		retrievetest.Hold(t, built, "published")
		lost := built.Index.SegmentKey(gone(built))
		require.NoError(t, f.stores.Blobs.Delete(t.Context(), lost))
		question := map[string]any{"query": "x", "generation": "g0"}
		status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", question)
		if status != http.StatusServiceUnavailable || out["code"] != "segment_damaged" ||
			!strings.Contains(fmt.Sprint(out), "index --rebuild --index sample") {
			t.Errorf("%s: %d %v", part, status, out)
		}
		open := f.store.stall(lost)
		go func() { // it is collected between the reading of its reference and that of what it names
			for f.store.reads(lost) < 2 {
				time.Sleep(time.Millisecond)
			}
			_ = f.stores.Blobs.Delete(context.Background(), built.Index.GenerationKey("g0", "manifest.json"))
			open()
		}()
		status, out, _ = f.do(http.MethodPost, "/v1/indexes/sample/query", question)
		assert.True(t, status == http.StatusGone && out["code"] == "generation_collected", "%s: %d %v", part, status, out)
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
	registry, err := retrieve.NewRegistry(append(methods.Registry().All(), seventh{})...)
	require.NoError(t, err)
	f := serve(t, func(_ *fixture, config *api.Config) { config.Methods = registry })
	f.unchecked = true // it is described with the six methods of the program
	out := f.ask(map[string]any{
		"query": "x", "method": "first", "params": map[string]any{"skip": 2}, "top_chunks": 2, "explain": true,
		"filter": map[string]any{"document_prefix": "cities/oslo"},
	})
	chunks := out["chunks"].([]any)
	assert.True(t, len(chunks) == 2 && chunks[0].(map[string]any)["document"] == "cities/oslo.txt", "run: %v", chunks)
	if explain, _ := out["explain"].(map[string]any); explain["skipped"] != float64(2) {
		t.Errorf("explain: %v", out["explain"])
	}
	for name, body := range map[string]map[string]any{
		"a value out of bounds":    {"query": "x", "method": "first", "params": map[string]any{"skip": 6}},
		"another's parameter":      {"query": "x", "method": "first", "params": map[string]any{"damping": 0.5}},
		"a rule for it":            {"query": "x", "method": "first", "rule": "weighted"},
		"its parameter on another": {"query": "x", "method": "ppr", "params": map[string]any{"skip": 1}},
	} {
		status, problem, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", body)
		assert.True(t, status == http.StatusUnprocessableEntity, "%s: %d %v", name, status, problem)
	}
	raw, err := json.Marshal(f.get("/openapi.json"))
	require.NoError(t, err)
	for _, want := range []string{`"first"`, `"skip"`, `"ExplainFirst"`, `"skipped"`, "first 3"} {
		assert.True(t, bytes.Contains(raw, []byte(want)), "the description does not say %s", want)
	}
}
