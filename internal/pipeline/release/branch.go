package release

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Branching asks for a branch of an index.
type Branching struct {
	Base       string
	Name       string
	Generation string            // of the base, to begin with; empty: what it serves
	Set        map[string]string // settings in which it differs, checked by who asks
	Operator   core.Operator
}

// settles is how long a branch waits between being written down and being used: for longer than a process believes that
// its name is no branch.
const settles = artifact.BaseLasts + 500*time.Millisecond

// MakeBranch makes a second line of generations over the ledger, segments, records and collections of an index: it
// copies a reference and writes a pointer, whatever the size of the index. The branch is written down beside the base
// first, so that every collector that begins from then on counts what it begins with; one that began before deletes
// nothing of a generation that was not marked by then. A crash between two writes leaves a record that the same command
// finishes, and --delete takes back.
func (d *Desk) MakeBranch(ctx context.Context, asked Branching) (core.Branch, error) {
	base := artifact.New(d.Artifacts, asked.Base)
	a := act{Desk: d, index: base, Request: Request{
		Action: core.ActionBranch, Index: asked.Base, Name: asked.Name, Operator: asked.Operator,
	}}
	branch := core.Branch{
		Name: asked.Name, Base: asked.Base, Operator: asked.Operator, Set: asked.Set, State: core.BranchOpen,
	}
	if err := run.RefuseDeleted(ctx, base); err != nil {
		return branch, err
	}
	found, etag, err := a.checkBranchName(ctx)
	if err != nil {
		return branch, err
	}
	if a.current, _, err = base.ReadPointer(ctx); err != nil {
		return branch, err
	}
	if a.current.Generation == "" {
		return branch, fault.UnknownIndex.At("branch", asked.Base).
			Because("the index has no published generation").
			Advise("first build it: unweaver index CORPUS --index " + asked.Base)
	}
	a.Generation = asked.Generation
	if a.Generation == "" {
		a.Generation = a.current.Generation
	}
	ref, _, err := a.readReference(ctx, a.Generation)
	if err != nil {
		return branch, err
	}
	if ref.State != core.GenerationPublished && a.Generation != a.current.Generation {
		return branch, fault.Usage.At("branch", a.Generation).
			Because("it is " + ref.State + ", and was never served").
			Advise("to list the others: unweaver generations " + asked.Base)
	}
	manifest, err := a.readComplete(ctx, a.Generation, ref.Manifest)
	if err == nil {
		err = a.refuseOlderLabels(ctx, manifest)
	}
	if err != nil {
		return branch, err
	}
	if err := a.refusePurged(ctx); err != nil {
		return branch, err
	}
	branch.Generation, branch.Manifest, branch.Seq = a.Generation, ref.Manifest, ref.Seq
	branch.Epoch, branch.At = found.Epoch+1, a.getNow().UTC()
	if found.State == core.BranchOpen { // one that a crash left: it is finished as it was begun
		if found.Manifest != branch.Manifest || !maps.Equal(found.Set, branch.Set) {
			return found, fault.Usage.At("branch", asked.Base).
				Because("branch " + asked.Name + " is half created, from " + found.Generation + " with other settings").
				Advise("first delete it: unweaver branch " + asked.Base + " --delete " + asked.Name)
		}
		branch = found
	}
	move := a.newMove(a.Generation)
	err = a.recordMove(ctx, &move, func() error { return a.openBranch(ctx, branch, found, etag) })
	branch.Op = move.Operation
	return branch, err
}

// refuseOlderLabels refuses a branch of an earlier generation where the documents of the served one have labels: the
// branch would show what was hidden since.
func (a *act) refuseOlderLabels(ctx context.Context, manifest *core.Manifest) error {
	if manifest.Generation == a.current.Generation {
		return nil
	}
	served, err := a.index.ManifestOf(ctx, a.current)
	if err == nil && served.Labelled {
		err = fault.Usage.At("branch", manifest.Generation).
			Because("it has labels of its time, or none, and documents of the served generation have labels: the branch " +
				"would show what was hidden since").
			Advise("branch the served generation: leave --generation out")
	}
	return err
}

// refuseUnlabelled refuses to serve a generation without labels in place of one with labels, where the request asks for
// that.
func (a *act) refuseUnlabelled(ctx context.Context, manifest *core.Manifest) error {
	if !a.KeepLabels || manifest.Labelled || a.current.Manifest == "" {
		return nil
	}
	served, err := a.index.ManifestOf(ctx, a.current)
	if artifact.IsDamage(err) || err == nil && served.Labelled {
		err = fault.Forbidden.At(a.Action, manifest.Generation).
			Because("its documents have no labels, and those of the served generation have, or that cannot be read: " +
				"everybody could read all of it").
			Advise("use a key that may read every document (--labels '*'), or the command line")
	}
	return err
}

