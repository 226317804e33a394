package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/stage/verify"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// RestoreFolder is the scratch folder of a restore, which has no fence.
const RestoreFolder = "restore"

// Part is one segment of a kept generation to check against the stores, or to read back.
type Part struct {
	Manifest string      `json:"manifest"`
	Unit     verify.Unit `json:"unit"`
	Kind     string      `json:"kind,omitempty"`   // of the segment, as people know it
	Search   bool        `json:"search,omitempty"` // made from others: read back, and made again where it is damaged
	Read     bool        `json:"read,omitempty"`   // no store holds what is in it: it is read back
}

// OpenRestore lists the parts of the kept generations, the current one first. A pointer that is lost is written again.
func (r *Run) OpenRestore(ctx context.Context) (int, error) {
	if err := r.mendPointer(ctx); err != nil {
		return 0, err
	}
	parts, err := r.parts(ctx)
	if err != nil {
		return 0, err
	}
	return len(parts), repairFile.Write(ctx, r.Scratch, parts)
}

// mendPointer writes current.json again where it is missing or damaged, by what the references say was published last.
// Its epoch is above any that the mirror tells of.
func (r *Run) mendPointer(ctx context.Context) error {
	current, _, err := r.Index.Current(ctx)
	cond, damage := blob.Cond{Absent: true}, error(nil)
	if err == nil && current.Manifest != "" {
		manifest, unread := r.Index.Manifest(ctx, current.Manifest)
		if unread == nil { // of a manifest that cannot be read, others tell
			err = r.Index.Agree(current, manifest)
		} else if !artifact.IsDamage(unread) {
			return unread
		}
	}
	if fault.Is(err, fault.SegmentDamage) {
		info, statErr := r.Artifacts.Stat(ctx, r.Index.CurrentKey())
		cond, damage, err = blob.Cond{Match: info.ETag}, err, statErr
	}
	if err != nil || current.Manifest != "" && damage == nil {
		return err
	}
	pointer, err := r.lastPublished(ctx, "")
	if err != nil || pointer.Manifest == "" && damage == nil {
		return err
	}
	if pointer.Manifest == "" {
		return fault.SegmentDamage.At("write again", r.Artifacts.Location(r.Index.CurrentKey())).
			Because("it is damaged, and no published generation of the index can be read").
			Advise("put the file back from a backup; or remove it, then " + r.Index.Rebuild())
	}
	var mirrored core.Pointer
	raw, err := r.Coordination.Mirrored(ctx, r.Job.Index)
	if err != nil {
		return err
	}
	if json.Unmarshal(raw, &mirrored) != nil { // nothing, or nothing that counts
		mirrored = core.Pointer{}
	}
	pointer.Epoch = max(mirrored.Epoch, pointer.Seq) + 1
	r.Log.Warn("current.json is written again", "run_id", r.Name(), "generation", pointer.Generation)
	_, err = blob.WriteJSON(ctx, r.Artifacts, r.Index.CurrentKey(), pointer, cond)
	return err
}

// parts lists them. Of records and rows only those count that are live in their generation, so they are listed for each.
// A generation that cannot be read is left out, unless it is the current one.
func (r *Run) parts(ctx context.Context) ([]Part, error) {
	current, _, err := r.Index.Current(ctx)
	if err != nil {
		return nil, err
	}
	refs, damaged, err := r.Index.ReadableRefs(ctx)
	if err != nil {
		return nil, err
	}
	for _, generation := range damaged {
		if generation != current.Generation { // the pointer tells what its reference would
			r.leftOut(generation)
		}
	}
	artifact.Lay(refs, current)
	if len(refs) == 0 {
		return nil, fault.UnknownIndex.At("restore", r.Job.Index).
			Because("no generation of it was ever built").
			Advise("build it with: unweaver index")
	}
	order := slices.Collect(maps.Keys(refs))
	sort.Slice(order, func(i, j int) bool {
		if (order[i] == current.Generation) != (order[j] == current.Generation) {
			return order[i] == current.Generation
		}
		return refs[order[i]].Seq > refs[order[j]].Seq
	})
	var parts []Part
	seen := map[string]bool{}
	for _, generation := range order {
		sha := refs[generation].Manifest
		manifest, err := r.Index.Manifest(ctx, sha)
		switch {
		case err == nil:
		case generation == current.Generation && !r.Rebuild || !artifact.IsDamage(err): // a rebuild replaces it
			return nil, err
		default:
			r.leftOut(generation)
			continue
		}
		if generation == current.Generation {
			if err := r.remember(ctx, manifest); err != nil {
				return nil, err
			}
		}
		parts = append(parts, partsOf(sha, manifest, generation == current.Generation, seen)...)
	}
	return parts, nil
}

