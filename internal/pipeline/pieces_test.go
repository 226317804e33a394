package pipeline_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

// A first build of several splits and class runs writes them in units of work of their own, and comes to the bytes that
// one unit comes to.
func TestPiecesComeToWhatOneUnitOfWorkComesTo(t *testing.T) {
	setSizes(t, 100, 50, 2000)
	files := map[string]string{}
	for n := range 5200 { // a unit has 5,000 documents
		files[fmt.Sprintf("%05d.txt", n)] = fmt.Sprintf("%s went from %s to %s.\n", people[n%len(people)],
			places[n%len(places)], fmt.Sprintf("Harbour Number%d", n/30))
	}
	one := newSite(t, files)
	steady(one)
	one.width, one.shard, one.batch = 4, 1000, 500
	several := one.copied(t)
	steady(several)
	several.batch = one.batch
	one.alone = true
	whole := one.night(t).manifest
	var pieces atomic.Int64
	several.before = func(stage string) {
		if stage == "segment" {
			pieces.Add(1)
		}
	}
	parts := several.night(t).manifest
	assert.True(t, pieces.Load() >= 6,
		"the segment stage had %d units of work, want two splits, several class runs and what joins them", pieces.Load())
	assert.True(t, len(parts.Segments.Splits) == 2 && len(parts.Segments.Runs) >= 2,
		"%d splits and %d class runs", len(parts.Segments.Splits), len(parts.Segments.Runs))
	assert.True(t, slices.Equal(whole.Segments.Splits, parts.Segments.Splits),
		"splits differ:\n%+v\n%+v", whole.Segments.Splits, parts.Segments.Splits)
	assert.True(t, slices.Equal(whole.Segments.Runs, parts.Segments.Runs),
		"class runs differ:\n%+v\n%+v", whole.Segments.Runs, parts.Segments.Runs)
	assert.True(t, whole.Hashes == parts.Hashes, "hashes differ: %v, %v", whole.Hashes, parts.Hashes)
	// A night of one document is one split and one run: nothing is planned beside what joins them.
	pieces.Store(0)
	several.write(t, map[string]string{"new.txt": "Greta Lind went from Tolmin to Osk Harbour.\n"})
	if out := several.night(t); len(out.manifest.Segments.Splits) != 3 || pieces.Load() != 1 {
		t.Errorf("a night has %d splits, by %d units of work", len(out.manifest.Segments.Splits), pieces.Load())
	}
}

func TestPiecesAreAsManyAsTheRunsThatThereCanBe(t *testing.T) {
	setSizes(t, 100, 50, 2000)
	for _, rows := range [][]int64{
		{1}, {60}, {49, 2, 49, 2, 49}, {1, 1, 1, 1}, {0, 0, 7}, {400, 1, 400, 1, 400}, {50, 50},
	} {
		var classes []core.Segment
		var total int64
		for _, n := range rows {
			classes = append(classes, core.Segment{Rows: n})
			total += n
		}
		made, planned := runsOf(classes), plannedRuns(2, total, len(classes))
		assert.True(t, made <= planned, "%v makes %d runs, and %d are planned", rows, made, planned)
	}
}
