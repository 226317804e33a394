package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

// What is asked follows from the parent, the request and the choice; a request that did not change goes on as it was.
func TestWhatPassagesAreAskedFollowsFromTheParentAndTheChoice(t *testing.T) {
	of := func(kind string) core.Request { return core.Request{Types: strings.Fields(kind)} }
	asked := func(kind, apply string, earlier ...string) (out core.Asked) {
		out = core.Asked{Request: of(kind), Apply: apply}
		for _, one := range earlier {
			out.Earlier = append(out.Earlier, of(one))
		}
		return out
	}
	for name, c := range map[string]struct {
		before core.Asked
		kind   string
		apply  string
		want   core.Asked
	}{
		"the first types, unchosen":    {asked("", ""), "A", "", asked("A", "")},
		"the first types, from now on": {asked("", ""), "A", "new", asked("A", "new", "")},
		"other types, unchosen":        {asked("A", "new", ""), "B", "", asked("B", "")},
		"other types, from now on":     {asked("A", "new", ""), "B", "new", asked("B", "new", "A", "")},
		"the night after, unchosen":    {asked("A", "new", ""), "A", "", asked("A", "new", "")},
		"the night after, from now on": {asked("A", "mentions", ""), "A", "new", asked("A", "mentions", "")},
		"then what names them":         {asked("A", "new", ""), "A", "mentions", asked("A", "mentions", "")},
		"then everything":              {asked("A", "new", ""), "A", "all", asked("A", "")},
		"no types any more":            {asked("A", ""), "", "new", asked("", "new", "A")},
		"types that were there before": {asked("B", "new", "A", "C"), "A", "new", asked("A", "new", "B", "C")},
		"more than are remembered":     {asked("E", "new", "D", "C", "B", "A"), "F", "new", asked("F", "new", "E", "D", "C", "B")},
	} {
		got := core.AskOver(c.before, of(c.kind), c.apply)
		assert.True(t, got.Same(c.want) && got.Request.Digest() == c.want.Request.Digest(), "%s: %+v", name, got)
	}
	assert.Equal(t, []string{"B", "A"}, of("B C").Changed(of("A C")))
	guided := core.Request{Types: []string{"B", "C"}, Guidance: "g"}
	assert.Equal(t, []string{"B", "C", "A"}, guided.Changed(of("A C")), "guidance changed, too")
	spec := core.Spec{}
	assert.Equal(t, spec.ConfigDigest(), spec.WithApply(core.ApplyNew).ConfigDigest(), "a choice rebuilds")
}