func (r *Run) leftOut(generation string) {
	r.Log.Warn("generation left out: it cannot be read", "run_id", r.Name(), "generation", generation)
}

// partsOf lists those of one generation. seen are the segments whose records are listed already.
func partsOf(sha string, manifest *core.Manifest, current bool, seen map[string]bool) []Part {
	var parts []Part
	stored := map[string]bool{}
	for _, unit := range verify.Units(manifest) {
		stored[unit.Segment.SHA256] = true
	}
	kinds := map[string]string{}
	for _, segment := range segmentsOf(manifest) {
		kinds[segment.SHA256] = segment.kind
		unit := verify.Unit{Segment: segment.Segment}
		switch {
		case remade[segment.kind] && !seen[segment.SHA256]:
			seen[segment.SHA256] = true
			parts = append(parts, Part{Manifest: sha, Unit: unit, Kind: segment.kind, Search: true})
		case current && !stored[segment.SHA256] && !remade[segment.kind]:
			parts = append(parts, Part{Manifest: sha, Unit: unit, Kind: segment.kind, Read: true})
		}
	}
	for _, unit := range verify.Units(manifest) {
		parts = append(parts, Part{Manifest: sha, Unit: unit, Kind: kinds[unit.Segment.SHA256]})
	}
	return parts
}

// RestorePart checks one segment's rows and rewrites what is missing. No model is called. What is damaged and cannot be
// made from the rest is written down for SealRestore, and everything else is restored; a build makes it again.
func (r *Run) RestorePart(ctx context.Context, number int) (core.Progress, error) {
	progress := core.Progress{Done: 1}
	parts, err := repairFile.Read(ctx, r.Scratch)
	if err != nil {
		return progress, err
	}
	part := parts[number]
	progress.Bytes = part.Unit.Segment.Bytes
	err = r.restorePart(ctx, part, &progress)
	if artifact.IsDamage(err) {
		err = r.lost(ctx, number, part, err)
	}
	if err == nil {
		r.Progress.Finish(progress)
	}
	return progress, err
}

// lost decides what a part that cannot be read means.
func (r *Run) lost(ctx context.Context, number int, part Part, cause error) error {
	current, _, err := r.Index.Current(ctx)
	if err != nil {
		return err
	}
	if current.Manifest != part.Manifest || r.Rebuild { // what was collected meanwhile, or is made again, is not missed
		r.Log.Warn("part left out", "run_id", r.Name(), "kind", part.Kind, "code", string(fault.CodeOf(cause)))
		return nil
	}
	if r.Spec != "" { // a build that repairs
		return r.reusedDamage(cause)
	}
	found := Damage{Kind: part.Kind, Object: part.Unit.Segment.SHA256, Why: cause.Error()}
	return damageFile(number).Write(ctx, r.Scratch, found)
}

