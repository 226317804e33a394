package signon

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/unweaver/unweaver/internal/fault"
)

// Bounds of exchanges of codes for tokens in this process. The limits of addresses do not hold on loopback, where a
// proxy may ask for everybody.
const (
	mostExchanges      = 32 // at the same time
	exchangesPerSecond = 20
	mostUsed           = 10_000 // sign-ins that are remembered
)

// exchanges bounds how often the issuer is asked for tokens, and lets each sign-in ask once.
type exchanges struct {
	rate *rate.Limiter

	mu      sync.Mutex
	running int
	used    map[string]int64 // by state: when the sign-in expires, in seconds since 1970
}

func newExchanges() *exchanges {
	return &exchanges{rate: rate.NewLimiter(exchangesPerSecond, exchangesPerSecond), used: map[string]int64{}}
}

// begin takes a place for a sign-in that is checked, until end is called. It returns an error where all places are
// taken, or the sign-in took one before.
func (e *exchanges) begin(begun signIn, now time.Time) (end func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.used[begun.State] != 0 {
		return nil, fault.Unauthorized.At("sign in", "").Because("the sign-in was used before").
			Advise("sign in again")
	}
	if e.running >= mostExchanges || !e.rate.AllowN(now, 1) || !e.makeRoom(now) {
		busy := fault.RateLimited.At("sign in", "").Because("too many people sign in at once").
			Advise("try again in a moment")
		busy.RetryAfter = time.Second
		return nil, busy
	}
	e.used[begun.State] = begun.Expires
	e.running++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running--
	}, nil
}

// makeRoom forgets sign-ins that have expired where no more can be remembered, and reports whether one more can.
func (e *exchanges) makeRoom(now time.Time) bool {
	if len(e.used) >= mostUsed {
		for state, expires := range e.used {
			if now.Unix() >= expires {
				delete(e.used, state)
			}
		}
	}
	return len(e.used) < mostUsed
}
