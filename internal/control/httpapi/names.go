package httpapi

import (
	"regexp"
	"strings"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// runID of a workflow, behind the # of a run that is meant exactly.
var runID = regexp.MustCompile(`^[0-9A-Za-z-]{1,64}$`)

// checkNames refuses names that could be paths: nothing below this line may have to think of them.
func checkNames(in any) error {
	switch in := in.(type) {
	case named:
		return runName(in.Name)
	case list:
		if in.Index != "" && !core.ValidSlug(in.Index) || in.Limit < 0 {
			return wrongName(in.Index)
		}
	case resumed:
		return runName(in.Name)
	case control.IndexRequest:
		if !core.ValidSlug(in.Spec.Index) {
			return wrongName(in.Spec.Index)
		}
		if in.Generation != "" && !core.ValidSlug(in.Generation) {
			return wrongName(in.Generation)
		}
	case control.BackfillRequest:
		if !core.ValidSlug(in.Index) || !core.ValidSlug(in.Name) {
			return wrongName(in.Index)
		}
	case control.BackfillNamed:
		if !core.ValidSlug(in.Index) || in.Name != "" && !core.ValidSlug(in.Name) {
			return wrongName(in.Index)
		}
	case control.AuditRequest:
		if !core.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
	case control.MoveRequest:
		if !core.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
		for _, name := range []string{in.Generation, in.Name} {
			if name != "" && !core.ValidSlug(name) {
				return wrongName(name)
			}
		}
	case control.BranchRequest:
		for _, name := range []string{in.Index, in.Name} {
			if !core.ValidSlug(name) {
				return wrongName(name)
			}
		}
		if in.Generation != "" && !core.ValidSlug(in.Generation) {
			return wrongName(in.Generation)
		}
	case core.ImageRequest:
		if !core.ValidSlug(in.Index) || in.Generation != "" && !core.ValidSlug(in.Generation) {
			return wrongName(in.Index)
		}
	case control.DifferenceRequest:
		if !core.ValidSlug(in.Index) {
			return wrongName(in.Index)
		}
		for _, name := range []string{in.From, in.To} {
			if name != "" && !core.ValidSlug(name) {
				return wrongName(name)
			}
		}
	case core.Spec:
		if !core.ValidSlug(in.Index) {
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
		if !core.ValidSlug(part) {
			return wrongName(name)
		}
	}
	return nil
}

func wrongName(name string) error {
	return fault.Usage.At("name index or run", name).
		Because("letters a-z, digits and hyphens, at most 63, no hyphen first; a run is index/generation")
}
