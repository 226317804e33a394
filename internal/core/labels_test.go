package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
)

// Whoever holds one of a document's labels may read it. What is not known, or cannot be used, lets nobody in.
func TestLabelsDecideWhoMayRead(t *testing.T) {
	many := make([]string, core.MaxLabels+1)
	for i := range many {
		many[i] = fmt.Sprint("l", i)
	}
	for list, want := range map[string]core.LabelSet{
		"": core.Nobody, " , ": core.Nobody, "b, a,b": "a,b", "a, public": core.Everybody, "Abteilung Süd": "Abteilung Süd",
		"a\nb": core.Nobody, "*": core.Nobody, "a, \x00": core.Nobody, "\xff": core.Nobody,
		strings.Join(many, ","):                   core.Nobody,
		strings.Repeat("x", core.MaxLabelRunes+1): core.Nobody, strings.Join(many[1:], ","): "",
	} {
		got, err := core.ParseLabels(list)
		if want == core.Everybody && !strings.Contains(list, "public") {
			assert.True(t, err == nil && len(strings.Split(string(got), ",")) == core.MaxLabels, got)
			continue
		}
		assert.Equal(t, want, got, "%q", list)
		assert.Equal(t, want == core.Nobody && strings.Trim(list, " ,") != "", err != nil, "%q: %v", list, err)
	}
	for _, one := range []struct {
		holds string
		set   core.LabelSet
		may   bool
	}{
		{"", core.Everybody, true}, {"", "a", false}, {"", core.Nobody, false}, {"a", "a,b", true}, {"b", "a,b", true},
		{"ab", "a,b", false}, {"a,b", "c", false}, {"a", core.Nobody, false}, {",", core.Nobody, false},
		{"*", core.Nobody, true}, {"*", "a", true}, {"public", "a", false},
	} {
		readers := core.ReadersOf(strings.Split(one.holds, ","))
		assert.Equal(t, one.may, readers.Filter()(one.set), "%+v", one)
	}
	assert.Equal(t, core.ClassID("x"), core.FragmentID("x", core.Everybody))
	assert.NotEqual(t, core.FragmentID("x", "a,b"), core.FragmentID("x", "a"))
}
