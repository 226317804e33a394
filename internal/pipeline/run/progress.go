package run

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
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
	fresh int64        // likewise, of done what the ledger did not have
	last  atomic.Int64 // nanoseconds from epoch to its last sign of life
}

// epoch has a reading of the monotonic clock, so that what is measured from it survives jumps of the clock.
var epoch = time.Now()

// Report takes absolute progress of this unit. Calls and tokens in it are ignored: the meter counts those.
func (p *Progress) Report(now core.Progress) {
	p.Touch()
	p.Book.Change(func(account *Account) { p.advanceUnit(account, now) })
}

// SetDone takes how many pieces of the stage this unit has done so far.
func (p *Progress) SetDone(done int64) { p.Report(core.Progress{Done: done}) }

// SetWork does what Done does, with the bytes of the work so far, for stages whose pieces are of very different sizes.
func (p *Progress) SetWork(done, bytes int64) { p.Report(core.Progress{Done: done, Bytes: bytes}) }

// advanceUnit takes absolute progress into the account.
func (p *Progress) advanceUnit(account *Account, now core.Progress) {
	bytes := max(p.bytes, now.Bytes)
	fresh := max(0, now.Done-now.Hits.Sum())
	account.advanceStage(p.Stage, now.Done-p.done, bytes-p.bytes, fresh-p.fresh)
	p.done, p.bytes, p.fresh = now.Done, bytes, fresh
}

// Lately is what a process did of a stage in about the last minute of its work, or longer where it did little: the pace
// at which the rest goes. What the ledger had takes no time, and says nothing of the rest.
type Lately struct {
	Done    float64 `json:"done"`
	Bytes   float64 `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds"`
}

const (
	latelyOver  = time.Minute
	leastLately = 20 // pieces by which a pace is measured, whatever time they took
)

// passTime has time go by in which units of a stage ran: what was done before counts less.
func (a *Account) passTime(stage string, passed time.Duration) {
	a.Worked = addMap(a.Worked, map[string]float64{stage: passed.Seconds()})
	lately, keep := a.Lately[stage], 1.0
	if lately.Done > leastLately {
		keep = math.Exp(-passed.Seconds() / latelyOver.Seconds())
	}
	a.setLately(stage, Lately{keep * lately.Done, keep * lately.Bytes, keep*lately.Seconds + passed.Seconds()})
}

func (a *Account) setLately(stage string, lately Lately) {
	if a.Lately == nil {
		a.Lately = map[string]Lately{}
	}
	a.Lately[stage] = lately
}

// advanceStage counts what a unit did more than it had done, or less; fresh is what of it the ledger did not have.
func (a *Account) advanceStage(stage string, done, bytes, fresh int64) {
	lately := a.Lately[stage]
	lately.Done, lately.Bytes = max(0, lately.Done+float64(fresh)), max(0, lately.Bytes+float64(bytes))
	a.setLately(stage, lately)
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
		p.advanceUnit(account, all)
		p.done, p.bytes, p.fresh = 0, 0, 0 // finished: it stays in the account
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
		p.done, p.bytes, p.fresh = 0, 0, 0
	})
}

// longestRetry is how much of an error's text an account holds, in characters.
const longestRetry = 400

// CountFailure counts what a unit failed with.
func (p *Progress) CountFailure(problem core.Problem) {
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

// ReadPace returns Totals with how far a stage of the run is, and how fast. state is the run's, its stage the one that
// counts.
func ReadPace(
	ctx context.Context, runs coordination.Runs, run string, state core.RunState, now time.Time,
) (Account, core.Pace, error) {
	accounts, err := runs.ReadAccounts(ctx, run)
	if err != nil {
		return Account{}, core.Pace{}, err
	}
	total, err := sumAccounts(run, accounts, "")
	if err != nil {
		return Account{}, core.Pace{}, err
	}
	return total, measurePace(accounts, total, state, now), nil
}

// measurePace returns the pace, by what processes did lately in the time in which they worked: what a run paused,
// waited or lay still because its process was killed does not count. A process that has counted nothing for long does
// not get on.
func measurePace(accounts map[string][]byte, total Account, state core.RunState, now time.Time) core.Pace {
	stage := state.Stage
	shown := total.Done[stage] + max(0, total.Again[stage])
	out := core.Pace{Done: shown}
	if state.Total > 0 {
		out.Done = max(0, min(shown, state.Total))
		out.Share = float64(out.Done) / float64(state.Total)
	}
	var bytesRate float64
	for _, raw := range accounts {
		var account Account
		if json.Unmarshal(raw, &account) != nil {
			continue
		}
		worked, done := account.Worked[stage], float64(account.Done[stage])
		quiet := still
		if done > 0 {
			quiet = max(quiet, time.Duration(3*worked/done*float64(time.Second)))
		}
		lately := account.Lately[stage]
		if lately.Seconds <= 0 || now.Sub(account.Moved) > quiet {
			continue
		}
		out.Rate += lately.Done / lately.Seconds
		bytesRate += lately.Bytes / lately.Seconds
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
