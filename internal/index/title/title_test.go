package title_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/title"
)

func TestATitleNamesTheClassOfItsNameAndOfThatWithoutItsParenthesis(t *testing.T) {
	for _, one := range []struct {
		title, class string
		parity, want bool
	}{
		{"Mercury", "mercury", false, true},
		{"The Mercury ", "mercury", false, true},
		{"Mercury (planet)", "mercury (planet)", false, true},
		{"Mercury (planet)", "mercury", false, true},
		{"Mercury (planet) 2", "mercury", false, false},
		{"Mercury", "mercury (planet)", false, false},
		{"Mercury(planet)", "mercury", false, false},
		{"(planet)", "planet", false, true}, // names.Key strips what encloses all of it
		{"", "", false, false},
		{"Mercury", "mercury", true, false},
	} {
		got := title.ParseTitle(one.title, one.parity, nil).HasClass(core.ClassID(one.class))
		assert.True(t, got == one.want, "%q names %q: %v", one.title, one.class, got)
	}
	assert.False(t, (title.Named{}).HasClass(core.ID{}), "no title names the class of id zero")
}
