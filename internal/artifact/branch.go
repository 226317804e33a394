package artifact

import (
	"context"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// LineKey says whose branch an index is. It is written once and stays when the branch goes: the name is its base's
// until that is deleted, so that no process that knows it takes it for an index that is no branch.
func LineKey(name string) string { return linesFolder + name + ".json" }

const linesFolder = "_branches/"

// OfBranches reports whether a key says whose branch an index is: most are none, and have no such object.
func OfBranches(key string) bool { return strings.HasPrefix(key, linesFolder) }

// line is what lies under LineKey.
type line struct {
	Base string `json:"base"`
}

// BaseOf returns the index whose segments, records and collections an index shares, because it is a branch of it; else
// the index itself.
func BaseOf(ctx context.Context, store blob.Store, name string) (string, error) {
	var found line
	_, err := blob.ReadJSON(ctx, store, LineKey(name), &found)
	switch {
	case fault.Is(err, fault.NotFound):
		return name, nil
	case err != nil:
		return "", err
	case !core.ValidIndex(found.Base) || found.Base == name:
		return "", fault.SegmentDamage.At("read", store.Location(LineKey(name))).
			Because("it does not name a base index").
			Advise("write the file again: {\"base\": \"<the index that " + name + " is a branch of>\"}")
	}
	return found.Base, nil
}

// PutBase writes down that an index is a branch. It may be repeated; a name that is another's is fault.Usage.
func (x Index) PutBase(ctx context.Context, base string) error {
	_, err := blob.WriteJSON(ctx, x.Store, LineKey(x.Name), line{base}, blob.Cond{Absent: true})
	if !fault.Is(err, fault.Precondition) {
		return err
	}
	there, err := BaseOf(ctx, x.Store, x.Name)
	if err == nil && there != base {
		err = fault.Usage.At("name branch", x.Name).
			Because("the name is, or was, used for a branch of " + there).
			Advise("choose another name")
	}
	return err
}

// BranchKey returns the key of the record of a branch of this index.
func (x Index) BranchKey(name string) string { return x.joinKey("branches", refuseSlash(name)+".json") }

// ReadBranch reads the record of a branch of this index, with its etag.
func (x Index) ReadBranch(ctx context.Context, name string) (branch core.Branch, etag string, err error) {
	info, err := blob.ReadJSON(ctx, x.Store, x.BranchKey(name), &branch)
	return branch, info.ETag, err
}

// RebaseKey returns the key of what the last planned run of a branch found its base serving.
func (x Index) RebaseKey() string { return x.joinKey("rebase.json") }

// ListBranches gives the records of the branches of this index, deleted ones too, in order of their names.
func (x Index) ListBranches(ctx context.Context) ([]core.Branch, error) {
	prefix := x.joinKey("branches") + "/"
	var out []core.Branch
	for info, err := range x.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		name, ok := strings.CutSuffix(strings.TrimPrefix(info.Key, prefix), ".json")
		if !ok || !core.ValidIndex(name) {
			continue
		}
		var branch core.Branch
		if _, err := blob.ReadJSON(ctx, x.Store, info.Key, &branch); err != nil {
			return nil, err
		}
		if branch.Name != name || branch.Base != x.Name {
			return nil, fault.SegmentDamage.At("read", x.Store.Location(info.Key)).Because("it is not a record of this branch")
		}
		out = append(out, branch)
	}
	return out, nil
}

// FindBase returns this index's base: itself, where it is no branch.
func (x Index) FindBase(ctx context.Context) (Index, error) {
	base, err := BaseOf(ctx, x.Store, x.Name)
	x.Name = base
	return x, err
}

// ListFamily gives every index that shares this one's segments: the base first, then its branches by their names.
func (x Index) ListFamily(ctx context.Context) ([]Index, []core.Branch, error) {
	base, err := x.FindBase(ctx)
	if err != nil {
		return nil, nil, err
	}
	branches, err := base.ListBranches(ctx)
	if err != nil {
		return nil, nil, err
	}
	family := []Index{base}
	for _, branch := range branches {
		member := x
		member.Name = branch.Name
		family = append(family, member)
	}
	return family, branches, nil
}

// FamilyRefs gives the references of every index that shares this one's segments, by index and generation, with those
// of pointers and of what branches that are being made begin with. One that cannot be read is an error.
func (x Index) FamilyRefs(ctx context.Context) (map[string]map[string]core.GenerationRef, error) {
	family, branches, err := x.ListFamily(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]map[string]core.GenerationRef{}
	for _, member := range family {
		if out[member.Name], err = member.ListByName(ctx); err != nil {
			return nil, err
		}
	}
	for _, branch := range branches {
		if _, there := out[branch.Name][branch.Generation]; branch.State == core.BranchOpen && !there {
			begun, err := New(x.Store, branch.Name).HasPointer(ctx)
			if err != nil {
				return nil, err
			}
			if !begun {
				out[branch.Name][branch.Generation] = core.GenerationRef{
					Manifest: branch.Manifest, Seq: branch.Seq, State: core.GenerationPublished,
				}
			}
		}
	}
	return out, nil
}

// New returns an index by its name.
func New(store blob.Store, name string) Index { return Index{Store: store, Name: name} }

// HasPointer reports whether an index has a pointer: a branch then has references of its own.
func (x Index) HasPointer(ctx context.Context) (bool, error) {
	_, err := x.Store.Stat(ctx, x.CurrentKey())
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// sharesSegments reports whether another index shares this one's segments: configurations lie with them.
func (x Index) sharesSegments(ctx context.Context, other string) (bool, error) {
	if !core.ValidIndex(other) {
		return false, nil
	}
	own, err := BaseOf(ctx, x.Store, x.Name)
	if err != nil {
		return false, err
	}
	its, err := BaseOf(ctx, x.Store, other)
	return own == its, err
}
