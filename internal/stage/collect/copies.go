package collect

import (
	"context"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// deleteCopies deletes the copies for bulk import of this run and of those before it. An import deletes its own when it
// ends, so that what is found here is of a run that was cancelled, or of an attempt that was frozen: with the lease of
// the caller all of them are over, and the caller's import came to its end before it was published. Newer fences are
// another run's, and what has no fence is no copy of this program's.
//
// Such copies only take room. Where the bucket refuses or fails, that is reported, and the next run tries again.
func (c *collector) deleteCopies(ctx context.Context) error {
	if c.Staging == nil {
		return nil
	}
	var asked error // whether the caller may delete is asked of other stores
	permit := Permit{Lasts: c.Permit, Look: func(ctx context.Context) error {
		asked = c.confirmDelete(ctx, nil)
		return asked
	}}
	prefix := c.Copies + c.runsPrefix()
	deleted, err := c.deleteWhere(ctx, permit, c.Staging, prefix, func(key string, _ time.Time) bool {
		fence, ok := fenceOf(strings.TrimPrefix(key, prefix))
		return ok && fence <= c.Fence
	})
	c.res.Copies = deleted
	if err == nil || asked != nil || ctx.Err() != nil {
		return err
	}
	advice := "nothing: the next run tries again; until then the copies only use disk space"
	if fault.Is(err, fault.StoreDenied) {
		advice = "let the worker's credentials list and delete below " + c.Copies +
			" of that bucket (stores.milvus.bucket); until then the copies only use space"
	}
	reported := fault.CodeOf(err).At("delete copies of imports that are over", c.Staging.Location(prefix)).
		Because(causeOf(err)).
		Advise(advice)
	c.res.Problems = append(c.res.Problems, core.Problem{
		Code: string(reported.Code), Object: c.Staging.Location(prefix), Detail: reported.Error(),
	})
	return nil
}

// causeOf returns why a store failed, without its own advice, which is about all that it may hold.
func causeOf(err error) error {
	if known := fault.As(err); known != nil && known.Err != nil {
		return known.Err
	}
	return err
}
