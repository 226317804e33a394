package unit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

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