// checkBranchName refuses a name that is in use. It gives the record of a branch that was begun, or deleted, under it.
func (a *act) checkBranchName(ctx context.Context) (core.Branch, string, error) {
	member := artifact.New(a.Artifacts, a.Name)
	if err := errors.Join(a.index.Check(), member.Check()); err != nil {
		return core.Branch{}, "", err
	}
	if of, err := artifact.BaseOf(ctx, a.Artifacts, a.Index); err != nil || of != a.Index {
		if err != nil {
			return core.Branch{}, "", err
		}
		return core.Branch{}, "", fault.Usage.At("branch", a.Index).
			Because("it is itself a branch").
			Advise("create the branch from its base: unweaver branch " + of + " --as " + a.Name)
	}
	taken := fault.Usage.At("name branch", a.Name).Advise("choose another name; to list the indexes: unweaver ls")
	found, etag, err := a.index.ReadBranch(ctx, a.Name)
	switch {
	case fault.Is(err, fault.NotFound):
		for object, err := range a.Artifacts.List(ctx, a.Name+"/", "") {
			if err != nil {
				return found, "", err
			}
			return found, "", taken.Because("the store already has files of an index of that name: " + object.Key)
		}
		return found, "", nil
	case err != nil:
		return found, "", err
	}
	begun, err := member.HasPointer(ctx)
	if err != nil {
		return found, "", err
	}
	if found.State == core.BranchOpen && begun {
		return found, "", taken.Because("it is a branch of " + a.Index + " already")
	}
	if found.State == core.BranchDeleted {
		refs, damaged, err := member.ReadableRefs(ctx)
		if err != nil {
			return found, "", err
		}
		if len(refs)+len(damaged) > 0 {
			return found, "", fault.Usage.At("name branch", a.Name).
				Because("a branch of that name was deleted, and its files are not yet deleted").
				Advise(run.BranchAnew(a.Index))
		}
	}
	return found, etag, nil
}

// openBranch writes a branch: its record, whose it is, what it begins with, and last its pointer.
func (a *act) openBranch(ctx context.Context, branch, found core.Branch, etag string) error {
	if found.State != core.BranchOpen {
		cond := blob.Cond{Match: etag}
		if etag == "" {
			cond = blob.Cond{Absent: true}
		}
		_, err := blob.WriteJSON(ctx, a.Artifacts, a.index.BranchKey(a.Name), branch, cond)
		if fault.Is(err, fault.Precondition) {
			return fault.Usage.At("name branch", a.Name).
				Because("another command is creating a branch of that name").
				Advise("choose another name")
		}
		if err != nil {
			return err
		}
	}
	member := artifact.New(a.Artifacts, a.Name)
	if err := member.PutBase(ctx, a.Index); err != nil {
		return err
	}
	if err := retry.Wait(ctx, settles); err != nil {
		return err
	}
	// A purge or a deletion that began meanwhile may have found no branch.
	_, deleted := a.Artifacts.Stat(ctx, a.index.BranchKey(a.Name))
	if err := errors.Join(deleted, a.refusePurged(ctx), run.RefuseDeleted(ctx, a.index)); err != nil {
		return err
	}
	ref := core.GenerationRef{Manifest: branch.Manifest, Seq: branch.Seq, State: core.GenerationPublished}
	key := member.GenerationKey(branch.Generation, "manifest.json")
	if _, err := blob.WriteJSON(ctx, a.Artifacts, key, ref, blob.Cond{}); err != nil {
		return err
	}
	if err := a.copyFiles(ctx, a.index, member, branch.Generation); err != nil {
		return err
	}
	// A collector that does not know of the branch had marked it before, or does so and deletes nothing.
	marked, err := a.isMarked(ctx, branch.Generation)
	if err == nil && marked {
		err = a.newCollectedError(branch.Generation, "it is no longer kept, and is being deleted")
	}
	if err != nil {
		return err
	}
	if err := a.copyProven(ctx, a.index, member); err != nil {
		return err
	}
	pointer := core.Pointer{
		Generation: branch.Generation, Manifest: branch.Manifest, Seq: branch.Seq, Epoch: branch.Epoch,
	}
	_, err = writePointer(ctx, member, a.Mirror, pointer, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) { // the same command, at the same time, or before a crash
		return Mirror(ctx, member, a.Mirror, pointer)
	}
	return err
}

// refusePurged refuses a base that documents have to leave: a branch would keep them.
func (a *act) refusePurged(ctx context.Context) error {
	all, err := purges.List(ctx, a.index)
	for _, purge := range all {
		if err == nil && purge.State == core.PurgePending {
			err = fault.Usage.At("branch", a.Index).
				Because("purge " + purge.ID + " of it has not ended").
				Advise("to see its progress: unweaver purge list " + a.Index)
		}
	}
	return err
}

// copyFiles copies what lies in the folder of a generation beside its reference: report, problems, dead letters.
func (a *act) copyFiles(ctx context.Context, from, to artifact.Index, generation string) error {
	prefix := from.GenerationKey(generation, "") + "/"
	for info, err := range a.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		file := strings.TrimPrefix(info.Key, prefix)
		if file == "manifest.json" || info.Key == from.CollectedKey(generation) {
			continue
		}
		if err := blob.Copy(ctx, a.Artifacts, to.GenerationKey(generation, file), a.Artifacts, info.Key); err != nil {
			return err
		}
	}
	return nil
}

