package collect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stage/collect"
)

// The clock of the machine is a year ahead for one night, or behind: nothing may go that night, or in the next ones,
// that would not have gone soon anyway, and afterwards all goes on.
// Promises: 113.
func TestAClockThatJumpsMakesNothingGoAtOnce(t *testing.T) {
	for _, c := range []struct {
		situation string
		wrong     func(time.Time) time.Time // the machine's clock in the fourth night
	}{
		{"a year ahead", func(at time.Time) time.Time { return at.AddDate(1, 0, 0) }},
		{"a day ahead", func(at time.Time) time.Time { return at.AddDate(0, 0, 1) }},
		{"an hour back", func(at time.Time) time.Time { return at.Add(-time.Hour) }},
		{"a year back", func(at time.Time) time.Time { return at.AddDate(-1, 0, 0) }},
	} {
		w := newWorld(t)
		w.publish("g1", first)
		w.publish("g2", second)
		for night := range 20 {
			w.now = day(night)
			if night == 3 {
				w.now = c.wrong(w.now)
			}
			in := w.in()
			in.Grace = 7 * 24 * time.Hour
			_, err := collect.Run(t.Context(), in)
			require.NoError(t, err)
			missing := w.missing("g1", first)
			require.True(t, night >= 6 || missing == nil,
				"%s: in night %d the marked generation lost %v", c.situation, night, missing)
			assert.True(t, night != 12 || !slices.Contains(generations(w), "g1"),
				"%s: in night %d it is still there", c.situation, night)
		}
		w.alone("g2", second)
	}
}

// A mark, and what is condemned, from a clock that was a year ahead must not stay for a year.
func TestWhatAWrongClockMarkedIsMarkedAnew(t *testing.T) {
	w := newWorld(t)
	w.publish("g1", first)
	w.publish("g2", second)
	w.now = day(0).AddDate(1, 0, 0)
	if _, err := collect.Run(t.Context(), w.in()); err != nil { // the first run of all: nothing to compare with
		t.Fatal(err)
	}
	for night := range 4 {
		w.collect(night)
	}
	w.alone("g2", second)
}
