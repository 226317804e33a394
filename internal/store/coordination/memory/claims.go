package memory

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

type claim struct {
	owner string
	until time.Time
}

type window struct {
	at       time.Time
	requests float64 // available
	tokens   float64
}

// Claims implements coordination.Claims for the goroutines of one process: claims, and token buckets that refill
// continuously up to one minute's worth.
type Claims struct {
	mu      sync.Mutex
	claims  map[string]claim
	sweepAt int // so many claims are worth a look for those that ran out
	windows map[string]*window
}

// sweepFrom claims on, those that ran out go: a ledger leaves the claim on each text that it pays for to its end.
const sweepFrom = 4096

// NewClaims makes an empty one.
func NewClaims() *Claims { return &Claims{claims: map[string]claim{}, windows: map[string]*window{}} }

// Claim implements coordination.Claims.
func (c *Claims) Claim(_ context.Context, key, owner string, ttl time.Duration) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claim(key, owner, time.Now(), ttl), nil
}

// ClaimAll implements coordination.Claims.
func (c *Claims) ClaimAll(_ context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	got := make([]bool, len(keys))
	for i, key := range keys {
		got[i] = c.claim(key, owner, now, ttl)
	}
	return got, nil
}

func (c *Claims) claim(key, owner string, now time.Time, ttl time.Duration) bool {
	if held, ok := c.claims[key]; ok && held.owner != owner && held.until.After(now) {
		return false
	}
	if len(c.claims) >= max(c.sweepAt, sweepFrom) {
		maps.DeleteFunc(c.claims, func(_ string, held claim) bool { return !held.until.After(now) })
		c.sweepAt = 2 * len(c.claims)
	}
	c.claims[key] = claim{owner, now.Add(ttl)}
	return true
}

// Release implements coordination.Claims.
func (c *Claims) Release(_ context.Context, key, owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(key, owner)
	return nil
}

// ReleaseAll implements coordination.Claims.
func (c *Claims) ReleaseAll(_ context.Context, keys []string, owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		c.release(key, owner)
	}
	return nil
}

func (c *Claims) release(key, owner string) {
	if c.claims[key].owner == owner {
		delete(c.claims, key)
	}
}

// Reserve implements coordination.Claims.
func (c *Claims) Reserve(
	_ context.Context,
	endpoint string,
	requests, tokens, perMinute, tokensPerMinute int,
) (coordination.Reserved, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	w := c.windows[endpoint]
	if w == nil {
		w = &window{at: now, requests: float64(perMinute), tokens: float64(tokensPerMinute)}
		c.windows[endpoint] = w
	}
	passed := now.Sub(w.at).Minutes()
	w.at = now
	w.requests = min(float64(perMinute), w.requests+passed*float64(perMinute))
	w.tokens = min(float64(tokensPerMinute), w.tokens+passed*float64(tokensPerMinute))
	var wait time.Duration
	if perMinute > 0 {
		wait = max(wait, lack(float64(requests), w.requests, perMinute))
	}
	if tokensPerMinute > 0 { // a request larger than a whole window goes alone
		wait = max(wait, lack(min(float64(tokens), float64(tokensPerMinute)), w.tokens, tokensPerMinute))
	}
	if wait == 0 {
		w.requests -= float64(requests)
		w.tokens -= float64(tokens)
	}
	return coordination.Reserved{Wait: wait}, nil
}

func lack(want, have float64, perMinute int) time.Duration {
	if want <= have {
		return 0
	}
	return time.Duration((want - have) / float64(perMinute) * float64(time.Minute))
}

// Settle implements coordination.Claims.
func (c *Claims) Settle(_ context.Context, endpoint string, delta int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.windows[endpoint]; w != nil {
		w.tokens -= float64(delta)
	}
	return nil
}
