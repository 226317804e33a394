package upkeep

import (
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// sentFilesOf returns the keys of the files that a configuration names by their sums.
func sentFilesOf(index artifact.Index, spec core.Spec) (keys []string) {
	if sum, sent := strings.CutPrefix(spec.Gate.Probes, core.SentFile); sent {
		keys = append(keys, index.ProbesKey(sum))
	}
	if sum, sent := strings.CutPrefix(spec.Aliases, core.SentFile); sent {
		keys = append(keys, index.AliasesKey(sum))
	}
	return keys
}

// purgeProbes deletes stored probe files that expect a document. It returns what the purge waits for: nights are judged
// by such a file until a schedule without it is applied. Other configurations do not keep it, as a gate holds every run
// that is judged by it.
func (p *purging) purgeProbes(ctx context.Context, documents purges.Set) (left []string, err error) {
	keys, err := purges.ListProbeFiles(ctx, p.index, documents)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	kept, err := run.ReadSchedule(ctx, p.index)
	if err != nil && !artifact.IsDamage(err) {
		return nil, err
	}
	scheduled := sentFilesOf(p.index, kept.Spec)
	gone := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return slices.Contains(scheduled, key) })
	if len(gone) < len(keys) {
		left = append(left, "the schedule judges nights by probe questions that expect it: take it out of the file of "+
			"indexes."+p.index.Name+".gate.probes, then run: unweaver schedule apply "+p.index.Name)
	}
	return left, p.deleteGuarded(ctx, gone)
}
