// Package ledger records what was paid for, so that nothing is paid twice in one artifact store (DESIGN §5).
//
// Steps of a look-up, in this order: packs, the loose entry, packs listed again, a claim, the loose entry once more,
// then pay. A paid result is stored with If-None-Match before the call is acknowledged: the first writer wins and a
// loser adopts what it finds. A content failure leaves a negative entry, <key>.neg-<attempt>; a positive always wins.
//
//	ledger/<task>/loose/<2 hex>/<key>     one validated result
//	ledger/<task>/packs/<sha256>          sorted entries of a shard, with a filter of its keys
package ledger

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Tasks of the ledger.
const (
	Extract = "extract"
	Shorten = "shorten"
	Embed   = "embed"
)

// Key of a paid result: task, prompt version, model, parameters, schema version, input text.
func Key(task, prompt, model, parameters, schema, input string) corpus.Digest {
	return corpus.Sum("ledger/1", task, prompt, model, parameters, schema, input)
}

// Entry is what the ledger knows about a key.
type Entry struct {
	Value    []byte
	Negative bool // a content failure that was paid for; Value tells about it
}

// Ledger is safe for concurrent use.
type Ledger struct {
	store  blob.Store
	claims coordination.Claims
	owner  string
	packs  packs
}

// claimTTL covers one model call with its retries; a worker that dies gives its claims back this late.
const claimTTL = 15 * time.Second

// New makes a ledger over an artifact store.
func New(store blob.Store, claims coordination.Claims) *Ledger {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails
	return &Ledger{
		store:  store,
		claims: claims,
		owner:  hex.EncodeToString(raw),
		packs:  packs{byTask: map[string]*taskPacks{}},
	}
}

func looseKey(task string, key corpus.Digest) string {
	k := key.String()
	return "ledger/" + task + "/loose/" + k[:2] + "/" + k
}

func negKey(task string, key corpus.Digest, attempt int) string {
	return fmt.Sprintf("%s.neg-%d", looseKey(task, key), attempt)
}

// Get looks a key up. attempt counts the retry rounds asked for: a negative entry of an earlier round does not count.
func (l *Ledger) Get(ctx context.Context, task string, key corpus.Digest, attempt int) (*Entry, error) {
	if v, err := l.packs.get(ctx, l.store, task, key, false); err != nil || v != nil {
		return entry(v), err
	}
	if e, err := l.loose(ctx, task, key, attempt); err != nil || e != nil {
		return e, err
	}
	v, err := l.packs.get(ctx, l.store, task, key, true)
	return entry(v), err
}

func entry(raw []byte) *Entry {
	if raw == nil {
		return nil
	}
	return &Entry{Value: raw}
}

func (l *Ledger) loose(ctx context.Context, task string, key corpus.Digest, attempt int) (*Entry, error) {
	raw, _, err := blob.Read(ctx, l.store, looseKey(task, key))
	if err == nil {
		return &Entry{Value: raw}, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	raw, _, err = blob.Read(ctx, l.store, negKey(task, key, attempt))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Entry{Value: raw, Negative: true}, nil
}

// Result of a payment: the value to keep, or a content failure to remember.
type Result struct {
	Value    []byte
	Negative bool
}

// Do gives the entry of a key, paying for it when nobody has. It reports whether this call paid. Equal keys in flight
// anywhere are paid by one of them; the others wait. An error of pay stores nothing.
func (l *Ledger) Do(
	ctx context.Context,
	task string,
	key corpus.Digest,
	attempt int,
	pay func(context.Context) (Result, error),
) (*Entry, bool, error) {
	if e, err := l.Get(ctx, task, key, attempt); err != nil || e != nil {
		return e, false, err
	}
	name := "ledger:" + task + ":" + key.String()
	owner := l.owner + "-" + newCall()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		got, err := l.claims.Claim(ctx, name, owner, claimTTL)
		if err != nil {
			return nil, false, err
		}
		if got {
			break
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(wait):
		}
	}
	stop := l.keep(ctx, name, owner)
	defer stop()
	if e, err := l.loose(ctx, task, key, attempt); err != nil || e != nil {
		return e, false, err
	}
	result, err := pay(ctx)
	if err != nil {
		return nil, false, err
	}
	e, err := l.Put(ctx, task, key, attempt, result)
	return e, true, err
}

// keep renews a claim until stop is called, which gives it back.
func (l *Ledger) keep(ctx context.Context, name, owner string) (stop func()) {
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(claimTTL / 3)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				_, _ = l.claims.Claim(ctx, name, owner, claimTTL) // a lost claim costs at most one double payment
			}
		}
	}()
	return func() {
		close(done)
		_ = l.claims.Release(context.WithoutCancel(ctx), name, owner)
	}
}

// Put stores a paid result durably. Where another writer was first, its entry is adopted.
func (l *Ledger) Put(
	ctx context.Context,
	task string,
	key corpus.Digest,
	attempt int,
	result Result,
) (*Entry, error) {
	// What was paid for is kept even when the caller has been told to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hold)
	defer cancel()
	k := looseKey(task, key)
	if result.Negative {
		k = negKey(task, key, attempt)
	}
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, err := blob.Write(ctx, l.store, k, result.Value, blob.Cond{Absent: true})
		switch {
		case err == nil:
			return &Entry{Value: result.Value, Negative: result.Negative}, nil
		case fault.Is(err, fault.Precondition): // another writer, or this one, whose reply was lost
			return l.loose(ctx, task, key, attempt)
		case fault.KindOf(err) != fault.Transient:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait):
		}
	}
}

// hold is how long a paid result is kept in memory while the store does not answer: giving it up would be paying twice.
const hold = 5 * time.Minute

func newCall() string {
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}
