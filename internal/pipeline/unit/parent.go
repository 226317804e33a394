package unit

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// SegmentsOf lists what a manifest names, each segment once.
func SegmentsOf(manifest *core.Manifest) []run.Named {
	var out []run.Named
	seen := map[string]bool{}
	for _, kind := range manifest.Segments.Kinds() {
		for _, segment := range kind.Segments {
			if !seen[segment.SHA256] {
				seen[segment.SHA256] = true
				out = append(out, run.Named{Kind: kind.Name, Segment: segment})
			}
		}
	}
	return out
}

// checkParent says what of the generation before is missing or damaged: everything by its size, a share of it by its
// content.
func (r *Run) checkParent(ctx context.Context, parent *core.Manifest) ([]run.Damage, error) {
	sizes, err := StoredSizes(ctx, r.Index, r.Progress.Touch)
	if err != nil {
		return nil, err
	}
	var damage []run.Damage
	var there []run.Named
	for _, segment := range SegmentsOf(parent) {
		if why := sizes.FindDamage(segment.Segment); why != "" {
			damage = append(damage, run.Damage{Kind: segment.Kind, Object: segment.SHA256, Why: why})
			continue
		}
		there = append(there, segment)
	}
	if !core.IsHinted(r.Generation) { // what hints begin in a day would read the same content again and again
		read, err := r.CheckSegments(ctx, r.Checks.ChooseDue(there))
		if err != nil {
			return nil, err
		}
		damage = append(damage, read...)
	}
	_, err = r.Index.Spec(ctx, parent.Spec)
	if artifact.IsDamage(err) {
		damage = append(damage, run.Damage{
			Kind: "configuration", Object: r.Index.SpecKey(parent.Spec), Why: "missing or damaged",
		})
		err = nil
	}
	for _, found := range damage {
		r.Log.Warn("the parent generation is damaged", "run_id", r.Name(), "kind", found.Kind, "object", found.Object,
			"why", found.Why)
	}
	return damage, err
}

// Sizes are those of stored segments, by their sums.
type Sizes map[string]int64

// FindDamage says what the size of a segment shows; empty: nothing.
func (s Sizes) FindDamage(segment core.Segment) string {
	size, found := s[segment.SHA256]
	switch {
	case !found:
		return "missing"
	case size != segment.Bytes:
		return "cut"
	}
	return ""
}

// StoredSizes lists the segments of an index.
func StoredSizes(ctx context.Context, index artifact.Index, alive func()) (Sizes, error) {
	sizes := Sizes{}
	prefix := index.SegmentKey("") + "/"
	for info, err := range index.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		sizes[strings.TrimPrefix(info.Key, prefix)] = info.Size
		if len(sizes)%1000 == 0 {
			alive()
		}
	}
	return sizes, nil
}

// LostSegment describes the first segment of a manifest that the store lacks, or has with another size; empty: it has
// all of them.
func LostSegment(ctx context.Context, index artifact.Index, manifest *core.Manifest) (string, error) {
	sizes, err := StoredSizes(ctx, index, func() {})
	if err != nil {
		return "", err
	}
	for _, segment := range manifest.Segments.All() {
		if why := sizes.FindDamage(segment); why != "" {
			return "segment " + index.Store.Location(index.SegmentKey(segment.SHA256)) + ": it is " + why, nil
		}
	}
	return "", nil
}

