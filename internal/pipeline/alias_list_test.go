package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
	"github.com/unweaver/unweaver/internal/methods/aliases/pairstage"
)

// Names of the same letters are suggested, numbers apart are refused, and what a file pins or forbids is not suggested
// any more; a night with the suggestions as its file has them mapped.
func TestAliasesAreSuggestedAndListed(t *testing.T) {
	files := sample(6)
	files["a.md"] = "# Places\n\nThe mole of Lake Verin was raised by Carla Ruiz. The tower was built by CarlaRuiz.\n"
	s := newSite(t, files)
	asked := func(suggest *pairstage.Suggest) core.AliasList {
		t.Helper()
		list, err := pairstage.ListAliases(t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors, suggest)
		require.NoError(t, err)
		return list
	}
	if _, err := pairstage.ListAliases(
		t.Context(), s.Cache, artifact.New(s.Artifacts, "docs"), s.Vectors, nil,
	); !fault.Is(err, fault.UnknownGen) {
		t.Errorf("before the first night: %v", err)
	}
	s.night(t)
	find := func(list core.AliasList, name string) (found core.SuggestedOne) {
		for _, one := range list.Suggested {
			if one.Name == name && one.Refused == "" {
				found = one
			}
		}
		return found
	}
	suggest := pairstage.Suggest{Classes: 1000, Refused: true, Cosine: 0.5}
	plain := asked(&suggest)
	if one := find(plain, "CarlaRuiz"); one.Of != "Carla Ruiz" || !one.Spelled || one.Cosine < -1 || one.Cosine > 1.001 {
		t.Errorf("suggested %+v of %+v", one, plain)
	}
	assert.True(t, plain.Searched.Refused[aliases.WhyNumbers] != 0 && int64(plain.Searched.Classes) == plain.Searched.Of,
		"searched %+v", plain.Searched)
	for _, one := range plain.Suggested {
		assert.True(t, one.Refused != "" || !strings.HasPrefix(one.Name, "Port Alma"), "%+v is suggested", one)
	}
	if again := asked(&suggest); !slices.Equal(again.Suggested, plain.Suggested) {
		t.Errorf("asked again: %+v", again.Suggested)
	}
	for _, line := range []string{"pin CarlaRuiz | Carla Ruiz\n", "forbid carla ruiz | CarlaRuiz\n"} {
		suggest.File = []byte(line)
		assert.Empty(t, find(asked(&suggest), "CarlaRuiz").Name, "with %q", line)
	}
	suggest.File, suggest.Classes = nil, 2
	if few := asked(&suggest); few.Searched.Classes != 2 {
		t.Errorf("of two classes: %+v", few.Searched)
	}
	s.aliased(t, "pin CarlaRuiz | Carla Ruiz\n")
	s.night(t)
	if list := asked(nil); !slices.Equal(list.Aliases, []core.MappedName{{Name: "carlaruiz", StandsFor: "carla ruiz"}}) {
		t.Errorf("listed %+v", list)
	}
}
