package rerank_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model/rerank"
)

func TestScoresThatAreNoNumbersAreRefused(t *testing.T) {
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		place := 0
		got, err := rerank.AlignScores(1, []rerank.Result{{Index: &place, Score: &score}})
		assert.True(t, err != nil, "%v: %v", score, got)
	}
}

func TestTheBestComeFirstAndEqualOnesStay(t *testing.T) {
	assert.Equal(t, []int{1, 4, 0, 2, 3}, rerank.Order([]float64{1, 3, 1, -2, 3}))
}
