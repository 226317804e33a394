package extract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// Keys of an index that adds nothing are what they were before an index could: nothing is paid for again. What changes
// an answer changes the key, and what does not does not.
func TestKeysFollowWhatTheModelIsAsked(t *testing.T) {
	info := model.Info{Provider: "openai", Model: "m", Parameters: "p", Domain: "d", Paid: true}
	german := "Das Haus am Ufer ist alt und war nicht zu sehen, aber es stand da."
	for text, want := range map[string]string{
		"Aspirin thins the blood.": "PIN1", german: "PIN2",
	} {
		assert.Equal(t, want, extract.Key(info, core.Spec{}, text).String())
	}
	parity := core.Spec{Parity: true}
	assert.Equal(t, "PIN3", extract.Key(info, parity, "Aspirin thins the blood.").String())
	seen := map[core.Digest]string{extract.Key(info, core.Spec{}, german): "nothing"}
	for name, own := range map[string]core.Extraction{
		"a type": {Types: []string{"Drug"}}, "two types": {Types: []string{"City", "Drug"}},
		"spelled":  {Types: []string{"drug"}},
		"guidance": {Guidance: "Drug"}, "examples": {Examples: "[]"}, "a language": {Types: []string{"Drug"}, Language: "fr"},
	} {
		spec := core.Spec{Extraction: &own}
		key := extract.Key(info, spec, german)
		assert.Empty(t, seen[key], "%s and %s have one key", name, seen[key])
		seen[key] = name
		spec.Extraction = &core.Extraction{Types: own.Types, Guidance: own.Guidance, Examples: own.Examples,
			Language: own.Language, Share: 1}
		assert.Equal(t, key, extract.Key(info, spec, german), "a share is in the key of %s", name)
		spec.Parity = true
		assert.Equal(t, extract.Key(info, parity, german), extract.Key(info, spec, german), "%s counts under parity", name)
	}
}

// One call asks for names, descriptions and types. A type that is none of the list, or no text, costs the entity its
// type alone; an index without types stores none.
func TestEntitiesHaveTheTypesOfTheIndex(t *testing.T) {
	answer := `{"entities":[{"name":"Aspirin","type":"DRUG","description":"A pill."},{"name":"Basel","type":"town",` +
		`"description":""},{"name":"Roche","type":["City"]},{"name":"Bonn","type":null},{"name":"Ulm","description":"x"},` +
		`{"name":"Köln","type":"none"},{"name":"Ulm","type":"City","description":"x y"}]}`
	for _, typed := range []bool{true, false} {
		b := newBench(t)
		chat := &stagetest.Chat{Answer: stagetest.Says(answer)}
		in := b.in(chat, stagetest.Document{Key: "a", Title: "T", Chunks: []string{"Aspirin in Basel."}})
		want := "Aspirin= Basel= Roche= Bonn= Ulm= Köln= "
		if typed {
			want = "Aspirin=Drug Basel= Roche= Bonn= Ulm=City Köln= "
			in.Spec.Extraction = &core.Extraction{
				Share: 1, Types: []string{"City", "Drug"}, Guidance: "Doses matter.", Examples: `[{"text":"Ulm"}]`,
			}
		}
		for range 2 { // the second is answered by the ledger
			stagetest.Must(extract.Run(t.Context(), in))
			got := ""
			for _, one := range b.extracted(in)[0].Entities {
				got += one.Name + "=" + one.Type + " "
			}
			assert.Equal(t, want, got)
		}
		calls := chat.Calls()
		assert.Len(t, calls, 1)
		for _, part := range []string{"types: City; Drug.", "Doses matter.", `[{"text":"Ulm"}]`, `"type":"..."`} {
			assert.Equal(t, typed, strings.Contains(calls[0].System, part), "%s in %s", part, calls[0].System)
		}
		schema := string(calls[0].Schema)
		assert.Equal(t, typed, strings.Contains(schema, `"enum":["City","Drug","none"]`), schema)
	}
}
