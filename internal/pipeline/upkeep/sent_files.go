package upkeep

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
)

// collectSentFiles deletes stored probe and alias files that no configuration in use names: that of this run, of a
// generation that is kept, or of the schedule. A file younger than the grace stays: the run that it was sent for may be
// about to begin. A configuration that cannot be read keeps all files.
func (r *Run) collectSentFiles(ctx context.Context) error {
	old, err := r.listOldFiles(ctx)
	if err != nil || len(old) == 0 {
		return err
	}
	used, err := r.listSentFiles(ctx)
	if artifact.IsDamage(err) {
		r.Log.Warn("probe and alias files not collected: a configuration cannot be read", "run_id", r.Name())
		return nil
	}
	if err != nil {
		return err
	}
	if old, err = r.listOldFiles(ctx); err != nil { // again: one that was sent meanwhile is young
		return err
	}
	return r.deleteSentFiles(ctx, slices.DeleteFunc(old, func(key string) bool { return used[key] }))
}

// listOldFiles returns the keys of stored probe and alias files that are older than the grace.
func (r *Run) listOldFiles(ctx context.Context) (old []string, err error) {
	for info, err := range r.Index.Store.List(ctx, r.Index.SentFiles(), "") {
		if err != nil {
			return nil, err
		}
		sent := strings.HasSuffix(info.Key, artifact.ProbesSuffix) || strings.HasSuffix(info.Key, artifact.AliasesSuffix)
		if sent && time.Since(info.Modified) > time.Duration(r.Settings.Grace) {
			old = append(old, info.Key)
		}
	}
	return old, nil
}

func (r *Run) deleteSentFiles(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if err := r.GuardLease(ctx); err != nil {
		return err
	}
	return artifact.DeleteAll(ctx, r.Index.Store, keys)
}

// listSentFiles returns the keys of the files that configurations in use name, also those of indexes that share the
// folder of this one: its base and branches.
func (r *Run) listSentFiles(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	add := func(spec core.Spec) {
		for _, key := range sentFilesOf(r.Index, spec) {
			used[key] = true
		}
	}
	add(r.Settings)
	family, _, err := r.Index.ListFamily(ctx)
	if err != nil {
		return nil, err
	}
	for _, member := range family {
		kept, err := run.ReadSchedule(ctx, member)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		add(kept.Spec)
	}
	named, err := r.Index.FamilyRefs(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[core.Digest]bool{}
	for _, refs := range named {
		for _, ref := range refs {
			manifest, err := r.Index.Manifest(ctx, ref.Manifest)
			if err != nil {
				return nil, err
			}
			if seen[manifest.Spec] {
				continue
			}
			seen[manifest.Spec] = true
			spec, err := r.Index.Spec(ctx, manifest.Spec)
			if err != nil {
				return nil, err
			}
			add(spec)
		}
	}
	return used, nil
}

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
	return left, p.deleteSentFiles(ctx, gone)
}
