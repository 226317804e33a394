package artifact

import (
	"context"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// TagKey returns the key of the object that says that a generation has a tag. What counts is its name: what a tag keeps
// is known even where the object cannot be read.
func (x Index) TagKey(gen, tag string) string {
	return x.joinKey("tags", refuseSlash(gen), refuseSlash(tag)+".json")
}

// Tags gives the tags of each generation that has one, in order.
func (x Index) Tags(ctx context.Context) (map[string][]string, error) {
	prefix := x.joinKey("tags") + "/"
	tags := map[string][]string{}
	for info, err := range x.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		gen, rest, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if tag, ok := strings.CutSuffix(rest, ".json"); ok && !strings.Contains(tag, "/") {
			tags[gen] = append(tags[gen], tag)
		}
	}
	return tags, nil
}

// FindTagged returns the generation that has a tag; empty: none.
func FindTagged(tags map[string][]string, tag string) string {
	for gen, names := range tags {
		if slices.Contains(names, tag) {
			return gen
		}
	}
	return ""
}

// PutTag gives a generation a tag. It may be repeated.
func (x Index) PutTag(ctx context.Context, gen, tag string, content any) error {
	_, err := blob.WriteJSON(ctx, x.Store, x.TagKey(gen, tag), content, blob.Cond{Absent: true})
	if fault.Is(err, fault.Precondition) {
		return nil
	}
	return err
}

// CollectedKey returns the key of the object that says that a generation is collected: readers refuse it from then on,
// and what it alone names is deleted a grace later.
func (x Index) CollectedKey(gen string) string { return x.GenerationKey(gen, "collected") }

// IsPurged reports whether a generation is collected because it holds what has to leave the index: who has it open
// closes it, and it is not opened any more.
func (x Index) IsPurged(ctx context.Context, gen string) (bool, error) {
	var mark struct {
		Purged bool `json:"purged"`
	}
	_, err := blob.ReadJSON(ctx, x.Store, x.CollectedKey(gen), &mark)
	if IsDamage(err) || fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return mark.Purged, err
}
