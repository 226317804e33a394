package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
)

func TestTrendsAreOneReadOfTheLastNights(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	night := func(n int) core.Night {
		return core.Night{
			Run: "sample/n" + string(rune('0'+n)), Status: core.StatusCompleted, Cost: float64(n), Published: true,
			Started: time.Date(2026, time.March, n, 3, 0, 0, 0, time.UTC),
		}
	}
	for n := 1; n <= 3; n++ { // of an installation that kept none: from its reports
		f.report("n"+string(rune('0'+n)), core.Report{
			Status: core.StatusHeld, Started: night(n).Started, Cost: float64(n),
		})
	}
	trends := f.get("/v1/indexes/sample/trends?nights=2")
	if nights := trends["nights"].([]any); len(nights) != 2 || nights[1].(map[string]any)["cost"] != 3.0 ||
		trends["totals"].(map[string]any)["held"] != 2.0 {
		t.Errorf("%v", trends)
	}
	var kept core.Nights
	for n := 1; n <= 5; n++ {
		kept.Add(night(n))
	}
	_, err := blob.WriteJSON(t.Context(), f.stores.Blobs, f.built.Index.NightsKey(), kept, blob.Cond{})
	require.NoError(t, err)
	trends = f.get("/v1/indexes/sample/trends?nights=4")
	totals := trends["totals"].(map[string]any)
	if nights := trends["nights"].([]any); len(nights) != 4 || nights[0].(map[string]any)["run"] != "sample/n2" ||
		totals["cost"] != 14.0 || totals["published"] != 4.0 || nights[0].(map[string]any)["planned"] != nil {
		t.Errorf("%v", trends)
	}
	for path, status := range map[string]int{
		"/v1/indexes/sample/trends?nights=0": http.StatusUnprocessableEntity,
		"/v1/indexes/never/trends":           http.StatusNotFound,
		"/v1/indexes/..a/trends":             http.StatusNotFound,
	} {
		assert.Equal(t, status, f.page(path).Code, "%s", path)
	}
}

// page asks for what is not JSON.
func (f *fixture) page(path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(f.t.Context(), http.MethodGet, path, nil)
	request.Host = "localhost:8080"
	f.server.Handler().ServeHTTP(recorder, request)
	f.asDescribed(request, recorder)
	return recorder
}

func TestTheReportOfARunHasNoHoldOnItsOrigin(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.report("n1", core.Report{
		Status: core.StatusErrors, Problems: []core.Problem{{Code: "encrypted_document", Object: "<script>x</script>.pdf"}},
	})
	got := f.page("/v1/indexes/sample/runs/n1/report")
	header := got.Header()
	policy := header.Get("Content-Security-Policy")
	if got.Code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/markdown") ||
		!strings.Contains(policy, "sandbox") || !strings.Contains(policy, "default-src 'none'") ||
		header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%d %v", got.Code, header)
	}
	assert.Contains(t, got.Body.String(), `| \<script\>x\</script\>.pdf |`)
	if got := f.page("/v1/indexes/sample/runs/none/report"); got.Code != http.StatusNotFound {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}
