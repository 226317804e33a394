// Package entitytype checks and compares what an index adds to the prompt of extraction: types, guidance, examples.
package entitytype

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Limits of what an index adds to the prompt of extractions. The prompt is paid for with every chunk.
const (
	MaxTypes         = 64
	MaxTypeName      = 80      // characters
	MaxGuidance      = 4_000   // characters
	MaxExamplesBytes = 8 << 10 // of the file
	NoType           = "none"  // what a model answers for an entity that has none of the types
)

// Key returns what two spellings of one type share.
func Key(name string) string { return names.Key(name, false) }

// Find returns the configured spelling of a type that a model answered; empty: it is none of the types.
func Find(types []string, answered string) string {
	if answered == "" || len(types) == 0 {
		return ""
	}
	answered = Key(answered)
	for _, one := range types {
		if Key(one) == answered {
			return one
		}
	}
	return ""
}

// Sort returns types without outer spaces, in one order: a list in another order asks the same.
func Sort(types []string) []string {
	var out []string
	for _, one := range types {
		out = append(out, strings.TrimSpace(one))
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(Key(a), Key(b)) })
	return out
}

// isNoText reports whether a character of a type would end it, or not be seen, in a prompt.
func isNoText(r rune) bool {
	return r == ';' || unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Cf)
}

// Check returns what is wrong with a list of types; empty: nothing.
func Check(types []string) string {
	if len(types) > MaxTypes {
		return fmt.Sprintf("%d types; want at most %d: put rarer ones under a broader type", len(types), MaxTypes)
	}
	seen := map[string]string{}
	for i, one := range types {
		folded := Key(one)
		switch {
		case !utf8.ValidString(one):
			return fmt.Sprintf("type %d is not valid UTF-8", i+1)
		case strings.ContainsFunc(one, isNoText):
			return fmt.Sprintf("type %d, %.100q, has a line break, a semicolon or a control character; remove it", i+1, one)
		case folded == "":
			return fmt.Sprintf("type %d is empty; remove it", i+1)
		case utf8.RuneCountInString(one) > MaxTypeName:
			return fmt.Sprintf("type %d, %.40q…, has %d characters; want at most %d", i+1, one, utf8.RuneCountInString(one),
				MaxTypeName)
		case folded == NoType:
			return fmt.Sprintf("%q stands for entities without a type; remove it", one)
		case seen[folded] != "":
			return fmt.Sprintf("%q and %q are one type; remove one", seen[folded], one)
		}
		seen[folded] = one
	}
	return ""
}

// CheckGuidance returns what is wrong with guidance; empty: nothing.
func CheckGuidance(guidance string) string {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }
	switch n := utf8.RuneCountInString(guidance); {
	case n > MaxGuidance:
		return fmt.Sprintf("%d characters; want at most %d: it is sent, and paid for, with every passage", n, MaxGuidance)
	case !utf8.ValidString(guidance):
		return "it is not valid UTF-8"
	case strings.ContainsFunc(guidance, control):
		return "it has a control character; remove it"
	}
	return ""
}

// Example is an answer for the model to follow.
type Example struct {
	Text     string          `json:"text"`
	Entities []ExampleEntity `json:"entities"`
}

// ExampleEntity is one entity of an example.
type ExampleEntity struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description"`
}

// ReadExamples reads a file of examples, and checks that each is an answer that the types allow.
func ReadExamples(raw []byte, types []string) ([]Example, error) {
	if len(raw) > MaxExamplesBytes {
		return nil, fmt.Errorf("it has more than %d bytes: examples are sent, and paid for, with every passage",
			MaxExamplesBytes)
	}
	var examples []Example
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&examples)
	if err == nil && decoder.Decode(&struct{}{}) != io.EOF { //nolint:errorlint // the decoder returns it as it is
		err = fmt.Errorf("there is more behind the list")
	}
	if err != nil {
		return nil, fmt.Errorf(`want a JSON list of {"text", "entities": [{"name", "type", "description"}]}: %w`, err)
	}
	for i := range examples {
		if strings.TrimSpace(examples[i].Text) == "" {
			return nil, fmt.Errorf("example %d has no text", i+1)
		}
		if examples[i].Entities == nil {
			examples[i].Entities = []ExampleEntity{}
		}
		for j := range examples[i].Entities {
			if why := fitEntity(&examples[i].Entities[j], types); why != "" {
				return nil, fmt.Errorf("entity %d of example %d %s", j+1, i+1, why)
			}
		}
	}
	if sent := len(WriteExamples(examples)); sent > MaxExamplesBytes {
		return nil, fmt.Errorf("as it is sent, with the fields that it leaves out, it has %d bytes; want at most %d", sent,
			MaxExamplesBytes)
	}
	return examples, nil
}

// fitEntity puts an entity of an example into the form of an answer, or returns why it has none.
func fitEntity(one *ExampleEntity, types []string) string {
	if strings.TrimSpace(one.Name) == "" {
		return "has no name"
	}
	switch given := one.Type; {
	case len(types) == 0 && given != "":
		return fmt.Sprintf("has type %q, and the index has no types: set extraction.types", given)
	case len(types) == 0:
	case Key(given) == NoType || given == "":
		one.Type = NoType
	default:
		if one.Type = Find(types, given); one.Type == "" {
			return fmt.Sprintf("has type %q; want one of: %s", given, strings.Join(types, ", "))
		}
	}
	return ""
}

// WriteExamples returns examples as a specification holds them, however their file was laid out.
func WriteExamples(examples []Example) string {
	if len(examples) == 0 {
		return ""
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(examples); err != nil {
		panic("entitytype: examples: " + err.Error()) // texts always encode
	}
	return strings.TrimSpace(out.String())
}

// FindMistake returns what is wrong with what a specification adds to the prompt, and with which setting; empty:
// nothing.
func FindMistake(x *core.Extraction) (setting, why string) {
	if x == nil {
		return "", ""
	}
	if x.Apply != "" && x.Apply != core.ApplyAll && x.Apply != core.ApplyNew && x.Apply != core.ApplyMentions {
		return "apply", fmt.Sprintf("%.80q is not known; use all, new or mentions", x.Apply)
	}
	if why := Check(x.Types); why != "" {
		return "types", why
	}
	if why := CheckGuidance(x.Guidance); why != "" {
		return "guidance", why
	}
	if x.Examples == "" {
		return "", ""
	}
	if _, err := ReadExamples([]byte(x.Examples), x.Types); err != nil {
		return "examples", err.Error()
	}
	return "", ""
}
