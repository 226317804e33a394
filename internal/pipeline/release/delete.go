package release

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
)

// Deleting asks for an index to be deleted.
type Deleting struct {
	Index     string
	DryRun    bool // look, and delete nothing
	Operator  core.Operator
	StoreID   string
	Staging   blob.Store // where the vector store imports from; nil: it does not
	Standings run.Standings
	// Unschedule deletes the schedule of the index at the engine; an absent one is no error.
	Unschedule func(ctx context.Context) error
	// Forget is that of coordination.Runs.
	Forget func(ctx context.Context, index string) error
}

const (
	// deleteAtOnce is how many objects or records go under one look at the lease, and deletePermit how long that may take.
	deleteAtOnce = 500
	deletePermit = 10 * time.Second
	// readersEvery is how often leases of readers are looked for, and readersPatience for how long: they end 30 s after
	// a reader died.
	readersEvery    = 100 * time.Millisecond
	readersPatience = 40 * time.Second
)

// DeleteIndex deletes everything of an index, under its lease: no build begins until it is over. The schedule goes
// first, then the pointer and what names generations, so that queries find no index; once no reader has one open the
// rows go, then the files, and the lease last. What died between is finished by the same call: the lease says that the
// index is being deleted. Paid results stay: the ledger is shared by all indexes. The record of the operation stays
// outside of the index.
func (d *Desk) DeleteIndex(ctx context.Context, asked Deleting) (core.Deletion, error) {
	x := deletion{
		Desk: d, Deleting: asked, index: artifact.New(d.Artifacts, asked.Index),
		out: core.Deletion{Index: asked.Index, DryRun: asked.DryRun},
	}
	if err := x.checkIndex(ctx); err != nil || asked.DryRun {
		return x.out, err
	}
	// What finds the lease asks the engine for its run, which must look like one.
	x.holder.Run = uuid.NewString()
	x.holder.Workflow = "build/" + asked.Index + "/" + run.DeletionGeneration + d.getNow().UTC().Format("20060102t150405z")
	var err error
	if x.fence, err = run.TakeLease(ctx, x.index, x.holder, asked.Standings); err != nil {
		return x.out, err
	}
	if err := x.listBranches(ctx); err != nil { // one may have been made before the lease was taken
		return x.out, errors.Join(err, run.GiveLease(ctx, x.index, x.holder))
	}
	a := act{Desk: d, index: x.index, Request: Request{
		Action: core.ActionDelete, Index: asked.Index, Operator: asked.Operator,
	}}
	a.current.Generation = x.out.Serves
	move := a.newMove("")
	err = a.recordMove(ctx, &move, func() error { return x.deleteIndex(ctx) })
	x.out.Operation = move.Operation
	return x.out, err
}

// deletion is an index on its way out.
type deletion struct {
	*Desk
	Deleting
	index  artifact.Index
	holder run.Holder
	fence  int64
	epoch  int64
	out    core.Deletion
}

// checkIndex finds what there is, and refuses what other indexes depend on.
func (x *deletion) checkIndex(ctx context.Context) error {
	if err := x.index.Check(); err != nil {
		return err
	}
	base, err := x.index.FindBase(ctx)
	if err != nil {
		return err
	}
	if base.Name != x.Index {
		return fault.Usage.At("delete index", x.Index).
			Because("it is a branch of " + base.Name).
			Advise("to delete the branch: unweaver branch " + base.Name + " --delete " + x.Index)
	}
	if err := x.listBranches(ctx); err != nil {
		return err
	}
	if err := x.countObjects(ctx); err != nil {
		return err
	}
	if x.out.Objects == 0 {
		return fault.UnknownIndex.At("delete index", x.Index).
			Because("the store has nothing of that name").
			Advise("to list the indexes: unweaver ls")
	}
	current, _, err := x.index.ReadPointer(ctx)
	if err != nil && !artifact.IsDamage(err) {
		return err
	}
	x.out.Serves, x.epoch = current.Generation, current.Epoch
	tags, err := x.index.Tags(ctx)
	if err != nil {
		return err
	}
	for _, of := range slices.Sorted(maps.Keys(tags)) {
		x.out.Tags = append(x.out.Tags, tags[of]...)
	}
	x.out.Begun = run.RefuseDeleted(ctx, x.index) != nil
	if err := x.listCollections(ctx); err != nil || !x.DryRun {
		return err
	}
	return x.Records.ScanRecords(ctx, core.RecordPrefix(x.StoreID, x.Index), func(keys []string) error {
		x.out.Records += int64(len(keys)) // a deletion counts them as they go
		return nil
	})
}

