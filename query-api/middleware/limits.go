package middleware

import (
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
)

const (
	// maxAddresses are remembered, and as many people.
	maxAddresses = 10_000
	// maxSpared are looked at to find one that can be forgotten.
	maxSpared = 100
)

// limits hold the accounts of callers. Those of keys are as many as there are keys, and groups as many as are
// configured; those of addresses and people are bounded.
type limits struct {
	by        access.Limits
	quotas    *Quotas
	mu        sync.Mutex
	keys      map[string]*account // by id
	groups    map[string]*quota   // by subject
	addresses recent              // by netip.Prefix
	people    recent              // by id; of their own, so that no flood of addresses has them forgotten
}

// recent are the accounts of who asked last. Who asked longest ago is forgotten, and starts again when it comes again.
type recent struct {
	known map[any]*list.Element
	order *list.List // the one that asked last at the front
}

type remembered struct {
	by      any
	account *account
}

func newRecent() recent { return recent{map[any]*list.Element{}, list.New()} }

// find returns the account of a caller, a new one where none is known.
func (r *recent) find(by any, limits access.Limits) *account {
	if known := r.known[by]; known != nil {
		r.order.MoveToFront(known)
		return known.Value.(*remembered).account
	}
	if r.order.Len() >= maxAddresses {
		r.forgetOldest()
	}
	fresh := &remembered{by, newAccount(limits)}
	r.known[by] = r.order.PushFront(fresh)
	return fresh.account
}

// forgetOldest forgets who asked longest ago, but for those who spent money today: that would begin at zero again.
func (r *recent) forgetOldest() {
	for range maxSpared {
		oldest := r.order.Back()
		if _, spent := oldest.Value.(*remembered).account.spentToday(); spent == 0 {
			break
		}
		r.order.MoveToFront(oldest)
	}
	delete(r.known, r.order.Remove(r.order.Back()).(*remembered).by)
}

func newLimits(by access.Limits) *limits {
	return &limits{
		by: by, keys: map[string]*account{}, groups: map[string]*quota{}, addresses: newRecent(), people: newRecent(),
	}
}

// ofKey gives the account of a valid key.
func (l *limits) ofKey(key *access.Key) *account {
	by := key.Limits.WithDefaults(l.by)
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.keys[key.ID]
	if found == nil || found.given != by {
		quota := l.quotas.ofKey(*key)
		bounded := by
		if quota != nil && quota.atOnce > 0 && (by.Concurrency == 0 || quota.atOnce < by.Concurrency) {
			bounded.Concurrency = quota.atOnce
		}
		next := newAccount(bounded)
		next.given, next.quota = by, quota
		if found != nil { // another limit does not forget what was spent
			next.day, next.spent = found.spentToday()
		}
		l.keys[key.ID], found = next, next
	}
	return found
}

// ofAddress gives the account of an address; those of one IPv6 network of 64 bits share one.
func (l *limits) ofAddress(address netip.Addr) *account {
	address = address.Unmap()
	bits := 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.WithZone("").Prefix(bits) // cannot fail: the length is right
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addresses.find(prefix, l.by)
}

// ofPerson gives the account of a person by id, and the quota that the person shares by its groups, or nil.
func (l *limits) ofPerson(id string, groups []string) (*account, *quota) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.people.find(id, l.by)
	if l.quotas == nil || slices.Equal(found.groups, groups) {
		return found, found.quota
	}
	found.groups, found.quota = groups, l.quotas.ofGroups(groups)
	if shared := found.quota; shared != nil {
		if l.groups[shared.subject] == nil {
			l.groups[shared.subject] = shared
		}
		found.quota = l.groups[shared.subject]
	}
	return found, found.quota
}

// account of one caller.
type account struct {
	by       access.Limits
	given    access.Limits // by those of the key alone
	groups   []string      // of the person, that its quota is by
	quota    *quota        // nil: none
	requests *rate.Limiter // nil: no bound
	answers  *rate.Limiter
	mu       sync.Mutex
	running  int
	day      int64 // of what was spent, in days since 1970
	spent    float64
}

// unlimited is the account of who has no bound.
var unlimited = newAccount(access.Limits{})

func newAccount(by access.Limits) *account {
	out := &account{by: by}
	if by.RequestsPerSecond > 0 {
		out.requests = rate.NewLimiter(rate.Limit(by.RequestsPerSecond), max(1, by.Burst))
	}
	if by.AnswersPerMinute > 0 {
		out.answers = rate.NewLimiter(rate.Limit(by.AnswersPerMinute/60), max(1, int(by.AnswersPerMinute/6)))
	}
	return out
}

// newBusyError returns the error of a caller who has to wait.
func newBusyError(why string, wait time.Duration) error {
	err := fault.RateLimited.At("answer the request", "").Because(why).Advise("send fewer requests, or raise the limit")
	err.RetryAfter = max(time.Second, wait.Round(time.Second))
	return err
}

// takePlace takes a place of a limiter, or returns an error that says when there is one.
func takePlace(limiter *rate.Limiter, why string) error {
	if limiter == nil || limiter.Allow() {
		return nil
	}
	place := limiter.Reserve()
	wait := place.Delay()
	place.Cancel()
	return newBusyError(why, wait)
}

func (a *account) enterRequest() (leave func(), err error) {
	if err := takePlace(a.requests, "too many requests per second"); err != nil {
		return nil, err
	}
	if a.by.Concurrency == 0 {
		return func() {}, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running >= a.by.Concurrency {
		return nil, newBusyError("too many concurrent requests", time.Second)
	}
	a.running++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running--
	}, nil
}

const day = 24 * time.Hour

// spentToday returns the day and what was spent on it so far.
func (a *account) spentToday() (today int64, spent float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := time.Now().Unix() / int64(day/time.Second); now != a.day {
		a.day, a.spent = now, 0
	}
	return a.day, a.spent
}

func (a *account) checkMoney() error {
	if a.by.MoneyPerDay > 0 {
		if _, spent := a.spentToday(); spent >= a.by.MoneyPerDay {
			err := fault.BudgetSpent.At("answer the question", "").
				Because("the caller's budget for answers is used up for today").
				Advise("send the query without answer, wait until midnight UTC, or ask the operator for a higher limit")
			err.RetryAfter = untilMidnight()
			return err
		}
	}
	return takePlace(a.answers, "too many answers a minute")
}

func (a *account) addSpent(money float64) {
	a.spentToday() // begins a new day
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent += money
}
