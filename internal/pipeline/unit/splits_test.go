package unit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// The bound of sets of labels is that of an index, however many splits share them.
func TestAnIndexHasNoMoreSetsOfLabelsThanItMay(t *testing.T) {
	manifest := &core.Manifest{Index: "docs"}
	manifest.Segments.Splits = make([]core.Split, 20)
	for i := range 10_000 {
		if i == core.MaxLabelSets {
			require.NoError(t, (*night)(nil).checkLabels(manifest))
		}
		to := &manifest.Segments.Splits[i%20]
		to.Labels = append(to.Labels, core.LabelSet(fmt.Sprint("team-", i)))
	}
	musttest.Fail(t, (*night)(nil).checkLabels(manifest), fault.TooLarge, "more than 1000 different sets of labels")
}
