package run

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// What is in flight, here or in another process, or was when one died, counts as spent.
// Promises: 22.
func TestABudgetCountsWhatIsInFlight(t *testing.T) {
	var paid, flying Account
	paid.Calls, paid.Tokens, paid.Cost = core.Calls{Extract: 6}, core.Tokens{Prompt: 50, Completion: 5, Embedding: 5}, 6
	flying.CountFlight(Flight{Task: "extract", Prompt: 10, Completion: 2, Cost: 1}, 2)
	flying.CountFlight(Flight{Task: taskEmbed, Prompt: 16, Cost: 2}, 1)
	both := paid
	both.addAccount(flying)
	for name, c := range map[string]struct {
		budget core.Budget
		total  Account
		spent  bool
	}{
		"none":                               {core.Budget{}, both, false},
		"calls with room for one":            {core.Budget{Calls: 10}, both, false},
		"calls that are in flight":           {core.Budget{Calls: 9}, both, true},
		"calls that were paid for":           {core.Budget{Calls: 6}, paid, true},
		"calls, none of them in flight":      {core.Budget{Calls: 7}, paid, false},
		"tokens with room for one":           {core.Budget{Tokens: 101}, both, false},
		"tokens that are in flight":          {core.Budget{Tokens: 100}, both, true},
		"tokens, none of them in flight":     {core.Budget{Tokens: 61}, paid, false},
		"tokens that were paid for":          {core.Budget{Tokens: 60}, paid, true},
		"money with room":                    {core.Budget{Money: 10.5}, both, false},
		"money that is in flight":            {core.Budget{Money: 10}, both, true},
		"money, none of it in flight":        {core.Budget{Money: 6.5}, paid, false},
		"the calls of several, of all kinds": {core.Budget{Calls: 100, Tokens: 1000, Money: 10}, both, true},
	} {
		err := CheckBudget(c.budget, c.total, "i/g")
		assert.True(t, fault.Is(err, fault.BudgetSpent) == c.spent && (err != nil) == c.spent, "%s: %v", name, err)
	}
}

// A budget that counts too little is none: an account that cannot be read, or is impossible, is an error.
// Promises: 22.
func TestADamagedAccountIsNoEmptyOne(t *testing.T) {
	whole, err := json.Marshal(Account{Calls: core.Calls{Extract: 3}, Cost: 1})
	require.NoError(t, err)
	for name, raw := range map[string]string{
		"cut": string(whole[:len(whole)/2]), "null": "null", "another kind": "[]",
		"calls below zero": `{"calls":{"extract":-3}}`, "money below zero": `{"cost":-1}`,
		"in flight below zero": `{"in_flight":{"embed":-1}}`, "tokens below zero": `{"tokens":{"prompt":-1}}`,
	} {
		accounts := map[string][]byte{"one": whole, "two": []byte(raw)}
		total, err := sumAccounts("i/g", accounts, "")
		assert.True(t, fault.Is(err, fault.ControlUnreadable), "%s: %+v, %v", name, total, err)
		total, err = sumAccounts("i/g", accounts, "two")
		assert.True(t, err == nil && total.Calls.Extract == 3, "%s, its own: %+v, %v", name, total, err)
	}
	large, err := json.Marshal(Account{Calls: core.Calls{Extract: math.MaxInt64 - 1}})
	require.NoError(t, err)
	accounts := map[string][]byte{"one": large, "two": large}
	if total, err := sumAccounts("i/g", accounts, ""); !fault.Is(err, fault.ControlUnreadable) {
		t.Errorf("two that overflow: %+v, %v", total, err)
	}
}
