package evalcmd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli/console"
	"github.com/unweaver/unweaver/starter/eval"
)

// readSystems returns the systems that the flags name.
func (f evalFlags) readSystems() ([]eval.System, error) {
	sys, err := parseSystems(f.methods, f.rules)
	if err != nil {
		return nil, err
	}
	return addVariants(sys, f.against)
}

func parseSystems(methods, rules []string) ([]eval.System, error) {
	var out []eval.System
	for _, method := range methods {
		if !slices.Contains(config.Methods, method) {
			return nil, fault.Usage.At("read --methods", method).
				Because("it is not known").
				Advise("known: " + strings.Join(config.Methods, ", "))
		}
		if method != "unweaver" {
			out = append(out, eval.System{Method: method})
			continue
		}
		for _, rule := range rules {
			if !slices.Contains(config.Rules, rule) {
				return nil, fault.Usage.At("read --rules", rule).
					Because("it is not known").
					Advise("known: " + strings.Join(config.Rules, ", "))
			}
			out = append(out, eval.System{Method: method, Rule: rule})
		}
	}
	return out, nil
}

// addVariants adds, for each of --against, the systems with what it says.
func addVariants(systems []eval.System, against []string) ([]eval.System, error) {
	out := slices.Clone(systems)
	for _, one := range against {
		refused := func(why string) error {
			return fault.Usage.At("read --against", one).Because(why).
				Advise("want index=NAME, generation=NAME, top_entities=N, rerank=BOOL or params.NAME=JSON, several with semicolons")
		}
		var change eval.System
		params := map[string]any{}
		change.Settings = map[string]any{}
		for _, part := range strings.Split(one, ";") {
			key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
			if !ok || value == "" {
				return nil, refused("it has no value")
			}
			param, isParam := strings.CutPrefix(key, "params.")
			switch {
			case key == "index":
				change.Index = value
			case key == "generation":
				change.Generation = value
			case key == "top_entities":
				n, err := strconv.Atoi(value)
				if err != nil || n < 1 {
					return nil, refused("top_entities is not a number of 1 or more")
				}
				change.Settings[key] = n
			case key == "rerank":
				on, err := strconv.ParseBool(value)
				if err != nil {
					return nil, refused("rerank is neither true nor false")
				}
				change.Settings[key] = on
			case isParam && param != "":
				params[param] = console.ParseValue(value)
			default:
				return nil, refused(key + " is not known")
			}
		}
		if len(params) > 0 {
			change.Settings["params"] = params
		}
		for _, system := range systems {
			change.Method, change.Rule = system.Method, system.Rule
			out = append(out, change)
		}
	}
	return out, nil
}

func parseCutoffs(given []string) ([]int, error) {
	var ks []int
	for _, s := range given {
		k, err := strconv.Atoi(s)
		if err != nil || k < 1 || k > 100 {
			return nil, fault.Usage.At("read --k", s).Because("want numbers from 1 to 100")
		}
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return slices.Compact(ks), nil
}
