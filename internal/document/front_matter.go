package document

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/unweaver/unweaver/internal/core"
)

// Bounds of front matter: bytes, keys, bytes of a value, and tables in one another. What is more is text.
const (
	maxFrontDepth = 32
	maxFront      = 16 << 10
	maxFrontKeys  = 100
	maxFrontValue = 2000
)

// AnyField in Doc.Blank says that front matter, or what begins as such, cannot be read.
const AnyField = "*"

// splitFront takes front matter off the start of the text: YAML between lines of three dashes, the first of which may
// name JSON or TOML, or TOML between lines of three plus signs. What it says is the title and metadata. What is none,
// as no such thing comes out, stays in the text. Missing names fields of versions that have no value which can be used.
func (d *Doc) splitFront() {
	in := bufio.NewReaderSize(d.Text, maxFront)
	d.Text = in
	head, _ := in.Peek(maxFront) // what breaks here breaks again when it is read
	block, length, language := frontOf(head)
	if length == 0 {
		if language != "" {
			d.Blank = []string{AnyField}
		}
		return
	}
	values, err := frontValues(block, language)
	if err != nil || len(values) == 0 || len(values) > maxFrontKeys {
		d.Blank = []string{AnyField}
		return
	}
	_, _ = in.Discard(length) // peeked above
	meta := map[string]string{}
	for key, value := range values {
		if said := frontValue(value, 0); said != "" && len(said) <= maxFrontValue {
			meta[key] = said
			if words, isList := value.([]any); !isList || !slices.ContainsFunc(words, hasComma) {
				continue
			}
		}
		d.Blank = append(d.Blank, key)
	}
	for _, name := range nestedNames(values) {
		if meta[name] == "" {
			d.Blank = append(d.Blank, name)
		}
	}
	var dropped []string
	for _, field := range []string{core.ValidFrom, core.ValidUntil, core.Supersedes, core.Authority} {
		if meta[field] == "" && !hasNoValue(values[field]) {
			dropped = append(dropped, field)
		}
	}
	if len(dropped) > 0 {
		d.Missing = fmt.Sprintf("front matter %s is ignored: it is nested or has more than %d bytes (write one value, or "+
			"a short list)", strings.Join(dropped, ", "), maxFrontValue)
	}
	d.Title = meta["title"]
	delete(meta, "title")
	d.Meta = meta
}

// opened is what begins front matter for many programs: a fence, also a long one, and blanks, comments or directives
// before it. Of JSON it is the first quote.
var opened = regexp.MustCompile(`^(?:[\s\x{85}\x{2028}\x{2029}]|[%#][^\n]*\n|(?s:<!--.*?-->))*` +
	`(?:---+|\+\+\++|;;;+|\{\s*")`)

// FrontNames reports whether the head of a text begins as front matter that names a field, whether or not it is read.
func FrontNames(head []byte, name string) bool {
	text := core.Visible(string(head))
	at := opened.FindStringIndex(text)
	if at == nil {
		return false
	}
	key := regexp.MustCompile(`(?i)(?:^|[\s\x{85}\x{2028}\x{2029}.,"'{\[])` + regexp.QuoteMeta(core.Visible(name)) +
		`["']?\s*[:=]`)
	return key.MatchString(text[at[1]:])
}

// nestedNames returns the names of fields of tables within a value of front matter.
func nestedNames(value any) (out []string) {
	switch x := value.(type) {
	case map[string]any:
		for name, inner := range x {
			out = append(append(out, name), nestedNames(inner)...)
		}
	case map[any]any:
		for name, inner := range x {
			out = append(append(out, fmt.Sprint(name)), nestedNames(inner)...)
		}
	case []map[string]any:
		for _, inner := range x {
			out = append(out, nestedNames(inner)...)
		}
	case []any:
		for _, inner := range x {
			out = append(out, nestedNames(inner)...)
		}
	}
	return out
}

