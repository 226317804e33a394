package release

import (
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// tagRecord is what the object of a tag holds, for people: its name is what counts.
type tagRecord struct {
	Generation string    `json:"generation"`
	Tag        string    `json:"tag"`
	At         time.Time `json:"at"`
	core.Operator
}

// addTag keeps a generation from being collected, under a name that no other generation of the index has.
func (a *act) addTag(ctx context.Context) (core.Move, error) {
	move, tags, err := a.readTags(ctx)
	if err != nil {
		return move, err
	}
	other := artifact.FindTagged(tags, a.Name)
	if other == a.Generation {
		move.Unchanged = true
		return move, nil
	}
	if other != "" {
		return move, fault.Usage.At("tag", a.Generation).
			Because("generation " + other + " has the tag " + a.Name).
			Advise("first remove it: unweaver untag " + a.Index + " " + other + " " + a.Name)
	}
	ref, _, err := a.readReference(ctx, a.Generation)
	if err != nil {
		return move, err
	}
	marked, err := a.isMarked(ctx, a.Generation)
	switch {
	case err != nil:
		return move, err
	case marked && a.Generation != a.current.Generation:
		return move, a.newCollectedError(a.Generation, "it is no longer kept, and is being deleted")
	case ref.State == core.GenerationDiscarded:
		return move, fault.Usage.At("tag", a.Generation).Because("it was discarded")
	}
	return move, a.recordMove(ctx, &move, func() error {
		return a.index.PutTag(ctx, a.Generation, a.Name, tagRecord{a.Generation, a.Name, a.getNow().UTC(), a.Operator})
	})
}

// removeTag leaves a generation to the rules again.
func (a *act) removeTag(ctx context.Context) (core.Move, error) {
	move, tags, err := a.readTags(ctx)
	if err != nil {
		return move, err
	}
	if !slices.Contains(tags[a.Generation], a.Name) {
		return move, fault.NotFound.At("untag", a.Generation).
			Because("it does not have the tag " + a.Name).
			Advise("to list its tags: unweaver generations " + a.Index)
	}
	return move, a.recordMove(ctx, &move, func() error {
		return a.Artifacts.Delete(ctx, a.index.TagKey(a.Generation, a.Name))
	})
}

func (a *act) readTags(ctx context.Context) (core.Move, map[string][]string, error) {
	move := a.newMove(a.Generation)
	if !core.ValidSlug(a.Name) {
		return move, nil, fault.InvalidParam.At("name tag", fault.QuoteName(a.Name)).
			Because("letters a-z, digits and hyphens, at most 63, no hyphen first")
	}
	tags, err := a.index.Tags(ctx)
	return move, tags, err
}
