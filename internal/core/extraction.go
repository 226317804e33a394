package core

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Extraction says what the chat model extracts: from which share of the chunks, where rules do from the others, in
// which language it describes, and which types of entities the index wants.
type Extraction struct {
	Share    float64 `json:"share"`
	Language string  `json:"language,omitempty"` // that descriptions are written in; empty: that of the text

	// Types are the types that entities are given. None: entities have no type.
	Types []string `json:"types,omitempty"`
	// Guidance is what the prompt says about the corpus beside the product's own words.
	Guidance string `json:"guidance,omitempty"`
	// Examples are answers for the model to follow. A configuration names a file, a specification holds what the file
	// says, as WriteExamples writes it.
	Examples string `json:"examples,omitempty"`

	// Apply says which passages other types, guidance or examples than the parent's are applied to. The config digest
	// does not cover it.
	Apply string `json:"apply,omitempty"`
}

// covered returns what the config digest covers; nil: nothing but the usual.
func (x *Extraction) covered() *Extraction {
	if x == nil {
		return nil
	}
	out := *x
	if out.Apply = ""; out.Share >= 1 && out.Language == "" && out.Request().IsEmpty() {
		return nil
	}
	return &out
}

// Limits of what an index adds to the prompt of extractions. The prompt is paid for with every chunk.
const (
	MaxTypes         = 64
	MaxTypeName      = 80       // characters
	MaxGuidance      = 4_000    // characters
	MaxExamplesBytes = 64 << 10 // of the file
	NoType           = "none"   // what a model answers for an entity that has none of the types
)

// WritingLanguage returns the language that descriptions are written in; empty: that of the text.
func (s Spec) WritingLanguage() string {
	if s.Extraction == nil {
		return ""
	}
	return s.Extraction.Language
}

// ExtractionShare returns the share of chunks that are sent to the chat model.
func (s Spec) ExtractionShare() float64 {
	if s.Extraction == nil {
		return 1
	}
	return s.Extraction.Share
}

// Request is what an index adds to the prompt of extractions. Two requests with one Digest ask the same.
type Request struct {
	Types    []string `json:"types,omitempty"`
	Guidance string   `json:"guidance,omitempty"`
	Examples string   `json:"examples,omitempty"`
}

// Request returns what the settings add to the prompt.
func (x *Extraction) Request() Request {
	if x == nil {
		return Request{}
	}
	return Request{x.Types, x.Guidance, x.Examples}
}

// OwnRequest returns what the index adds to the prompt. Under parity it adds nothing.
func (s Spec) OwnRequest() Request {
	if s.Parity {
		return Request{}
	}
	return s.Extraction.Request()
}

// IsEmpty reports whether nothing is added.
func (r Request) IsEmpty() bool { return len(r.Types) == 0 && r.Guidance == "" && r.Examples == "" }

// Digest returns the identity of the request.
func (r Request) Digest() Digest {
	return Sum(append([]string{"request/1", r.Guidance, r.Examples}, r.Types...)...)
}

// FindType returns the configured spelling of a type that a model answered; empty: it is none of the types.
func (r Request) FindType(answered string) string {
	if answered == "" || len(r.Types) == 0 {
		return ""
	}
	answered = foldType(answered)
	for _, one := range r.Types {
		if foldType(one) == answered {
			return one
		}
	}
	return ""
}

// foldType returns what two spellings of one type share.
func foldType(name string) string { return strings.ToLower(strings.Join(strings.Fields(name), " ")) }

// SortTypes returns types without outer spaces, in one order: a list in another order asks the same.
func SortTypes(types []string) []string {
	var out []string
	for _, one := range types {
		out = append(out, strings.TrimSpace(one))
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(foldType(a), foldType(b)) })
	return out
}

// CheckTypes returns what is wrong with a list of types; empty: nothing.
func CheckTypes(types []string) string {
	if len(types) > MaxTypes {
		return fmt.Sprintf("%d types; want at most %d: put rarer ones under a broader type", len(types), MaxTypes)
	}
	seen := map[string]string{}
	for i, one := range types {
		folded := foldType(one)
		switch {
		case !utf8.ValidString(one):
			return fmt.Sprintf("type %d is not valid UTF-8", i+1)
		case strings.ContainsFunc(one, unicode.IsControl):
			return fmt.Sprintf("type %d, %.100q, has a line break or another control character; remove it", i+1, one)
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
		return nil, fmt.Errorf("it has %d bytes; want at most %d: examples are sent, and paid for, with every passage",
			len(raw), MaxExamplesBytes)
	}
	return parseExamples(raw, types)
}

func parseExamples(raw []byte, types []string) ([]Example, error) {
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
	asked := Request{Types: types}
	for i := range examples {
		if strings.TrimSpace(examples[i].Text) == "" {
			return nil, fmt.Errorf("example %d has no text", i+1)
		}
		for j := range examples[i].Entities {
			if why := asked.fitEntity(&examples[i].Entities[j]); why != "" {
				return nil, fmt.Errorf("entity %d of example %d %s", j+1, i+1, why)
			}
		}
	}
	return examples, nil
}

// fitEntity puts an entity of an example into the form of an answer, or returns why it has none.
func (r Request) fitEntity(one *ExampleEntity) string {
	if strings.TrimSpace(one.Name) == "" {
		return "has no name"
	}
	switch given := one.Type; {
	case len(r.Types) == 0 && given != "":
		return fmt.Sprintf("has type %q, and the index has no types: set extraction.types", given)
	case len(r.Types) == 0:
	case foldType(given) == NoType || given == "":
		one.Type = NoType
	default:
		if one.Type = r.FindType(given); one.Type == "" {
			return fmt.Sprintf("has type %q; want one of: %s", given, strings.Join(r.Types, ", "))
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
		panic("core: examples: " + err.Error()) // texts always encode
	}
	return strings.TrimSpace(out.String())
}

// FindMistake returns what is wrong with what a specification adds to the prompt, and with which setting; empty:
// nothing.
func (x *Extraction) FindMistake() (setting, why string) {
	if x == nil {
		return "", ""
	}
	if x.Apply != "" && x.Apply != ApplyAll && x.Apply != ApplyNew && x.Apply != ApplyMentions {
		return "apply", fmt.Sprintf("%.80q is not known; use all, new or mentions", x.Apply)
	}
	if why := CheckTypes(x.Types); why != "" {
		return "types", why
	}
	if why := CheckGuidance(x.Guidance); why != "" {
		return "guidance", why
	}
	if x.Examples == "" {
		return "", ""
	}
	if len(x.Examples) > 2*MaxExamplesBytes { // names of fields, and types of entities that the file gives none
		return "examples", "they are too long"
	}
	if _, err := parseExamples([]byte(x.Examples), x.Types); err != nil {
		return "examples", err.Error()
	}
	return "", ""
}
