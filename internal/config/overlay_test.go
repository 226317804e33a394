package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// What a branch is made with is refused where the file would be: an unknown key, another type, a value out of bounds.
func TestSettingsOfABranchAreCheckedByThemselves(t *testing.T) {
	for _, good := range []map[string]string{
		nil, {"shortening.threshold": "400"}, {"models.chat.model": "large", "retrieval.language": "de"},
	} {
		assert.NoError(t, config.CheckOverlay(good), "%v", good)
	}
	for key, bad := range map[string]struct{ value, why string }{
		"shortening.threshold": {"60", "200"},
		"shortening.limit":     {"1", "shortening.limit"},
		"keep":                 {"many", "keep"},
		"retrieval.language":   {"klingon", "language"},
	} {
		err := config.CheckOverlay(map[string]string{key: bad.value})
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), bad.why),
			"%s=%s: %v", key, bad.value, err)
	}
}

// A name that no index may have is a mistake like others, also where it comes with the settings of a branch.
func TestABranchOfAnImpossibleNameIsAMistake(t *testing.T) {
	for _, name := range []string{"../x", "a.b", ".", "*", "a.models.b"} {
		_, err := config.Load(config.Source{Missing: true, Overlays: []core.Overlay{{Index: name, Base: "docs"}}})
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), "a name has letters"),
			"%q: %v", name, err)
	}
}
