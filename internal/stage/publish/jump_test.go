package publish_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/stage/publish"
)

func TestARunOutOfProportionIsNotPublishedUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		size, money    float64
		chunks, parent int64
		cost           float64
		reason, says   string
	}{
		"half more may come":       {0.5, 0, 150, 100, 0, "", ""},
		"one more may not":         {0.5, 0, 151, 100, 0, publish.SizeJump, "the generation before had 100 (+51 %)"},
		"half may go":              {0.5, 0, 50, 100, 0, "", ""},
		"one more may not go":      {0.5, 0, 49, 100, 0, publish.SizeJump, "(-51 %); at most 50 % more or fewer"},
		"no bound of the size":     {0, 0, 10_000, 100, 0, "", ""},
		"what it may cost":         {0, 2, 100, 100, 2, "", ""},
		"more than it may cost":    {0, 2, 100, 100, 2.01, publish.CostJump, "it cost 2.0100; at most 2.0000"},
		"no bound of the cost":     {0, 0, 100, 100, 1e6, "", ""},
		"nothing to measure it by": {0.5, 2, 1000, 0, 100, "", ""},
		"both":                     {0.5, 2, 1000, 100, 100, publish.SizeJump, "(indexes.i.gate.max_size_change)"},
	} {
		spec := core.Spec{Index: "i", Gate: core.Gate{MaxSizeChange: c.size, MaxCost: c.money}}
		reason, detail := publish.CheckJump(spec, c.chunks, c.parent, c.cost)
		assert.True(t, reason == c.reason && strings.Contains(detail, c.says) && (reason == "") == (detail == ""),
			"%s: %q %q", name, reason, detail)
	}
}
