package admin

import (
	"regexp"
	"strings"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	ops "github.com/unweaver/unweaver/internal/ops/port"
)

// runID of a workflow, behind the # of a run that is meant exactly.
var runID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// checked refuses names that could be paths: nothing below this line may have to think of them.
func checked(in any) error {
	switch in := in.(type) {
	case named:
		return runName(in.Name)
	case list:
		if in.Index != "" && !corpus.ValidSlug(in.Index) || in.Limit < 0 {
			return wrongName(in.Index)
		}
	case resumed:
		return runName(in.Name)
	case ops.IndexRequest:
		if !corpus.ValidSlug(in.Spec.Index) {
			return wrongName(in.Spec.Index)
		}
		if in.Generation != "" && !corpus.ValidSlug(in.Generation) {
			return wrongName(in.Generation)
		}
	case ops.BackfillRequest:
		if !corpus.ValidSlug(in.Index) || !corpus.ValidSlug(in.Name) {
			return wrongName(in.Index)
		}
	case ops.BackfillNamed:
		if !corpus.ValidSlug(in.Index) || in.Name != "" && !corpus.ValidSlug(in.Name) {
			return wrongName(in.Index)
		}
	case ops.AuditRequest:
		if !corpus.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
	case ops.MoveRequest:
		if !corpus.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
		for _, name := range []string{in.Generation, in.Name} {
			if name != "" && !corpus.ValidSlug(name) {
				return wrongName(name)
			}
		}
	case ops.BranchRequest:
		for _, name := range []string{in.Index, in.Name} {
			if !corpus.ValidSlug(name) {
				return wrongName(name)
			}
		}
		if in.Generation != "" && !corpus.ValidSlug(in.Generation) {
			return wrongName(in.Generation)
		}
	case ops.DifferenceRequest:
		if !corpus.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
		for _, name := range []string{in.From, in.To} {
			if name != "" && !corpus.ValidSlug(name) {
				return wrongName(name)
			}
		}
	case corpus.Spec:
		if !corpus.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
	}
	return nil
}

// runName takes an index, index/generation and build/index/generation, each with or without #run.
func runName(name string) error {
	path, run, exact := strings.Cut(name, "#")
	parts := strings.Split(path, "/")
	if len(parts) > 3 || exact && !runID.MatchString(run) {
		return wrongName(name)
	}
	for _, part := range parts {
		if !corpus.ValidSlug(part) {
			return wrongName(name)
		}
	}
	return nil
}

func wrongName(name string) error {
	return fault.Usage.At("name index or run", name).
		Because("letters a-z, digits and hyphens, at most 63, no hyphen first; a run is index/generation")
}
