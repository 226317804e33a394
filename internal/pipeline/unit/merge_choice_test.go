package unit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
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

// simulated is a segment of a simulated night: how many rows it has, and how many of them count.
type simulated struct {
	name       string
	rows, live int64
}

// 300 nights of 1 % after a first build: there are few segments at the end of each, what is written follows the change,
// and what is dead stays bounded, also where a night looks at some vectors segments only to find what of them is dead.
func TestThreeHundredNightsCostWhatChanged(t *testing.T) {
	for name, c := range map[string]struct {
		corpus, first   int64 // rows, and those of a segment of the first build
		vectors         bool
		mean, worst     float64 // of what changed, and of the corpus
		most, mostAtEnd int
	}{
		"splits":                   {100_000, 100_000 / firstPieces, false, 8, 1. / 8, 40, 40},
		"vectors of a small index": {20_000, 5000, true, 5, 1. / 7, 32, 32},
		"vectors of a large index": {600_000, 5000, true, 5, 1. / 7, 600_000 / 5000, 32},
	} {
		change, random, list := c.corpus/100, rand.New(rand.NewPCG(8, 8)), []simulated(nil)
		for at := int64(0); at < c.corpus; at += c.first {
			list = append(list, simulated{fmt.Sprint("first-", at), c.first, c.first})
		}
		var written, worst int64
		most, mostDead := 0, 0.0
		for night := range 300 {
			for range change { // as many rows change, one in proportion to what a segment has of them
				at := random.Int64N(c.corpus)
				for i := range list {
					if at -= list[i].live; at < 0 {
						list[i].live--
						break
					}
				}
			}
			list = append(list, simulated{fmt.Sprint("night-", night), change, change})
			sizes, names, looks := make([]mergeable, len(list)), make([]string, len(list)), make([]int, len(list))
			for i, one := range list {
				sizes[i].rows, names[i], looks[i] = one.rows, one.name, i
			}
			if c.vectors {
				looks = looksOf(sizes, names, c.corpus, 2*change, fmt.Sprint("g", night))
			}
			for _, i := range looks {
				sizes[i].dead = list[i].rows - list[i].live
			}
			groups := mergesOf(sizes, 2*change, mostChunks)
			if c.vectors {
				groups = vectorsRule.chooseGroups(sizes, 2*change)
			}
			tonight, merged, next, rows := change, map[int]bool{}, []simulated(nil), int64(0)
			for number, group := range groups {
				sum := simulated{name: fmt.Sprint("merged-", night, "-", number)}
				for _, i := range group {
					merged[i] = true
					sum.rows += list[i].live
				}
				sum.live = sum.rows
				tonight += sum.rows
				require.True(t, !c.vectors || sum.rows <= mostVectors, "%s: a segment of %d rows", name, sum.rows)
				next = append(next, sum)
			}
			for i, one := range list {
				if !merged[i] {
					next = append(next, one)
				}
			}
			list = slices.DeleteFunc(next, func(one simulated) bool { return one.live <= 0 })
			for _, one := range list {
				rows += one.rows
			}
			written, worst, most = written+tonight, max(worst, tonight), max(most, len(list))
			mostDead = max(mostDead, 1-float64(c.corpus)/float64(rows))
		}
		mean, share := float64(written)/300/float64(change), float64(worst)/float64(c.corpus)
		what := fmt.Sprintf("%s: a night writes %.1f times its change, the worst %.1f %% of the corpus; at most %d segments, "+
			"%d at last, at most %.0f %% dead", name, mean, 100*share, most, len(list), 100*mostDead)
		assert.True(t, mean <= c.mean && share <= c.worst && mostDead <= 0.5, what)
		assert.True(t, most <= c.most && len(list) <= c.mostAtEnd, what)
	}
}

// The bound of sets of labels is that of an index, however many units make them.
func TestAnIndexHasNoMoreSetsOfLabelsThanItMay(t *testing.T) {
	made := map[core.LabelSet]string{}
	for i := range 10_000 {
		if i == core.MaxLabelSets {
			require.NoError(t, (*night)(nil).checkLabels(made))
		}
		made[core.LabelSet(fmt.Sprint("team-", i))] = fmt.Sprint("document ", i)
	}
	musttest.Fail(t, (*night)(nil).checkLabels(made), fault.TooLarge, "at most 1000 different sets of labels")
}
