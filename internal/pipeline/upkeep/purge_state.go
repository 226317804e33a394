package upkeep

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/store/records"
)

// purgeStates takes documents out of what the coordination store says of runs that are over. That of the run that works
// is written by itself, and reports what its generation has.
func (p *purging) purgeStates(
	ctx context.Context, runs map[string]bool, documents purges.Set,
) (dropped int64, err error) {
	for _, generation := range slices.Sorted(maps.Keys(runs)) {
		name := p.Job.Index + "/" + generation
		if name == p.Name() {
			continue
		}
		raw, err := p.Coordination.ReadState(ctx, name)
		if err != nil {
			return dropped, err
		}
		var state core.RunState
		if raw == nil || json.Unmarshal(raw, &state) != nil {
			continue
		}
		gone := state.Report.DropDocuments(documents.Has)
		if gone == 0 {
			continue
		}
		dropped += gone
		if raw, err = json.Marshal(state); err == nil {
			err = p.Coordination.SetState(ctx, name, raw)
		}
		if err != nil {
			return dropped, err
		}
		p.Progress.Touch()
	}
	return dropped, nil
}

// overwriteStores makes stores that keep bytes of what was deleted drop them.
func (p *purging) overwriteStores(ctx context.Context) error {
	if scrubber, ok := core.FindBelow[records.Scrubber](p.Records); ok {
		if err := scrubber.Scrub(ctx); err != nil {
			return err
		}
	}
	if scrubber, ok := core.FindBelow[records.Scrubber](p.Coordination); ok {
		if err := scrubber.Scrub(ctx); err != nil {
			return err
		}
	}
	return nil
}