// frontValues decodes front matter. It is small, so that whatever it holds takes little; what breaks a decoder is none.
func frontValues(block []byte, language string) (values map[string]any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			values, err = nil, fmt.Errorf("front matter: %v", cause)
		}
	}()
	values = map[string]any{}
	if language == "toml" {
		if tomlDepth(block) > maxFrontDepth {
			return nil, errors.New("front matter is nested deeply") // the decoder takes the cube of the depth
		}
		return values, toml.Unmarshal(block, &values)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(block, &root); err != nil {
		return nil, err
	}
	if hasRepeats(&root) {
		return nil, errors.New("front matter repeats parts of itself") // a few of them are more than memory holds
	}
	keepDates(&root)
	return values, root.Decode(&values)
}

// keepDates makes dates texts, as they are written.
func keepDates(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, child := range node.Content {
		keepDates(child)
	}
}

// hasNoValue reports whether front matter gives a field no value.
func hasNoValue(value any) bool {
	text, isText := value.(string)
	list, isList := value.([]any)
	return value == nil || isText && strings.TrimSpace(text) == "" || isList && len(list) == 0
}

// tomlDepth returns an upper bound of how deep tables are in one another: the most dots of a line, or braces, outside
// of quotes.
func tomlDepth(block []byte) int {
	deepest, dots, braces, quote := 0, 0, 0, byte(0)
	for i := 0; i < len(block); i++ {
		switch c := block[i]; {
		case c == '\n':
			dots, quote = 0, 0
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"', c == '\'':
			quote = c
		case c == '#':
			for i+1 < len(block) && block[i+1] != '\n' {
				i++
			}
		case c == '.':
			dots++
		case c == '{':
			braces++
		case c == '}':
			braces--
		}
		deepest = max(deepest, dots, braces)
	}
	return deepest
}

// opens are the lines that front matter begins with, each with its language, of which JSON is read as YAML.
var opens = map[string]string{"---": "yaml", "---yaml": "yaml", "---json": "yaml", "---toml": "toml", "+++": "toml"}

// frontOf finds front matter in the start of a text: what is between its marks, and where the text goes on; 0 for none,
// with a language where it begins and does not end.
func frontOf(head []byte) (block []byte, length int, language string) {
	first, rest, ok := bytes.Cut(head, []byte("\n"))
	begins := strings.TrimRight(string(first), " \t")
	if language = opens[begins]; !ok || language == "" {
		return nil, 0, language
	}
	at := len(head) - len(rest)
	for start := at; at < len(head); {
		line, more, ended := bytes.Cut(head[at:], []byte("\n"))
		if !ended && len(head) == maxFront {
			break // the line goes on
		}
		end := at
		at = len(head) - len(more)
		if said := string(bytes.TrimRight(line, " \t")); said == begins[:3] || begins != "+++" && said == "..." {
			return head[start:end], at, language
		}
	}
	return nil, 0, language
}

// hasRepeats says whether YAML names or repeats a part of itself, or has a key twice: the decoder refuses that too, and
// says so for every pair of them.
func hasRepeats(node *yaml.Node) bool {
	if node.Anchor != "" || node.Kind == yaml.AliasNode {
		return true
	}
	type key struct {
		kind  yaml.Kind
		value string
	}
	seen := map[key]bool{}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			named := key{child.Kind, child.Value}
			if seen[named] {
				return true
			}
			seen[named] = true
		}
		if hasRepeats(child) {
			return true
		}
	}
	return false
}

// localLayouts are of dates and times of TOML that name no zone, by the place that the decoder gives them.
var localLayouts = map[string]string{
	"date-local": time.DateOnly, "datetime-local": "2006-01-02T15:04:05.999999999", "time-local": "15:04:05.999999999",
}

// frontValue returns a value as metadata: a list with commas between, a date as a date. What holds more has none.
func frontValue(value any, depth int) string {
	switch x := value.(type) {
	case string:
		return strings.Join(strings.Fields(x), " ")
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(x)
	case time.Time:
		return x.Format(cmp.Or(localLayouts[x.Location().String()], time.RFC3339Nano))
	case []any:
		if depth > 0 {
			return ""
		}
		var all []string
		for _, item := range x {
			if said := frontValue(item, depth+1); said != "" {
				all = append(all, said)
			}
		}
		return strings.Join(all, ", ")
	}
	return ""
}
