package blob

import (
	"context"
	"time"
)

// CheckContext returns the error of ctx. A deadline that has passed counts also where its timer has not gone off yet,
// as in a process that stood still and has just gone on: what deletes many objects asks it before each.
func CheckContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
