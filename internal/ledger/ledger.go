// Package ledger records what was paid for, so that nothing is paid twice in one artifact store
// (docs/reference/formats.md, Identity).
//
// Steps of a look-up, in this order: packs, a claim on the key, the loose entry, then pay. The loose entry is read
// under the claim alone, so that a miss costs one look at it. A paid result is stored with If-None-Match before the
// call is acknowledged: the first writer wins and a loser adopts what it finds. A content failure leaves a negative
// entry under the same key; a positive always wins, and takes its place.
//
//	ledger/<task>/loose/<2 hex>/<key>           one validated result, or why there is none (negativeMark), after a
//	                                            checksum (sealEntry)
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
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Tasks of the ledger.
const (
	Extract = "extract"
	Shorten = "shorten"
	Embed   = "embed"
	Triples = "triples"

	Transcribe = "transcribe"
	Parse      = "parse"

	Questions = "questions"
	Pairs     = "pairs"
)

// OfEnrichments lists the tasks of enrichments alone: files of these list their entries (Line).
func OfEnrichments() []string { return []string{Triples, Questions, Pairs} }

// Tasks lists all: their entries are packed, merged and expired.
func Tasks() []string {
	return append([]string{Extract, Shorten, Embed, Transcribe, Parse}, OfEnrichments()...)
}

// HasEntries reports whether the store has anything of a task.
func (l *Ledger) HasEntries(ctx context.Context, task string) (bool, error) {
	for _, err := range l.store.List(ctx, "ledger/"+task+"/", "") {
		return err == nil, err
	}
	return false, nil
}

// Key returns the key of a paid result: task, prompt version, model, parameters, schema version, input text.
func Key(task, prompt, model, parameters, schema, input string) core.Digest {
	return core.Sum("ledger/1", task, prompt, model, parameters, schema, input)
}

// ScopeKey returns a key within a trust domain, so that one server cannot answer for another. Without a domain it
// returns the key itself.
func ScopeKey(domain string, key core.Digest) core.Digest {
	if domain == "" {
		return key
	}
	return core.Sum("ledger/2", domain, key.String())
}

// Entry is what the ledger knows about a key.
type Entry struct {
	Value    []byte
	Negative bool // a content failure that was paid for; Value describes it
	Packed   bool // a pack holds it
	Attempt  int  // of a negative one: the round of retry-failed that failed last
}

// Ledger is safe for concurrent use.
type Ledger struct {
	// OnDamage receives packs that cannot be read, once each, and loose entries that were removed because they do not
	// hold. It may be nil. What they held is paid again where nothing else has it. Calls may come side by side.
	OnDamage func(object string, err error)

	// Patience is how long a caller waits for its paid result to be stored; 0: ten seconds while the store is full, five
	// minutes while it is away.
	Patience time.Duration

	store  blob.Store
	claims coordination.Claims
	owner  string
	packs  packs
	held   holding
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

func looseKey(task string, key core.Digest) string {
	name := key.String()
	return loosePrefix(task) + name[:2] + "/" + name
}

// Get looks a key up. attempt counts the retry rounds asked for: a negative entry of an earlier round does not count.
func (l *Ledger) Get(ctx context.Context, task string, key core.Digest, attempt int) (*Entry, error) {
	return l.findEntry(ctx, task, key, attempt, nil)
}

// Accept says whether an entry is of use. An error makes it absent: damage is reported, and the result is paid
// for again in its place. Other errors say that the entry should not be trusted any more.
type Accept func(Entry) error

func (l *Ledger) findEntry(
	ctx context.Context, task string, key core.Digest, attempt int, accept Accept,
) (*Entry, error) {
	if e, err := l.fromPacks(ctx, task, key, accept); err != nil || e != nil {
		return e, err
	}
	if e, err := l.readLoose(ctx, task, key, attempt, accept); err != nil || e != nil {
		return e, err
	}
	if !l.packs.packsOf(task).isOld() {
		return nil, nil
	}
	return l.fromPacks(ctx, task, key, accept) // it may have been packed, and swept, since the packs were listed
}

func (l *Ledger) fromPacks(ctx context.Context, task string, key core.Digest, accept Accept) (*Entry, error) {
	raw, err := l.findPacked(ctx, task, key)
	if err != nil || raw == nil {
		return nil, err
	}
	found := Entry{Value: raw, Packed: true}
	if accept != nil && accept(found) != nil {
		return nil, nil // the loose entry, or a new one, counts
	}
	return &found, nil
}

// readLoose reads the loose entry of a key; nil where there is none, or none of use. What is not accepted is removed,
// so that another can take its place.
func (l *Ledger) readLoose(
	ctx context.Context, task string, key core.Digest, attempt int, accept Accept,
) (*Entry, error) {
	name := looseKey(task, key)
	content, _, ok, err := l.readContent(ctx, name)
	if err != nil || !ok {
		return nil, err
	}
	value, failed, negative := decodeNegative(content)
	found := Entry{Value: value, Negative: negative, Attempt: failed}
	if negative && failed < attempt {
		return nil, nil // a later round asks again
	}
	if accept == nil {
		return &found, nil
	}
	refused := accept(found)
	if refused == nil {
		return &found, nil
	}
	if err := l.store.Delete(ctx, name); err != nil {
		return nil, err
	}
	if fault.Is(refused, fault.SegmentDamage) {
		l.reportDamage(ctx, name, refused)
	}
	return nil, nil
}

// Result of a payment: the value to keep, or a content failure to remember.
type Result struct {
	Value    []byte
	Negative bool
}

// Do gives the entry of a key, paying for it when no call has. It reports whether this call paid. Equal keys in flight
// anywhere are paid by one of them; the others wait. An error of pay stores nothing. A result that cannot be stored for
// now is held, with its claim, until it can be; the error says why.
func (l *Ledger) Do(
	ctx context.Context,
	task string,
	key core.Digest,
	attempt int,
	pay func(context.Context) (Result, error),
) (*Entry, bool, error) {
	return l.DoAccepting(ctx, task, key, attempt, nil, pay)
}

// DoAccepting does what Do does, but asks accept about each entry before it counts.
func (l *Ledger) DoAccepting(
	ctx context.Context,
	task string,
	key core.Digest,
	attempt int,
	accept Accept,
	pay func(context.Context) (Result, error),
) (*Entry, bool, error) {
	NoteKeys(ctx, task, key)
	if e, err := l.fromPacks(ctx, task, key, accept); err != nil || e != nil {
		return e, false, err
	}
	name := claimName(task, key)
	if waiting := l.held.findHeld(name); waiting != nil {
		waiting.awaitRetry(ctx)
		e, err := waiting.waitStored(ctx)
		return e, false, err
	}
	owner := l.owner + "-" + newCall()
	if err := l.claimKey(ctx, name, owner); err != nil {
		return nil, false, err
	}
	stop := sync.OnceFunc(l.keepClaim(ctx, name, owner))
	handed := false
	defer func() {
		if !handed {
			stop()
		}
	}()
	if e, err := l.findEntry(ctx, task, key, attempt, accept); err != nil || e != nil { // no other call pays from here on
		return e, false, err
	}
	result, err := pay(ctx)
	if err != nil {
		return nil, false, err
	}
	handed = true
	e, err := l.writeResult(ctx, task, key, attempt, result, stop)
	return e, true, err
}

func claimName(task string, key core.Digest) string { return "ledger:" + task + ":" + key.String() }

// claimKey waits until the key is this call's alone.
func (l *Ledger) claimKey(ctx context.Context, name, owner string) error {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		got, err := l.claims.Claim(ctx, name, owner, claimTTL)
		if err != nil || got {
			return err
		}
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// keepClaim renews a claim until stop is called, which gives it back.
func (l *Ledger) keepClaim(ctx context.Context, name, owner string) (stop func()) {
	end := startRenewal(ctx, func(ctx context.Context) {
		_, _ = l.claims.Claim(ctx, name, owner, claimTTL) // a lost claim costs at most one double payment
	})
	return func() {
		end() // a renewal after the release would hold the key for no call
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTTL)
		defer cancel()
		_ = l.claims.Release(release, name, owner)
	}
}

// startRenewal calls renew three times in the life of a claim until end is called. The caller's context does not end
// it: a call that was admitted is paid for even when its caller has been asked to stop.
func startRenewal(ctx context.Context, renew func(context.Context)) (end func()) {
	ctx = context.WithoutCancel(ctx)
	done := make(chan struct{})
	var loop sync.WaitGroup
	loop.Go(func() {
		ticker := time.NewTicker(claimTTL / 3)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				renewal, cancel := context.WithTimeout(ctx, claimTTL/3)
				renew(renewal)
				cancel()
			}
		}
	})
	return func() {
		close(done)
		loop.Wait()
	}
}

