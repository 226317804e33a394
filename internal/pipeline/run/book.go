package run

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

const (
	// lookEvery is how often a process that works on a run looks at its control record when nothing asks for it sooner.
	lookEvery = time.Second
	// ExchangePatience is how long one exchange with the store may take.
	ExchangePatience = 10 * time.Second
	// keepBook is how long the account of a run is kept when no unit of it runs here: units of one run follow each
	// other.
	keepBook = 24 * time.Hour
)

// taskEmbed is the task of embedding requests.
const taskEmbed = "embed"

// books are the accounts that this process keeps, one a run.
type books struct {
	mu     sync.Mutex
	byRun  map[string]*Book
	worker string
	opened int
}

// openBook gives the account of a run of the engine: another one of that name, which has another fence, begins at
// nothing.
func (b *books) openBook(ports *Ports, run string, fence int64) *Book {
	name := run + "#" + fenceName(fence)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byRun == nil {
		b.byRun, b.worker = map[string]*Book{}, rand.Text()
	}
	for other, old := range b.byRun {
		if other != name && old.isIdle() {
			delete(b.byRun, other)
		}
	}
	known := b.byRun[name]
	if known == nil {
		b.opened++
		known = ports.NewBook(run, fmt.Sprintf("%s-%d", b.worker, b.opened), Account{Done: map[string]int64{}})
		b.byRun[name] = known
	}
	known.users.Add(1)
	return known
}

// NewBook returns a book that a worker goes on with from an account of its own.
func (p *Ports) NewBook(run, worker string, mine Account) *Book {
	return &Book{
		Runs: p.Coordination, Run: run, Worker: worker, Mine: mine, Stops: map[int]context.CancelCauseFunc{},
		Kick: make(chan struct{}, 1), Clock: time.Now, Ledger: p.Ledger, Paid: p.Paid, Limited: p.Limited,
	}
}

// Book is the account of one run in this process, and the gate before each of its paid calls. One exchange with the
// store, shared by everyone who waits for one, writes the account and reads the control record and the accounts of the
// other processes.
type Book struct {
	Runs   coordination.Runs
	Run    string
	Worker string
	users  atomic.Int64
	lease  keeper

	Mu       sync.Mutex
	Mine     Account
	dirty    bool
	others   Account
	Control  Control
	Settings core.Spec
	waiting  []*ticket                       // calls
	looking  []chan error                    // those who only want to know how the run stands
	Stops    map[int]context.CancelCauseFunc // of the units that run here
	nextStop int
	looping  bool
	closedAt time.Time
	working  string    // stage of the unit that began last
	counted  time.Time // until when the time of units that run is in the account
	Kick     chan struct{}
	Clock    func() time.Time
	tasks    map[string]*stage.Health
	Ledger   *ledger.Ledger // where results go; nil: nowhere
	Paid     Paid
	Limited  Limited
	Factor   float64   // of prices; 0: 1
	away     time.Time // when a unit failed first, since its model is away, after answered calls
	answered int64
}

// awayFor is how long a model is away before its run waits for it: other workers may reach it meanwhile.
const awayFor = 45 * time.Second

// ModelAway takes that a unit failed because its model is away, and reports whether that lasts: no process of the run
// had an answer for awayFor.
func (b *Book) ModelAway() bool {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	now, answered := b.Clock(), b.Mine.paidCalls()+b.others.paidCalls()
	if b.away.IsZero() || answered > b.answered {
		b.away, b.answered = now, answered
	}
	return now.Sub(b.away) >= awayFor
}

// HealthOf returns the health of the model that does a task, over all units of the run in this process.
func (b *Book) HealthOf(task string) *stage.Health {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if b.tasks == nil {
		b.tasks = map[string]*stage.Health{}
	}
	if b.tasks[task] == nil {
		b.tasks[task] = stage.NewHealth()
	}
	b.tasks[task].NoteResume(b.Control.Resumed)
	return b.tasks[task]
}

// ticket is a paid call that waits for admission.
type ticket struct {
	Flight
	granted chan error
	at      time.Time // when the look that granted it came back
}

func (b *Book) setPrices(settings core.Spec) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Settings = settings
}

func (b *Book) closeBook() {
	b.Mu.Lock()
	b.closedAt = time.Now()
	b.Mu.Unlock()
	b.users.Add(-1)
}

func (b *Book) isIdle() bool {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return b.users.Load() == 0 && time.Since(b.closedAt) > keepBook
}

// Change changes the account and has it written soon.
func (b *Book) Change(f func(*Account)) {
	b.Mu.Lock()
	f(&b.Mine)
	b.dirty = true
	b.ensureLoop()
	b.Mu.Unlock()
	b.wakeLoop()
}

func (b *Book) wakeLoop() {
	select {
	case b.Kick <- struct{}{}:
	default:
	}
}

