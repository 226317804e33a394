package run

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Progress is what one unit of work did so far.
type Progress struct {
	Stage string
	Book  *Book
	done  int64        // of this unit, in the account already
	bytes int64        // likewise
	last  atomic.Int64 // nanoseconds from epoch to its last sign of life
}

// epoch has a reading of the monotonic clock, so that what is measured from it survives jumps of the clock.
var epoch = time.Now()

// Report takes absolute progress of this unit. Calls and tokens in it are ignored: the meter counts those.
func (p *Progress) Report(now core.Progress) { p.Done(now.Done) }

// Done takes how many pieces of the stage this unit has done so far.
func (p *Progress) Done(done int64) {
	p.Touch()
	p.Book.Change(func(account *Account) {
		account.advanceStage(p.Stage, done-p.done, 0)
		p.done = done
	})
}

// Worked does what Done does, with the bytes of the work so far, for stages whose pieces are of very different sizes.
func (p *Progress) Worked(done, bytes int64) {
	p.Touch()
	p.Book.Change(func(account *Account) {
		account.advanceStage(p.Stage, done-p.done, bytes-p.bytes)
		p.done, p.bytes = done, bytes
	})
}

// advanceStage counts what a unit did more than it had done, or less.
func (a *Account) advanceStage(stage string, done, bytes int64) {
	a.Done = addMap(a.Done, map[string]int64{stage: done})
	if bytes != 0 {
		a.Bytes = addMap(a.Bytes, map[string]int64{stage: bytes})
	}
	if done > 0 || bytes > 0 {
		a.Moved = time.Now().UTC()
	}
	for name, more := range map[string]int64{stage: done, stage + ofBytes: bytes} {
		if again := min(a.Again[name], more); again > 0 {
			a.Again[name] -= again
		}
	}
}

// ofBytes marks the bytes of a stage in Account.Again.
const ofBytes = ".bytes"

// Touch says that the unit is alive though it has nothing to count.
func (p *Progress) Touch() { p.last.Store(int64(time.Since(epoch))) }

// Finish takes what a finished unit did. It counts once.
func (p *Progress) Finish(all core.Progress) {
	p.Book.Change(func(account *Account) {
		account.advanceStage(p.Stage, all.Done-p.done, max(0, all.Bytes-p.bytes))
		p.done, p.bytes = 0, 0 // finished: it stays in the account
		account.addAccount(Account{Hits: all.Hits, Written: all.Written, Cut: all.Cut})
	})
}

// Drop takes what an unfinished unit did back: another attempt does it again. What is shown to people stays where it is
// until that has caught up.
func (p *Progress) Drop() {
	if p.done == 0 && p.bytes == 0 {
		return
	}
	p.Book.Change(func(account *Account) {
		account.Done = addMap(account.Done, map[string]int64{p.Stage: -p.done})
		account.Bytes = addMap(account.Bytes, map[string]int64{p.Stage: -p.bytes})
		account.Again = addMap(account.Again, map[string]int64{p.Stage: p.done, p.Stage + ofBytes: p.bytes})
		p.done, p.bytes = 0, 0
	})
}

// longestRetry is how much of an error's text an account holds, in characters.
const longestRetry = 400

// Failed counts what a unit failed with.
func (p *Progress) Failed(problem core.Problem) {
	p.Book.tryAgain(problem.Object, problem.Code, problem.Detail)
}

// Refused implements model.Refusals.
func (b *Book) Refused(task string, err error) {
	b.tryAgain(task, string(fault.CodeOf(err)), err.Error())
}

// tryAgain counts a failure after which a stage goes on.
func (b *Book) tryAgain(stage, code, why string) {
	now := b.Clock().UTC()
	detail := []rune(redact.Text(why))
	b.Change(func(account *Account) {
		account.countRetry(core.Retry{
			Stage: stage, Code: code, Count: 1, First: now, Last: now,
			Detail: string(detail[:min(len(detail), longestRetry)]),
		})
	})
}

// listRetries returns the retries of all stages, the oldest first.
func (a Account) listRetries() []core.Retry {
	return slices.SortedFunc(maps.Values(a.Retries), func(one, two core.Retry) int {
		return cmp.Or(one.First.Compare(two.First), cmp.Compare(one.Stage+one.Code, two.Stage+two.Code))
	})
}

// still is how long nothing may be counted before a process is taken to stand still, at least.
const still = 30 * time.Second

// Pacing returns Totals with how far a stage of the run is, and how fast. state is the run's, its stage the one that
// counts.
func Pacing(
	ctx context.Context, runs coordination.Runs, run string, state core.RunState, now time.Time,
) (Account, core.Pace, error) {
	accounts, err := runs.Accounts(ctx, run)
	if err != nil {
		return Account{}, core.Pace{}, err
	}
	total, err := sumAccounts(run, accounts, "")
	if err != nil {
		return Account{}, core.Pace{}, err
	}
	return total, measurePace(accounts, total, state, now), nil
}

// measurePace returns the pace, by what processes did in the time in which they worked: what a run paused, waited or
// lay still because its process was killed does not count. A process that has counted nothing for long does not get on.
func measurePace(accounts map[string][]byte, total Account, state core.RunState, now time.Time) core.Pace {
	stage := state.Stage
	shown := total.Done[stage] + max(0, total.Again[stage])
	out := core.Pace{Done: shown}
	if state.Total > 0 {
		out.Done = max(0, min(shown, state.Total))
		out.Share = float64(out.Done) / float64(state.Total)
	}
	var bytesRate float64
	reported := false
	for _, raw := range accounts {
		var account Account
		if json.Unmarshal(raw, &account) != nil {
			continue
		}
		worked, done := account.Worked[stage], float64(account.Done[stage])
		if account.Moved.IsZero() {
			continue // an older release does not report it
		}
		reported = true
		quiet := still
		if done > 0 {
			quiet = max(quiet, time.Duration(3*worked/done*float64(time.Second)))
		}
		if worked <= 0 || now.Sub(account.Moved) > quiet {
			continue
		}
		out.Rate += done / worked
		bytesRate += float64(account.Bytes[stage]) / worked
	}
	if elapsed := state.Elapsed(now); !reported && elapsed > 0 && state.Stopped == nil {
		out.Rate = float64(total.Done[stage]) / elapsed
	}
	switch {
	case state.Bytes > 0:
		done := max(0, min(total.Bytes[stage]+max(0, total.Again[stage+ofBytes]), state.Bytes))
		out.Share = float64(done) / float64(state.Bytes)
		if bytesRate > 0 {
			out.Seconds = float64(state.Bytes-done) / bytesRate
		}
	case out.Rate > 0:
		out.Seconds = float64(state.Total-out.Done) / out.Rate
	}
	return out
}
