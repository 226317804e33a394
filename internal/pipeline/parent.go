package pipeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Checks says how much of the generation before a night reads, to see whether it is as it was written. That each of its
// segments is there, and how long, is looked at every night. Zero values stand for the defaults.
type Checks struct {
	Nights int              // every segment is read once in so many nights; default 7
	Bytes  int64            // at least so much is read in a night, where there is as much; default 256 MiB
	Now    func() time.Time // default time.Now
}

const (
	checkNights = 7
	checkBytes  = 256 << 20
	checkWidth  = 4 // segments that are read at once
)

// Damage is a stored object that is not as it was written.
type Damage struct {
	Kind   string `json:"kind"`
	Object string `json:"object"` // sha256 of a segment, else a key
	Why    string `json:"why"`    // missing, cut, damaged
}

// short names the object in a sentence.
func (d Damage) short() string {
	if len(d.Object) == 2*len(core.Digest{}) {
		return "segment " + d.Object[:12]
	}
	return d.Object
}

func (d Damage) reason() string {
	return fmt.Sprintf("%s (%s) of the generation before is %s: everything is made again", d.short(), d.Kind, d.Why)
}

// problem is the damage as a report tells it.
func (d Damage) problem() core.Problem {
	return core.Problem{Code: string(fault.ParentDamaged), Object: d.Object, Detail: d.reason()}
}

// reasonsOf gives a sentence for each damage; of many, for the first.
func reasonsOf(damage []Damage) []string {
	const told = 10
	var reasons []string
	for _, found := range damage[:min(told, len(damage))] {
		reasons = append(reasons, found.reason())
	}
	if len(damage) > told {
		reasons = append(reasons, fmt.Sprintf("and %d more of its segments are missing or damaged", len(damage)-told))
	}
	return reasons
}

// named is a segment with what it is.
type named struct {
	kind string
	core.Segment
}

// segmentsOf lists what a manifest names, each segment once.
func segmentsOf(manifest *core.Manifest) []named {
	var out []named
	seen := map[string]bool{}
	for _, kind := range manifest.Segments.Kinds() {
		for _, segment := range kind.Segments {
			if !seen[segment.SHA256] {
				seen[segment.SHA256] = true
				out = append(out, named{kind.Name, segment})
			}
		}
	}
	return out
}

// checkParent tells what of the generation before is missing or damaged: everything by its size, a share of it by its
// content.
func (r *Run) checkParent(ctx context.Context, parent *core.Manifest) ([]Damage, error) {
	sizes, err := r.stored(ctx)
	if err != nil {
		return nil, err
	}
	var damage []Damage
	var there []named
	for _, segment := range segmentsOf(parent) {
		size, found := sizes[segment.SHA256]
		switch {
		case !found:
			damage = append(damage, Damage{segment.kind, segment.SHA256, "missing"})
		case size != segment.Bytes:
			damage = append(damage, Damage{segment.kind, segment.SHA256, "cut"})
		default:
			there = append(there, segment)
		}
	}
	read, err := r.read(ctx, r.Checks.due(there))
	if err != nil {
		return nil, err
	}
	damage = append(damage, read...)
	_, err = r.Index.Spec(ctx, parent.Spec)
	if artifact.IsDamage(err) {
		damage = append(damage, Damage{"configuration", r.Index.SpecKey(parent.Spec), "missing or damaged"})
		err = nil
	}
	for _, found := range damage {
		r.Log.Warn("generation before is damaged", "run_id", r.Name(), "kind", found.Kind, "object", found.Object,
			"why", found.Why)
	}
	return damage, err
}

// stored lists the index's segments with their sizes.
func (r *Run) stored(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	prefix := r.Index.SegmentKey("") + "/"
	for info, err := range r.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		sizes[strings.TrimPrefix(info.Key, prefix)] = info.Size
		if len(sizes)%1000 == 0 {
			r.Progress.Touch()
		}
	}
	return sizes, nil
}

