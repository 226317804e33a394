package pipeline

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	// exchangePatience is how long one exchange with the store may take.
	exchangePatience = 10 * time.Second
	// keepBook is how long the account of a run is kept when no unit of it runs here: units of one run follow each
	// other.
	keepBook = 24 * time.Hour
)

// taskEmbed is the task of embedding requests.
const taskEmbed = "embed"

// books are the accounts that this process keeps, one a run.
type books struct {
	mu     sync.Mutex
	byRun  map[string]*book
	worker string
	opened int
}

// open gives the account of a run of the engine: another one of that name, which has another fence, begins at nothing.
func (b *books) open(ports *Ports, run string, fence int64) *book {
	name := run + "#" + fenceName(fence)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byRun == nil {
		raw := make([]byte, 8)
		_, _ = rand.Read(raw) // never fails
		b.byRun, b.worker = map[string]*book{}, hex.EncodeToString(raw)
	}
	for other, old := range b.byRun {
		if other != name && old.idle() {
			delete(b.byRun, other)
		}
	}
	known := b.byRun[name]
	if known == nil {
		b.opened++
		known = &book{
			runs: ports.Coordination, run: run, worker: fmt.Sprintf("%s-%d", b.worker, b.opened),
			mine: Account{Done: map[string]int64{}}, stops: map[int]context.CancelCauseFunc{},
			kick: make(chan struct{}, 1), clock: time.Now, ledger: ports.Ledger,
			paid: ports.Paid, limited: ports.Limited,
		}
		b.byRun[name] = known
	}
	known.users.Add(1)
	return known
}

// book is the account of one run in this process, and the gate before each of its paid calls. One exchange with the
// store, shared by everyone who waits for one, writes the account and reads the control record and the accounts of the
// other processes.
type book struct {
	runs   coordination.Runs
	run    string
	worker string
	users  atomic.Int64
	lease  keeper

	mu       sync.Mutex
	mine     Account
	dirty    bool
	others   Account
	control  Control
	settings core.Spec
	waiting  []*ticket                       // calls
	looking  []chan error                    // those who only want to know how the run stands
	stops    map[int]context.CancelCauseFunc // of the units that run here
	nextStop int
	looping  bool
	closedAt time.Time
	working  string    // stage of the unit that began last
	counted  time.Time // until when the time of units that run is in the account
	kick     chan struct{}
	clock    func() time.Time
	tasks    map[string]*stage.Health
	ledger   *ledger.Ledger // where results go; nil: nowhere
	paid     Paid
	limited  Limited
	factor   float64 // of prices; 0: 1
}

// health of the model that does a task, over all units of the run in this process.
func (b *book) health(task string) *stage.Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks == nil {
		b.tasks = map[string]*stage.Health{}
	}
	if b.tasks[task] == nil {
		b.tasks[task] = stage.NewHealth()
	}
	b.tasks[task].Resumed(b.control.Resumed)
	return b.tasks[task]
}

// ticket is a paid call that waits for admission.
type ticket struct {
	flight
	granted chan error
	at      time.Time // when the look that granted it came back
}

func (b *book) price(settings core.Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settings = settings
}

func (b *book) close() {
	b.mu.Lock()
	b.closedAt = time.Now()
	b.mu.Unlock()
	b.users.Add(-1)
}

func (b *book) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.users.Load() == 0 && time.Since(b.closedAt) > keepBook
}

// change changes the account and has it written soon.
func (b *book) change(f func(*Account)) {
	b.mu.Lock()
	f(&b.mine)
	b.dirty = true
	b.ensureLoop()
	b.mu.Unlock()
	b.wake()
}

func (b *book) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// watch cancels a unit's context when the run is stopped, and keeps the account written while units run. It returns the
// context and what ends the watch.
func (b *book) watch(ctx context.Context, stage string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	b.mu.Lock()
	b.countTime()
	if stage != "" {
		b.working = stage
	}
	id := b.nextStop
	b.nextStop++
	b.stops[id] = cancel
	b.ensureLoop()
	b.mu.Unlock()
	return ctx, func() {
		b.mu.Lock()
		b.countTime()
		delete(b.stops, id)
		b.mu.Unlock()
		cancel(nil)
		b.wake()
	}
}

