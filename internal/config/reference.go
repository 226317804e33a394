package config

import (
	"fmt"
	"reflect"
	"strings"
)

// sampleIndex is the index of a fresh configuration file.
const sampleIndex = "docs"

// RenderSample returns a configuration file with every default, commented: what `unweaver config init` writes.
func RenderSample() string {
	var text strings.Builder
	text.WriteString("" +
		"# Every key with its default. Remove keys that you do not change. Reference: docs/reference/configuration.md.\n" +
		"# An editor checks and completes keys by the schema that `unweaver config schema` prints.\n")
	config := Default()
	config.Indexes[sampleIndex] = defaultIndex()
	byPath := describeKeys()
	var open []string
	walkValues(reflect.ValueOf(config).Elem(), "", func(path string, value reflect.Value) {
		k := byPath[toGeneral(path)]
		if isOverride(path) {
			return
		}
		parts := strings.Split(path, ".")
		above := parts[:len(parts)-1]
		same := 0
		for same < len(open) && same < len(above) && open[same] == above[same] {
			same++
		}
		for i := same; i < len(above); i++ {
			if i == 0 {
				text.WriteString("\n")
			}
			fmt.Fprintf(&text, "%s%s:\n", strings.Repeat("  ", i), above[i])
		}
		open = above
		line := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(above)), parts[len(parts)-1], toLiteral(value))
		fmt.Fprintf(&text, "%-44s # %s\n", line, k.formatComment())
	})
	return text.String()
}

// formatComment returns the comment of a key in a file.
func (k key) formatComment() string {
	text := k.meaning
	if k.unit != "" {
		text += "; " + k.unit
	}
	if k.rule.values != "" {
		text += " (" + k.rule.values + ")"
	}
	return text
}
