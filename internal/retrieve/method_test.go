package retrieve_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestConfigurationKnowsTheMethodsAndRulesOfTheRegistry(t *testing.T) {
	assert.Equal(t, config.Methods, methods.Registry().Names(), "registry")
	for _, method := range methods.Registry().All() {
		spec := method.Spec()
		assert.Equal(t, config.MethodEnrichments[spec.Name], spec.Needs.Enriched, spec.Name)
	}
	assert.True(t, slices.Equal(methods.Registry().Rules(), config.Rules), "%v", config.Rules)
}

type named struct {
	name   string
	params []retrieve.Param
}

func (n named) Spec() retrieve.Spec { return retrieve.Spec{Name: n.name, Params: n.params} }

func (named) Run(*retrieve.Request) (retrieve.Explanation, error) { return nil, nil }

func TestARegistryRefusesWhatIsAmbiguous(t *testing.T) {
	size := retrieve.NewWhole("size", "", 1, 2, 1)
	for name, methods := range map[string][]retrieve.Method{
		"two of a name":       {named{name: "a"}, named{name: "b"}, named{name: "a"}},
		"no name":             {named{}},
		"two parameters size": {named{name: "a", params: []retrieve.Param{size, size}}},
	} {
		_, err := retrieve.NewRegistry(methods...)
		assert.True(t, err != nil, "%s: accepted", name)
	}
	both := []retrieve.Param{size}
	_, err := retrieve.NewRegistry(named{name: "a", params: both}, named{name: "b", params: both})
	assert.NoError(t, err, "two methods may have a parameter of one name")
}

func TestParametersAreCheckedAndHaveDefaults(t *testing.T) {
	spec := retrieve.Spec{Name: "m", Params: []retrieve.Param{
		retrieve.NewWhole("whole", "", 2, 9, 5),
		retrieve.NewNumber("number", "", 0.5, 1.5, 1),
		retrieve.NewChoice("choice", "", "a", "b"),
		retrieve.NewSwitch("switch", "", true),
	}}
	for name, c := range map[string]struct {
		given map[string]any
		want  retrieve.Params // nil: refused
	}{
		"nothing": {nil, retrieve.Params{"whole": 5, "number": 1.0, "choice": "a", "switch": true}},
		"all": {map[string]any{"whole": 2.0, "number": 0.5, "choice": "b", "switch": false},
			retrieve.Params{"whole": 2, "number": 0.5, "choice": "b", "switch": false}},
		"the largest": {map[string]any{"whole": 9.0, "number": 1.5},
			retrieve.Params{"whole": 9, "number": 1.5, "choice": "a", "switch": true}},
		"below":             {map[string]any{"whole": 1.0}, nil},
		"above":             {map[string]any{"whole": 10.0}, nil},
		"a fraction":        {map[string]any{"whole": 2.5}, nil},
		"a text":            {map[string]any{"number": "1"}, nil},
		"too small":         {map[string]any{"number": 0.4}, nil},
		"an unknown choice": {map[string]any{"choice": "c"}, nil},
		"no choice":         {map[string]any{"choice": 1.0}, nil},
		"no switch":         {map[string]any{"switch": "yes"}, nil},
		"null":              {map[string]any{"whole": nil}, nil},
		"another":           {map[string]any{"other": 1.0}, nil},
	} {
		got, err := spec.ReadParams(c.given)
		assert.Equal(t, c.want, got, name)
		assert.True(t, (c.want == nil) == (err != nil) && (err == nil || fault.Is(err, fault.InvalidParam) &&
			strings.Contains(err.Error(), "choice, number, switch, whole")), "%s: %v", name, err)
	}
}

func TestRulesBelongToTheirMethod(t *testing.T) {
	methods := methods.Registry()
	for _, rule := range config.Rules {
		assert.NoError(t, methods.CheckRule(retrieve.Unweaver, rule))
		musttest.Code(t, methods.CheckRule(retrieve.Hybrid, rule), fault.InvalidParam, "hybrid by rule %s", rule)
	}
	assert.ErrorContains(t, methods.CheckRule(retrieve.Unweaver, "dice"), "weighted, av")
}

// The context of an answer numbers the passages, and leaves out what the budget of tokens has no room for.
func ExampleContext() {
	passages := []prompt.Passage{
		{ID: "c1", Title: "Edvard Grieg", Text: "Edvard Grieg composed in Bergen, Norway."},
		{ID: "c2", Title: "Bergen", Text: "Bergen is a port on the west coast of Norway."},
	}
	text, used := prompt.PackContext(passages, 1000)
	fmt.Println(text)
	fmt.Println(used)
	// Output:
	// [1] (Edvard Grieg)
	// Edvard Grieg composed in Bergen, Norway.
	//
	// [2] (Bergen)
	// Bergen is a port on the west coast of Norway.
	// [true true]
}