// works tells which stage units are at from now on.
func (b *book) works(stage string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.countTime()
	b.working = stage
}

// countTime adds the time in which units ran to the account. The caller holds the lock. Time in which this process did
// not run either, as on a machine that slept, is not work.
func (b *book) countTime() {
	now := b.clock()
	if passed := now.Sub(b.counted); len(b.stops) > 0 && b.working != "" && passed < 2*exchangePatience {
		b.mine.Worked = plus(b.mine.Worked, map[string]float64{b.working: passed.Seconds()})
	}
	b.counted = now
}

// loop exchanges account and control with the store: at once when somebody waits or something changed, else every
// second, until no unit runs here. It is the only one that writes this account, so that an older one never overwrites.
func (b *book) loop(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		var due bool
		select {
		case <-b.kick:
		case <-ticker.C:
			due = true
		}
		b.mu.Lock()
		due = due || b.dirty || len(b.waiting) > 0 || len(b.looking) > 0
		b.mu.Unlock()
		if due { // else a unit ended, and nobody has a question
			exchange, cancel := context.WithTimeout(ctx, exchangePatience)
			b.exchange(exchange)
			cancel()
		}
		b.mu.Lock()
		if len(b.waiting) == 0 && len(b.looking) == 0 && len(b.stops) == 0 && !b.dirty {
			b.looping = false
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
	}
}

// ensureLoop starts the loop where it does not run. The caller holds the lock.
func (b *book) ensureLoop() {
	if !b.looping {
		b.looping = true
		go b.loop(context.Background())
	}
}

// exchange writes the account with the calls that are about to be admitted, reads what the others have, and answers
// everyone who waits.
func (b *book) exchange(ctx context.Context) {
	b.mu.Lock()
	waiting, looking := b.waiting, b.looking
	b.waiting, b.looking = nil, nil
	want := b.room(waiting)
	for _, ticket := range waiting[:want] {
		b.mine.fly(ticket.flight, 1)
	}
	b.dirty = false
	b.countTime()
	raw, err := json.Marshal(b.mine)
	b.mu.Unlock()
	began := b.clock()
	var control []byte
	var accounts map[string][]byte
	if err == nil {
		control, accounts, err = b.runs.Spend(ctx, b.run, b.worker, raw)
	}
	at := b.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if took := at.Sub(began); err == nil && took > slowLook {
		err = fault.StoreDown.At("look at control record of", b.run).
			Because("the store took " + took.Round(time.Millisecond).String() + " to answer").
			Advise("nothing is paid for while nobody can pause it; check stores.classes")
	}
	if err == nil {
		b.control, err = parseControl(b.run, control)
	}
	if err == nil {
		b.others, err = sum(b.run, accounts, b.worker)
	}
	if err == nil && b.limited != nil { // before a call is admitted, or a unit begins
		index, _, _ := strings.Cut(b.run, "/")
		b.limited(index, b.control.Limits)
	}
	for _, answer := range looking {
		if err != nil {
			answer <- err
		} else {
			answer <- b.control.stopped(b.run)
		}
	}
	if err != nil {
		b.dirty = true
		b.settleAll(waiting, want, err)
		return
	}
	b.decide(waiting, want, at)
}

// settleAll gives an error to everyone who waited.
func (b *book) settleAll(waiting []*ticket, counted int, err error) {
	for i, ticket := range waiting {
		if i < counted {
			b.mine.fly(ticket.flight, -1)
			b.dirty = true
		}
		ticket.granted <- err
	}
	if fault.Is(err, fault.ControlUnreadable) {
		b.stopUnits(err)
	}
}

// room is how many of the waiting calls the budget has room for, by what is known now.
func (b *book) room(waiting []*ticket) int {
	limit := b.control.limit(b.settings.Budget).Calls
	if limit <= 0 {
		return len(waiting)
	}
	return int(max(0, min(int64(len(waiting)), limit-b.promised())))
}

// promised counts the calls that were paid for or may yet be, over all processes.
func (b *book) promised() int64 {
	return b.mine.paidCalls() + b.mine.InFlight.Sum() + b.others.paidCalls() + b.others.InFlight.Sum()
}

