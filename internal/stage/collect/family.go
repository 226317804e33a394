package collect

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
)

// readFamily reads the generations of the indexes that share segments, records and collections with this one: its
// branches, or its base and the base's other branches. They stay, each until a run of its own index removes it. Those
// of a branch that was deleted belong to the base alone, whose runs let them go as if no rule kept them; a run of a
// branch leaves them alone.
//
// All of these indexes have one lease, so that none of them is being built or collected meanwhile. A branch that is
// made meanwhile begins with a generation that is not marked, which it looks at after it was written down: nothing of
// such a generation is deleted by a run that does not see the branch.
func (c *collector) readFamily(ctx context.Context) error {
	family, branches, err := c.Artifacts.ListFamily(ctx)
	if err != nil {
		return err
	}
	c.base = family[0].Name
	deleted := map[string]bool{}
	for _, branch := range branches {
		deleted[branch.Name] = branch.State == core.BranchDeleted
	}
	for _, member := range family {
		if member.Name == c.Artifacts.Name {
			continue
		}
		goes := deleted[member.Name] && c.base == c.Artifacts.Name
		if err := c.addMember(ctx, member, goes); err != nil {
			return err
		}
	}
	for _, branch := range branches { // one that is being made
		if branch.State != core.BranchOpen || branch.Name == c.Artifacts.Name {
			continue
		}
		ref := core.GenerationRef{Manifest: branch.Manifest, Seq: branch.Seq, State: core.GenerationPublished}
		begun, err := artifact.New(c.Artifacts.Store, branch.Name).HasPointer(ctx)
		if err != nil {
			return err
		}
		if !begun {
			if err := c.addForeign(ctx, artifact.New(c.Artifacts.Store, branch.Name), branch.Generation, ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMember takes the generations of one of them into account.
func (c *collector) addMember(ctx context.Context, member artifact.Index, goes bool) error {
	refs, damaged, err := member.ReadableRefs(ctx)
	if err != nil {
		return err
	}
	current, _, err := member.ReadPointer(ctx)
	switch {
	case err == nil:
		if !goes {
			artifact.LayPointer(refs, current)
		}
	case artifact.IsDamage(err):
		c.noteDamage(current.Generation, member.CurrentKey(), err)
		c.blind = true
	default:
		return err
	}
	for _, name := range damaged {
		if name != current.Generation {
			c.noteDamage(name, member.GenerationKey(name, "manifest.json"), nil)
			c.blind = true
		}
	}
	leased := map[string]bool{}
	if goes {
		if len(refs)+len(damaged) == 0 {
			c.empty = append(c.empty, member)
		}
		if leased, err = c.Readers.ListLeased(ctx, member.Name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if !goes {
			if err := c.addForeign(ctx, member, name, refs[name]); err != nil {
				return err
			}
			continue
		}
		gen := &generation{name: name, index: member, ref: refs[name], leased: leased[name]}
		gen.manifest, err = c.Artifacts.Manifest(ctx, gen.ref.Manifest)
		if err != nil && !artifact.IsDamage(err) {
			return err
		}
		if err != nil {
			c.noteDamage(name, c.Artifacts.SegmentKey(gen.ref.Manifest), err)
			c.blind = c.blind || gen.leased
		}
		c.gens[c.keyOf(gen)] = gen
	}
	return nil
}

// addForeign notes a generation of another index. What one that cannot be read needs is unknown.
func (c *collector) addForeign(ctx context.Context, index artifact.Index, name string, ref core.GenerationRef) error {
	manifest, err := c.Artifacts.Manifest(ctx, ref.Manifest)
	if err != nil && !artifact.IsDamage(err) {
		return err
	}
	if err != nil {
		c.noteDamage(name, c.Artifacts.SegmentKey(ref.Manifest), err)
		c.blind = true
	}
	c.others = append(c.others, &generation{name: name, index: index, ref: ref, manifest: manifest, kept: true})
	return nil
}

// keyOf returns what a generation is called in gens: names of two indexes may be equal, and no generation's holds a
// slash.
func (c *collector) keyOf(gen *generation) string {
	if gen.index.Name == c.Artifacts.Name {
		return gen.name
	}
	return gen.index.Name + "/" + gen.name
}

// cleanBranches removes what is left of branches that were deleted, once their generations are gone: all but the audit
// trail.
func (c *collector) cleanBranches(ctx context.Context) error {
	for _, member := range c.empty {
		prefix := member.Name + "/"
		pick := func(key string, _ time.Time) bool { return !strings.HasPrefix(key, prefix+"operations/") }
		if _, err := c.deleteWhere(ctx, c.newPermit(nil), c.Artifacts.Store, prefix, pick); err != nil {
			return err
		}
	}
	return nil
}
