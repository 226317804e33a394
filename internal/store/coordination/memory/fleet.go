package memory

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Fleet implements coordination.Fleet for the goroutines of one process.
type Fleet struct {
	mu      sync.Mutex
	members map[string]member
	limits  map[string]map[string]report
}

type member struct {
	value []byte
	until time.Time
}

type report struct {
	coordination.Want
	until time.Time
}

// NewFleet makes an empty one.
func NewFleet() *Fleet {
	return &Fleet{members: map[string]member{}, limits: map[string]map[string]report{}}
}

// Beat implements coordination.Fleet.
func (f *Fleet) Beat(
	_ context.Context, name string, value []byte, wants map[string]coordination.Want, ttl time.Duration,
) (shares map[string]int, living int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.members[name] = member{bytes.Clone(value), now.Add(ttl)}
	shares = make(map[string]int, len(wants))
	for limit, want := range wants {
		if f.limits[limit] == nil {
			f.limits[limit] = map[string]report{}
		}
		all := map[string]coordination.Want{name: want}
		for other, report := range f.limits[limit] {
			switch {
			case !report.until.After(now):
				delete(f.limits[limit], other)
			case other != name:
				all[other] = report.Want
			}
		}
		share := coordination.ComputeShare(all, name, now.UnixMilli()/coordination.Turn.Milliseconds())
		shares[limit], want.Held = share, max(share, want.Held)
		f.limits[limit][name] = report{want, now.Add(ttl)}
	}
	f.forgetDead(now)
	return shares, len(f.members), nil
}

// forgetDead drops who lives no more. The caller holds the lock.
func (f *Fleet) forgetDead(now time.Time) {
	for name, member := range f.members {
		if !member.until.After(now) {
			delete(f.members, name)
		}
	}
}

// ListMembers implements coordination.Fleet.
func (f *Fleet) ListMembers(context.Context) (map[string][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetDead(time.Now())
	out := make(map[string][]byte, len(f.members))
	for name, member := range f.members {
		out[name] = bytes.Clone(member.value)
	}
	return out, nil
}

// Leave implements coordination.Fleet.
func (f *Fleet) Leave(_ context.Context, name string, limits []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.members, name)
	for _, limit := range limits {
		delete(f.limits[limit], name)
	}
	return nil
}
