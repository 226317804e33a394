package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

func TestALongSettingIsShownByItsBeginning(t *testing.T) {
	spec := core.Spec{Index: "docs", Extraction: &core.Extraction{Examples: strings.Repeat("é", 60_000)}}
	differs := spec.ListDifferences(core.Spec{Index: "docs", Extraction: &core.Extraction{}})
	assert.True(t, len(differs) == 1 && len(differs[0]) < 300 && strings.Contains(differs[0], "(60000 characters)"), differs)
}
