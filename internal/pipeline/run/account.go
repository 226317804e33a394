package run

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Account is what one worker process did for one run, in absolute numbers since the process took the run up: writing it
// twice changes nothing, and the sum over all processes costs one field a process to read, however large the run.
type Account struct {
	Calls    core.Calls       `json:"calls"`     // answered, and so paid for
	InFlight core.Calls       `json:"in_flight"` // admitted and not answered yet, or never where the process died
	Expected core.Tokens      `json:"expected"`  // of those in flight, about
	Risk     float64          `json:"risk"`      // what the expected tokens cost
	Hits     core.Calls       `json:"hits"`      // results taken from the ledger by finished units
	Tokens   core.Tokens      `json:"tokens"`
	Replies  core.Calls       `json:"replies"` // completion tokens, by task
	Cost     float64          `json:"cost"`
	Written  core.Written     `json:"written"`
	Done     map[string]int64 `json:"done"` // by stage, of finished and of running units
	Cut      int64            `json:"cut,omitempty"`
	Doubted  int64            `json:"doubted,omitempty"` // calls whose usage could not be
	Damaged  int64            `json:"damaged,omitempty"` // objects of the ledger that could not be read

	Again   map[string]int64      `json:"again,omitempty"`  // by stage, what was done and has to be done once more
	Bytes   map[string]int64      `json:"bytes,omitempty"`  // by stage, of the work that Done counts
	Worked  map[string]float64    `json:"worked,omitempty"` // by stage, seconds in which units of it ran here
	Lately  map[string]Lately     `json:"lately,omitempty"` // by stage, its pace
	Moved   time.Time             `json:"moved,omitzero"`   // when Done rose last
	Retries map[string]core.Retry `json:"retries,omitempty"`
}

func (a Account) paidCalls() int64 { return a.Calls.Sum() }

func (a Account) paidTokens() int64 {
	return a.Tokens.Sum()
}

// CountFlight counts calls as in flight, or, below zero, no longer.
func (a *Account) CountFlight(one Flight, n int64) {
	a.InFlight.Count(one.Task, n)
	if one.Task == taskEmbed {
		a.Expected.Embedding += n * one.Prompt
	} else {
		a.Expected.Prompt += n * one.Prompt
		a.Expected.Completion += n * one.Completion
	}
	if a.Risk += float64(n) * one.Cost; a.InFlight.Sum() == 0 {
		a.Risk = 0 // not what rounding left
	}
}

// Flight is a paid call as far as it is known before its answer.
type Flight struct {
	Task       string
	Prompt     int64 // tokens, about
	Completion int64 // tokens, by the mean of what was answered so far
	Cost       float64
}

// firstReply is the length of the answers of a chat model that a budget reckons with before one was counted: without it
// all calls that a run can have in flight would be sent for nothing but their prompts.
const firstReply = 500

// replyOf returns about how many tokens an answer to a task has, by those that were counted.
func (a Account) replyOf(task string) int64 {
	calls, tokens := a.Calls.CountOf(task), a.Replies.CountOf(task)
	switch {
	case task == taskEmbed:
		return 0
	case calls == 0:
		return firstReply
	}
	return (tokens + calls - 1) / calls
}

func (a *Account) addAccount(other Account) {
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
	a.Damaged += other.Damaged
	a.Written.Segments += other.Written.Segments
	a.Written.Records += other.Written.Records
	a.Written.Rows += other.Written.Rows
	a.Done = addMap(a.Done, other.Done)
	a.Again, a.Bytes, a.Worked = addMap(a.Again, other.Again), addMap(a.Bytes, other.Bytes), addMap(a.Worked, other.Worked)
	if other.Moved.After(a.Moved) {
		a.Moved = other.Moved
	}
	for _, retry := range other.Retries {
		a.countRetry(retry)
	}
}

// addMap adds numbers by name; the sum is a map of its own only where one was there.
func addMap[N int64 | float64](sum, other map[string]N) map[string]N {
	for name, number := range other {
		if sum == nil {
			sum = map[string]N{}
		}
		sum[name] += number
	}
	return sum
}

// countRetry counts what a unit failed with.
func (a *Account) countRetry(retry core.Retry) {
	if a.Retries == nil {
		a.Retries = map[string]core.Retry{}
	}
	key := retry.Stage + "/" + retry.Code
	known, there := a.Retries[key]
	if !there {
		a.Retries[key] = retry
		return
	}
	if retry.First.Before(known.First) {
		known.First = retry.First
	}
	if retry.Last.After(known.Last) {
		known.Last, known.Detail = retry.Last, retry.Detail
	}
	known.Count += retry.Count
	a.Retries[key] = known
}

// IsDamaged reports damage: nothing that is counted here falls below zero. Done may, while units are taken back.
func (a Account) IsDamaged() bool {
	for _, number := range []int64{
		a.Calls.Extract, a.Calls.Shorten, a.Calls.Embed, a.InFlight.Extract, a.InFlight.Shorten, a.InFlight.Embed,
		a.Tokens.Prompt, a.Tokens.Completion, a.Tokens.Embedding, a.paidCalls(), a.paidTokens(),
		a.Expected.Prompt, a.Expected.Completion, a.Expected.Embedding, a.Replies.Extract, a.Replies.Shorten,
		a.Calls.Transcribe, a.InFlight.Transcribe, a.Replies.Transcribe,
	} {
		if number < 0 {
			return true
		}
	}
	return !(a.Cost >= 0) || !(a.Risk > -1e-6) // NaN too
}

// cloneAccount returns a value that its owner may go on changing.
func (a Account) cloneAccount() Account {
	a.Done, a.Again, a.Bytes = maps.Clone(a.Done), maps.Clone(a.Again), maps.Clone(a.Bytes)
	a.Worked, a.Lately, a.Retries = maps.Clone(a.Worked), maps.Clone(a.Lately), maps.Clone(a.Retries)
	return a
}

// sumAccounts adds the accounts of all processes but one.
func sumAccounts(run string, accounts map[string][]byte, but string) (Account, error) {
	var total Account
	for _, worker := range slices.Sorted(maps.Keys(accounts)) { // in one order: sums of money must come out equal
		if worker == but {
			continue
		}
		var account Account
		if err := json.Unmarshal(accounts[worker], &account); err != nil {
			return total, fault.ControlUnreadable.At("read account of", run+" by "+worker).Because(err)
		}
		if string(accounts[worker]) == "null" || account.IsDamaged() {
			return total, fault.ControlUnreadable.At("read account of", run+" by "+worker).
				Because("it holds numbers that no account can have")
		}
		total.addAccount(account)
	}
	if total.IsDamaged() {
		return total, fault.ControlUnreadable.At("sum accounts of", run).Because("they overflow")
	}
	return total, nil
}

// ReadTotals returns what a run did and paid for, over all processes that worked on it. A damaged account is an error:
// a budget that counts too little is none.
func ReadTotals(ctx context.Context, runs coordination.Runs, run string) (Account, error) {
	accounts, err := runs.ReadAccounts(ctx, run)
	if err != nil {
		return Account{}, err
	}
	return sumAccounts(run, accounts, "")
}
