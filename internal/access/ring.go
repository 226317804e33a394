package access

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

const (
	// RefreshEvery is how often a process asks whether the keys have changed: a key that is revoked ends within twice
	// that time where the store answers in less than it.
	RefreshEvery = 500 * time.Millisecond
	// refreshTimeout bounds one asking.
	refreshTimeout = 5 * time.Second
	// StaleAfter is how long known keys go on while the store does not answer; then none is accepted.
	StaleAfter = 5 * time.Minute
	// missEvery is how often, at most, keys that are not known make a process ask the store.
	missEvery = 100 * time.Millisecond
)

// snapshot of the keys, never changed.
type snapshot struct {
	keys map[string]*Key
	etag string // empty: there was no object
}

// Ring is the keys as a process knows them. Make it with NewRing, keep it fresh with Follow.
type Ring struct {
	store blob.Store
	log   *slog.Logger
	now   func() time.Time

	keys     atomic.Pointer[snapshot] // nil: never read
	asked    atomic.Int64             // when the store was asked last, in nanoseconds
	answered atomic.Int64             // when that was which the store answered last
	refresh  sync.Mutex               // one refresh at a time
	silent   bool                     // the store does not answer, and the log knows; under refresh
	looking  sync.Mutex
	look     chan struct{} // closed by the next refresh for an unknown key; nil: none is due; under looking
}

// NewRing makes a ring that knows no key yet. now may be nil.
func NewRing(store blob.Store, log *slog.Logger, now func() time.Time) *Ring {
	if now == nil {
		now = time.Now
	}
	return &Ring{store: store, log: log, now: now}
}

// WatchKeys refreshes the ring until ctx ends.
func (r *Ring) WatchKeys(ctx context.Context) {
	tick := time.NewTicker(RefreshEvery)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, refreshTimeout)
		err := r.Refresh(asking)
		cancel()
		r.logSilence(ctx, err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// logSilence logs when the store falls silent and when it answers again.
func (r *Ring) logSilence(ctx context.Context, err error) {
	r.refresh.Lock()
	defer r.refresh.Unlock()
	if silent := err != nil; silent != r.silent && ctx.Err() == nil {
		r.silent = silent
		if silent {
			r.log.Warn("cannot refresh API keys; known keys stay valid for a while",
				"code", string(fault.CodeOf(err)), "minutes", StaleAfter.Minutes())
		} else {
			r.log.Info("API keys are refreshed again")
		}
	}
}

// Refresh reads the keys where they have changed: one small request where they have not.
func (r *Ring) Refresh(ctx context.Context) error {
	r.refresh.Lock()
	defer r.refresh.Unlock()
	began := r.now()
	r.asked.Store(began.UnixNano())
	known := r.keys.Load()
	info, err := r.store.Stat(ctx, Object)
	switch {
	case fault.Is(err, fault.NotFound):
		r.keys.Store(&snapshot{})
	case err != nil:
		return err
	case known == nil || known.etag != info.ETag:
		list, etag, err := readKeys(ctx, r.store)
		if err != nil {
			return err
		}
		next := &snapshot{keys: make(map[string]*Key, len(list.Keys)), etag: etag}
		for i := range list.Keys {
			next.keys[list.Keys[i].ID] = &list.Keys[i]
		}
		r.keys.Store(next)
	}
	r.answered.Store(began.UnixNano())
	return nil
}

// lookUp waits for a refresh that begins after it, for a key that is not known and may have been made a moment ago. All
// keys that are asked about meanwhile share one, and they are missEvery apart.
func (r *Ring) lookUp(ctx context.Context) {
	r.looking.Lock()
	done := r.look
	if done == nil {
		done = make(chan struct{})
		r.look = done
		go func() {
			defer close(done)
			time.Sleep(missEvery - r.now().Sub(time.Unix(0, r.asked.Load())))
			r.looking.Lock()
			r.look = nil
			r.looking.Unlock()
			refreshing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = r.Refresh(refreshing) // the key stays unknown; Follow logs a store that does not answer
		}()
	}
	r.looking.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// decoyKey is compared with where no key has the id, so that both take as long.
var decoyKey = &Key{Digest: digestOf("")}

// Check finds the key that a text is; one that was made a moment ago is found too. Unauthorized is the error of every
// text that is no valid key, whatever the reason; KeysUnknown that of a process that could not read the keys for too
// long.
func (r *Ring) Check(ctx context.Context, text string) (*Key, error) {
	now := r.now()
	known := r.keys.Load()
	if known == nil || now.Sub(time.Unix(0, r.answered.Load())) > StaleAfter {
		return nil, fault.KeysUnknown.At("check the API key", "").Because("the key store does not answer")
	}
	if !WellFormed(text) {
		return nil, unauthorizedFault()
	}
	key := known.keys[idOf(text)]
	if key == nil {
		r.lookUp(ctx)
		key = r.keys.Load().keys[idOf(text)]
	}
	if key == nil {
		key = decoyKey
	}
	if !key.matchesDigest(digestOf(text)) || key.StateAt(now) != "valid" {
		return nil, unauthorizedFault()
	}
	return key, nil
}

func unauthorizedFault() error {
	return fault.Unauthorized.At("check the API key", "").
		Because("the API key is missing or not valid").
		Advise("send the header Authorization: Bearer KEY; create a key with: unweaver keys create")
}
