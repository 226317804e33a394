// Package memory keeps what one process alone needs of coordination: claims, limits, the fleet and quotas.
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
	until time.Duration // since the claims were made
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
	made    time.Time
	claims  map[string]claim
	most    int         // claims that the map has room for since it was made
	sweeper *time.Timer // nil where there is nothing to sweep
	windows map[string]*window
}

// sweepEvery is how long a claim that ran out is kept at most: a ledger leaves the claim on each text that it pays for
// to its end, some thousand in a second. They go by the clock and not with the next claim, which may never come: a
// stage that claims nothing would have them for as long as it lasts.
const sweepEvery = 5 * time.Second

// NewClaims makes an empty one.
func NewClaims() *Claims {
	return &Claims{made: time.Now(), claims: map[string]claim{}, windows: map[string]*window{}}
}

func (c *Claims) sinceStart() time.Duration { return time.Since(c.made) }

// Claim implements coordination.Claims.
func (c *Claims) Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	got, err := c.ClaimAll(ctx, []string{key}, owner, ttl)
	return got[0], err
}

// ClaimAll implements coordination.Claims.
func (c *Claims) ClaimAll(_ context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.sinceStart()
	got := make([]bool, len(keys))
	for i, key := range keys {
		got[i] = c.takeClaim(key, owner, now, ttl)
	}
	return got, nil
}

func (c *Claims) takeClaim(key, owner string, now, ttl time.Duration) bool {
	if held, ok := c.claims[key]; ok && held.owner != owner && held.until > now {
		return false
	}
	c.claims[key] = claim{owner, now + ttl}
	c.most = max(c.most, len(c.claims))
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweepClaims)
	}
	return true
}

// sweepClaims lets claims go that ran out, and comes back as long as there are any. A map keeps the room that it once
// had, so that one that few claims are left in is made again.
func (c *Claims) sweepClaims() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.sinceStart()
	maps.DeleteFunc(c.claims, func(_ string, held claim) bool { return held.until <= now })
	if len(c.claims) < c.most/4 {
		left := make(map[string]claim, len(c.claims))
		maps.Copy(left, c.claims)
		c.claims, c.most = left, len(left)
	}
	c.sweeper = nil
	if len(c.claims) > 0 {
		c.sweeper = time.AfterFunc(sweepEvery, c.sweepClaims)
	}
}

// Release implements coordination.Claims.
func (c *Claims) Release(ctx context.Context, key, owner string) error {
	return c.ReleaseAll(ctx, []string{key}, owner)
}

// ReleaseAll implements coordination.Claims.
func (c *Claims) ReleaseAll(_ context.Context, keys []string, owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if c.claims[key].owner == owner {
			delete(c.claims, key)
		}
	}
	return nil
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
		wait = max(wait, refillTime(float64(requests), w.requests, perMinute))
	}
	if tokensPerMinute > 0 { // a request larger than a whole window goes alone
		wait = max(wait, refillTime(min(float64(tokens), float64(tokensPerMinute)), w.tokens, tokensPerMinute))
	}
	if wait == 0 {
		w.requests -= float64(requests)
		w.tokens -= float64(tokens)
	}
	return coordination.Reserved{Wait: wait}, nil
}

func refillTime(want, have float64, perMinute int) time.Duration {
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