// Put stores a paid result durably. Where another writer was first, its entry is adopted. Where it cannot be stored for
// now Put waits a while, whatever happens to the caller; its error then says why, and the result is held until it is
// stored, for as long as the process lives.
func (l *Ledger) Put(
	ctx context.Context,
	task string,
	key core.Digest,
	attempt int,
	result Result,
) (*Entry, error) {
	return l.writeResult(ctx, task, key, attempt, result, func() {})
}

// writeResult stores a result as Put does. It calls release when the result is stored, or never will be.
func (l *Ledger) writeResult(
	ctx context.Context, task string, key core.Digest, attempt int, result Result, release func(),
) (*Entry, error) {
	ctx = context.WithoutCancel(ctx)
	once := func(ctx context.Context) (*Entry, error) { return l.writeOnce(ctx, task, key, attempt, result) }
	e, err := once(ctx)
	if _, may := mayHeal(err); may {
		return l.holdResult(ctx, claimName(task, key), err, once, release).waitStored(ctx)
	}
	release()
	return e, err
}

// writeOnce tries to store a result.
func (l *Ledger) writeOnce(
	ctx context.Context, task string, key core.Digest, attempt int, result Result,
) (*Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	name, content := looseKey(task, key), result.Value
	if result.Negative {
		content = encodeNegative(attempt, result.Value)
	}
	raw := sealEntry(name, content)
	for cond := (blob.Cond{Absent: true}); ; {
		_, err := blob.Write(ctx, l.store, name, raw, cond)
		if err == nil {
			entry := &Entry{Value: result.Value, Negative: result.Negative}
			if result.Negative {
				entry.Attempt = attempt
			}
			return entry, nil
		}
		if !fault.Is(err, fault.Precondition) {
			return nil, err
		}
		// Another writer was first, or this one, whose reply was lost. What went in between is written again.
		content, info, ok, err := l.readContent(ctx, name)
		switch value, failed, negative := decodeNegative(content); {
		case err != nil:
			return nil, err
		case !ok:
			cond = blob.Cond{Absent: true}
		case negative && (!result.Negative || failed < attempt): // a positive entry, and a later round, take its place
			cond = blob.Cond{Match: info.ETag}
		default:
			return &Entry{Value: value, Negative: negative, Attempt: failed}, nil
		}
	}
}

func newCall() string {
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // never fails
	return hex.EncodeToString(raw)
}
