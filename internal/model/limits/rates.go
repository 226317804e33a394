package limits

import "sync"

// Rates are requests and tokens per minute that may change while calls wait for them; 0 is none.
type Rates struct {
	mu        sync.Mutex
	perMinute int
	tokens    int
	changed   chan struct{} // closed when they change
}

// NewRates makes rates.
func NewRates(perMinute, tokensPerMinute int) *Rates {
	return &Rates{perMinute: perMinute, tokens: tokensPerMinute, changed: make(chan struct{})}
}

// Set changes the rates: who waits by the former ones asks again at once, and who was let through by them and was not
// sent yet, too.
func (r *Rates) Set(perMinute, tokensPerMinute int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perMinute == perMinute && r.tokens == tokensPerMinute {
		return
	}
	r.perMinute, r.tokens = perMinute, tokensPerMinute
	close(r.changed)
	r.changed = make(chan struct{})
}

// currentRates gives the rates, and what is closed when they are others; of nil none.
func (r *Rates) currentRates() (perMinute, tokensPerMinute int, changed <-chan struct{}) {
	if r == nil {
		return 0, 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.perMinute, r.tokens, r.changed
}

// limitsTokens reports whether tokens are limited.
func (l Limits) limitsTokens() bool {
	_, tokens, _ := l.Rates.currentRates()
	return tokens > 0
}
