package collect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/stage/collect"
)

// What holds a purged document goes without a grace, once no reader has it open, whatever rule would keep it. What
// is served stays.
// Promises: 135.
func TestWhatIsPurgedGoesAtOnceButWhereItIsOpenOrServed(t *testing.T) {
	w := newWorld(t)
	w.keep = 3
	w.publish("g1", first)
	w.publish("g2", first)
	w.publish("g3", second)
	w.abandon("s1")
	run := func(purged ...string) collect.Result {
		t.Helper()
		in := w.in()
		in.Purged = func(gen string) bool { return slices.Contains(purged, gen) }
		w.now = w.now.Add(time.Second)
		res, err := collect.Run(t.Context(), in)
		w.check(err)
		return res
	}
	w.now = day(0)
	w.leases["g2"] = true
	run("g1", "g2", "g3") // marks them, so that no reader opens one any more
	assert.False(t, w.has("s1"), "what no generation names waits for its grace")
	res := run("g1", "g2", "g3")
	assert.True(t, res.Generations == 1 && res.Purged == 1, "one is open: %+v", res)
	assert.Equal(t, []string{"g2", "g3"}, generations(w), "there")
	missing := w.missing("g2", first)
	assert.True(t, missing == nil, "one that is open lost %v", missing)
	delete(w.leases, "g2")
	if res := run("g1", "g2", "g3"); res.Generations != 1 || res.Purged != 0 || res.Records == 0 || res.Rows == 0 {
		t.Errorf("none is open: %+v", res)
	}
	assert.Equal(t, []string{"g3"}, generations(w), "there")
	w.alone("g3", second)
}
