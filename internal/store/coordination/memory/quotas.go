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

	mu       sync.Mutex
	day      int64 // that is counted, since 1970
	used     map[string]coordination.Use
	reserved map[string]coordination.Use // by subject and id
}

// NewQuotas makes empty ones. save keeps what a subject has used whenever more than its requests changes; nil: nothing
// is kept.
func NewQuotas(save func(subject string, day int64, used coordination.Use) error) *Quotas {
	return &Quotas{save: save, used: map[string]coordination.Use{}, reserved: map[string]coordination.Use{}}
}

// Restore sets what a subject has used on a day, as it was saved.
func (q *Quotas) Restore(subject string, day int64, used coordination.Use) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.beginDay(); day == q.day {
		q.used[subject] = used
	}
}

// beginDay forgets a day that is over, and returns how long this one lasts. A clock that goes back over midnight
// forgets nothing. The caller holds the lock.
func (q *Quotas) beginDay() time.Duration {
	now := time.Now().UTC()
	if today := now.Unix() / int64(day/time.Second); today > q.day || q.day > today+1 {
		q.day = today
		clear(q.used)
		clear(q.reserved)
	}
	return now.Truncate(day).Add(day).Sub(now)
}

// add adds to what a subject has used. The caller holds the lock.
func (q *Quotas) add(subject string, more coordination.Use) error {
	used := q.used[subject].Plus(more)
	if more[coordination.UsedRequests] = 0; q.save != nil && more != (coordination.Use{}) {
		if err := q.save(subject, q.day, used); err != nil {
			return err
		}
	}
	q.used[subject] = used
	return nil
}

// TakeQuota implements coordination.Quotas.
func (q *Quotas) TakeQuota(
	_ context.Context, subject, id string, want, limit coordination.Use,
) (out coordination.Taken, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	out.Renews, out.Short = q.beginDay(), -1
	name := subject + "\x00" + id
	if _, known := q.reserved[name]; !known {
		if out.Short = q.used[subject].FindShort(want, limit); out.Short < 0 {
			err = q.add(subject, want)
		}
		if out.Short < 0 && err == nil && id != "" {
			q.reserved[name] = want
		}
	}
	out.Used = q.used[subject]
	return out, err
}

// SettleQuota implements coordination.Quotas.
func (q *Quotas) SettleQuota(_ context.Context, subject, id string, used coordination.Use) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.beginDay()
	name := subject + "\x00" + id
	reserved, known := q.reserved[name]
	if !known {
		return nil
	}
	delete(q.reserved, name)
	for i := range used {
		used[i] -= reserved[i]
	}
	return q.add(subject, used)
}
