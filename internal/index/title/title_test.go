package title_test

import (
	"testing"

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
		if got := title.Of(one.title, one.parity, nil).Names(core.ClassID(one.class)); got != one.want {
			t.Errorf("%q names %q: %v", one.title, one.class, got)
		}
	}
	if (title.Named{}).Names(core.ID{}) {
		t.Error("no title names the class of id zero")
	}
}
