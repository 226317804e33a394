package api

import (
	"fmt"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/retrieve"
)

// param reads one parameter into the query's, and says what is wrong with it.
type param func(p *retrieve.Params, v any) string

func number(lo, hi float64, whole bool, set func(*retrieve.Params, float64)) param {
	return func(p *retrieve.Params, v any) string {
		n, ok := v.(float64)
		if !ok || n < lo || n > hi || (whole && n != float64(int(n))) {
			kind := "a number"
			if whole {
				kind = "a whole number"
			}
			return fmt.Sprintf("want %s from %g to %g, got %v", kind, lo, hi, v)
		}
		set(p, n)
		return ""
	}
}

func choice(set func(*retrieve.Params, string), known ...string) param {
	return func(p *retrieve.Params, v any) string {
		for _, k := range known {
			if v == any(k) {
				set(p, k)
				return ""
			}
		}
		return fmt.Sprintf("%v is not known; use %s", v, strings.Join(known, ", "))
	}
}

// knownParams are the parameters of each method (DESIGN §9).
var knownParams = map[string]map[string]param{
	retrieve.Hybrid: {
		"list":     number(1, 1000, true, func(p *retrieve.Params, n float64) { p.List = int(n) }),
		"k_chunks": number(0, 1000, true, func(p *retrieve.Params, n float64) { p.KChunks = int(n) }),
	},
	retrieve.PPR: {"damping": number(0.01, 0.99, false, func(p *retrieve.Params, n float64) { p.Damping = n })},
	retrieve.Aligned: {
		"solver":     choice(func(p *retrieve.Params, s string) { p.Solver = s }, "utility", "cls"),
		"classes":    number(1, 1000, true, func(p *retrieve.Params, n float64) { p.Classes = int(n) }),
		"eps":        number(1e-9, 1, false, func(p *retrieve.Params, n float64) { p.Eps = n }),
		"capacities": capacities,
	},
	retrieve.Unweaver: {
		"weights": choice(func(p *retrieve.Params, s string) { p.Weights = s }, "none", "similarity", "rank"),
		"ties":    choice(func(p *retrieve.Params, s string) { p.Ties = s }, "reference", "similarity"),
		"fill": func(p *retrieve.Params, v any) string {
			b, ok := v.(bool)
			if p.Fill = b; !ok {
				return "want true or false"
			}
			return ""
		},
	},
}

// capacities reads [{"prefix" or "document", "value"}].
func capacities(p *retrieve.Params, v any) string {
	l, ok := v.([]any)
	if !ok {
		return `want a list of {"prefix" or "document", "value"}`
	}
	for i, x := range l {
		m, ok := x.(map[string]any)
		var capacity retrieve.Capacity
		if ok {
			capacity.Prefix, _ = m["prefix"].(string)
			capacity.Document, _ = m["document"].(string)
			capacity.Value, ok = m["value"].(float64)
		}
		_, hasPrefix := m["prefix"]
		if !ok || len(m) != 2 || hasPrefix == (capacity.Document != "") || !(capacity.Value > 0) ||
			capacity.Value > 1e6 {
			return fmt.Sprintf(`entry %d: want {"prefix" or "document": name, "value": number over 0}`, i)
		}
		p.Capacities = append(p.Capacities, capacity)
	}
	return ""
}

// params reads the parameters of a method; those of another are errors.
func params(method string, given map[string]any) (retrieve.Params, error) {
	out := retrieve.Defaults
	out.Capacities = nil
	known := make([]string, 0, len(knownParams[method]))
	for k := range knownParams[method] {
		known = append(known, k)
	}
	sort.Strings(known)
	hint := "method " + method + " has no parameters"
	if len(known) > 0 {
		hint = "method " + method + " knows: " + strings.Join(known, ", ")
	}
	for k, v := range given {
		f := knownParams[method][k]
		if f == nil {
			return out, invalid("read query", "params."+k, "not a parameter of method "+method, hint)
		}
		if why := f(&out, v); why != "" {
			return out, invalid("read query", "params."+k, why, hint)
		}
	}
	return out, nil
}
