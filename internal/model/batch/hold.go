package batch

import (
	"context"
	"slices"
	"time"
)

// holdRequests takes requests for this runner. It gives those that still have no answer, and reports whether others
// have some.
func (a *run) holdRequests(ctx context.Context, ids []string) (mine []string, others bool, err error) {
	if a.Hold == nil || len(ids) == 0 {
		return ids, false, nil
	}
	held, err := a.Hold(ctx, ids)
	if err != nil {
		return nil, false, err
	}
	// Who held them until now may have been answered since they were looked up.
	mine, err = a.Missing(ctx, held)
	if err != nil {
		return nil, false, err
	}
	wanted := idSet(mine)
	answered := slices.DeleteFunc(slices.Clone(held), func(id string) bool { return wanted[id] })
	return mine, len(held) < len(ids), a.freeRequests(ctx, answered)
}

func (a *run) freeRequests(ctx context.Context, ids []string) error {
	if a.Free == nil || len(ids) == 0 {
		return nil
	}
	return a.Free(ctx, ids)
}

// hasRoom reports whether so many tokens more may wait on the server. The caller holds mu.
func (a *run) hasRoom(tokens int64) bool {
	waiting := a.countWaitingTokens()
	return a.Tokens <= 0 || waiting == 0 || waiting+tokens <= a.room
}

// hasRoomFor reports whether there is room for requests of a part, before anything is held for them.
func (a *run) hasRoomFor(part Part, ids []string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hasRoom(sumTokens(part, ids))
}

func sumTokens(part Part, ids []string) int64 {
	sum, asked := int64(0), idSet(ids)
	for _, request := range part.Requests {
		if asked[request.ID] {
			sum += request.Tokens
		}
	}
	return sum
}

// reachesHourlyLimit reports whether as many batches were begun within the last hour as may be. The caller holds mu.
func (a *run) reachesHourlyLimit() bool {
	if a.Hourly <= 0 {
		return false
	}
	now := a.Now()
	a.made = slices.DeleteFunc(a.made, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if len(a.made) >= a.Hourly {
		return true
	}
	a.made = append(a.made, now)
	return false
}

// countWaitingTokens returns how many tokens wait on the server. The caller holds mu.
func (a *run) countWaitingTokens() int64 {
	sum := int64(0)
	for _, other := range a.lots {
		if other.isOpen() {
			sum += other.rec.Tokens
		}
	}
	return sum
}

// releaseTokens gives the tokens of a round back, and learns from it how many may wait.
func (a *run) releaseTokens(l *lot, batch Batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.endRound(l, batch.Status)
	if !batch.IsPushedBack() {
		a.room, l.alone = a.Tokens, 0
		return
	}
	l.rec.Ended = pushed
	a.room = a.countWaitingTokens()
	if a.room == 0 {
		l.alone++
	}
}
