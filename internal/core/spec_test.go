package core_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

func TestAnEstimateNamesTheBoundsThatItMayExceed(t *testing.T) {
	expected := core.Estimate{
		Extract: core.Range{Low: 5, High: 62}, Shorten: core.Range{High: 1}, Embed: core.Range{Low: 5, High: 23},
		Tokens: core.Range{Low: 1e5, High: 4e5}, Cost: core.Range{Low: 0.01, High: 0.3},
	}
	for want, budget := range map[string]core.Budget{
		"":                        {Calls: 86, Tokens: 4e5, Money: 0.3},
		"85 calls":                {Calls: 85},
		"399999 tokens, 0.02 EUR": {Tokens: 399_999, Money: 0.02},
	} {
		assert.Equal(t, want, budget.ExceededBy(expected, "EUR"))
	}
}
