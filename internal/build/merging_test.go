package build

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestOneSizeOfSegmentsIsMergedOnceThereAreEnough(t *testing.T) {
	few := make([]mergeable, tierWidth-1)
	for i := range few {
		few[i] = mergeable{rows: 10}
	}
	few = append(few, mergeable{rows: 100_000})
	if groups := mergesOf(few, 10, mostChunks); groups != nil {
		t.Errorf("%v", groups)
	}
	groups := mergesOf(append(few, mergeable{rows: 3}), 10, mostChunks)
	if len(groups) != 1 || len(groups[0]) != tierWidth || slices.Contains(groups[0], tierWidth-1) {
		t.Errorf("the large one is of another tier: %v", groups)
	}
}

func TestWhatIsDeadIsWrittenAgainWithinABudget(t *testing.T) {
	list := []mergeable{{1000, 700}, {1000, 250}, {100_000, 25_000}, {1000, 100}, {1000, 400}}
	groups := mergesOf(list, 1, mostChunks)
	want := [][]int{{0}, {4}, {1}} // at any price, then by what is dead, and not three quarters of the corpus
	if !slices.EqualFunc(groups, want, slices.Equal[[]int]) {
		t.Errorf("%v, want %v", groups, want)
	}
}

func TestNothingGrowsAboveTheSizeOfASegment(t *testing.T) {
	list := make([]mergeable, 16)
	for i := range list {
		list[i] = mergeable{rows: 3000}
	}
	for _, group := range mergesOf(list, 1_000_000, 10_000) {
		if len(group)*3000 > 10_000 {
			t.Errorf("%d segments of 3000 rows become one", len(group))
		}
	}
}

// 300 nights of 1 %: what is written follows the change, and there are few segments at the end of each.
func TestThreeHundredNightsCostWhatChanged(t *testing.T) {
	const corpus, change = 100_000, 1000
	random := rand.New(rand.NewPCG(3, 3))
	var list []mergeable
	for range firstPieces {
		list = append(list, mergeable{rows: corpus / firstPieces})
	}
	var written, worst, most int64
	for range 300 {
		for range change { // as many documents change, one in proportion to what a segment has of them
			at := random.Int64N(corpus)
			for i := range list {
				if at -= list[i].live(); at < 0 {
					list[i].dead++
					break
				}
			}
		}
		list = append(list, mergeable{rows: change})
		list = slices.DeleteFunc(list, func(one mergeable) bool { return one.live() <= 0 })
		tonight := int64(change)
		var next []mergeable
		merged := map[int]bool{}
		for _, group := range mergesOf(list, 2*change, mostChunks) {
			sum := mergeable{}
			for _, i := range group {
				merged[i] = true
				sum.rows += list[i].live()
			}
			tonight += sum.rows
			next = append(next, sum)
		}
		for i, one := range list {
			if !merged[i] {
				next = append(next, one)
			}
		}
		list = next
		written, worst, most = written+tonight, max(worst, tonight), max(most, int64(len(list)))
	}
	dead, rows := int64(0), int64(0)
	for _, one := range list {
		dead, rows = dead+one.dead, rows+one.rows
	}
	mean := float64(written) / 300 / change
	t.Logf("a night writes %.1f times its change, the worst %.1f %% of the corpus; at most %d segments, %.0f %% dead",
		mean, 100*float64(worst)/corpus, most, 100*float64(dead)/float64(rows))
	if mean > 8 || worst > corpus/8 || most > 40 {
		t.Error("that is more than what changed")
	}
}
