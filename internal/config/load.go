package config

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stream/durable"
)

// Origins of a value.
const (
	FromDefault  = "default"
	FromFile     = "file"
	FromVariable = "variable"
	FromSet      = "set"
	FromBranch   = "branch" // recorded in the store: core.Overlay
)

// place is where a value was given.
type place struct {
	origin    string
	source    string // path of the file, name of the variable, path of --set
	line, col int    // in the file
}

func (p place) String() string {
	switch p.origin {
	case FromFile:
		return fmt.Sprintf("%s:%d:%d", p.source, p.line, p.col)
	case FromVariable:
		return "variable " + p.source
	case FromSet:
		return "--set " + p.source
	case FromBranch:
		return "branch: " + p.source
	}
	return p.source
}

// Source is where a configuration comes from.
type Source struct {
	Path    string   // file; empty: none
	Env     []string // os.Environ()
	Set     []string // path=value
	Missing bool     // a missing file is no error

	Overlays []core.Overlay // what the store says of indexes
}

type mistake struct {
	at   place
	text string
}

type loader struct {
	cfg      *Config
	mistakes []mistake
	source   string
	outside  *place // of a text that is read: by a variable or --set, or a list in the file
}

// Load reads, overrides and checks a configuration. The error is bad_config and lists every mistake, those of the file
// in its order, then those of variables and of --set.
func Load(source Source) (*Config, error) {
	l := &loader{cfg: Default(), source: source.Path}
	l.cfg.places, l.cfg.source = map[string]place{}, source
	if source.Path != "" {
		if err := l.loadFile(source); err != nil {
			return nil, err
		}
	}
	for _, overlay := range source.Overlays { // before variables, which may name an index that the file does not
		l.branchIndex(overlay)
	}
	l.applyEnvironment(source.Env)
	for _, overlay := range source.Overlays {
		l.applyOverlay(overlay)
	}
	for _, setting := range source.Set {
		path, value, ok := strings.Cut(setting, "=")
		if !ok {
			l.addMistake(place{origin: FromSet, source: setting}, "want path=value")
			continue
		}
		l.overrideValue(strings.Split(path, "."), value, place{origin: FromSet, source: path})
	}
	l.validateConfig()
	if err := l.joinMistakes(); err != nil {
		return nil, err
	}
	return l.cfg, nil
}

// LoadAgain loads the configuration from where it came, with what the store says of indexes.
func (c *Config) LoadAgain(overlays ...core.Overlay) (*Config, error) {
	source := c.source
	source.Overlays = overlays
	return Load(source)
}

func (l *loader) addMistake(at place, format string, args ...any) {
	l.mistakes = append(l.mistakes, mistake{at, fmt.Sprintf(format, args...)})
}

// joinMistakes joins the mistakes, or is nil where there are none.
func (l *loader) joinMistakes() error {
	if len(l.mistakes) == 0 {
		return nil
	}
	order := []string{FromDefault, FromFile, FromVariable, FromBranch, FromSet}
	slices.SortStableFunc(l.mistakes, func(a, b mistake) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.at.origin), slices.Index(order, b.at.origin)),
			cmp.Compare(a.at.line, b.at.line),
			cmp.Compare(a.at.col, b.at.col),
			strings.Compare(a.at.source, b.at.source),
			strings.Compare(a.text, b.text),
		)
	})
	source := ""
	inFile := func(m mistake) bool { return m.at.origin == FromFile || m.at.origin == FromDefault }
	if slices.ContainsFunc(l.mistakes, inFile) {
		source = l.source
	}
	lines := []string{fmt.Sprintf("%d mistakes", len(l.mistakes))}
	if len(l.mistakes) == 1 {
		lines[0] = "1 mistake"
	}
	for _, m := range l.mistakes {
		text := m.text
		if m.at.origin == FromSet { // its path is reported once
			text = strings.TrimPrefix(text, m.at.source+": ")
		}
		lines = append(lines, m.at.String()+": "+text)
	}
	return fault.BadConfig.At("read configuration", source).Because(strings.Join(lines, "\n  "))
}

func (l *loader) loadFile(source Source) error {
	if source.Missing { // no one named the file: another user may have put it here
		if err := durable.CheckUnplanted(source.Path); err != nil && !os.IsNotExist(err) {
			return fault.BadConfig.At("read configuration", source.Path).
				Because(err).
				Advise("if you trust it, name it: --config " + source.Path)
		}
	}
	raw, err := readRegular(source.Path, math.MaxInt64)
	if os.IsNotExist(err) && source.Missing {
		l.source = ""
		return nil
	}
	if err != nil {
		return fault.BadConfig.At("read configuration", source.Path).
			Because(err).
			Advise("name a readable file with --config")
	}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	err = decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil // empty, or nothing but comments
	}
	if err == nil {
		err = decoder.Decode(&second)
		if err == nil {
			l.addMistake(l.placeOf(&second), "a second YAML document starts here; a configuration has only one")
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fault.BadConfig.At("read configuration", source.Path).Because(err).Advise("the file is not valid YAML")
	}
	l.decodeNode(document.Content[0], reflect.ValueOf(l.cfg).Elem(), "")
	return nil
}

