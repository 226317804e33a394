package entitytype_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/text/entitytype"
)

func TestWhatAnIndexAddsToThePromptIsChecked(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprint("Type ", i)
	}
	const typed = `[{"text":"a","entities":[{"name":"n","type":"B"}]}]`
	for name, c := range map[string]struct {
		given         core.Extraction
		setting, says string
	}{
		"a good one": {core.Extraction{
			Types: []string{"Person", "Active substance"}, Guidance: "Doses\nmatter.",
			Examples: `[{"text":"It helps.","entities":[{"name":"Pill","type":"active  SUBSTANCE","description":""}]}]`,
		}, "", ""},
		"300 types":        {core.Extraction{Types: many}, "types", "300 types; want at most 64"},
		"a line separator": {core.Extraction{Types: []string{"A\u2028B"}}, "types", "line break"},
		"a semicolon":      {core.Extraction{Types: []string{"A; B"}}, "types", "semicolon"},
		"a line break":     {core.Extraction{Types: []string{"A\nB"}}, "types", "line break"},
		"an empty type":    {core.Extraction{Types: []string{"A", " "}}, "types", "type 2 is empty"},
		"a long type":      {core.Extraction{Types: []string{strings.Repeat("é", 81)}}, "types", "81 characters; want at most"},
		"one type twice":   {core.Extraction{Types: []string{"Drug", "drug "}}, "types", "are one type"},
		"the word for no":  {core.Extraction{Types: []string{"None"}}, "types", "without a type"},
		"a megabyte":       {core.Extraction{Guidance: strings.Repeat("x", 1<<20)}, "guidance", "want at most 4000"},
		"no JSON":          {core.Extraction{Examples: "{"}, "examples", "want a JSON list"},
		"another field":    {core.Extraction{Examples: `[{"text":"a","entity":[]}]`}, "examples", "entity"},
		"no text":          {core.Extraction{Examples: `[{"entities":[]}]`}, "examples", "example 1 has no text"},
		"no name":          {core.Extraction{Examples: `[{"text":"a","entities":[{}]}]`}, "examples", "has no name"},
		"no such type":     {core.Extraction{Types: []string{"A"}, Examples: typed}, "examples", `has type "B"; want one of: A`},
		"a type of no one": {core.Extraction{Examples: typed}, "examples", "set extraction.types"},
	} {
		setting, why := entitytype.FindMistake(&c.given)
		assert.Equal(t, c.setting, setting, name)
		assert.True(t, strings.Contains(why, c.says) && len(why) < 400, "%s: %s", name, why)
	}
	_, err := entitytype.ReadExamples(make([]byte, entitytype.MaxExamplesBytes+1), nil)
	assert.ErrorContains(t, err, "more than 8192 bytes")
	_, err = entitytype.ReadExamples([]byte(`[{"text":"a","entities":[`+strings.Repeat(`{"name":"n"},`, 600)+`{"name":"n"}]}]`), nil)
	assert.ErrorContains(t, err, "with the fields that it leaves out, it has 18")
}

// A list in another order asks the same, and what a model answers gets the configured spelling.
func TestTypesHaveOneOrderAndOneSpelling(t *testing.T) {
	a := core.Request{Types: entitytype.Sort([]string{"Side effect", " Drug", "city"})}
	b := core.Request{Types: entitytype.Sort([]string{"city", "Side effect", "Drug"})}
	assert.Equal(t, a.Digest(), b.Digest(), "%q and %q", a.Types, b.Types)
	assert.NotEqual(t, a.Digest(), core.Request{Types: a.Types[1:]}.Digest())
	for answered, want := range map[string]string{
		"DRUG": "Drug", "Ｄｒｕｇ": "Drug", " side  EFFECT\n": "Side effect", "City": "city", "none": "", "": "", "Person": "",
	} {
		assert.Equal(t, want, entitytype.Find(a.Types, answered), "%q", answered)
	}
}
