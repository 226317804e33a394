package collect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/stage/collect"
)

// What nothing names stays to the last second of its grace, however often it is looked at meanwhile.
// Promises: 135.
func TestWhatNothingNamesStaysForItsGrace(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	w.publish("g2", second)
	w.abandon("s1")
	unnamed := collPrefix + "classes_7"
	w.check(w.vectors.Create(t.Context(), unnamed, 2))
	for _, c := range []struct {
		after time.Duration
		there bool
	}{
		{0, true}, {time.Second, true}, {12 * time.Hour, true}, {24*time.Hour - time.Second, true},
		{24 * time.Hour, false},
	} {
		w.now = day(0).Add(c.after)
		_, err := collect.Run(t.Context(), w.in())
		w.check(err)
		names, err := w.vectors.List(t.Context(), collPrefix)
		w.check(err)
		if w.has("s1") != c.there || slices.Contains(names, unnamed) != c.there ||
			slices.Contains(generations(w), "g1") != c.there {
			t.Errorf("%s: segment %t, collections %q, generations %q", c.after, w.has("s1"), names, generations(w))
		}
	}
}
