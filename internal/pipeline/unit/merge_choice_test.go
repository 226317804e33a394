package unit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOneSizeOfSegmentsIsMergedOnceThereAreEnough(t *testing.T) {
	few := make([]mergeable, tierWidth-1)
	for i := range few {
		few[i] = mergeable{rows: 10}
	}
	few = append(few, mergeable{rows: 100_000})
	groups := mergesOf(few, 10, mostChunks)
	assert.True(t, groups == nil, "%v", groups)
	groups = mergesOf(append(few, mergeable{rows: 3}), 10, mostChunks)
	assert.True(t, len(groups) == 1 && len(groups[0]) == tierWidth && !slices.Contains(groups[0], tierWidth-1),
		"the large one is of another tier: %v", groups)
}

func TestWhatIsDeadIsWrittenAgainWithinABudget(t *testing.T) {
	list := []mergeable{{1000, 700}, {1000, 250}, {100_000, 25_000}, {1000, 100}, {1000, 400}}
	groups := mergesOf(list, 1, mostChunks)
	want := [][]int{{0}, {4}, {1}} // at any price, then by what is dead, and not three quarters of the corpus
	assert.True(t, slices.EqualFunc(groups, want, slices.Equal[[]int]), "%v, want %v", groups, want)
}

func TestNothingGrowsAboveTheSizeOfASegment(t *testing.T) {
	list := make([]mergeable, 16)
	for i := range list {
		list[i] = mergeable{rows: 3000}
	}
	for _, group := range mergesOf(list, 1_000_000, 10_000) {
		assert.True(t, len(group)*3000 <= 10_000, "%d segments of 3000 rows become one", len(group))
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
				if at -= list[i].countLive(); at < 0 {
					list[i].dead++
					break
				}
			}
		}
		list = append(list, mergeable{rows: change})
		list = slices.DeleteFunc(list, func(one mergeable) bool { return one.countLive() <= 0 })
		tonight := int64(change)
		var next []mergeable
		merged := map[int]bool{}
		for _, group := range mergesOf(list, 2*change, mostChunks) {
			sum := mergeable{}
			for _, i := range group {
				merged[i] = true
				sum.rows += list[i].countLive()
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
	assert.False(t, mean > 8 || worst > corpus/8 || most > 40, "that is more than what changed")
}

// vectorsSegment is one of a simulated night: how many of its rows count, and of all.
type vectorsSegment struct {
	name       string
	rows, live int64
}

// 300 nights of 1 % after a first build: there are few vectors segments at the end of each, what is written follows the
// change, and what is dead stays bounded.
func TestThreeHundredNightsMergeVectors(t *testing.T) {
	for _, corpusRows := range []int64{20_000, 600_000} {
		change := corpusRows / 100
		random := rand.New(rand.NewPCG(8, 8))
		var list []vectorsSegment
		for at := int64(0); at < corpusRows; at += 5000 {
			list = append(list, vectorsSegment{fmt.Sprint("first-", at), 5000, 5000})
		}
		var written, worst, looked int64
		most, mostDead := 0, 0.0
		for night := range 300 {
			for range change {
				at := random.Int64N(corpusRows)
				for i := range list {
					if at -= list[i].live; at < 0 {
						list[i].live--
						break
					}
				}
			}
			list = append(list, vectorsSegment{fmt.Sprint("night-", night), change, change})
			sizes, names := make([]mergeable, len(list)), make([]string, len(list))
			for i, one := range list {
				sizes[i].rows, names[i] = one.rows, one.name
			}
			for _, i := range looksOf(sizes, names, corpusRows, 2*change, fmt.Sprint("g", night)) {
				sizes[i].dead = list[i].rows - list[i].live
				looked += list[i].rows
			}
			tonight, merged := change, map[int]bool{}
			var next []vectorsSegment
			for number, group := range vectorsRule.chooseGroups(sizes, 2*change) {
				sum := vectorsSegment{name: fmt.Sprint("merged-", night, "-", number)}
				for _, i := range group {
					merged[i] = true
					sum.rows += list[i].live
				}
				sum.live = sum.rows
				tonight += sum.rows
				require.True(t, sum.rows <= mostVectors, "a segment of %d rows", sum.rows)
				if sum.rows > 0 {
					next = append(next, sum)
				}
			}
			var rows int64
			for i, one := range list {
				if !merged[i] {
					next = append(next, one)
				}
			}
			list = next
			for _, one := range list {
				rows += one.rows
			}
			written, worst, most = written+tonight, max(worst, tonight), max(most, len(list))
			mostDead = max(mostDead, 1-float64(corpusRows)/float64(rows))
		}
		mean := float64(written) / 300 / float64(change)
		t.Logf("%d rows: a night writes %.1f times its change and reads the keys of %.1f times it, the worst %.1f %% of the "+
			"corpus; at most %d segments, %d at last, at most %.0f %% dead", corpusRows, mean,
			float64(looked)/300/float64(change), 100*float64(worst)/float64(corpusRows), most, len(list), 100*mostDead)
		assert.False(t, mean > 5 || worst > corpusRows/7 || mostDead > 0.5, "that is more than what changed")
		first := int(corpusRows / 5000)
		assert.True(t, most <= max(32, first) && len(list) <= 32, "more segments than 32, or the %d of a first build", first)
	}
}