// ListBranches lists the branches of an index that are there, with what each serves.
func ListBranches(ctx context.Context, base artifact.Index) ([]core.Branch, error) {
	if err := base.Check(); err != nil {
		return nil, err
	}
	all, err := base.ListBranches(ctx)
	if err != nil {
		return nil, err
	}
	current, _, err := base.ReadPointer(ctx)
	if err != nil {
		return nil, err
	}
	out := []core.Branch{}
	for _, branch := range all {
		if branch.State != core.BranchOpen {
			continue
		}
		served, _, err := artifact.New(base.Store, branch.Name).ReadPointer(ctx)
		if err != nil {
			return nil, err
		}
		branch.Current, branch.BaseIs = served.Generation, current.Generation
		branch.Own = served.Manifest != "" && served.Manifest != branch.Manifest
		out = append(out, branch)
	}
	return out, nil
}

// DeleteBranch deletes a branch: it serves nothing any more, and what it alone used is deleted by runs of its base, a
// grace later. building says which run builds it; one that does must end first. It may be repeated.
func (d *Desk) DeleteBranch(
	ctx context.Context, asked Branching, building func(context.Context, artifact.Index) (string, error),
) (core.Branch, error) {
	base, member := artifact.New(d.Artifacts, asked.Base), artifact.New(d.Artifacts, asked.Name)
	a := act{Desk: d, index: base, Request: Request{
		Action: core.ActionUnbranch, Index: asked.Base, Name: asked.Name, Operator: asked.Operator,
	}}
	if err := errors.Join(base.Check(), member.Check()); err != nil {
		return core.Branch{}, err
	}
	branch, etag, err := base.ReadBranch(ctx, asked.Name)
	if fault.Is(err, fault.NotFound) {
		return branch, fault.UnknownIndex.At("delete branch", asked.Name).
			Because(asked.Base + " has no branch of that name").
			Advise("to list its branches: unweaver branch " + asked.Base)
	}
	if err != nil {
		return branch, err
	}
	work, err := building(ctx, member)
	if err != nil {
		return branch, err
	}
	if strings.HasPrefix(work, asked.Name+"/") {
		return branch, fault.LeaseHeld.At("delete branch", asked.Name).
			Because("run " + work + " is building it").
			Advise("wait for it, or cancel it: unweaver cancel " + work)
	}
	current, _, err := member.ReadPointer(ctx)
	if err != nil && !artifact.IsDamage(err) {
		return branch, err
	}
	if a.current, _, err = base.ReadPointer(ctx); err != nil {
		return branch, err
	}
	move := a.newMove(current.Generation)
	err = a.recordMove(ctx, &move, func() error {
		branch.State, branch.Epoch = core.BranchDeleted, max(branch.Epoch, current.Epoch)
		_, err := blob.WriteJSON(ctx, d.Artifacts, base.BranchKey(asked.Name), branch, blob.Cond{Match: etag})
		if fault.Is(err, fault.Precondition) {
			return fault.GenBusy.At("delete branch", asked.Name).
				Because("another command is changing it").
				Advise("to see the current state: unweaver branch " + asked.Base)
		}
		if err != nil {
			return err
		}
		// Of a record that was begun and no more, the name may be another index's by now.
		if of, err := artifact.BaseOf(ctx, d.Artifacts, asked.Name); err != nil || of != asked.Base {
			return err
		}
		return d.Artifacts.Delete(ctx, member.CurrentKey())
	})
	branch.Op = move.Operation
	return branch, err
}

// OverlayOf returns what the store says of the configuration of an index, and the corpus of a branch's base.
func OverlayOf(ctx context.Context, index artifact.Index) (overlay core.Overlay, uri string, err error) {
	overlay.Index = index.Name
	if err := index.Check(); err != nil {
		return overlay, "", err
	}
	base, err := index.FindBase(ctx)
	if err != nil {
		return overlay, "", err
	}
	_, manifest, err := base.ReadServed(ctx)
	if artifact.IsDamage(err) && base.Name == index.Name { // the run mends it, and goes by the file
		return overlay, "", nil
	}
	if err != nil {
		return overlay, "", err
	}
	if manifest != nil {
		spec, err := base.Spec(ctx, manifest.Spec)
		if err != nil && !artifact.IsDamage(err) {
			return overlay, "", err
		}
		if overlay.Set = spec.Overlay; !spec.Pulled {
			uri = spec.Corpus
		}
	}
	if base.Name == index.Name {
		return overlay, "", nil
	}
	branch, err := run.FindBranch(ctx, base, index.Name, "configure")
	if err != nil {
		return overlay, "", err
	}
	set := maps.Clone(overlay.Set)
	if set == nil {
		set = map[string]string{}
	}
	maps.Copy(set, branch.Set)
	overlay.Base, overlay.Set = base.Name, set
	return overlay, uri, nil
}
