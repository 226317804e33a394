// Package ledger records what was paid for, so that nothing is paid twice in one artifact store (docs/contract.md,
// Identity).
//
// Steps of a look-up, in this order: packs, a claim on the key, the loose entry, then pay. The loose entry is read
// under the claim alone, so that a miss costs one look at it. A paid result is stored with If-None-Match before the
// call is acknowledged: the first writer wins and a loser adopts what it finds. A content failure leaves a negative
// entry, <key>.neg-<attempt>; a positive always wins.
//
//	ledger/<task>/loose/<2 hex>/<key>           one validated result
//	ledger/<task>/packs/<sha256>                sorted entries of a shard, with a filter of its keys
//	ledger/<task>/packs/<sha256>.swept          its loose entries are deleted
//	ledger/<task>/merged/<run>-<first>-<last>   entries of several packs, each after its time, by range of first bytes
//	ledger/<task>/merges/<run>.json             what a merge took in and gave: its inputs count no more, and go later
//	ledger/<task>/expired.json                  when entries that nothing lists were last looked for
package ledger

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
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

// Tasks lists them: all are packed, merged and expired alike.
func Tasks() []string { return []string{Extract, Shorten, Embed} }

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
	// OnDamage is told of packs that cannot be read, once each; nil: nobody is. What they hold is paid again where no
	// loose entry has it.
	OnDamage func(object string, err error)

	store  blob.Store
	claims coordination.Claims
	owner  string
	packs  packs
	texts  *textIndex
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
		texts:  newTextIndex(),
	}
}

func loosePrefix(task string) string { return "ledger/" + task + "/loose/" }

func looseKey(task string, key corpus.Digest) string {
	name := key.String()
	return loosePrefix(task) + name[:2] + "/" + name
}

func negKey(task string, key corpus.Digest, attempt int) string {
	return fmt.Sprintf("%s.neg-%d", looseKey(task, key), attempt)
}

// Get looks a key up. attempt counts the retry rounds asked for: a negative entry of an earlier round does not count.
func (l *Ledger) Get(ctx context.Context, task string, key corpus.Digest, attempt int) (*Entry, error) {
	if raw, err := l.packed(ctx, task, key); err != nil || raw != nil {
		return entry(raw), err
	}
	if e, err := l.loose(ctx, task, key, attempt); err != nil || e != nil {
		return e, err
	}
	if !l.packs.task(task).old() {
		return nil, nil
	}
	raw, err := l.packed(ctx, task, key) // it may have been packed, and swept, since the packs were listed
	return entry(raw), err
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
	if raw, err := l.packed(ctx, task, key); err != nil || raw != nil {
		return entry(raw), false, err
	}
	name := "ledger:" + task + ":" + key.String()
	owner := l.owner + "-" + newCall()
	if err := l.claim(ctx, name, owner); err != nil {
		return nil, false, err
	}
	stop := l.keep(ctx, name, owner)
	defer stop()
	if e, err := l.Get(ctx, task, key, attempt); err != nil || e != nil { // nobody else pays from here on
		return e, false, err
	}
	result, err := pay(ctx)
	if err != nil {
		return nil, false, err
	}
	e, err := l.Put(ctx, task, key, attempt, result)
	return e, true, err
}

// claim waits until the key is this call's alone.
func (l *Ledger) claim(ctx context.Context, name, owner string) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		got, err := l.claims.Claim(ctx, name, owner, claimTTL)
		if err != nil || got {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// keep renews a claim until stop is called, which gives it back. The caller's context does not end it: a call that was
// admitted is paid for even when its caller has been told to stop.
func (l *Ledger) keep(ctx context.Context, name, owner string) (stop func()) {
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticker := time.NewTicker(claimTTL / 3)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				renewal, cancel := context.WithTimeout(ctx, claimTTL/3)
				_, _ = l.claims.Claim(renewal, name, owner, claimTTL) // a lost claim costs at most one double payment
				cancel()
			}
		}
	})
	return func() {
		close(done)
		renewing.Wait() // a renewal behind the release would hold the key for nobody
		release, cancel := context.WithTimeout(ctx, claimTTL)
		defer cancel()
		_ = l.claims.Release(release, name, owner)
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
	name := looseKey(task, key)
	if result.Negative {
		name = negKey(task, key, attempt)
	}
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, err := blob.Write(ctx, l.store, name, result.Value, blob.Cond{Absent: true})
		switch {
		case err == nil:
			return &Entry{Value: result.Value, Negative: result.Negative}, nil
		case fault.Is(err, fault.Precondition): // another writer, or this one, whose reply was lost
			return l.loose(ctx, task, key, attempt)
		case fault.KindOf(err) != fault.Transient && !fault.Is(err, fault.StoreFull): // room may be made in time
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
