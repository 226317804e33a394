package memory

import (
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

const day = 24 * time.Hour

// Quotas implements coordination.Quotas for the goroutines of one process.
type Quotas struct {
	save func(subject string, day int64, used coordination.Use) error

	mu    sync.Mutex
	day   int64 // that is counted, since 1970
	tally map[string]*tally
}

type tally struct {
	used     coordination.Use
	reserved map[string]coordination.Use // by id
}

// NewQuotas makes empty ones. save keeps what a subject has used whenever more than its requests changes; nil: nothing
// is kept.
func NewQuotas(save func(subject string, day int64, used coordination.Use) error) *Quotas {
	return &Quotas{save: save, tally: map[string]*tally{}}
}

// Restore sets what a subject has used on a day, as it was saved.
func (q *Quotas) Restore(subject string, day int64, used coordination.Use) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if one, _ := q.findTally(subject); day == q.day {
		one.used = used
	}
}

// findTally returns what a subject has used today, and how long the day lasts. The caller holds the lock.
func (q *Quotas) findTally(subject string) (*tally, time.Duration) {
	now := time.Now().UTC()
	today := now.Unix() / int64(day/time.Second)
	if today > q.day || q.day > today+1 { // a clock that goes back over midnight forgets nothing
		q.day = today
		clear(q.tally)
	}
	one := q.tally[subject]
	if one == nil {
		one = &tally{reserved: map[string]coordination.Use{}}
		q.tally[subject] = one
	}
	return one, now.Truncate(day).Add(day).Sub(now)
}

// change sets what a subject has used. The caller holds the lock.
func (q *Quotas) change(subject string, of *tally, used coordination.Use) error {
	plain := of.used
	plain[coordination.UsedRequests] = used[coordination.UsedRequests]
	if q.save != nil && used != plain {
		if err := q.save(subject, q.day, used); err != nil {
			return err
		}
	}
	of.used = used
	return nil
}

// TakeQuota implements coordination.Quotas.
func (q *Quotas) TakeQuota(
	_ context.Context, subject, id string, want, limit coordination.Use,
) (coordination.Taken, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of, renews := q.findTally(subject)
	if _, known := of.reserved[id]; id != "" && known {
		return coordination.Taken{Used: of.used, Short: -1, Renews: renews}, nil
	}
	short := of.used.FindShort(want, limit)
	if short < 0 {
		if err := q.change(subject, of, of.used.Plus(want)); err != nil {
			return coordination.Taken{}, err
		}
		if id != "" {
			of.reserved[id] = want
		}
	}
	return coordination.Taken{Used: of.used, Short: short, Renews: renews}, nil
}

// SettleQuota implements coordination.Quotas.
func (q *Quotas) SettleQuota(_ context.Context, subject, id string, used coordination.Use) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	of, _ := q.findTally(subject)
	reserved, known := of.reserved[id]
	if !known {
		return nil
	}
	for i := range used {
		used[i] -= reserved[i]
	}
	if err := q.change(subject, of, of.used.Plus(used)); err != nil {
		return err
	}
	delete(of.reserved, id)
	return nil
}
