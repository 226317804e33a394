package build

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Account is what one worker process did for one run, in absolute numbers since the process took the run up: writing it
// twice changes nothing, and the sum over all processes costs one field a process to read, however large the run.
type Account struct {
	Calls    corpus.Calls     `json:"calls"`     // answered, and so paid for
	InFlight corpus.Calls     `json:"in_flight"` // admitted and not answered yet, or never where the process died
	Expected corpus.Tokens    `json:"expected"`  // of those in flight, about
	Risk     float64          `json:"risk"`      // what the expected tokens cost
	Hits     corpus.Calls     `json:"hits"`      // results taken from the ledger by finished units
	Tokens   corpus.Tokens    `json:"tokens"`
	Replies  corpus.Calls     `json:"replies"` // completion tokens, by task
	Cost     float64          `json:"cost"`
	Written  corpus.Written   `json:"written"`
	Done     map[string]int64 `json:"done"` // by stage, of finished and of running units
	Cut      int64            `json:"cut,omitempty"`
	Doubted  int64            `json:"doubted,omitempty"` // calls whose usage could not be
}

func (a Account) paidCalls() int64 { return a.Calls.Sum() }

func (a Account) paidTokens() int64 {
	return a.Tokens.Prompt + a.Tokens.Completion + a.Tokens.Embedding
}

// fly counts calls as in flight, or, below zero, no longer.
func (a *Account) fly(one flight, n int64) {
	a.InFlight.Count(one.task, n)
	if one.task == taskEmbed {
		a.Expected.Embedding += n * one.prompt
	} else {
		a.Expected.Prompt += n * one.prompt
		a.Expected.Completion += n * one.completion
	}
	if a.Risk += float64(n) * one.cost; a.InFlight.Sum() == 0 {
		a.Risk = 0 // not what rounding left
	}
}

// flight is a paid call as far as it is known before its answer.
type flight struct {
	task       string
	prompt     int64 // tokens, about
	completion int64 // tokens, by the mean of what was answered so far
	cost       float64
}

// reply is about how many tokens an answer to a task has, by those that were counted; 0 where none was.
func (a Account) reply(task string) int64 {
	calls, tokens := a.Calls.Of(task), a.Replies.Of(task)
	if calls == 0 {
		return 0
	}
	return (tokens + calls - 1) / calls
}

func (a *Account) add(other Account) {
	a.Calls = a.Calls.Plus(other.Calls)
	a.InFlight = a.InFlight.Plus(other.InFlight)
	a.Expected.Prompt += other.Expected.Prompt
	a.Expected.Completion += other.Expected.Completion
	a.Replies = a.Replies.Plus(other.Replies)
	a.Expected.Embedding += other.Expected.Embedding
	a.Risk += other.Risk
	a.Hits = a.Hits.Plus(other.Hits)
	a.Tokens.Prompt += other.Tokens.Prompt
	a.Tokens.Completion += other.Tokens.Completion
	a.Tokens.Embedding += other.Tokens.Embedding
	a.Cost += other.Cost
	a.Cut += other.Cut
	a.Doubted += other.Doubted
	a.Written.Segments += other.Written.Segments
	a.Written.Records += other.Written.Records
	a.Written.Rows += other.Written.Rows
	for stage, done := range other.Done {
		if a.Done == nil {
			a.Done = map[string]int64{}
		}
		a.Done[stage] += done
	}
}

// impossible tells damage: nothing that is counted here falls below zero. Done may, while units are taken back.
func (a Account) impossible() bool {
	for _, number := range []int64{
		a.Calls.Extract, a.Calls.Shorten, a.Calls.Embed, a.InFlight.Extract, a.InFlight.Shorten, a.InFlight.Embed,
		a.Tokens.Prompt, a.Tokens.Completion, a.Tokens.Embedding, a.paidCalls(), a.paidTokens(),
		a.Expected.Prompt, a.Expected.Completion, a.Expected.Embedding, a.Replies.Extract, a.Replies.Shorten,
	} {
		if number < 0 {
			return true
		}
	}
	return !(a.Cost >= 0) || !(a.Risk > -1e-6) // NaN too
}

// copy is a value that its owner may go on changing.
func (a Account) copy() Account {
	a.Done = maps.Clone(a.Done)
	return a
}

// sum adds the accounts of all processes but one.
func sum(run string, accounts map[string][]byte, but string) (Account, error) {
	var total Account
	for _, worker := range slices.Sorted(maps.Keys(accounts)) { // in one order: sums of money must come out equal
		if worker == but {
			continue
		}
		var account Account
		if err := json.Unmarshal(accounts[worker], &account); err != nil {
			return total, fault.ControlUnreadable.At("read account of", run+" by "+worker).Because(err)
		}
		if string(accounts[worker]) == "null" || account.impossible() {
			return total, fault.ControlUnreadable.At("read account of", run+" by "+worker).
				Because("it holds numbers that no account can have")
		}
		total.add(account)
	}
	if total.impossible() {
		return total, fault.ControlUnreadable.At("sum accounts of", run).Because("they overflow")
	}
	return total, nil
}

// Totals is what a run did and paid for, over all processes that worked on it. A damaged account is an error: a budget
// that counts too little is none.
func Totals(ctx context.Context, runs coordination.Runs, run string) (Account, error) {
	accounts, err := runs.Accounts(ctx, run)
	if err != nil {
		return Account{}, err
	}
	return sum(run, accounts, "")
}

// Progress is what one unit of work did so far.
type Progress struct {
	stage string
	book  *book
	done  int64        // of this unit, in the account already
	last  atomic.Int64 // nanoseconds from epoch to its last sign of life
}

// epoch has a reading of the monotonic clock, so that what is measured from it survives jumps of the clock.
var epoch = time.Now()

// Report takes absolute progress of this unit. Calls and tokens in it are ignored: the meter counts those.
func (p *Progress) Report(now corpus.Progress) { p.Done(now.Done) }

// Done takes how many pieces of the stage this unit has done so far.
func (p *Progress) Done(done int64) {
	p.Touch()
	p.book.change(func(account *Account) {
		account.Done[p.stage] += done - p.done
		p.done = done
	})
}

// Touch tells that the unit is alive though it has nothing to count.
func (p *Progress) Touch() { p.last.Store(int64(time.Since(epoch))) }

// Finish takes what a finished unit did. It counts once.
func (p *Progress) Finish(all corpus.Progress) {
	p.book.change(func(account *Account) {
		account.Done[p.stage] += all.Done - p.done
		p.done = 0 // finished: it stays in the account
		account.add(Account{Hits: all.Hits, Written: all.Written, Cut: all.Cut})
	})
}

// drop takes what an unfinished unit did back: another attempt does it again.
func (p *Progress) drop() {
	if p.done == 0 {
		return
	}
	p.book.change(func(account *Account) {
		account.Done[p.stage] -= p.done
		p.done = 0
	})
}