// listBranches lists the branches that were deleted, and refuses one that is open or being made.
func (x *deletion) listBranches(ctx context.Context) error {
	x.out.Branches = nil
	branches, err := x.index.ListBranches(ctx)
	if err != nil { // also damage: a branch that is not known would lose its files
		return err
	}
	for _, branch := range branches {
		of, err := artifact.BaseOf(ctx, x.Artifacts, branch.Name)
		if err != nil {
			return err
		}
		if of != x.Index { // a record that was begun, and whose name went to another index
			continue
		}
		if branch.State == core.BranchOpen {
			return fault.Usage.At("delete index", x.Index).
				Because("its branch " + branch.Name + " serves its files").
				Advise("first delete the branch: unweaver branch " + x.Index + " --delete " + branch.Name)
		}
		x.out.Branches = append(x.out.Branches, branch.Name)
	}
	return nil
}

func (x *deletion) listCollections(ctx context.Context) (err error) {
	x.out.Collections, err = x.Vectors.List(ctx, core.CollectionPrefix(x.StoreID, x.Index))
	return err
}

// listNames returns those of branches that were deleted, and last of the index, which has the records that name them.
func (x *deletion) listNames() []string { return append(slices.Clone(x.out.Branches), x.Index) }

// countObjects counts objects, bytes and generations, and notes a schedule.
func (x *deletion) countObjects(ctx context.Context) error {
	generations := map[string]bool{}
	for _, name := range x.listNames() {
		for info, err := range x.Artifacts.List(ctx, name+"/", "") {
			if err != nil {
				return err
			}
			x.out.Objects++
			x.out.Bytes += info.Size
			x.out.Schedule = x.out.Schedule || info.Key == x.index.ScheduleKey()
			if of, ok := strings.CutSuffix(info.Key, "/manifest.json"); ok {
				generations[of] = true
			}
			if strings.HasPrefix(info.Key, x.Index+"/purges/") && strings.HasSuffix(info.Key, ".json") {
				x.out.Purges++
			}
		}
	}
	x.out.Generations = len(generations)
	return nil
}

func (x *deletion) deleteIndex(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		x.Unschedule, x.deletePointers, x.awaitReaders, x.dropCollections, x.deleteRecords, x.deleteFiles,
		x.Unschedule, // one may have been made by who asked before the lease was taken
		x.forgetIndex,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// runGuarded does something that takes a moment, once the lease was seen to be held.
func (x *deletion) runGuarded(ctx context.Context, do func(context.Context) error) error {
	if err := run.HoldLease(ctx, x.index, x.holder, x.fence); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deletePermit)
	defer cancel()
	return do(ctx)
}

// deletePointers deletes what queries find the index by: its pointer, whose mirror every reader reads, and the
// references of its generations.
func (x *deletion) deletePointers(ctx context.Context) error {
	if err := x.runGuarded(ctx, func(ctx context.Context) error {
		return x.Artifacts.Delete(ctx, x.index.CurrentKey())
	}); err != nil {
		return err
	}
	if err := Mirror(ctx, x.index, x.Mirror, core.Pointer{Epoch: x.epoch + 1}); err != nil {
		return err
	}
	return x.deleteObjects(ctx, "generations/", func(key string) bool { return strings.HasSuffix(key, "/manifest.json") })
}

// awaitReaders waits until no process has a generation open: a query that began before ends as it began.
func (x *deletion) awaitReaders(ctx context.Context) error {
	for waited := time.Duration(0); ; waited += readersEvery {
		leased, err := x.Mirror.ListLeased(ctx, x.Index)
		if x.out.Reading = len(leased) > 0; err != nil || !x.out.Reading || waited > readersPatience {
			return err
		}
		if waited%(deletePermit/2) == 0 {
			if err := run.HoldLease(ctx, x.index, x.holder, x.fence); err != nil {
				return err
			}
		}
		if err := retry.Wait(ctx, readersEvery); err != nil {
			return err
		}
	}
}

