package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
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

// ListRecordings returns the files that a process with this configuration may replay models from, as absolute paths.
func (c *Config) ListRecordings() []string {
	return c.listPaths(func(chat core.ChatModel) string {
		if chat.Provider != providerRecorded {
			return ""
		}
		return chat.File
	})
}

// BatchFolders returns the folders for batches that the configuration names, absolute.
func (c *Config) BatchFolders() []string {
	return c.listPaths(func(chat core.ChatModel) string {
		if chat.Mode != modeBatch {
			return ""
		}
		return chat.Batch.Folder
	})
}

// listPaths lists the paths that chat models name, absolute and sorted.
func (c *Config) listPaths(of func(chat core.ChatModel) string) []string {
	var out []string
	for _, index := range append(slices.Collect(maps.Keys(c.Indexes)), "") {
		for _, chat := range c.listChats("", index) {
			if path, err := filepath.Abs(of(chat)); err == nil && of(chat) != "" {
				out = append(out, path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// parseList gives a list from its text, as variables and --set have it: as in the file, [a, b], or its items between
// commas. An endpoint may be written URL=VARIABLE.
func parseList(value reflect.Value, text string) error {
	value.SetZero()
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		decoder := yaml.NewDecoder(strings.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(value.Addr().Interface()); err != nil {
			return fmt.Errorf("%q is not a list: %w", hidePassword(text), err)
		}
		return nil
	}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		element := reflect.New(value.Type().Elem()).Elem()
		switch known := element.Addr().Interface().(type) {
		case *Endpoint:
			cut := strings.LastIndexByte(item, '=')
			if cut < 0 {
				return fmt.Errorf("%q is not of the form URL=VARIABLE", hidePassword(item))
			}
			known.BaseURL, known.APIKeyEnv = item[:cut], item[cut+1:]
		case *OIDCGroup:
			return fmt.Errorf("%q is not a list of groups: write [{group: …, indexes: […], scopes: […]}]", text)
		default:
			if err := setScalar(element, item); err != nil {
				return err
			}
		}
		value.Set(reflect.Append(value, element))
	}
	return nil
}

// literalList writes a list as the file would have it.
func literalList(value reflect.Value) string {
	items := make([]string, 0, value.Len())
	for i := range value.Len() {
		if endpoint, ok := value.Index(i).Interface().(Endpoint); ok {
			items = append(items, fmt.Sprintf("{base_url: %q, api_key_env: %s}", hidePassword(endpoint.BaseURL),
				cmp.Or(endpoint.APIKeyEnv, `""`)))
			continue
		}
		if group, ok := value.Index(i).Interface().(OIDCGroup); ok {
			items = append(items, group.literal())
			continue
		}
		item := toLiteral(value.Index(i))
		if value.Index(i).Kind() == reflect.String && strings.ContainsAny(item, "*?&!|>%@#,'`{}[]\"") {
			item = strconv.Quote(item) // it would be read as something else
		}
		items = append(items, item)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// requirePatterns takes globs of object names.
func requirePatterns() rule {
	return rule{values: "patterns", mistake: func(value any) string {
		for _, pattern := range value.([]string) {
			if !doublestar.ValidatePattern(pattern) {
				return fmt.Sprintf("%q is not a valid pattern", pattern)
			}
			if why := core.PatternMistake(pattern); why != "" {
				return fmt.Sprintf("%q %s", pattern, why)
			}
		}
		return ""
	}}
}

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
	return rule{values: form, mistake: func(value any) string {
		for _, one := range value.([]string) { //nolint:forcetypeassert // the key's field is one
			pattern, given, found := strings.Cut(one, "=")
			if !found || !known(given) {
				return fmt.Sprintf("%q %s", one, mistake)
			}
			if why := requirePatterns().mistake([]string{pattern}); why != "" {
				return why
			}
		}
		return ""
	}}
}

// requireDirectories takes absolute paths.
func requireDirectories() rule {
	return rule{values: "absolute paths", mistake: func(value any) string {
		for _, path := range value.([]string) {
			if !filepath.IsAbs(path) {
				return fmt.Sprintf("%q is not an absolute path", path)
			}
		}
		return ""
	}}
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
