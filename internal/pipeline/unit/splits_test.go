package unit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// The bound of sets of labels is that of an index, however many splits share them.
func TestAnIndexHasNoMoreSetsOfLabelsThanItMay(t *testing.T) {
	for sets, want := range map[int]fault.Code{
		core.MaxLabelSets: "", core.MaxLabelSets + 1: fault.TooLarge, 10_000: fault.TooLarge,
	} {
		manifest := &core.Manifest{Index: "docs"}
		manifest.Segments.Splits = make([]core.Split, 20)
		for i := range sets {
			to := &manifest.Segments.Splits[i%20]
			to.Labels = append(to.Labels, core.LabelSet(fmt.Sprint("team-", i)))
		}
		err := (*night)(nil).checkLabels(manifest)
		assert.True(t, (err == nil) == (want == "") && (err == nil || fault.Is(err, want)), "%d: %v", sets, err)
		if err != nil {
			assert.Regexp(t, `count the labels of docs: .* more than 1000 different sets .*team-\d+.*fewer combinations`, err.Error())
		}
	}
}
