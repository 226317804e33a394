package service

import (
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
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

// checkIndex refuses the name of an index that is none.
func checkIndex(name string) error { return artifact.Index{Name: name}.Check() }

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
			Advise("name the run as index and status print it, or name the index for its newest run")
	}
	if len(parts) == 2 {
		generation = parts[1]
	}
	return parts[0], generation, checkIndex(parts[0])
}