func (x *deletion) dropCollections(ctx context.Context) error {
	if err := x.listCollections(ctx); err != nil { // a build may have ended before the lease was taken
		return err
	}
	for _, collection := range x.out.Collections {
		if err := x.runGuarded(ctx, func(ctx context.Context) error { return x.Vectors.Drop(ctx, collection) }); err != nil {
			return err
		}
	}
	return nil
}

func (x *deletion) deleteRecords(ctx context.Context) error {
	err := x.Records.ScanRecords(ctx, core.RecordPrefix(x.StoreID, x.Index), func(keys []string) error {
		x.out.Records += int64(len(keys))
		for some := range slices.Chunk(keys, deleteAtOnce) {
			if err := x.runGuarded(ctx, func(ctx context.Context) error {
				return x.Records.DeleteRecords(ctx, some)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if scrubber, ok := core.FindBelow[records.Scrubber](x.Records); ok && err == nil {
		err = scrubber.Scrub(ctx)
	}
	return err
}

// deleteObjects deletes objects below a folder of the index, but its lease, until a listing finds none: a process that
// lost the lease may have written some after the first.
func (x *deletion) deleteObjects(ctx context.Context, folder string, of func(key string) bool) error {
	for _, name := range x.listNames() {
		for found := 1; found > 0; {
			var err error
			if found, err = x.deleteBelow(ctx, x.Artifacts, name+"/"+folder, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// deleteBelow deletes objects of a store below a prefix, but the lease, and returns how many.
func (x *deletion) deleteBelow(
	ctx context.Context, store blob.Store, prefix string, of func(key string) bool,
) (deleted int, err error) {
	var keys []string
	drop := func() error {
		if len(keys) == 0 {
			return nil
		}
		deleted += len(keys)
		err := x.runGuarded(ctx, func(ctx context.Context) error { return store.DeleteAll(ctx, keys) })
		keys = nil
		return err
	}
	for info, err := range store.List(ctx, prefix, "") {
		if err != nil {
			return deleted, err
		}
		if info.Key == x.index.LeaseKey() || !of(info.Key) {
			continue
		}
		if keys = append(keys, info.Key); len(keys) == deleteAtOnce {
			if err := drop(); err != nil {
				return deleted, err
			}
		}
	}
	return deleted, drop()
}

// deleteFiles deletes all objects of the index but its lease, and copies of rows that the vector store was to import.
// The names of its branches are free then.
func (x *deletion) deleteFiles(ctx context.Context) error {
	all := func(string) bool { return true }
	if x.Staging != nil {
		for _, name := range x.listNames() {
			prefix := core.ImportPrefix(x.StoreID) + name + "/"
			if _, err := x.deleteBelow(ctx, x.Staging, prefix, all); err != nil {
				return err
			}
		}
	}
	// The records of branches say that a deletion is not over, and go after the names that they keep.
	records := x.index.Name + "/branches/"
	if err := x.deleteObjects(ctx, "", func(key string) bool { return !strings.HasPrefix(key, records) }); err != nil {
		return err
	}
	for _, name := range x.out.Branches {
		if err := x.runGuarded(ctx, func(ctx context.Context) error {
			return x.Artifacts.Delete(ctx, artifact.LineKey(name))
		}); err != nil {
			return err
		}
	}
	if len(x.out.Branches) > 0 { // a process may still take a name for a branch of this index, whose lease is held
		if err := retry.Wait(ctx, settles); err != nil {
			return err
		}
	}
	return x.deleteObjects(ctx, "", all)
}

// forgetIndex deletes what processes share about the index, and last its lease.
func (x *deletion) forgetIndex(ctx context.Context) error {
	for _, name := range x.listNames() {
		if err := x.Forget(ctx, name); err != nil {
			return err
		}
	}
	return x.runGuarded(ctx, func(ctx context.Context) error { return x.Artifacts.Delete(ctx, x.index.LeaseKey()) })
}
