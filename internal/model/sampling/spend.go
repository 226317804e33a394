// Package sampling decides which chunks are worth a model's call where an index pays for a share of them
// (docs/decisions/README.md). The decision is a function of a chunk's text and the share alone: it is the same on
// every night and in a build from nothing, whatever else is in the corpus, and a larger share takes all that a smaller
// one took.
package sampling

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/text/names"
)

// ShouldSend says whether a chunk is sent to the model. Of chunks whose ranks are spread evenly nearly the share is;
// never more than twice the share of any corpus, but for chance.
func ShouldSend(text string, share float64) bool {
	switch {
	case share >= 1:
		return true
	case share <= 0:
		return false
	}
	return drawNumber(text) < chanceOf(Rank(text), share)
}

// chanceOf returns the chance of a chunk by its rank. It is the share at the middle, grows with the rank and with the
// share, and is at most 1 - (1-share)² < 2 share.
func chanceOf(rank, share float64) float64 { return 1 - math.Pow(1-share, 2*rank) }

// drawNumber returns a number from 0 to 1, evenly spread over texts.
func drawNumber(text string) float64 {
	sum := core.Sum("spend/1", text)
	return float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53)
}

// ranks are the deciles of distinct names by square root of words over passages of MuSiQue, 2Wiki and CovidQA, the mean
// of the three sets; the last is about the largest.
var ranks = [11]float64{0, 0.52, 0.68, 0.81, 0.93, 1.04, 1.17, 1.32, 1.51, 1.86, 5}

// Rank returns the rank of a chunk by the names that rules find in it, from 0 to 1: the share of passages of the sets
// above which have fewer for their length.
func Rank(text string) float64 {
	words := len(strings.Fields(text))
	if words == 0 {
		return 0
	}
	distinct := map[string]bool{}
	for _, entity := range builtin.FindEntities(text) {
		distinct[names.Key(entity.Name, false)] = true
	}
	score := float64(len(distinct)) / math.Sqrt(float64(words))
	for decile := 1; decile < len(ranks); decile++ {
		if below, above := ranks[decile-1], ranks[decile]; score < above {
			return (float64(decile-1) + (score-below)/(above-below)) / 10
		}
	}
	return 1
}
