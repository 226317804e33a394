package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/store/blob"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// named serves the sample's generations g1 and g2, of which g2 is current and g1 has been asked for by its name.
func named(t *testing.T) (*fixture, *coordination.Store) {
	t.Helper()
	shared := coordination.New()
	f := serve(t, func(_ *fixture, config *api.Config) { config.Readers = shared })
	f.ready()
	f.publishNext(2)
	eventually(t, "the next generation", func() bool { return f.ask(fram)["generation"] == "g2" })
	f.ask(map[string]any{"query": "Fram", "generation": "g1"})
	return f, shared
}

// leased reports whether a reader's lease keeps a generation of the sample from being collected.
func leased(t *testing.T, shared *coordination.Store, generation string) bool {
	t.Helper()
	found, err := shared.ListLeased(t.Context(), "sample")
	if err != nil {
		t.Fatal(err)
	}
	return found[generation]
}

// A held generation is named where nothing of its index is published, and answers by its name.
func TestAHeldGenerationOfAnUnpublishedIndexIsNamedAndCanBeAsked(t *testing.T) {
	f := serve(t, nil)
	built := retrievetest.Build(t, f.stores, "held", retrievetest.Sample(), retrievetest.Options{})
	retrievetest.Hold(t, built, "held")
	const path = "/v1/indexes/held/query"
	ask := func(body map[string]any, want int) map[string]any {
		code, out, _ := f.do(http.MethodPost, path, body)
		if code != want {
			t.Errorf("%v: %d %v", body, code, out)
		}
		return out
	}
	if out := ask(fram, http.StatusNotFound); !strings.Contains(fmt.Sprint(out["detail"]), "no published index") {
		t.Error(out)
	}
	state := `{"report":{"run":"held/g1","generation":"g1","status":"held","reason":"mass","content_hash":"c0ffee"}}`
	for key, value := range map[string]string{runlog.LatestBuild("held"): "held/g1", "held/g1": state} {
		if err := f.runs.SetState(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	if out := ask(fram, http.StatusNotFound); !strings.Contains(fmt.Sprint(out["detail"]), "g1 is held") {
		t.Error(out)
	}
	for range 2 {
		if out := ask(map[string]any{"query": "Fram", "generation": "g1"}, http.StatusOK); out["generation"] != "g1" {
			t.Error(out)
		}
	}
	ask(map[string]any{"query": "Fram", "generation": "g7"}, http.StatusNotFound)
}

// A question about an old generation keeps it for a while, and not for as long as the replica lives.
// Promises: 122.
func TestAGenerationThatNobodyAsksForByNameAnyMoreIsNoLongerLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, shared := named(t)
		for range 10 { // asked for every four minutes it stays
			time.Sleep(4 * time.Minute)
			if f.ask(map[string]any{"query": "Fram", "generation": "g1"}); !leased(t, shared, "g1") {
				t.Fatal("a generation that is asked for is not leased")
			}
		}
		opened := f.opened("sample")
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if leased(t, shared, "g1") || !leased(t, shared, "g2") {
			t.Errorf("after six minutes: g1 leased %t, g2 %t", leased(t, shared, "g1"), leased(t, shared, "g2"))
		}
		if f.opened("sample") != opened {
			t.Error("it was opened again before it was idle")
		}
		if out := f.ask(map[string]any{"query": "Fram", "generation": "g1"}); out["generation"] != "g1" {
			t.Errorf("asked for again: %v", out)
		}
		if !leased(t, shared, "g1") {
			t.Error("asked for again it is not leased")
		}
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
			_, err := blob.WriteJSON(t.Context(), f.stores.Blobs, key, map[string]bool{"purged": true}, blob.Cond{})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if leased(t, shared, "g1") {
			t.Error("a purged generation is leased a minute later")
		}
		for _, generation := range []string{"g0", "g1"} {
			question := map[string]any{"query": "Fram", "generation": generation}
			status, out, _ := f.do(http.MethodPost, "/v1/indexes/sample/query", question)
			if status != http.StatusGone || out["code"] != "generation_collected" {
				t.Errorf("%s: %d %v", generation, status, out)
			}
		}
		purged := retrievetest.Sample()[5].Key // which g2 does not have
		for _, path := range []string{"", "/text"} {
			status, out, _ := f.do(http.MethodGet, fmt.Sprintf("/v1/indexes/sample/documents/%s%s", purged, path), nil)
			if status != http.StatusNotFound {
				t.Errorf("%s%s: %d %v", purged, path, status, out)
			}
		}
	})
}
