package service

import (
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/workflows"
)

// buildOf returns the run of a build's workflow id; false for other workflows and other indexes.
func buildOf(id, index string) (run string, ok bool) {
	generation, ok := strings.CutPrefix(id, workflows.BuildID(index, ""))
	if !ok || generation == "" || strings.Contains(generation, "/") { // stages and shards of a build lie below it
		return "", false
	}
	return index + "/" + generation, true
}

// newNameFault returns the fault of a name of the wrong form.
func newNameFault(what, name string) error {
	return fault.InvalidParam.At("name "+what, fault.QuoteName(name)).
		Because("letters a-z, digits and hyphens, at most 63, no hyphen first; ledger and doctor are taken")
}

// parseRun reads index/generation, build/index/generation (the id of its workflow), or an index alone: then the
// generation is empty.
func parseRun(name string) (index, generation string, err error) {
	parts := strings.Split(name, "/")
	if len(parts) == 3 && name == workflows.BuildID(parts[1], parts[2]) {
		parts = parts[1:]
	}
	if len(parts) > 2 || len(parts) == 2 && !core.ValidSlug(parts[1]) {
		return "", "", fault.InvalidParam.At("read run", fault.QuoteName(name)).
			Because("a run is index/generation").
			Advise("give it as index and status print it, or an index for its newest run")
	}
	if !core.ValidIndex(parts[0]) {
		return "", "", newNameFault("index", parts[0])
	}
	if len(parts) == 2 {
		generation = parts[1]
	}
	return parts[0], generation, nil
}
