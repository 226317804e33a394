package coordination_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Where there are fewer places than processes, they take turns: none waits for ever.
func TestFewPlacesGoRound(t *testing.T) {
	all, had := map[string]coordination.Want{}, map[string]int{}
	for i := range 7 {
		all[fmt.Sprint(i)] = coordination.Want{Total: 3, Demand: 64}
	}
	for turn := range int64(7) {
		sum := 0
		for member := range all {
			share := coordination.ComputeShare(all, member, turn)
			had[member] += share
			sum += share
		}
		assert.True(t, sum == 3, "turn %d: %d of 3 places are given", turn, sum)
	}
	for member, turns := range had {
		assert.True(t, turns == 3, "%s had %d of 7 turns, want 3", member, turns)
	}
}
