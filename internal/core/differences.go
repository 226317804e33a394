package core

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostDifferences is how many differences of two configurations are listed.
const mostDifferences = 5

// ListDifferences says which settings of an index are not what they were: "models.chat.model: a, was b".
func (s Spec) ListDifferences(was Spec) []string {
	before, after := was.ListSettings(), s.ListSettings()
	names := maps.Clone(before)
	maps.Copy(names, after)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] != after[name] {
			out = append(out, fmt.Sprintf("%s: %s, was %s", name, ShowSetting(after[name]), ShowSetting(before[name])))
		}
	}
	if more := len(out) - mostDifferences; more > 0 {
		out = append(out[:mostDifferences], fmt.Sprintf("and %d more", more))
	}
	return out
}

// shownRunes is how much of a value is shown: examples of extraction are long.
const shownRunes = 80

// ShowSetting returns a value that ListSettings gives, or the beginning of a long one.
func ShowSetting(value string) string {
	if value == "" {
		return "not set"
	}
	if runes := []rune(value); len(runes) > shownRunes {
		return fmt.Sprintf("%s… (%d characters)", string(runes[:shownRunes]), len(runes))
	}
	return value
}

// ListSettings returns the values of a specification by the names that they have in a configuration.
func (s Spec) ListSettings() map[string]string {
	raw, err := json.Marshal(s)
	var tree map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &tree)
	}
	if err != nil {
		panic("corpus: settings: " + err.Error()) // plain structs of strings and numbers always marshal
	}
	out := map[string]string{}
	for name, value := range tree {
		if name == "roles" {
			flattenTree(out, "models", value)
			continue
		}
		prefix := "indexes." + s.Index + "."
		if name == "chat" || name == "embedding" || name == "rerank" || name == "limits" {
			prefix = "models."
		}
		flattenTree(out, prefix+name, value)
	}
	return out
}

func flattenTree(out map[string]string, name string, value any) {
	tree, ok := value.(map[string]any)
	if !ok {
		out[name] = strings.TrimSpace(fmt.Sprint(value))
		return
	}
	for part, below := range tree {
		flattenTree(out, name+"."+part, below)
	}
}
