package config

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/fault"
)

// place of a key, for messages.
type place struct {
	source    string
	line, col int
}

func (p place) String() string {
	if p.line == 0 {
		return p.source
	}
	return fmt.Sprintf("%s:%d:%d", p.source, p.line, p.col)
}

// Source is where a configuration comes from.
type Source struct {
	Path    string   // file; empty: none
	Env     []string // os.Environ()
	Set     []string // path=value
	Missing bool     // a missing file is no error
}

type loader struct {
	cfg      *Config
	problems []string
	source   string
}

// Load reads, overrides and checks a configuration. The error lists every mistake.
func Load(source Source) (*Config, error) {
	l := &loader{cfg: Default(), source: source.Path}
	l.cfg.places = map[string]place{}
	if source.Path != "" {
		if err := l.file(source); err != nil {
			return nil, err
		}
	}
	l.environment(source.Env)
	for _, kv := range source.Set {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			l.bad(place{source: "--set " + kv}, "want path=value")
			continue
		}
		l.override(strings.Split(k, "."), v, place{source: "--set " + k})
	}
	l.validate()
	sort.Strings(l.problems)
	if len(l.problems) > 0 {
		return nil, fault.BadConfig.At("read configuration", source.Path).
			Because(strings.Join(append([]string{fmt.Sprintf("%d mistakes", len(l.problems))}, l.problems...), "\n  "))
	}
	return l.cfg, nil
}

func (l *loader) bad(p place, format string, args ...any) {
	l.problems = append(l.problems, p.String()+": "+fmt.Sprintf(format, args...))
}

func (l *loader) file(source Source) error {
	raw, err := os.ReadFile(source.Path)
	if os.IsNotExist(err) && source.Missing {
		return nil
	}
	if err != nil {
		return fault.BadConfig.At("read configuration", source.Path).
			Because(err).
			Advise("give a readable file with --config")
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return fault.BadConfig.At("read configuration", source.Path).Because(err).Advise("the file is no valid YAML")
	}
	if len(doc.Content) > 0 {
		l.decode(doc.Content[0], reflect.ValueOf(l.cfg).Elem(), "")
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// decode fills v from a node and remembers where every key stood.
func (l *loader) decode(node *yaml.Node, value reflect.Value, path string) {
	at := place{l.source, node.Line, node.Column}
	l.cfg.places[path] = at
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return
	}
	switch value.Kind() {
	case reflect.Struct, reflect.Map:
		if node.Kind != yaml.MappingNode {
			l.bad(at, "%s must be a mapping of keys", name(path))
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			k, val := node.Content[i], node.Content[i+1]
			l.child(k, val, value, path)
		}
	default:
		if node.Kind != yaml.ScalarNode {
			l.bad(at, "%s must be one value", name(path))
			return
		}
		if err := scalar(value, node.Value); err != nil {
			l.bad(at, "%s: %v", name(path), err)
		}
	}
}

func name(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func (l *loader) child(node, val *yaml.Node, value reflect.Value, path string) {
	p := join(path, node.Value)
	if value.Kind() == reflect.Map {
		index := l.cfg.Indexes[node.Value]
		if _, ok := l.cfg.Indexes[node.Value]; !ok {
			index = defaultIndex()
		}
		l.decode(val, reflect.ValueOf(&index).Elem(), p)
		l.cfg.places[p] = place{l.source, node.Line, node.Column}
		l.cfg.Indexes[node.Value] = index
		return
	}
	f, ok := field(value, node.Value)
	if !ok {
		l.bad(
			place{l.source, node.Line, node.Column},
			"unknown key %s (known here: %s)",
			p,
			strings.Join(keys(value.Type()), ", "),
		)
		return
	}
	l.decode(val, f, p)
}

func field(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") == key && key != "" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func keys(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		if k := t.Field(i).Tag.Get("yaml"); k != "" {
			out = append(out, k)
		}
	}
	return out
}

func scalar(value reflect.Value, s string) error {
	switch value.Kind() {
	case reflect.String:
		value.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is not true or false", s)
		}
		value.SetBool(b)
	case reflect.Int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q is no whole number", s)
		}
		value.SetInt(int64(n))
	case reflect.Float64:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", s)
		}
		value.SetFloat(f)
	default:
		return fmt.Errorf("cannot be set")
	}
	return nil
}

// own are variables that are not keys of the configuration.
var own = map[string]bool{
	"UNWEAVER_DATA_DIR":  true,
	"UNWEAVER_CONFIG":    true,
	"UNWEAVER_DEV_BIN":   true,
	"UNWEAVER_CACHE_DIR": true,
}

// environment applies UNWEAVER_<PATH>. A path is found by walking the keys, since keys hold underscores too.
func (l *loader) environment(env []string) {
	env = append([]string(nil), env...)
	sort.Strings(env)
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(k, "UNWEAVER_") || own[k] || strings.HasPrefix(k, "UNWEAVER_TEST_") {
			continue
		}
		path := find(reflect.TypeFor[Config](), strings.TrimPrefix(k, "UNWEAVER_"), l.cfg.Indexes)
		if path == nil {
			l.bad(place{source: "variable " + k}, "no such key")
			continue
		}
		l.override(path, v, place{source: "variable " + k})
	}
}

// find gives the path of a leaf whose capitals joined by underscores are s.
func find(t reflect.Type, s string, indexes map[string]Index) []string {
	try := func(key string, t reflect.Type) []string {
		up := strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
		if s == up && t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return []string{key}
		}
		rest, ok := strings.CutPrefix(s, up+"_")
		if !ok || (t.Kind() != reflect.Struct && t.Kind() != reflect.Map) {
			return nil
		}
		if p := find(t, rest, indexes); p != nil {
			return append([]string{key}, p...)
		}
		return nil
	}
	if t.Kind() == reflect.Map {
		for n := range indexes {
			if p := try(n, t.Elem()); p != nil {
				return p
			}
		}
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if k := f.Tag.Get("yaml"); k != "" {
			if p := try(k, f.Type); p != nil {
				return p
			}
		}
	}
	return nil
}

// override sets one value by path.
func (l *loader) override(path []string, value string, at place) {
	v := reflect.ValueOf(l.cfg).Elem()
	var index *Index
	for i, k := range path {
		if v.Kind() == reflect.Map {
			x, ok := l.cfg.Indexes[k]
			if !ok {
				x = defaultIndex()
			}
			index = &x
			v = reflect.ValueOf(index).Elem()
			defer func() { l.cfg.Indexes[k] = *index }()
			continue
		}
		if v.Kind() != reflect.Struct {
			l.bad(at, "%s has no keys below it", strings.Join(path[:i], "."))
			return
		}
		f, ok := field(v, k)
		if !ok {
			l.bad(
				at,
				"unknown key %s (known here: %s)",
				strings.Join(path[:i+1], "."),
				strings.Join(keys(v.Type()), ", "),
			)
			return
		}
		v = f
	}
	if v.Kind() == reflect.Struct || v.Kind() == reflect.Map {
		l.bad(at, "%s is not one value", strings.Join(path, "."))
		return
	}
	if err := scalar(v, value); err != nil {
		l.bad(at, "%s: %v", strings.Join(path, "."), err)
	}
	l.cfg.places[strings.Join(path, ".")] = at
}

// over lets the set fields of an override win.
func over[T any](base *T, o T) {
	b, v := reflect.ValueOf(base).Elem(), reflect.ValueOf(o)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			b.Field(i).Set(v.Field(i))
		}
	}
}
