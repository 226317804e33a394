package limits

import (
	"math"
	"time"

	"github.com/unweaver/unweaver/internal/model"
)

const (
	shortestSpent = time.Second // of waits where the server says that nothing is left, and not for how long
	longestSpent  = time.Minute // after it one call finds out
)

// grant is what a server's last word of the quota leaves.
type grant struct {
	left    float64   // calls that may be admitted; infinite where nothing was said
	spent   int64     // calls that had been admitted when the server said that nothing is left; 0: it did not
	refill  time.Time // one call is admitted then, whatever was said
	typical float64   // tokens of a call, the mean of late ones; 0: not known
}

// untilOpen returns how long nothing more is admitted; 0 where a call may be.
func (g *grant) untilOpen(inflight int) time.Duration {
	if g.left >= 1 {
		return 0
	}
	wait := time.Until(g.refill)
	if wait <= 0 || inflight == 0 && g.spent == 0 { // no other answer will report it
		g.left, g.refill = 1, time.Now().Add(longestSpent) // one, until its answer reports it
		return 0
	}
	return wait
}

// TakeQuota takes what the answer to a call says of the quota; tokens is about how many the call has. The server knew
// of the calls that had come back when this one was admitted; of all others it may have heard later.
func (g *Gate) TakeQuota(of Ticket, quota model.Quota, tokens int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	grant := &g.quota
	if grant.typical == 0 {
		grant.typical = float64(tokens)
	}
	grant.typical += (float64(tokens) - grant.typical) / 16
	left, reset := math.Inf(1), time.Duration(0)
	if quota.Requests.Known {
		left, reset = float64(quota.Requests.Count), quota.Requests.Reset
	}
	if by := float64(quota.Tokens.Count) / max(1, grant.typical); quota.Tokens.Known && by < left {
		left, reset = by, quota.Tokens.Reset
	}
	if left >= 1 && of.number <= grant.spent { // nothing has been left since
		return
	}
	grant.spent = 0
	if left < 1 {
		grant.spent = g.admitted
	}
	grant.left = left - float64(g.admitted-1-of.answered)
	grant.refill = time.Now().Add(min(max(reset, shortestSpent), longestSpent))
	g.admitWaiters()
}
