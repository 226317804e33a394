package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/query-api/api"
)

// old publishes an index whose postings this program cannot read.
func (f *fixture) old() {
	f.t.Helper()
	built := retrievetest.Build(f.t, f.stores, "old", retrievetest.Sample(), retrievetest.Options{Analyser: "en/1"})
	retrievetest.Publish(f.t, built, 1)
}

// damaged leaves an index whose pointer cannot be read.
func (f *fixture) damaged(name string) {
	f.t.Helper()
	key := artifact.Index{Store: f.stores.Blobs, Name: name}.CurrentKey()
	_, err := blob.Write(f.t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{})
	require.NoError(f.t, err)
}

// state returns the state of an index as /readyz has it.
func state(f *fixture, path, index string) (status int, entry map[string]any) {
	status, out, _ := f.do(http.MethodGet, path, nil)
	list, _ := out["indexes"].([]any)
	for _, one := range list {
		if one.(map[string]any)["index"] == index {
			entry = one.(map[string]any)
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
		return status == http.StatusOK && sample["state"] == "ready" && sample["generation"] == "g1" &&
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
		entry := one.(map[string]any)
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
		return status == http.StatusServiceUnavailable && sample["state"] == "failed"
	})
	key := artifact.Index{Store: f.stores.Blobs, Name: "sample"}.CurrentKey()
	_, err := blob.Write(t.Context(), f.stores.Blobs, key, whole, blob.Cond{})
	require.NoError(t, err)
	eventually(t, "ready again", func() bool {
		status, sample := state(f, "/readyz", "sample")
		return status == http.StatusOK && sample["state"] == "ready"
	})
}

func TestAReplicaThatCanServeNothingIsNotReady(t *testing.T) {
	f := serve(t, func(f *fixture, config *api.Config) {
		f.old()
		config.Warm = []string{"old"}
	})
	eventually(t, "not ready, and why", func() bool {
		status, old := state(f, "/readyz", "old")
		return status == http.StatusServiceUnavailable && old["state"] == "failed"
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
		return status == http.StatusOK && entry["state"] == "behind" && entry["generation"] == "g1" && entry["cause"] != nil
	})
}
