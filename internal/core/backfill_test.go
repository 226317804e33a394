package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWhatABackfillChooses(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC) }
	for _, test := range []struct {
		name   string
		choice BackfillChoice
		key    string
		day    int
		want   bool
	}{
		{"prefix", BackfillChoice{Prefix: "old/"}, "old/a.md", 1, true},
		{"another prefix", BackfillChoice{Prefix: "old/"}, "older.md", 1, false},
		{"the first moment", BackfillChoice{From: at(2), To: at(4)}, "a", 2, true},
		{"before it", BackfillChoice{From: at(2), To: at(4)}, "a", 1, false},
		{"the end is not in it", BackfillChoice{From: at(2), To: at(4)}, "a", 4, false},
		{"listed", BackfillChoice{Documents: []string{"a", "b"}}, "b", 1, true},
		{"not listed", BackfillChoice{Documents: []string{"a", "b"}}, "c", 1, false},
		{"a row of a listed object", BackfillChoice{Documents: []string{"a.jsonl"}}, "a.jsonl#7", 1, true},
		{"a listed row", BackfillChoice{Documents: []string{"a.jsonl#7"}}, "a.jsonl#7", 1, true},
		{"its neighbour", BackfillChoice{Documents: []string{"a.jsonl#7"}}, "a.jsonl#8", 1, false},
		{"all that is given", BackfillChoice{Prefix: "old/", From: at(3)}, "old/a", 2, false},
	} {
		if got := test.choice.NewChooser()(test.key, at(test.day)); got != test.want || test.choice.FindMistake() != "" {
			t.Errorf("%s: %v, %q", test.name, got, test.choice.FindMistake())
		}
	}
	for _, wrong := range []BackfillChoice{{}, {From: at(3), To: at(3)}} {
		assert.True(t, wrong.FindMistake() != "", "%+v is taken", wrong)
	}
}

func TestBatchesOfAThrottledBackfill(t *testing.T) {
	for _, test := range []struct {
		throttle BackfillThrottle
		want     int
	}{
		{BackfillThrottle{}, DefaultBackfillConcurrency},
		{BackfillThrottle{Concurrency: 3}, 3},
		{BackfillThrottle{CallsPerMinute: 1}, 1},
		{BackfillThrottle{CallsPerMinute: 30}, 5},
		{BackfillThrottle{CallsPerMinute: 6000, Concurrency: 8}, 8},
	} {
		got := test.throttle.Batch()
		assert.True(t, got == test.want && test.throttle.FindMistake() == "", "%+v: %d, want %d", test.throttle, got, test.want)
	}
	for _, wrong := range []BackfillThrottle{{Concurrency: 65}, {Concurrency: -1}, {CallsPerMinute: -1}} {
		assert.True(t, wrong.FindMistake() != "", "%+v is taken", wrong)
	}
}
