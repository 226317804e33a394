package coordination

import (
	"context"
	"time"
)

// Parts of a Use.
const (
	UsedRequests = iota // requests of any kind
	UsedAnswers         // questions that a chat model is asked about
	UsedTokens          // of chat models, embedders and rerankers
	UsedMoney           // in billionths of the currency
)

// Use is what a subject uses in a day, or may use at most: then a part below zero has no limit.
type Use [4]int64

// UseNames are the names of the parts, as configuration, errors and metrics have them.
var UseNames = [4]string{"requests", "answers", "tokens", "money"}

// Unlimited is the limit that nothing passes.
var Unlimited = Use{-1, -1, -1, -1}

// FindShort returns the first part of which want does not fit into what limit leaves, or -1.
func (u Use) FindShort(want, limit Use) int {
	for i := range u {
		if limit[i] >= 0 && want[i] > 0 && want[i] > limit[i]-u[i] {
			return i
		}
	}
	return -1
}

// Plus returns the sum of two uses.
func (u Use) Plus(more Use) Use {
	for i := range u {
		u[i] += more[i]
	}
	return u
}

// Taken is the answer to TakeQuota.
type Taken struct {
	Used   Use           // of the day so far, with what was taken
	Short  int           // the part that is short, and nothing was taken; below zero: all was taken
	Renews time.Duration // until the next day begins
}

// Quotas counts what subjects use in a day of UTC by the store's own clock: those of processes may differ. A day that
// is over is forgotten. After a loss counting begins again at zero.
type Quotas interface {
	// TakeQuota adds want to what a subject has used, unless a part would pass its limit: then it adds nothing. It is one
	// request. With an id want is a reservation, which SettleQuota replaces, and the request may arrive twice; without one
	// it counts each time.
	TakeQuota(ctx context.Context, subject, id string, want, limit Use) (Taken, error)
	// SettleQuota replaces a reservation by what was used, which may be more. A reservation of a day that is over, or one
	// that is not known, is settled already.
	SettleQuota(ctx context.Context, subject, id string, used Use) error
}