// Watch cancels a unit's context when the run is stopped, and keeps the account written while units run. It returns the
// context and what ends the watch.
func (b *Book) Watch(ctx context.Context, stage string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.Mu.Lock()
	b.countTime()
	if stage != "" {
		b.working = stage
	}
	id := b.nextStop
	b.nextStop++
	b.Stops[id] = cancel
	b.ensureLoop()
	b.Mu.Unlock()
	return ctx, func() {
		b.Mu.Lock()
		b.countTime()
		delete(b.Stops, id)
		b.Mu.Unlock()
		cancel(nil)
		b.wakeLoop()
	}
}

// SetStage says which stage units are at from now on.
func (b *Book) SetStage(stage string) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.countTime()
	b.working = stage
}

// countTime adds the time in which units ran to the account. The caller holds the lock. Time in which this process did
// not run either, as on a machine that slept, is not work.
func (b *Book) countTime() {
	now := b.Clock()
	if passed := now.Sub(b.counted); len(b.Stops) > 0 && b.working != "" && passed < 2*ExchangePatience {
		b.Mine.passTime(b.working, passed)
	}
	b.counted = now
}

// loopExchange exchanges account and control with the store: at once when somebody waits or something changed, else
// every second, until no unit runs here. It is the only one that writes this account, so that an older one never
// overwrites.
func (b *Book) loopExchange(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		var due bool
		select {
		case <-b.Kick:
		case <-ticker.C:
			due = true
		}
		b.Mu.Lock()
		due = due || b.dirty || len(b.waiting) > 0 || len(b.looking) > 0
		b.Mu.Unlock()
		if due { // else a unit ended, and no call waits
			exchange, cancel := context.WithTimeout(ctx, ExchangePatience)
			b.exchangeAccounts(exchange)
			cancel()
		}
		b.Mu.Lock()
		if len(b.waiting) == 0 && len(b.looking) == 0 && len(b.Stops) == 0 && !b.dirty {
			b.looping = false
			b.Mu.Unlock()
			return
		}
		b.Mu.Unlock()
	}
}

// ensureLoop starts the loop where it does not run. The caller holds the lock.
func (b *Book) ensureLoop() {
	if !b.looping {
		b.looping = true
		go b.loopExchange(context.Background())
	}
}

// exchangeAccounts writes the account with the calls that are about to be admitted, reads what the others have, and
// answers everyone who waits.
func (b *Book) exchangeAccounts(ctx context.Context) {
	b.Mu.Lock()
	waiting, looking := b.waiting, b.looking
	b.waiting, b.looking = nil, nil
	want := b.countRoom(waiting)
	for _, ticket := range waiting[:want] {
		b.Mine.CountFlight(ticket.Flight, 1)
	}
	b.dirty = false
	b.countTime()
	raw, err := json.Marshal(b.Mine)
	b.Mu.Unlock()
	began := b.Clock()
	var control []byte
	var accounts map[string][]byte
	if err == nil {
		control, accounts, err = b.Runs.ExchangeAccount(ctx, b.Run, b.Worker, raw)
	}
	at := b.Clock()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if took := at.Sub(began); err == nil && took > slowLook {
		err = fault.StoreDown.At("look at control record of", b.Run).
			Because("the store took " + took.Round(time.Millisecond).String() + " to answer").
			Advise("no model is called while the run cannot be paused; check stores.classes")
	}
	if err == nil {
		b.Control, err = parseControl(b.Run, control)
	}
	if err == nil {
		b.others, err = sumAccounts(b.Run, accounts, b.Worker)
	}
	if err == nil && b.Limited != nil { // before a call is admitted, or a unit begins
		index, _, _ := strings.Cut(b.Run, "/")
		b.Limited(index, b.Control.Limits)
	}
	for _, answer := range looking {
		if err != nil {
			answer <- err
		} else {
			answer <- b.Control.checkStopped(b.Run)
		}
	}
	if err != nil {
		b.dirty = true
		b.settleAll(waiting, want, err)
		return
	}
	b.decideTickets(waiting, want, at)
}

// settleAll gives an error to everyone who waited.
func (b *Book) settleAll(waiting []*ticket, counted int, err error) {
	for i, ticket := range waiting {
		if i < counted {
			b.Mine.CountFlight(ticket.Flight, -1)
			b.dirty = true
		}
		ticket.granted <- err
	}
	if fault.Is(err, fault.ControlUnreadable) {
		b.stopUnits(err)
	}
}

// countRoom returns how many of the waiting calls the budget has room for, by what is known now.
func (b *Book) countRoom(waiting []*ticket) int {
	limit := b.Control.LimitBudget(b.Settings.Budget).Calls
	if limit <= 0 {
		return len(waiting)
	}
	return int(max(0, min(int64(len(waiting)), limit-b.countPromised())))
}

// countPromised counts the calls that were paid for or may yet be, over all processes.
func (b *Book) countPromised() int64 {
	return b.Mine.paidCalls() + b.Mine.InFlight.Sum() + b.others.paidCalls() + b.others.InFlight.Sum()
}