// readRegular reads a file, at most so many bytes of it; anything else, such as a pipe without a writer, is an error at
// once.
func readRegular(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file (%s)", info.Mode())
	}
	return io.ReadAll(io.LimitReader(file, most))
}

func (l *loader) placeOf(node *yaml.Node) place {
	if l.outside != nil {
		return *l.outside
	}
	return place{origin: FromFile, source: l.source, line: node.Line, col: node.Column}
}

// decodeNode fills a value from a node and remembers where it stood. A key without a value leaves the default.
func (l *loader) decodeNode(node *yaml.Node, value reflect.Value, path string) {
	at := l.placeOf(node)
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Tag == "!!null" {
		return
	}
	l.cfg.places[path] = at
	switch value.Kind() {
	case reflect.Struct, reflect.Map:
		if parser, ok := value.Addr().Interface().(encoding.TextUnmarshaler); ok && node.Kind == yaml.ScalarNode {
			if err := parser.UnmarshalText([]byte(node.Value)); err != nil {
				l.addMistake(at, "%s: %v", nameOf(path), err)
			}
			return
		}
		if node.Kind != yaml.MappingNode {
			l.addMistake(at, "%s must be a mapping of keys", nameOf(path))
			return
		}
		first := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i]
			if line := first[key.Value]; line > 0 {
				l.addMistake(l.placeOf(key), "%s is set twice, first in line %d", joinPath(path, key.Value), line)
				continue
			}
			first[key.Value] = key.Line
			l.decodeChild(key, node.Content[i+1], value, path)
		}
	case reflect.Slice:
		l.decodeItems(node, value, path)
	default:
		if node.Kind != yaml.ScalarNode {
			l.addMistake(at, "%s must be one value", nameOf(path))
			return
		}
		if err := setScalar(value, node.Value); err != nil {
			l.addMistake(at, "%s: %v", nameOf(path), err)
		}
	}
}

// decodeItems fills a list from a sequence, or from its text: as in a file, [a, b], or its items between commas.
func (l *loader) decodeItems(node *yaml.Node, value reflect.Value, path string) {
	if node.Kind == yaml.ScalarNode {
		at, outside := l.placeOf(node), l.outside
		list, err := parseItems(node.Value)
		if err != nil {
			l.addMistake(at, "%s: %q is not a list: %v", nameOf(path), hidePassword(node.Value), err)
			return
		}
		l.outside, node = &at, list
		defer func() { l.outside = outside }()
	}
	if node.Kind != yaml.SequenceNode {
		l.addMistake(l.placeOf(node), "%s must be a list", nameOf(path))
		return
	}
	value.SetZero()
	for i, item := range node.Content {
		element := reflect.New(value.Type().Elem()).Elem()
		l.decodeNode(item, element, fmt.Sprintf("%s.%d", path, i))
		value.Set(reflect.Append(value, element))
	}
}

// parseItems returns the list that a text means.
func parseItems(text string) (*yaml.Node, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			return nil, err
		}
		return document.Content[0], nil
	}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: item})
		}
	}
	return list, nil
}

func nameOf(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func (l *loader) decodeChild(key, content *yaml.Node, parent reflect.Value, path string) {
	below := joinPath(path, key.Value)
	if parent.Kind() == reflect.Map {
		if !core.ValidIndex(key.Value) {
			l.addMistake(l.placeOf(key), "%s: a name has letters a-z, digits and hyphens, at most 63, and no hyphen first; "+
				"ledger and doctor are reserved", below)
			return
		}
		index := defaultIndex()
		l.decodeNode(content, reflect.ValueOf(&index).Elem(), below)
		l.cfg.places[below] = l.placeOf(key)
		l.cfg.Indexes[key.Value] = index
		return
	}
	value, ok := findField(parent, key.Value)
	if !ok {
		l.reportUnknown(l.placeOf(key), below, parent)
		return
	}
	l.decodeNode(content, value, below)
}

func (l *loader) reportUnknown(at place, path string, parent reflect.Value) {
	l.addMistake(at, "unknown key %s (known keys: %s)", path, strings.Join(keysOf(parent.Type()), ", "))
}

// overrideValue sets one value by its path.
func (l *loader) overrideValue(path []string, text string, at place) {
	value := reflect.ValueOf(l.cfg).Elem()
	for i, key := range path {
		if value.Kind() == reflect.Map {
			index, ok := l.cfg.Indexes[key]
			if !ok {
				index = defaultIndex()
			}
			value = reflect.ValueOf(&index).Elem()
			defer func() { l.cfg.Indexes[key] = index }()
			continue
		}
		if value.Kind() != reflect.Struct {
			l.addMistake(at, "%s has no keys below it", strings.Join(path[:i], "."))
			return
		}
		below, ok := findField(value, key)
		if !ok {
			l.reportUnknown(at, strings.Join(path[:i+1], "."), value)
			return
		}
		value = below
	}
	whole := strings.Join(path, ".")
	if value.Kind() == reflect.Struct || value.Kind() == reflect.Map {
		l.addMistake(at, "%s is not one value", whole)
		return
	}
	l.outside = &at
	l.decodeNode(&yaml.Node{Kind: yaml.ScalarNode, Value: text}, value, whole)
	l.outside = nil
}
