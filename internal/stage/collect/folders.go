package collect

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// reportsStay is how long the reports and dead letters of a run that gave no generation stay, the mark of a generation
// that went, and the scratch of restores. Those hold no lease, and a night may not take from them what they work on;
// they remove it themselves when they end, so that what is old is of one that was terminated.
const reportsStay = 14 * 24 * time.Hour

// hintedStays is how long a generation of hints stays once no rule keeps it.
const hintedStays = 10 * time.Minute

// batchKeys is how many keys go between two looks at what may be deleted, where each batch is written down first, or
// goes to a store of records or vectors.
const batchKeys = 1000

// deleteWhere deletes the objects under a prefix of a store that pick chooses, and gives how many.
func (c *collector) deleteWhere(
	ctx context.Context,
	permit Permit,
	store blob.Store,
	prefix string,
	pick func(key string, modified time.Time) bool,
) (deleted int64, err error) {
	picked := func(yield func(string, error) bool) {
		for info, err := range store.List(ctx, prefix, "") {
			if err == nil && !pick(info.Key, info.Modified) {
				continue
			}
			if !yield(info.Key, err) || err != nil {
				return
			}
		}
	}
	for keys, err := range parallel.Batch(picked, artifact.DeleteAtOnce) {
		if err == nil {
			err = permit.eraseKeys(ctx, store, keys)
		}
		if err != nil {
			return deleted, err
		}
		deleted += int64(len(keys))
		c.countDone(len(keys))
	}
	return deleted, nil
}

// runsPrefix returns what the keys of the scratch of all runs of the index start with.
func (c *collector) runsPrefix() string { return strings.TrimSuffix(c.Artifacts.RunKey(""), "/") + "/" }

// fenceOf returns the fence in <generation>/<fence>/…, what follows runsPrefix in a key of scratch, or of a copy of it.
func fenceOf(rest string) (fence int64, ok bool) {
	_, rest, _ = strings.Cut(rest, "/")
	name, _, _ := strings.Cut(rest, "/")
	fence, err := strconv.ParseInt(name, 10, 64)
	return fence, err == nil
}

// deleteScratch deletes runs/<generation>/<fence>/ of fences up to the caller's; newer ones are another run's. What has
// no fence (a restore's) goes when it is old.
func (c *collector) deleteScratch(ctx context.Context) error {
	prefix := c.runsPrefix()
	pick := func(key string, modified time.Time) bool {
		fence, ok := fenceOf(strings.TrimPrefix(key, prefix))
		if !ok {
			return c.Now.Sub(modified) > max(reportsStay, c.Grace)
		}
		return fence <= c.Fence
	}
	_, err := c.deleteWhere(ctx, c.newPermit(nil), c.Artifacts.Store, prefix, pick)
	return err
}

// removeFolder deletes generations/<gen>/: its reference after everything else, so that a run that ends early finds it
// again, and not its mark, which says for a while that there was such a generation.
func (c *collector) removeFolder(ctx context.Context, gen *generation) error {
	reference := gen.index.GenerationKey(gen.name, "manifest.json")
	prefix := gen.index.GenerationKey(gen.name, "") + "/"
	mark := MarkKey(gen.index, gen.name)
	pick := func(key string, _ time.Time) bool { return key != reference && key != mark }
	_, err := c.deleteWhere(ctx, c.newPermit(gen), c.Artifacts.Store, prefix, pick)
	if err != nil {
		return err
	}
	return c.newPermit(gen).eraseKeys(ctx, c.Artifacts.Store, []string{reference})
}

// deleteReports deletes what is left in the folders of generations without a reference, once it is old. A reference
// that cannot be read is one.
func (c *collector) deleteReports(ctx context.Context) error {
	prefix := c.Artifacts.GenerationKey("", "") + "/"
	pick := func(key string, modified time.Time) bool {
		gen, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		stay := reportsStay
		if core.IsHinted(gen) && key == MarkKey(c.Artifacts, gen) {
			stay = time.Hour
		}
		return c.gens[gen] == nil && c.Now.Sub(modified) > stay
	}
	_, err := c.deleteWhere(ctx, c.newPermit(nil), c.Artifacts.Store, prefix, pick)
	return err
}