// decide admits, refuses or keeps waiting, after a look at control and accounts. want of those who wait are in the
// account as in flight already. The caller holds the lock.
func (b *book) decide(waiting []*ticket, want int, at time.Time) {
	if stop := b.control.stopped(b.run); stop != nil {
		b.settleAll(waiting, want, stop)
		b.stopUnits(stop)
		return
	}
	budget := b.control.limit(b.settings.Budget)
	before := b.total() // those who wait are no reason to refuse the first of them
	for _, ticket := range waiting[:want] {
		before.fly(ticket.flight, -1)
	}
	if spent := Spent(core.Budget{Tokens: budget.Tokens, Money: budget.Money}, before, b.run); spent != nil {
		b.settleAll(waiting, want, spent)
		return
	}
	grant := want
	if budget.Calls > 0 { // another process may have taken the same room: what is too much is given back
		grant = int(max(0, int64(want)-max(0, b.promised()-budget.Calls)))
	}
	for _, ticket := range waiting[grant:want] {
		b.mine.fly(ticket.flight, -1)
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
	if spent := Spent(core.Budget{Calls: budget.Calls}, b.total(), b.run); spent != nil {
		b.settleAll(rest, 0, spent)
		return
	}
	b.waiting = append(rest, b.waiting...)
	if grant == 0 { // two processes gave the same room back: let one be first
		time.AfterFunc(time.Duration(1+mathrand.IntN(20))*time.Millisecond, b.wake)
	} else {
		b.wake()
	}
}

// total is what all processes did, as of the last exchange. The caller holds the lock.
func (b *book) total() Account {
	total := b.mine.copy()
	total.add(b.others)
	return total
}

func (b *book) stopUnits(cause error) {
	for _, stop := range b.stops {
		stop(cause)
	}
}

// look says why the run must not go on, by a control record that is read after look was asked; the account is written
// on the way.
func (b *book) look(ctx context.Context) error {
	answer := make(chan error, 1)
	b.mu.Lock()
	b.looking = append(b.looking, answer)
	b.ensureLoop()
	b.mu.Unlock()
	b.wake()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// flush writes the account.
func (b *book) flush(ctx context.Context) error {
	err := b.look(ctx)
	if fault.Is(err, fault.Paused) || fault.Is(err, fault.Cancelled) {
		return nil
	}
	return err
}

// stored waits while what was paid for cannot be stored: until then nothing more is paid for in this process. A run
// that is stopped meanwhile does not wait.
func (b *book) stored(ctx context.Context) error {
	if b.ledger == nil || b.ledger.Trouble() == nil {
		return nil
	}
	ctx, end := b.watch(ctx, "")
	defer end()
	return b.ledger.Ready(ctx)
}

// reply is about how many tokens the answer to a request will have.
func (b *book) reply(task string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Account{Calls: b.mine.Calls.Plus(b.others.Calls), Replies: b.mine.Replies.Plus(b.others.Replies)}.reply(task)
}

// cost of tokens that a call used.
func (b *book) cost(task string, usage model.Usage) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if task == taskEmbed {
		return float64(usage.Prompt) * b.settings.Embedding.Price.Prompt / 1e6
	}
	if task == model.Triples && b.settings.Triples.On() {
		return 0 // a server of one's own, which tells no tokens
	}
	price := b.settings.Chat.Price
	cost := (float64(usage.Prompt)*price.Prompt + float64(usage.Completion)*price.Completion) / 1e6
	if b.factor > 0 {
		cost *= b.factor
	}
	return cost
}

// end counts an admitted call: paid for when the server answered.
func (b *book) end(asked flight, usage model.Usage, answered bool) {
	if !answered {
		b.change(func(account *Account) { account.fly(asked, -1) })
		return
	}
	b.counting(asked.task, usage, func(account *Account) { account.fly(asked, -1) })
}

// count counts an answer that was paid for.
func (b *book) count(task string, usage model.Usage) { b.counting(task, usage, func(*Account) {}) }

// counting is count with what else changes at that moment.
func (b *book) counting(task string, usage model.Usage, also func(*Account)) {
	cost := b.cost(task, usage)
	b.change(func(account *Account) {
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
	if b.paid != nil { // the account comes first, whatever who is told does
		index, _, _ := strings.Cut(b.run, "/")
		b.paid(index, task, usage, cost)
	}
}