// SealRestore ends a restore that left nothing out; else it fails with everything that is damaged. What could be
// restored is served all the same.
func (r *Run) SealRestore(ctx context.Context) error {
	parts, err := repairFile.Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	damage := make([]*Damage, len(parts))
	err = parallel.Each(ctx, len(parts), checkWidth, func(ctx context.Context, number int) error {
		found, there, err := damageFile(number).Find(ctx, r.Scratch)
		if there {
			damage[number] = &found
		}
		r.Progress.Touch()
		return err
	})
	if err != nil {
		return err
	}
	var told []string
	for _, found := range damage {
		if found != nil {
			told = append(told, fmt.Sprintf("%s (%s): %s", found.short(), found.Kind, found.Why))
		}
	}
	if len(told) == 0 {
		return nil
	}
	if err := r.served(ctx); err != nil {
		return err
	}
	return fault.SegmentDamage.At("restore", r.Job.Index).
		Because(fmt.Sprintf("%d of its segments are lost, all else is restored: %s", len(told), strings.Join(told, "; "))).
		Advise(r.Index.Rebuild())
}

func (r *Run) restorePart(ctx context.Context, part Part, progress *core.Progress) error {
	manifest, err := r.Index.Manifest(ctx, part.Manifest)
	if err != nil {
		return err
	}
	segment := part.Unit.Segment
	switch {
	case part.Search:
		fresh, err := r.restoreMade(ctx, manifest, part.Kind, segment)
		if fresh {
			progress.Written.Segments = 1
		}
		return err
	case part.Read:
		intact, err := r.Index.Intact(ctx, segment.SHA256, r.Progress.Touch)
		if err == nil && !intact {
			err = fault.SegmentDamage.At("read", r.Artifacts.Location(r.Index.SegmentKey(segment.SHA256))).
				Because("it is missing, or its content differs from its name")
		}
		return err
	}
	found, err := r.checkLive(ctx, manifest, part.Unit)
	if part.Unit.Kind == verify.Records {
		progress.Written.Records = found.Rewritten
	} else {
		progress.Written.Rows = found.Rewritten
	}
	return err
}

// restoreMade reads a segment back that is made from others, and makes it again where it is damaged.
func (r *Run) restoreMade(
	ctx context.Context, manifest *core.Manifest, kind string, segment core.Segment,
) (bool, error) {
	intact, err := r.Index.Intact(ctx, segment.SHA256, r.Progress.Touch)
	if err != nil || intact {
		return false, err
	}
	r.Cache.Drop(segment.SHA256) // what the store holds counts, not a copy of it
	settings, err := r.Index.Spec(ctx, manifest.Spec)
	if err != nil {
		return false, err
	}
	r.Index.Doubt = true
	again, fresh, err := r.remake(ctx, manifest, kind, segment.SHA256, settings)
	if err == nil && again.SHA256 != segment.SHA256 {
		err = fault.SegmentDamage.At("make "+kind+" segment of", manifest.Generation).
			Because("it comes out with other content: this program's rules of words are newer").
			Advise(r.Index.Rebuild())
	}
	return fresh, err
}

// Restored loads the collections of the current generation, renews the mirror and records which stores it was proven
// in.
func (r *Run) Restored(ctx context.Context) error {
	err := r.served(ctx)
	if r.Rebuild && artifact.IsDamage(err) { // nothing is served; what replaces it is proven when it is published
		return nil
	}
	if err != nil {
		return err
	}
	current, _, err := r.Index.Current(ctx)
	if err != nil || current.Manifest == "" {
		return err
	}
	return r.proven(ctx, current.Manifest)
}

// served loads the collections of the current generation and renews the mirror.
func (r *Run) served(ctx context.Context) error {
	current, _, err := r.Index.Current(ctx)
	if err != nil || current.Manifest == "" {
		return err
	}
	manifest, err := r.Index.Manifest(ctx, current.Manifest)
	if err != nil {
		return err
	}
	if err := r.Vectors.Load(ctx, manifest.Collections.Classes); err != nil {
		return err
	}
	if err := r.Vectors.Load(ctx, manifest.Collections.Chunks); err != nil {
		return err
	}
	return publish.Mirror(ctx, r.Index, r.Coordination, current)
}
