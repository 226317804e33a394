package extract_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// Keys of an index that adds nothing are what they were before an index could: nothing is paid for again. What changes
// an answer changes the key, and what does not does not.
// Promises: 150.
func TestKeysFollowWhatTheModelIsAsked(t *testing.T) {
	info := model.Info{Provider: "openai", Model: "m", Parameters: "p", Domain: "d", Paid: true}
	german := "Das Haus am Ufer ist alt und war nicht zu sehen, aber es stand da."
	english, parity := "Aspirin thins the blood.", core.Spec{Parity: true}
	for _, c := range []struct {
		spec              core.Spec
		text, key, prompt string
	}{
		{core.Spec{}, english, "506b5a8ceb66b7ba9cd5168996cb0b0bd787c09cec3ea723a68a15df82752cf8",
			"84ac921e1e6472dc351ef5d02bf74deef9787d50894843edbc06a5e4940f136b"},
		{core.Spec{}, german, "9de8737c4d6f32c47bd5315f46a70da7a271952f24eb1a05c7c3eed2014640b9",
			"8e4b2f33d39a021ba1bf6dd8453fe7416b7e4a339fafb3ffe1c4dc1d662839e1"},
		{parity, english, "dc2e6ae48ba9a1410469b581f5d7cb7ac8a59af8f1fa38f4dbeffbe82e53fa55",
			"be9a7aa4ec43c81e6c7c33332d7ffef41655f39f5d34d297de26ed5fb5aa18d8"},
	} {
		assert.Equal(t, c.key, extract.Key(info, c.spec, c.text).String())
		assert.Equal(t, c.prompt, extract.PromptDigest(c.spec, c.text).String())
	}
	seen := map[core.Digest]string{extract.Key(info, core.Spec{}, german): "nothing"}
	for name, own := range map[string]core.Extraction{
		"a type": {Types: []string{"Drug"}}, "two types": {Types: []string{"City", "Drug"}},
		"spelled":  {Types: []string{"drug"}},
		"guidance": {Guidance: "Drug"}, "examples": {Examples: "[]"}, "a language": {Types: []string{"Drug"}, Language: "fr"},
	} {
		spec := core.Spec{Extraction: &own}
		key := extract.Key(info, spec, german)
		assert.Equal(t, extract.VersionOf(spec, german), extract.PromptVersion(spec, german), "%s", name)
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

// lookup is a ledger that has something of some keys.
type lookup func(key core.Digest) *ledger.Entry

func (l lookup) Get(_ context.Context, _ string, key core.Digest, _ int) (*ledger.Entry, error) {
	return l(key), nil
}

// What a passage was charged for is compared with the prompt that it was asked by.
func TestAPriceIsReckonedByThePromptOfEachPassage(t *testing.T) {
	info, text := model.Info{Provider: "openai", Model: "m", Paid: true}, "Rome is old."
	asked := core.Request{Types: []string{"Drug"}, Guidance: strings.Repeat("Doses matter. ", 99)}
	former := extract.Key(info, core.Spec{}, text)
	in := extract.CountIn{Model: info, Chunks: func(yield func(extract.Text, error) bool) {
		yield(extract.Text{Text: text, Tokens: 4}, nil)
	}, Ledger: lookup(func(key core.Digest) *ledger.Entry {
		return map[core.Digest]*ledger.Entry{former: {Value: []byte(`{"usage":{"prompt":9,"completion":9}}`)}}[key]
	})}
	before := stagetest.Must(extract.Count(t.Context(), in))
	in.Spec = in.Spec.WithRequest(asked)
	in.Chooser = extract.NewChooser(core.Asked{Request: asked, Earlier: []core.Request{{}}, Apply: core.ApplyNew},
		func(context.Context, core.ID) (rows.Extract, bool, error) {
			return rows.Extract{Key: former}, true, nil
		})
	after := stagetest.Must(extract.Count(t.Context(), in))
	assert.True(t, before.Hits == 1 && before.Measured.Reckoned > 0)
	assert.Equal(t, before, after)
}
