package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/unweaver/unweaver/internal/core"
)

// A name of an index is a folder of the artifact store: it leads nowhere else, and to no folder of the store's own.
// Promises: 138.
func TestNamesOfIndexesAndGenerations(t *testing.T) {
	for name, valid := range map[string]struct{ slug, index bool }{
		"docs": {true, true}, "g001": {true, true}, "7": {true, true}, "a-b-c": {true, true},
		strings.Repeat("a", 63): {true, true}, "ledgers": {true, true}, "doctor-2": {true, true},
		"ledger": {true, false}, "doctor": {true, false},
		"": {}, "-a": {}, "_access": {}, ".": {}, "..": {}, ".tmp": {}, "a/b": {}, "../a": {}, `a\b`: {},
		"Docs": {}, "ä": {}, "a b": {}, "a\x00": {}, "a\n": {}, "a.json": {}, strings.Repeat("a", 64): {},
	} {
		assert.True(t, core.ValidSlug(name) == valid.slug && core.ValidIndex(name) == valid.index, "%q: slug %t, index %t",
			name, core.ValidSlug(name), core.ValidIndex(name))
	}
}
