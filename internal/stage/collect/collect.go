// Package collect deletes what no generation names any more. A generation goes in two steps. Once no rule keeps it, it
// is marked as collected, so that no reader opens it any more. When the mark is a grace period old and no reader holds
// the generation, it is deleted. Steps of a run:
//
//  1. Read the manifests of all generations: which are kept, and which were marked long enough ago.
//  2. Delete the scratch files of this run and of earlier ones.
//  3. For each generation to delete: delete the class records and vector rows that no remaining generation lists, then
//     its folder. Which ones these are is computed from segments, never by asking a store.
//  4. Delete old reports of runs that made no generation.
//  5. Mark segments and collections that no manifest names, and delete them a grace period later. Those of a deleted
//     generation have waited with it.
//  6. Delete copies for bulk import that finished runs left in the bucket that the vector store reads.
//
// Every step may be repeated, and may end after any write or delete: the next run goes on from there. Before every
// batch of deletes the caller's Guard, the pointer and the readers' leases are checked again.
package collect

import (
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Readers says which generations are in use.
type Readers interface {
	ListLeased(ctx context.Context, index string) (map[string]bool, error)
}

// OpenTable opens what counts in a generation. It is released once it is not needed any more.
type OpenTable func(ctx context.Context, manifest *core.Manifest) (*segments.Table, error)

// In is what the stage works on; the caller holds the lease of the index.
type In struct {
	Artifacts   artifact.Index
	Keep        int           // published generations that stay
	Grace       time.Duration // how long what nothing names stays
	Fence       int64         // of the caller's lease: scratch of it and of older ones goes
	Readers     Readers
	Records     records.Store
	Vectors     vectors.Store
	Collections string // what the names of the index's collections start with
	OpenTable   OpenTable
	Staging     blob.Store // the bucket that the vector store reads; nil: nothing is imported, and nothing asked
	Copies      string     // of this installation: what comes before a key of scratch in the key of its copy
	// Guard fails when the caller does not hold the lease any more, so that another build may use what would be
	// deleted; nil never fails.
	Guard func(ctx context.Context) error
	// Purged, where it is set, reports a generation that it holds what has to leave the index: no rule keeps it but that
	// it is served. It goes as soon as no reader has it open, and what no manifest names goes at once.
	Purged     func(generation string) bool
	Permit     time.Duration    // for how long a look by Guard lets things be deleted; zero: the usual time
	Now        time.Time        // of this machine; see artifact.Clock
	OnProgress func(done int64) // things deleted
}

// Result counts.
type Result struct {
	Generations int64    `json:"generations"`       // deleted
	Deleted     int64    `json:"deleted"`           // segments and collections
	Condemned   int64    `json:"condemned"`         // segments and collections that wait
	Records     int64    `json:"records"`           // class records deleted
	Rows        int64    `json:"rows"`              // vector rows deleted
	Copies      int64    `json:"copies"`            // for bulk import, deleted
	Purged      int64    `json:"purged,omitempty"`  // generations that are still to go, as readers have them open
	Damaged     []string `json:"damaged,omitempty"` // generations

	// Problems are what of them cannot be read, with the key of each object, and copies that cannot be deleted.
	Problems []core.Problem `json:"problems,omitempty"`
}

// collector is one run of the stage.
type collector struct {
	In
	res     Result
	done    int64
	current core.Pointer
	gens    map[string]*generation
	blind   bool             // what some generation that stays needs is unknown: nothing that one might name is deleted
	waited  map[string]since // what went with its generation, which has waited
	others  []*generation    // of indexes that share the segments of this one: they stay, whatever keeps them there
	base    string           // what records are named after
	empty   []artifact.Index // branches that were deleted and have no generation any more
}

// generation is one that has a reference, even if that cannot be read.
type generation struct {
	name     string
	index    artifact.Index     // whose it is: the caller's, or that of a branch which was deleted
	ref      core.GenerationRef // zero: damaged
	manifest *core.Manifest     // nil: damaged
	kept     bool               // by a rule
	leased   bool
	purged   bool      // it goes whatever would keep it
	marked   time.Time // zero: not
	reported bool      // its mark says that it is purged
}

// Run does the stage. A generation that is damaged is named in the result, and as long as it is kept nothing is deleted
// that it might need. One whose reference cannot be read, so that no rule can tell of it, is not kept: it goes as
// others do, after a grace in which the reference may be put back, and until then nothing is deleted that it might
// need. A damaged current generation is an error.
func Run(ctx context.Context, in In) (Result, error) {
	if in.Guard == nil {
		in.Guard = func(context.Context) error { return nil }
	}
	c := &collector{In: in, waited: map[string]since{}}
	clock, err := artifact.ReadClock(ctx, in.Artifacts.Store, clockKey(in.Artifacts), in.Now, leastStep(in.Grace))
	if err != nil {
		return c.res, err
	}
	c.Now = clock.At
	if err := c.readState(ctx); err != nil {
		return c.res, err
	}
	if err := c.deleteScratch(ctx); err != nil {
		return c.res, err
	}
	due, err := c.markGenerations(ctx)
	if err != nil {
		return c.res, err
	}
	for _, gen := range due {
		if err := c.removeGeneration(ctx, gen); err != nil {
			return c.res, err
		}
	}
	for _, gen := range c.gens {
		if gen.purged {
			c.res.Purged++
		}
	}
	if err := c.deleteReports(ctx); err != nil {
		return c.res, err
	}
	if err := c.cleanBranches(ctx); err != nil {
		return c.res, err
	}
	if !c.blind {
		if err := c.collectSegments(ctx); err != nil {
			return c.res, err
		}
	}
	if err := clock.Save(ctx, in.Artifacts.Store, clockKey(in.Artifacts)); err != nil {
		return c.res, err
	}
	return c.res, c.deleteCopies(ctx)
}

// leastStep returns what a clock may always go on by between two runs: half a grace, or the grace up to a day.
func leastStep(grace time.Duration) time.Duration { return max(grace/2, min(grace, 24*time.Hour)) }

// clockKey returns the key of the time of the last run. What waits grows old by it.
func clockKey(index artifact.Index) string { return index.Name + "/clock.json" }

// readState reads the pointer, the references and the manifests.
func (c *collector) readState(ctx context.Context) error {
	var err error
	if c.current, _, err = c.Artifacts.ReadPointer(ctx); err != nil {
		return err
	}
	refs, damaged, err := c.Artifacts.ReadableRefs(ctx)
	if err != nil {
		return err
	}
	artifact.LayPointer(refs, c.current)
	leased, err := c.Readers.ListLeased(ctx, c.Artifacts.Name)
	if err != nil {
		return err
	}
	tags, err := c.Artifacts.Tags(ctx)
	if err != nil {
		return err
	}
	kept := keptGenerations(refs, c.current, c.Keep)
	for name := range tags {
		kept[name] = true
	}
	c.gens = map[string]*generation{}
	for name, ref := range refs {
		gen := &generation{name: name, index: c.Artifacts, ref: ref, kept: kept[name], leased: leased[name]}
		gen.manifest, err = c.Artifacts.Manifest(ctx, ref.Manifest)
		if err != nil && (name == c.current.Generation || !artifact.IsDamage(err)) {
			return err
		}
		if err != nil {
			c.noteDamage(name, c.Artifacts.SegmentKey(ref.Manifest), err)
			c.blind = c.blind || gen.kept || gen.leased
		}
		c.gens[name] = gen
	}
	for _, name := range damaged {
		if name == c.current.Generation { // the pointer says what its reference would
			continue
		}
		_, err := c.Artifacts.GenerationRef(ctx, name) // says what is wrong with it
		if err != nil && !artifact.IsDamage(err) {
			return err
		}
		c.noteDamage(name, c.Artifacts.GenerationKey(name, "manifest.json"), err)
		c.blind = true
		c.gens[name] = &generation{name: name, index: c.Artifacts, leased: leased[name]}
	}
	if err := c.readFamily(ctx); err != nil {
		return err
	}
	for _, gen := range c.gens {
		found, err := c.markOf(ctx, gen)
		if err != nil {
			return err
		}
		gen.marked, gen.reported = found.At, found.Purged
	}
	slices.Sort(c.res.Damaged)
	c.keepParent()
	for name, gen := range c.gens {
		// What a branch that was deleted leaves has no owner, and shares the documents of its base.
		deleted := gen.index.Name != c.Artifacts.Name
		if c.Purged != nil && name != c.current.Generation && (deleted || c.Purged(name)) {
			gen.kept, gen.purged = false, true
		}
	}
	return nil
}

// noteDamage notes the object that keeps a generation from being read.
func (c *collector) noteDamage(gen, key string, cause error) {
	if !slices.Contains(c.res.Damaged, gen) {
		c.res.Damaged = append(c.res.Damaged, gen)
	}
	problem := core.Problem{Code: string(fault.SegmentDamage), Object: key}
	if cause != nil {
		problem.Detail = cause.Error()
	}
	if !slices.Contains(c.res.Problems, problem) {
		c.res.Problems = append(c.res.Problems, problem)
	}
}

// keepParent keeps what the current generation was made from.
func (c *collector) keepParent() {
	current := c.gens[c.current.Generation]
	if current == nil || current.manifest.Parent == "" {
		return
	}
	for _, gen := range c.gens {
		gen.kept = gen.kept || gen.index.Name == c.Artifacts.Name && gen.ref.Manifest == current.manifest.Parent
	}
	if current.manifest.Index == c.Artifacts.Name {
		return
	}
	var before *generation // of one that was promoted the parent is the branch's, and a rollback goes back to what was
	for _, gen := range c.gens {
		own := gen != current && gen.index.Name == c.Artifacts.Name && gen.ref.State == core.GenerationPublished
		if own && gen.ref.Seq < c.current.Seq && (before == nil || gen.ref.Seq > before.ref.Seq) {
			before = gen
		}
	}
	if before != nil {
		before.kept = true
	}
}

// keptGenerations returns the generations to keep: the newest keep published of nights, and as many of builds that
// followed hints, the current one, and held ones newer than it.
func keptGenerations(refs map[string]core.GenerationRef, current core.Pointer, keep int) map[string]bool {
	kept := map[string]bool{current.Generation: true}
	var published []string
	for name, ref := range refs {
		if ref.State == "held" && ref.Seq > current.Seq {
			kept[name] = true
		}
		if ref.State == "published" {
			published = append(published, name)
		}
	}
	slices.SortFunc(published, func(a, b string) int { return int(refs[b].Seq - refs[a].Seq) })
	left := map[bool]int{false: max(1, keep), true: max(1, keep)} // builds of hints push no night out, nor nights them
	for _, name := range published {
		hinted := core.IsHinted(name)
		kept[name] = kept[name] || left[hinted] > 0
		left[hinted]--
	}
	return kept
}

// graceOf returns how long a generation stays once no rule keeps it: one of hints not long, as there are many in a day.
func (c *collector) graceOf(gen *generation) time.Duration {
	if core.IsHinted(gen.name) {
		return min(c.Grace, hintedStays)
	}
	return c.Grace
}

// mark is generations/<gen>/collected.
type mark struct {
	At     time.Time `json:"at"`
	Purged bool      `json:"purged,omitempty"` // readers close it, too
}

// MarkKey returns the object that says that a generation is collected: readers refuse it from then on.
func MarkKey(index artifact.Index, gen string) string { return index.CollectedKey(gen) }

func (c *collector) markOf(ctx context.Context, gen *generation) (mark, error) {
	var m mark
	_, err := blob.ReadJSON(ctx, c.Artifacts.Store, MarkKey(gen.index, gen.name), &m)
	if err != nil && artifact.IsDamage(err) { // a mark that cannot be read is made again
		return mark{}, nil
	}
	return m, err
}

// markGenerations marks what no rule keeps, takes marks off what one keeps again, and gives what may go, the oldest
// first.
func (c *collector) markGenerations(ctx context.Context) ([]*generation, error) {
	var due []*generation
	for _, gen := range c.gens {
		key := MarkKey(gen.index, gen.name)
		switch {
		case gen.kept && !gen.marked.IsZero():
			if err := c.newPermit(nil).eraseKeys(ctx, c.Artifacts.Store, []string{key}); err != nil {
				return nil, err
			}
		case gen.kept:
		case gen.marked.IsZero() || gen.marked.After(c.Now), // a mark from the future is of a clock that was wrong
			gen.purged && !gen.reported:
			if err := c.confirmDelete(ctx, nil); err != nil { // a reader refuses what is marked
				return nil, err
			}
			if _, err := blob.WriteJSON(ctx, c.Artifacts.Store, key, mark{c.Now.UTC(), gen.purged}, blob.Cond{}); err != nil {
				return nil, err
			}
		case !gen.leased && (gen.purged || c.Now.Sub(gen.marked) >= c.graceOf(gen)):
			due = append(due, gen)
		}
	}
	slices.SortFunc(due, func(a, b *generation) int { return int(a.ref.Seq - b.ref.Seq) })
	return due, nil
}

// confirmDelete runs before every batch of deletes: what was decided may have been overtaken.
func (c *collector) confirmDelete(ctx context.Context, gen *generation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	looks := []func(context.Context) error{c.Guard, c.askPointer}
	if gen != nil {
		looks = append(looks, func(ctx context.Context) error { return c.askReaders(ctx, gen) })
	}
	return parallel.RunTogether(ctx, looks...)
}

func (c *collector) askPointer(ctx context.Context) error {
	current, _, err := c.Artifacts.ReadPointer(ctx)
	if err == nil && current != c.current {
		err = overtakenFault(c.Artifacts.Name, "another generation was published in the meantime")
	}
	return err
}

func (c *collector) askReaders(ctx context.Context, gen *generation) error {
	leased, err := c.Readers.ListLeased(ctx, gen.index.Name)
	if err == nil && leased[gen.name] {
		err = overtakenFault(gen.name, "a reader opened it in the meantime")
	}
	return err
}

// newPermit lets things be deleted for the sake of a generation that goes; nil: of none.
func (c *collector) newPermit(gen *generation) Permit {
	return Permit{Look: func(ctx context.Context) error { return c.confirmDelete(ctx, gen) }, Lasts: c.Permit}
}

func overtakenFault(object, why string) error {
	return fault.GenBusy.At("collect", object).Because(why).Advise("nothing is lost: the next run continues")
}

func (c *collector) countDone(n int) {
	c.done += int64(n)
	if c.OnProgress != nil {
		c.OnProgress(c.done)
	}
}

// removeGeneration deletes a generation that is due.
func (c *collector) removeGeneration(ctx context.Context, gen *generation) error {
	if err := c.confirmDelete(ctx, gen); err != nil {
		return err
	}
	if gen.manifest != nil {
		if c.blind {
			return nil // what it shares with the damaged one is unknown
		}
		if err := c.sweepKeys(ctx, gen); err != nil {
			return err
		}
		if c.blind { // the tables of one that stays are damaged
			return nil
		}
		for _, name := range entriesOf(gen.manifest, gen.ref.Manifest) {
			c.waited[name] = since{gen.marked.Add(c.graceOf(gen) - c.Grace)}
		}
	}
	if err := c.removeFolder(ctx, gen); err != nil {
		return err
	}
	delete(c.gens, c.keyOf(gen))
	c.res.Generations++
	return nil
}
