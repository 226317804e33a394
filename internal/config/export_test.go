package config

import (
	"cmp"
	_ "embed" // preamble.md
	"fmt"
	"reflect"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

//go:embed preamble.md
var preamble string

// sections of the reference: a heading, the keys below it, what there is to say first.
var sections = []struct{ title, below, about string }{
	{"engine", "engine.", "Temporal: a server of one's own, or Temporal Cloud with TLS and an API key."},
	{"query_api", "query_api.", ""},
	{"worker", "worker.", "Sizes of one worker process. Workers of different sizes share a run."},
	{"notify", "notify.", "What each key says counts for every index that does not say otherwise."},
	{"telemetry", "telemetry.", "Off by default. No span holds text or keys of documents."},
	{
		"stores", "stores.",
		"A URL picks the adapter, a path the embedded one; empty is a path below the data directory of `unweaver dev`.",
	},
	{
		"models", "models.",
		"Each key may stand below `indexes.NAME.models` too, and wins for that index, even zero or empty.",
	},
	{
		"limits", "limits.",
		"Of a worker. A document above one is left out of the build and named; a title is cut. Documents that are " +
			"built already are not looked at again.",
	},
	{"indexes.NAME", "indexes.*.", "An index that the file does not name has the defaults."},
}

// Reference returns the text of docs/reference/configuration.md.
func Reference() string {
	var text strings.Builder
	text.WriteString(preamble)
	defaults := defaultValues()
	for _, section := range sections {
		fmt.Fprintf(&text, "\n## `%s`\n\n", section.title)
		if section.about != "" {
			text.WriteString(section.about + "\n\n")
		}
		text.WriteString("| key | type | default | unit | example | meaning | a change rebuilds |\n" +
			"| --- | --- | --- | --- | --- | --- | --- |\n")
		for _, k := range keys {
			if short, ok := strings.CutPrefix(k.path, section.below); ok {
				text.WriteString(k.row(short, defaults[k.path]))
			}
		}
	}
	return text.String()
}

// row returns the row of the reference that describes the key.
func (k key) row(short string, standard reflect.Value) string {
	kind := typeName(standard)
	if k.rule.values != "" {
		kind += ": " + k.rule.values
	}
	meaning := k.meaning
	rebuilds := k.rebuilds
	if rebuilds == "" {
		rebuilds = "nothing"
	}
	return fmt.Sprintf(
		"| `%s` | %s | `%s` | %s | `%s` | %s | %s |\n",
		short,
		kind,
		toLiteral(standard),
		k.unit,
		cmp.Or(k.example, "true"),
		meaning,
		rebuilds,
	)
}

func typeName(value reflect.Value) string {
	if _, ok := value.Interface().(core.Duration); ok {
		return "duration"
	}
	switch value.Kind() {
	case reflect.Slice:
		return "list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	}
	return "text"
}
