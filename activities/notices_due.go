package activities

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/workflows"
)

// Due are notices of ends that this process recorded and that were not tried to be sent yet. It is of use where no
// other process sends them: who stops for the end of a run lets its notice go out before. A nil one counts nothing.
type Due struct {
	mu   sync.Mutex
	runs map[string]bool
}

func dueKey(b workflows.Build, status string) string {
	return b.Index + "/" + b.Generation + " " + status
}

// set says that a notice is due, or is no more.
func (d *Due) set(b workflows.Build, status string, due bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.runs == nil {
		d.runs = map[string]bool{}
	}
	if due {
		d.runs[dueKey(b, status)] = true
	} else {
		delete(d.runs, dueKey(b, status))
	}
}

func (d *Due) isEmpty() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.runs) == 0
}

// Wait ends when none is due, each having been tried once, or when ctx is done; it reports whether none is.
func (d *Due) Wait(ctx context.Context) bool {
	if d == nil {
		return true
	}
	for !d.isEmpty() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// recordEnd records an end, and reports whether a webhook is to be called. The notice is due before anybody can see the
// end: who waits for it may stop this process then.
func (a *Activities) recordEnd(
	ctx context.Context, end workflows.End, record func() error,
) (workflows.Ended, error) {
	ended := a.checkNotice(ctx, end)
	if ended.Notify {
		a.Due.set(end.Build, end.Status, true)
	}
	err := record()
	if ended.Notify && err != nil {
		a.Due.set(end.Build, end.Status, false)
	}
	return ended, err
}