// CheckSegments compares the content of segments with their names.
func (r *Run) CheckSegments(ctx context.Context, segments []run.Named) ([]run.Damage, error) {
	var mu sync.Mutex
	var damage []run.Damage
	err := parallel.Each(ctx, len(segments), run.CheckWidth, func(ctx context.Context, i int) error {
		intact, err := r.Index.IsIntact(ctx, segments[i].SHA256, r.Progress.Touch)
		if err != nil || intact {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		damage = append(damage, run.Damage{Kind: segments[i].Kind, Object: segments[i].SHA256, Why: "damaged"})
		return nil
	})
	slices.SortFunc(damage, func(a, b run.Damage) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return damage, err
}

// dropUnreadable returns the parent with those of its documents that can be compared with.
func dropUnreadable(parent *core.Manifest, damage []run.Damage) *core.Manifest {
	if parent == nil || len(damage) == 0 {
		return parent
	}
	clone := *parent
	lost := func(s core.Segment) bool {
		return slices.ContainsFunc(damage, func(found run.Damage) bool { return found.Object == s.SHA256 })
	}
	broken := map[string]bool{} // bitmaps
	for _, one := range parent.Segments.Tombs {
		broken[one.Of] = lost(one.Segment)
	}
	clone.Segments.Splits = slices.DeleteFunc(slices.Clone(parent.Segments.Splits), func(one core.Split) bool {
		parts, err := stored.SelectParts(parent.Segments.Documents, "documents", one.Text, one.Texts)
		return err != nil || broken[one.SHA256] || slices.ContainsFunc(parts, lost)
	})
	if len(parent.Segments.Splits) > 0 && len(clone.Segments.Splits) == 0 {
		return nil
	}
	clone.Segments.Tombs = slices.DeleteFunc(slices.Clone(parent.Segments.Tombs), func(one core.Tomb) bool {
		return lost(one.Segment) || !slices.ContainsFunc(clone.Segments.Splits, func(kept core.Split) bool {
			return kept.SHA256 == one.Of
		})
	})
	clone.Segments.DeadStats = nil // words are not compared
	clone.Segments.Documents = slices.DeleteFunc(slices.Clone(parent.Segments.Documents), lost)
	return &clone
}

// dropDamagedIDF returns the parent without a table of word weights that is damaged: another one is learned.
func dropDamagedIDF(parent *core.Manifest, damage []run.Damage) *core.Manifest {
	if parent == nil || !slices.ContainsFunc(damage, func(found run.Damage) bool { return found.Kind == "idf" }) {
		return parent
	}
	clone := *parent
	clone.Segments.IDF = nil
	return &clone
}

// mendReference writes the reference of the current generation again where it is lost: the pointer says what it held.
func (r *Run) mendReference(ctx context.Context, current core.Pointer) error {
	ref, err := r.Index.GenerationRef(ctx, current.Generation)
	if err == nil && ref.Manifest == current.Manifest {
		return nil
	}
	if err != nil && !artifact.IsDamage(err) {
		return err
	}
	r.Log.Warn("the reference of the current generation is restored", "run_id", r.Name(), "generation",
		current.Generation)
	ref = core.GenerationRef{Manifest: current.Manifest, Seq: current.Seq, State: "published"}
	key := r.Index.GenerationKey(current.Generation, "manifest.json")
	_, err = blob.WriteJSON(ctx, r.Artifacts, key, ref, blob.Cond{})
	return err
}

// LastPublished returns what the references say was published last and can be read; zero where there is none. skip
// leaves references out; may be nil.
func (r *Run) LastPublished(
	ctx context.Context, skip func(name string, ref core.GenerationRef) bool,
) (core.Pointer, error) {
	refs, _, err := r.Index.ReadableRefs(ctx)
	if err != nil {
		return core.Pointer{}, err
	}
	var found []core.Pointer
	for name, ref := range refs {
		if ref.State == "published" && (skip == nil || !skip(name, ref)) {
			found = append(found, core.Pointer{Generation: name, Manifest: ref.Manifest, Seq: ref.Seq})
		}
	}
	slices.SortFunc(found, func(a, b core.Pointer) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), strings.Compare(a.Generation, b.Generation))
	})
	for _, pointer := range found {
		_, err := r.Index.Manifest(ctx, pointer.Manifest)
		if err == nil || !artifact.IsDamage(err) {
			return pointer, err
		}
	}
	return core.Pointer{}, nil
}

// segmentKey finds the segment that an error is about.
var segmentKey = regexp.MustCompile(`(?:^|/)segments/([0-9a-f]{64})$`)

// ReusedDamage gives an error about a segment that an earlier build wrote the code that has everything made again. A
// run that makes everything again has read back whatever it found there, so that for it the error stays what it is.
func (r *Run) ReusedDamage(err error) error {
	if r.Rebuild || !artifact.IsDamage(err) {
		return err
	}
	found := segmentKey.FindStringSubmatch(fault.As(err).Object)
	if found == nil {
		return err
	}
	return fault.ParentDamaged.At("re-use segment", found[1]).
		Because(err).
		Advise(r.Index.AdviseRebuild())
}