// due chooses what is read tonight: what plan reads anyway or everything depends on, the segments whose turn it is by
// their hash, and the next ones until it is enough.
func (c Checks) due(segments []named) []named {
	nights, least, now := c.Nights, c.Bytes, time.Now
	if nights <= 0 {
		nights = checkNights
	}
	if least <= 0 {
		least = checkBytes
	}
	if c.Now != nil {
		now = c.Now
	}
	const day = 24 * 60 * 60
	night := uint64(now().Unix() / day)
	// wait is in how many nights it is a segment's turn.
	wait := func(segment named) uint64 {
		if segment.kind == "documents" || segment.kind == "idf" || segment.kind == "tomb" {
			return 0
		}
		raw, err := hex.DecodeString(segment.SHA256)
		if err != nil || len(raw) < 8 {
			return 0
		}
		turn := binary.BigEndian.Uint64(raw) % uint64(nights)
		return (turn + uint64(nights) - night%uint64(nights)) % uint64(nights)
	}
	ordered := slices.Clone(segments)
	slices.SortStableFunc(ordered, func(a, b named) int { return cmp.Compare(wait(a), wait(b)) })
	total := int64(0)
	for place, segment := range ordered {
		if wait(segment) > 0 && total >= least {
			return ordered[:place]
		}
		total += segment.Bytes
	}
	return ordered
}

// read compares the content of segments with their names.
func (r *Run) read(ctx context.Context, segments []named) ([]Damage, error) {
	var mu sync.Mutex
	var damage []Damage
	err := parallel.Each(ctx, len(segments), checkWidth, func(ctx context.Context, i int) error {
		intact, err := r.Index.Intact(ctx, segments[i].SHA256, r.Progress.Touch)
		if err != nil || intact {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		damage = append(damage, Damage{segments[i].kind, segments[i].SHA256, "damaged"})
		return nil
	})
	slices.SortFunc(damage, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object))
	})
	return damage, err
}

// readable is the parent with those of its documents that can be compared with.
func readable(parent *core.Manifest, damage []Damage) *core.Manifest {
	if parent == nil || len(damage) == 0 {
		return parent
	}
	clone := *parent
	lost := func(s core.Segment) bool {
		return slices.ContainsFunc(damage, func(found Damage) bool { return found.Object == s.SHA256 })
	}
	broken := map[string]bool{} // bitmaps
	for _, one := range parent.Segments.Tombs {
		broken[one.Of] = lost(one.Segment)
	}
	clone.Segments.Splits = slices.DeleteFunc(slices.Clone(parent.Segments.Splits), func(one core.Split) bool {
		parts, err := stored.Parts(parent.Segments.Documents, "documents", one.Text, one.Texts)
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

// sound is the parent without a table of word weights that is damaged: another one is learned.
func sound(parent *core.Manifest, damage []Damage) *core.Manifest {
	if parent == nil || !slices.ContainsFunc(damage, func(found Damage) bool { return found.Kind == "idf" }) {
		return parent
	}
	clone := *parent
	clone.Segments.IDF = nil
	return &clone
}

// mendReference writes the reference of the current generation again where it is lost: the pointer tells what it held.
func (r *Run) mendReference(ctx context.Context, current core.Pointer) error {
	ref, err := r.Index.GenerationRef(ctx, current.Generation)
	if err == nil && ref.Manifest == current.Manifest {
		return nil
	}
	if err != nil && !artifact.IsDamage(err) {
		return err
	}
	r.Log.Warn("reference of the current generation is written again", "run_id", r.Name(), "generation",
		current.Generation)
	ref = core.GenerationRef{Manifest: current.Manifest, Seq: current.Seq, State: "published"}
	key := r.Index.GenerationKey(current.Generation, "manifest.json")
	_, err = blob.WriteJSON(ctx, r.Artifacts, key, ref, blob.Cond{})
	return err
}

// lastPublished is what the references say was published last and can be read; zero where there is none. but is a
// manifest that is known to be lost.
func (r *Run) lastPublished(ctx context.Context, but string) (core.Pointer, error) {
	refs, _, err := r.Index.ReadableRefs(ctx)
	if err != nil {
		return core.Pointer{}, err
	}
	var found []core.Pointer
	for name, ref := range refs {
		if ref.State == "published" && ref.Manifest != but {
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

// reusedDamage gives an error about a segment that an earlier build wrote the code that has everything made again. A
// run that makes everything again has read back whatever it found there, so that for it the error stays what it is.
func (r *Run) reusedDamage(err error) error {
	if r.Rebuild || !artifact.IsDamage(err) {
		return err
	}
	found := segmentKey.FindStringSubmatch(fault.As(err).Object)
	if found == nil {
		return err
	}
	return fault.ParentDamaged.At("re-use segment", found[1]).
		Because(err).
		Advise(r.Index.Rebuild())
}
