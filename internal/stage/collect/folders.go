package collect

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/store/artifact"
)

// reportsStay is how long the reports and dead letters of a run that gave no generation stay, the mark of a generation
// that went, and the scratch of restores. Those hold no lease, and a night may not take from them what they work on;
// they remove it themselves when they end, so that what is old is of one that was terminated.
const reportsStay = 14 * 24 * time.Hour

// batchKeys is how many keys go between two looks at what may be deleted, where each batch is written down first, or
// goes to a store of records or vectors.
const batchKeys = 1000

// deleteWhere deletes the objects under a prefix that pick chooses, for the sake of a generation that goes, or of none.
func (c *collector) deleteWhere(
	ctx context.Context,
	gen, prefix string,
	pick func(key string, modified time.Time) bool,
) error {
	var keys []string
	flush := func() error {
		err := c.permit(gen).erase(ctx, c.Artifacts.Store, keys)
		c.count(len(keys))
		keys = keys[:0]
		return err
	}
	for info, err := range c.Artifacts.Store.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		if !pick(info.Key, info.Modified) {
			continue
		}
		if keys = append(keys, info.Key); len(keys) == artifact.DeleteAtOnce {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// scratch deletes runs/<generation>/<fence>/ of fences up to the caller's; newer ones are another run's. What has no
// fence (a restore's) goes when it is old.
func (c *collector) scratch(ctx context.Context) error {
	prefix := strings.TrimSuffix(c.Artifacts.RunKey(""), "/") + "/"
	return c.deleteWhere(ctx, "", prefix, func(key string, modified time.Time) bool {
		_, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		name, _, _ := strings.Cut(rest, "/")
		fence, err := strconv.ParseInt(name, 10, 64)
		if err != nil {
			return c.Now.Sub(modified) > max(reportsStay, c.Grace)
		}
		return fence <= c.Fence
	})
}

// removeFolder deletes generations/<gen>/: its reference after everything else, so that a run that ends early finds it
// again, and not its mark, which says for a while that there was such a generation.
func (c *collector) removeFolder(ctx context.Context, gen string) error {
	reference := c.Artifacts.GenerationKey(gen, "manifest.json")
	err := c.deleteWhere(ctx, gen, c.Artifacts.GenerationKey(gen, "")+"/", func(key string, _ time.Time) bool {
		return key != reference && key != MarkKey(c.Artifacts, gen)
	})
	if err != nil {
		return err
	}
	return c.permit(gen).erase(ctx, c.Artifacts.Store, []string{reference, c.cursorKey(gen)})
}

// reports deletes what is left in the folders of generations without a reference, once it is old. A reference that
// cannot be read is one.
func (c *collector) reports(ctx context.Context) error {
	prefix := c.Artifacts.GenerationKey("", "") + "/"
	return c.deleteWhere(ctx, "", prefix, func(key string, modified time.Time) bool {
		gen, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		return c.gens[gen] == nil && c.Now.Sub(modified) > reportsStay
	})
}
