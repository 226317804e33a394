package artifact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// Names come from all who reach the engine.
// Promises: 138.
func TestANameThatIsNoneNeverBecomesAPath(t *testing.T) {
	store := artifacttest.New()
	var keys []string
	for _, name := range []string{"../../../..", "..", "", "/etc", "docs/../..", "a/b", "ledger", "doctor", "Docs", ".tmp"} {
		x := artifact.Index{Store: store, Name: name}
		assert.True(t, fault.Is(x.Check(), fault.InvalidParam), "%q names an index", name)
		keys = append(keys, x.CurrentKey(), x.LeaseKey(), x.SegmentKey("ab"), x.GenerationKey("g", "report.json"),
			x.RunKey("g", "1", "build.json"), x.SpecKey(core.Digest{}))
	}
	good := artifact.Index{Store: store, Name: "docs"}
	for _, name := range []string{"..", "../other/current.json", "a/../b", "../..", "/etc/passwd", "a\x00", `a\b`} {
		keys = append(keys, good.SegmentKey(name), good.GenerationKey(name, "report.json"), good.RunKey(name, "x"),
			good.RunKey("g", name+"/.."), good.GenerationKey("g", "../"+name))
	}
	keys = append(keys, good.SegmentKey("a/b"), good.GenerationKey("a/b", "report.json"), good.RunKey("a/b", "x"))
	for _, key := range keys {
		assert.True(t, fault.Is(blob.CheckKey(key), fault.InvalidParam), "%q is taken by a store", key)
		_, err := store.Stat(t.Context(), key)
		assert.True(t, fault.Is(err, fault.InvalidParam), "%q: %v", key, err)
	}
}

// A configuration that another index has, or that a person put in its place, says where to read and whom to pay.
func TestAConfigurationOfAnotherIndexIsRefused(t *testing.T) {
	x, store := index()
	other := artifact.Index{Store: store, Name: "other"}
	digest := must(other.PutSpec(t.Context(), core.Spec{Index: "other"}))
	raw := must(json.Marshal(core.Spec{Index: "other"}))
	must(blob.Write(t.Context(), store, x.SpecKey(digest), raw, blob.Cond{}))
	if _, err := x.Spec(t.Context(), digest); !fault.Is(err, fault.InvalidParam) || !strings.Contains(err.Error(), "other") {
		t.Errorf("%v", err)
	}
	_, err := other.Spec(t.Context(), digest)
	assert.NoError(t, err)
}