// decideTickets admits, refuses or keeps waiting, after a look at control and accounts. want of those who wait are in
// the account as in flight already. The caller holds the lock.
func (b *Book) decideTickets(waiting []*ticket, want int, at time.Time) {
	if stop := b.Control.checkStopped(b.Run); stop != nil {
		b.settleAll(waiting, want, stop)
		b.stopUnits(stop)
		return
	}
	budget := b.Control.LimitBudget(b.Settings.Budget)
	before := b.Total() // those who wait are no reason to refuse the first of them
	for _, ticket := range waiting[:want] {
		before.CountFlight(ticket.Flight, -1)
	}
	used := core.Budget{Tokens: budget.Tokens, Money: budget.Money}
	sure := before // without what is in flight here, which may cost less than is expected of it
	if b.Mine.InFlight.Sum() > int64(want) {
		sure.Expected, sure.Risk = core.Tokens{}, 0
	}
	if spent := CheckBudget(used, sure, b.Run); spent != nil {
		b.settleAll(waiting, want, spent)
		return
	}
	grant := want
	if budget.Calls > 0 { // another process may have taken the same room: what is too much is given back
		grant = int(max(0, int64(want)-max(0, b.countPromised()-budget.Calls)))
	}
	fits := 0 // of those that the others leave room for; the rest waits for what these really cost
	for fits < grant && CheckBudget(used, before, b.Run) == nil {
		before.CountFlight(waiting[fits].Flight, 1)
		fits++
	}
	full := fits < grant
	grant = fits
	for _, ticket := range waiting[grant:want] {
		b.Mine.CountFlight(ticket.Flight, -1)
		b.dirty = true
	}
	for _, ticket := range waiting[:grant] {
		ticket.at = at
		ticket.granted <- nil
	}
	rest := waiting[grant:]
	if len(rest) == 0 {
		return
	}
	if spent := CheckBudget(core.Budget{Calls: budget.Calls}, b.Total(), b.Run); spent != nil {
		b.settleAll(rest, 0, spent)
		return
	}
	b.waiting = append(rest, b.waiting...)
	if full {
		return // the end of a call, or the next look, asks again
	}
	if grant == 0 { // two processes gave the same room back: let one be first
		time.AfterFunc(time.Duration(1+mathrand.IntN(20))*time.Millisecond, b.wakeLoop)
	} else {
		b.wakeLoop()
	}
}

// Total returns what all processes did, as of the last exchange. The caller holds the lock.
func (b *Book) Total() Account {
	total := b.Mine.cloneAccount()
	total.addAccount(b.others)
	return total
}

func (b *Book) stopUnits(cause error) {
	for _, stop := range b.Stops {
		stop(cause)
	}
}

// CheckControl says why the run must not go on, by a control record that is read after look was asked; the account is
// written on the way.
func (b *Book) CheckControl(ctx context.Context) error {
	answer := make(chan error, 1)
	b.Mu.Lock()
	b.looking = append(b.looking, answer)
	b.ensureLoop()
	b.Mu.Unlock()
	b.wakeLoop()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Flush writes the account.
func (b *Book) Flush(ctx context.Context) error {
	err := b.CheckControl(ctx)
	if fault.Is(err, fault.Paused) || fault.Is(err, fault.Cancelled) {
		return nil
	}
	return err
}

// AwaitStored waits while what was paid for cannot be stored: until then nothing more is paid for in this process. A
// run that is stopped meanwhile does not wait.
func (b *Book) AwaitStored(ctx context.Context) error {
	if b.Ledger == nil || b.Ledger.FindTrouble() == nil {
		return nil
	}
	ctx, end := b.Watch(ctx, "")
	defer end()
	return b.Ledger.AwaitReady(ctx)
}

// endCall counts an admitted call: paid for when the server answered.
func (b *Book) endCall(asked Flight, usage model.Usage, answered bool) {
	if !answered {
		b.Change(func(account *Account) { account.CountFlight(asked, -1) })
		return
	}
	b.countUsage(asked.Task, usage, func(account *Account) { account.CountFlight(asked, -1) })
}

// Count counts an answer that was paid for.
func (b *Book) Count(task string, usage model.Usage) { b.countUsage(task, usage, func(*Account) {}) }

// countUsage counts a call, with what else changes at that moment.
func (b *Book) countUsage(task string, usage model.Usage, also func(*Account)) {
	cost := b.Cost(task, usage)
	b.Change(func(account *Account) {
		also(account)
		account.Calls.Count(task, 1)
		account.Cost += cost
		if usage.Doubted {
			account.Doubted++
		}
		if task == taskEmbed {
			account.Tokens.Embedding += usage.Prompt
			return
		}
		account.Tokens.Prompt += usage.Prompt
		account.Tokens.Completion += usage.Completion
		account.Replies.Count(task, usage.Completion)
	})
	if b.Paid != nil { // the account comes first, whatever Paid does
		index, _, _ := strings.Cut(b.Run, "/")
		b.Paid(index, task, usage, cost)
	}
}
