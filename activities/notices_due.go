package activities

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/workflows"
)

// Due are notices of ends that this process recorded and that were not tried to be sent yet. It is of use where no
// other process sends them: who stops for the end of a run lets its notice go out before. A nil one counts nothing.
type Due struct{ runs sync.Map }

// set says that a notice is due, or is no more.
func (d *Due) set(b workflows.Build, status string, due bool) {
	if d == nil {
		return
	}
	if key := b.Index + "/" + b.Generation + " " + status; due {
		d.runs.Store(key, true)
	} else {
		d.runs.Delete(key)
	}
}

// Wait ends when none is due, each having been tried once, or when ctx is done; it reports whether none is.
func (d *Due) Wait(ctx context.Context) bool {
	due := d != nil
	for due {
		due = false
		d.runs.Range(func(any, any) bool { due = true; return false })
		if due && retry.Wait(ctx, 20*time.Millisecond) != nil {
			break
		}
	}
	return !due
}

// recordEnd records an end, or that a run waits, and reports whether a webhook is to be called. The notice is due
// before anybody can see the end: who waits for it may stop this process then.
func (a *Activities) recordEnd(ctx context.Context, end workflows.End, f frame, record task) (workflows.Ended, error) {
	if err := errors.Join(checkBuild(end.Build, f.stage, f.spec), checkEnd(end)); err != nil {
		return workflows.Ended{}, a.refuseInput(err)
	}
	ended := a.checkNotice(ctx, end)
	a.Due.set(end.Build, end.Status, ended.Notify)
	err := a.runFrame(ctx, end.Build, f, func(ctx context.Context, work *upkeep.Run) error {
		if end.Status == core.StatusWaiting {
			record = func(ctx context.Context, work *upkeep.Run) error {
				return work.NoteWait(ctx, holderOf(ctx), toEnding(end))
			}
		}
		if err := record(ctx, work); err != nil {
			return err
		}
		a.reportEnd(ctx, work, end)
		return nil
	})
	if err != nil {
		a.Due.set(end.Build, end.Status, false)
	}
	return ended, err
}
