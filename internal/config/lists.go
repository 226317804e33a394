package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
)

// Endpoint is a model server with the variable that holds its key.
type Endpoint struct {
	BaseURL   string `yaml:"base_url" json:"base_url"` // empty: OpenAI's
	APIKeyEnv string `yaml:"api_key_env" json:"api_key_env"`
}

// UnmarshalText reads URL=VARIABLE.
func (e *Endpoint) UnmarshalText(text []byte) error {
	cut := bytes.LastIndexByte(text, '=')
	if cut < 0 {
		return fmt.Errorf("%q is not of the form URL=VARIABLE", hidePassword(string(text)))
	}
	e.BaseURL, e.APIKeyEnv = string(text[:cut]), string(text[cut+1:])
	return nil
}

// defaultURL of provider openai.
const defaultURL = "https://api.openai.com/v1"

// Normalise gives the endpoint with the URL that an empty one stands for, and without a slash at its end: two that mean
// the same are equal.
func (e Endpoint) Normalise() Endpoint {
	if e.BaseURL == "" {
		e.BaseURL = defaultURL
	}
	e.BaseURL = strings.TrimRight(e.BaseURL, "/")
	return e
}

// ListEndpoints returns what a process with this configuration may send documents, questions and keys to: those of its
// models, general and of indexes, and those that it lists beside them.
func (c *Config) ListEndpoints() []Endpoint {
	var out []Endpoint
	add := func(index string, models Models) {
		for _, chat := range c.listChats("", index) {
			if chat.Provider == providerOpenAI {
				out = append(out, Endpoint{chat.BaseURL, chat.APIKeyEnv}.Normalise())
			}
		}
		if models.Embedding.Provider == providerOpenAI {
			out = append(out, Endpoint{models.Embedding.BaseURL, models.Embedding.APIKeyEnv}.Normalise())
		}
		if models.Rerank.IsOn() {
			out = append(out, Endpoint{models.Rerank.BaseURL, models.Rerank.APIKeyEnv}.Normalise())
		}
		for _, listed := range models.Endpoints {
			out = append(out, listed.Normalise())
		}
	}
	add("", c.Models)
	for name, index := range c.Indexes {
		add(name, c.modelsOf(name))
		if parser := index.Documents.Parser; parser.Provider == providerDocling {
			out = append(out, Endpoint{parser.BaseURL, parser.APIKeyEnv}.Normalise())
		}
	}
	slices.SortFunc(out, func(a, b Endpoint) int {
		return strings.Compare(a.BaseURL+" "+a.APIKeyEnv, b.BaseURL+" "+b.APIKeyEnv)
	})
	return slices.Compact(out)
}

const (
	providerBuiltin  = "builtin"
	providerDocling  = "docling"
	modeBatch        = "batch"
	providerOpenAI   = "openai"
	providerRecorded = "recorded"
)

// ListModelPaths returns the paths that a process with this configuration may have chat models read and write: of
// recordings that are replayed, and of folders for batches. They are absolute and sorted.
func (c *Config) ListModelPaths() []string {
	var out []string
	for _, index := range append(slices.Collect(maps.Keys(c.Indexes)), "") {
		for _, chat := range c.listChats("", index) {
			path := ""
			switch {
			case chat.Provider == providerRecorded:
				path = chat.File
			case chat.Mode == modeBatch:
				path = chat.Batch.Folder
			}
			if absolute, err := filepath.Abs(path); err == nil && path != "" {
				out = append(out, absolute)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// formatList writes a list as the file would have it. The rules of lists refuse URLs with passwords.
func formatList(value reflect.Value) string {
	var list yaml.Node
	if value.Len() == 0 || list.Encode(value.Interface()) != nil { // lists of texts and of plain structs always encode
		return "[]"
	}
	list.Style = yaml.FlowStyle
	quoteTexts(&list)
	text, _ := yaml.Marshal(&list)
	return strings.TrimSpace(string(text))
}

// quoteTexts puts texts below a node in double quotes that could be read as something else.
func quoteTexts(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && strings.ContainsAny(node.Value, "*?&!|>%@#,'`{}[]:\"") {
		node.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range node.Content {
		quoteTexts(below)
	}
}

// findPatternMistake returns what is wrong with a glob of object names; empty: nothing.
func findPatternMistake(pattern string) string {
	if !doublestar.ValidatePattern(pattern) {
		return fmt.Sprintf("%q is not a valid pattern", pattern)
	}
	if why := core.PatternMistake(pattern); why != "" {
		return fmt.Sprintf("%q %s", pattern, why)
	}
	return ""
}

// requirePatterns takes globs of object names.
func requirePatterns() rule { return listOf("patterns", newTextRule("", findPatternMistake)) }

// requireEncodings takes globs of object names, each with a set of characters.
func requireEncodings() rule {
	return requireAssignments("PATTERN=CHARSET", document.IsCharset,
		"names no known charset; write PATTERN=CHARSET, such as *.txt=windows-1251")
}

// kindNames are the types that documents.types may name.
var kindNames = func() string {
	names := make([]string, len(document.Kinds))
	for i, kind := range document.Kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, " ")
}()

// requireTypes takes globs of object names, each with a type of document.
func requireTypes() rule {
	known := func(kind string) bool { return slices.Contains(document.Kinds, document.Kind(kind)) }
	return requireAssignments("PATTERN=TYPE", known, "names no type; write PATTERN=TYPE with one of "+kindNames)
}

// requireField takes the name of a field of metadata that documents have as they say it.
func requireField() rule {
	return newTextRule("", func(name string) string {
		if document.IsReserved(name) || strings.TrimSpace(name) != name {
			return fmt.Sprintf("%q is no field that metadata always have: choose another name, such as labels", name)
		}
		return ""
	})
}

// requireLabels takes globs of object names, each with labels.
func requireLabels() rule {
	usable := func(list string) bool {
		set, err := core.ParseLabels(list)
		return err == nil && set != core.Nobody
	}
	return requireAssignments("PATTERN=LABELS", usable, "names no labels; write PATTERN=LABELS, such as hr/**=hr,board")
}

// requireAssignments takes globs of object names, each with a known value.
func requireAssignments(form string, known func(value string) bool, mistake string) rule {
	return listOf(form, newTextRule("", func(one string) string {
		pattern, given, found := strings.Cut(one, "=")
		if !found || !known(given) {
			return fmt.Sprintf("%q %s", one, mistake)
		}
		return findPatternMistake(pattern)
	}))
}

// requireDirectories takes absolute paths.
func requireDirectories() rule {
	return listOf("absolute paths", newTextRule("", func(path string) string {
		if filepath.IsAbs(path) {
			return ""
		}
		return fmt.Sprintf("%q is not an absolute path", path)
	}))
}

// requireEndpoints takes model servers with the variables that hold their keys.
func requireEndpoints() rule {
	return rule{values: "mappings of base_url and api_key_env, or URL=VARIABLE", mistake: func(value any) string {
		for _, endpoint := range value.([]Endpoint) {
			if why := allowEmpty(requireURL()).mistake(endpoint.BaseURL); why != "" {
				return why
			}
			if endpoint.APIKeyEnv == "" && endpoint.BaseURL != "" {
				continue // a server that needs no key
			}
			if why := requireVariable().mistake(endpoint.APIKeyEnv); why != "" {
				return why
			}
		}
		return ""
	}}
}
