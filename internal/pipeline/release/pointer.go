package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// FlipIn is what becomes the served generation.
type FlipIn struct {
	Artifacts  artifact.Index
	Mirror     coordination.Readers
	Generation string
	Manifest   string // sha256 of its manifest
	Seq        int64
	Expected   int64 // the pointer's epoch when the build was planned
}

// Flip points the index to a manifest if the pointer's epoch is still the expected one, else fault.PointerMoved. A
// second flip by the same run finds its own work done and succeeds; so does one whose answer was lost. When only the
// mirror fails, the pointer that comes back with the error is served already.
func Flip(ctx context.Context, in FlipIn) (core.Pointer, error) {
	current, etag, err := in.Artifacts.ReadPointer(ctx)
	if err != nil {
		return current, err
	}
	if in.isDone(current) {
		return current, Mirror(ctx, in.Artifacts, in.Mirror, current)
	}
	if current.Epoch != in.Expected {
		return current, in.newMovedError(current)
	}
	next := core.Pointer{Generation: in.Generation, Manifest: in.Manifest, Seq: in.Seq, Epoch: in.Expected + 1}
	condition := blob.Cond{Match: etag}
	if etag == "" {
		condition = blob.Cond{Absent: true}
	}
	written, err := writePointer(ctx, in.Artifacts, in.Mirror, next, condition)
	if fault.Is(err, fault.Precondition) { // another run, or this write, repeated below after its answer was lost
		if current, _, err = in.Artifacts.ReadPointer(ctx); err == nil && !in.isDone(current) {
			err = in.newMovedError(current)
		}
		if err == nil {
			written, err = true, Mirror(ctx, in.Artifacts, in.Mirror, next)
		}
	}
	if !written {
		return current, err
	}
	return next, err
}

// isDone reports whether a pointer is what this flip makes it.
func (in FlipIn) isDone(pointer core.Pointer) bool {
	return pointer.Manifest == in.Manifest && pointer.Epoch == in.Expected+1
}

func (in FlipIn) newMovedError(current core.Pointer) error {
	why := fmt.Sprintf("meanwhile the index switched to generation %s", current.Generation)
	if current.Generation == "" {
		why = "the index no longer has a published generation"
	}
	return fault.PointerMoved.At("publish", in.Artifacts.Name).
		Because(why).
		Advise("run the build again, which pays nothing twice; or compare the two, then publish this one: " +
			"unweaver diff " + in.Artifacts.Name + ", unweaver publish " + in.Artifacts.Name + " " + in.Generation + " --force")
}

// writePointer writes current.json; nothing else does. It returns whether it did, also where the mirror fails then.
func writePointer(
	ctx context.Context, index artifact.Index, mirror coordination.Readers, pointer core.Pointer, cond blob.Cond,
) (written bool, err error) {
	if _, err := blob.WriteJSON(ctx, index.Store, index.CurrentKey(), pointer, cond); err != nil {
		return false, err
	}
	return true, Mirror(ctx, index, mirror, pointer)
}

// Mirror writes the pointer to the store that readers ask. To them it is a hint: what current.json says counts.
func Mirror(ctx context.Context, art artifact.Index, mirror coordination.Readers, pointer core.Pointer) error {
	raw, err := json.Marshal(pointer)
	if err != nil {
		return err
	}
	return mirror.Mirror(ctx, art.Name, raw)
}

// MendPointer writes current.json again where it is missing or damaged, by what the references say was published last,
// or by the mirror where an operator went back after that. Its epoch is above any that the mirror knows. The trail of
// operations records it.
func (r *Run) MendPointer(ctx context.Context) error {
	current, etag, wrong := r.Index.ReadPointer(ctx)
	cond := blob.Cond{Match: etag}
	switch {
	case wrong == nil && current.Manifest == "":
		if deleted, err := r.deletedBranch(ctx); err != nil || deleted {
			return err
		}
		cond = blob.Cond{Absent: true}
	case wrong == nil:
		manifest, err := r.Index.Manifest(ctx, current.Manifest)
		if artifact.IsDamage(err) { // what names this manifest says so
			return nil
		}
		if err != nil {
			return err
		}
		if wrong = r.Index.CheckPointer(current, manifest); wrong == nil {
			return nil
		}
	}
	if wrong != nil && !fault.Is(wrong, fault.SegmentDamage) {
		return wrong
	}
	pointer, err := r.LastPublished(ctx, nil)
	switch {
	case err != nil || pointer.Manifest == "" && wrong == nil:
		return err
	case pointer.Manifest == "":
		return fault.SegmentDamage.At("write again", r.Artifacts.Location(r.Index.CurrentKey())).
			Because("the file is damaged, and no published generation of the index can be read").
			Advise("restore the file from a backup; or delete it, then " + r.Index.AdviseRebuild())
	}
	var mirrored core.Pointer
	raw, err := r.Coordination.ReadMirror(ctx, r.Job.Index)
	if err != nil {
		return err
	}
	if json.Unmarshal(raw, &mirrored) != nil { // nothing, or nothing that counts
		mirrored = core.Pointer{}
	}
	if mirrored.Epoch >= pointer.Seq && r.isServable(ctx, mirrored) { // it was gone back to: that is not undone
		pointer = mirrored
	}
	pointer.Epoch = max(mirrored.Epoch, pointer.Seq) + 1
	r.Log.Warn("current.json is restored", "run_id", r.Name(), "generation", pointer.Generation)
	op, err := Begin(ctx, r.Index, time.Now(), core.Operation{
		Action: core.ActionRestore, Run: r.Name(), To: pointer.Generation,
		Operator: core.Operator{By: "run " + r.Name(), Reason: "current.json was missing or damaged"},
	})
	if err != nil {
		return err
	}
	_, err = writePointer(ctx, r.Index, r.Coordination, pointer, cond)
	outcome := OutcomeOf(time.Now(), err)
	outcome.Release = pointer.Epoch
	return errors.Join(err, End(context.WithoutCancel(ctx), r.Index, op, outcome))
}

// isServable reports whether a pointer is to a published generation, and its manifest can be read.
func (r *Run) isServable(ctx context.Context, pointer core.Pointer) bool {
	refs, _, err := r.Index.ReadableRefs(ctx)
	ref := refs[pointer.Generation]
	if err != nil || ref.State != core.GenerationPublished || ref.Manifest != pointer.Manifest {
		return false
	}
	manifest, err := r.Index.Manifest(ctx, pointer.Manifest)
	return err == nil && r.Index.CheckPointer(pointer, manifest) == nil
}

// deletedBranch reports whether the index was a branch: one that is deleted keeps its references, and serves nothing.
func (r *Run) deletedBranch(ctx context.Context) (bool, error) {
	base, err := r.Index.FindBase(ctx)
	if err != nil || base.Name == r.Index.Name {
		return false, err
	}
	branch, _, err := base.ReadBranch(ctx, r.Index.Name)
	return branch.State != core.BranchOpen, err
}
