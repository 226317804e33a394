package config

import (
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// NoPaths refuses path stores for a program that shares its stores with others.
func (s Stores) NoPaths(program string) error {
	for _, set := range []struct{ setting, place string }{
		{"stores.artifacts", s.Artifacts}, {"stores.classes", s.Classes}, {"stores.vectors", s.Vectors},
	} {
		why := set.setting + " is a path (" + set.place + "), which only one process may use"
		if set.place == "" {
			why = set.setting + " is not set"
		}
		if !strings.Contains(set.place, "://") {
			return fault.BadConfig.At("start", program).
				Because(why).
				Advise("use unweaver dev, which runs all parts in one process, or set it to a URL")
		}
	}
	return nil
}
