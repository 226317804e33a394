package retrieve

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Param is one parameter of a method.
type Param struct {
	Name, Doc string
	Default   any
	Schema    map[string]any // JSON schema of a value, without default and description
	// Parse turns a value as JSON has it into what the method reads, or says what is wrong with it.
	Parse func(given any) (value any, why string)
}

// Params are checked values by name, defaults included. Reading one that the method does not have gives zero.
type Params map[string]any

// Int returns a parameter that is a whole number.
func (p Params) Int(name string) int { n, _ := p[name].(int); return n }

// Float returns a parameter that is a number.
func (p Params) Float(name string) float64 { n, _ := p[name].(float64); return n }

// Text returns a parameter that is a choice.
func (p Params) Text(name string) string { s, _ := p[name].(string); return s }

// Flag returns a parameter that is a switch, and otherwise for one that the method does not have.
func (p Params) Flag(name string, otherwise bool) bool {
	if b, ok := p[name].(bool); ok {
		return b
	}
	return otherwise
}

// NewWhole returns a parameter that is a whole number from lo to hi.
func NewWhole(name, doc string, lo, hi, def int) Param {
	return newRange(name, doc, "integer", "a whole number", lo, hi, def)
}

// NewNumber returns a parameter that is a number from lo to hi.
func NewNumber(name, doc string, lo, hi, def float64) Param {
	return newRange(name, doc, "number", "a number", lo, hi, def)
}

func newRange[N int | float64](name, doc, kind, what string, lo, hi, def N) Param {
	return Param{
		Name: name, Doc: doc, Default: def,
		Schema: map[string]any{"type": kind, "minimum": lo, "maximum": hi},
		Parse: func(given any) (any, string) {
			n, ok := given.(float64)
			if !ok || n < float64(lo) || n > float64(hi) || n != float64(N(n)) {
				return nil, fmt.Sprintf("want %s from %v to %v, got %s", what, lo, hi, toJSON(given))
			}
			return N(n), ""
		},
	}
}

// NewChoice returns a parameter that is one of some words; the first is the default.
func NewChoice(name, doc string, known ...string) Param {
	return Param{
		Name: name, Doc: doc, Default: known[0],
		Schema: map[string]any{"type": "string", "enum": known},
		Parse: func(given any) (any, string) {
			if word, ok := given.(string); ok && slices.Contains(known, word) {
				return word, ""
			}
			return nil, fmt.Sprintf("%s is not known; use %s", toJSON(given), strings.Join(known, ", "))
		},
	}
}

// NewSwitch returns a parameter that is true or false.
func NewSwitch(name, doc string, def bool) Param {
	return Param{
		Name: name, Doc: doc, Default: def,
		Schema: map[string]any{"type": "boolean"},
		Parse: func(given any) (any, string) {
			on, ok := given.(bool)
			if !ok {
				return nil, fmt.Sprintf("want true or false, got %s", toJSON(given))
			}
			return on, ""
		},
	}
}

// toJSON returns a value, which was JSON, as JSON has it.
func toJSON(given any) string {
	raw, _ := json.Marshal(given)
	return string(raw)
}
