package ledger

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// A claim on a text whose vector was stored is not given back: it runs out, two thirds of claimTTL after the last time
// it was renewed, at the earliest. Who claims a text without being refused within that time of having looked knows
// that it was not stored in between, and looking costs a few listings for all requests of some seconds.
const (
	lookAgain = claimTTL / 3
	lookedOff = 2 * claimTTL / 3
)

// PayTexts has the vectors of texts stored that are not yet stored. pay is called with the places of those that nothing
// else is paying for, and stores them by PutVectors; equal texts are paid for once. For those that others pay for it
// waits, holding nothing meanwhile.
func (l *Ledger) PayTexts(ctx context.Context, texts []core.Digest, pay func(context.Context, []int) error) error {
	left := firstPlaces(texts)
	since := time.Now().Add(-lookAgain)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if l.FindTrouble() != nil { // some of them may be paid for, and held until they can be stored
			if err := l.AwaitReady(ctx); err != nil {
				return err
			}
			since = time.Now()
		}
		looked, err := l.lookForStored(ctx, since)
		if err != nil {
			return err
		}
		if left, err = l.listUnstored(ctx, texts, left); err != nil || len(left) == 0 {
			return err
		}
		mine, others, release, err := l.claimTexts(ctx, texts, left)
		if err != nil {
			return err
		}
		if time.Since(looked) > lookedOff { // somebody may have stored them, and their claims run out
			release(true)
			since = time.Now()
			continue
		}
		if len(mine) > 0 {
			err := pay(ctx, mine)
			if err != nil && l.FindTrouble() != nil { // no other call may pay for what is held
				go func() {
					_ = l.Drain(context.WithoutCancel(ctx))
					release(true)
				}()
			} else {
				release(err != nil)
			}
			if err != nil || len(others) == 0 {
				return err
			}
			wait = 20 * time.Millisecond
		}
		left, since = others, time.Now()
		if err := retry.Wait(ctx, wait); err != nil {
			return err
		}
	}
}

// firstPlaces gives the first place of each text.
func firstPlaces(texts []core.Digest) []int {
	seen := make(map[core.Digest]bool, len(texts))
	var places []int
	for i, text := range texts {
		if !seen[text] {
			seen[text] = true
			places = append(places, i)
		}
	}
	return places
}

func pickTexts(texts []core.Digest, places []int) []core.Digest {
	out := make([]core.Digest, len(places))
	for n, i := range places {
		out[n] = texts[i]
	}
	return out
}

// listUnstored gives those places whose texts the ledger does not have.
func (l *Ledger) listUnstored(ctx context.Context, texts []core.Digest, places []int) ([]int, error) {
	objects, err := l.FindTexts(ctx, pickTexts(texts, places))
	if err != nil {
		return nil, err
	}
	var left []int
	for n, i := range places {
		if objects[n].IsZero() {
			left = append(left, i)
		}
	}
	return left, nil
}

func (l *Ledger) releaseAll(ctx context.Context, keys []string, owner string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTTL)
	defer cancel()
	_ = l.claims.ReleaseAll(ctx, keys, owner) // they run out
}

// claimTexts claims each text, once and without waiting, so that two callers who share texts never wait for each other.
// Claims are renewed until release is called; release(false) lets them run out.
func (l *Ledger) claimTexts(
	ctx context.Context, texts []core.Digest, places []int,
) (mine, others []int, release func(now bool), err error) {
	owner := l.owner + "-" + newCall()
	keys := make([]string, len(places))
	for n, i := range places {
		keys[n] = "ledger:text:" + texts[i].String()
	}
	got, err := l.claims.ClaimAll(ctx, keys, owner, claimTTL)
	if err != nil {
		l.releaseAll(ctx, keys, owner)
		return nil, nil, nil, err
	}
	var held []string
	for n, i := range places {
		if got[n] {
			mine, held = append(mine, i), append(held, keys[n])
		} else {
			others = append(others, i)
		}
	}
	end := startRenewal(ctx, func(ctx context.Context) {
		_, _ = l.claims.ClaimAll(ctx, held, owner, claimTTL) // a lost claim costs at most one double payment
	})
	return mine, others, func(now bool) {
		end()
		if now && len(held) > 0 {
			l.releaseAll(ctx, held, owner)
		}
	}, nil
}

// PutVectors stores the answer to a request durably, as Put does. Where an equal request was stored before, that answer
// counts, unless it is damaged.
func (l *Ledger) PutVectors(ctx context.Context, texts []core.Digest, vectors [][]float32) error {
	if len(texts) == 0 || len(vectors) != len(texts) || len(vectors[0]) == 0 {
		return fault.Internal.At("store embeddings", "").Because("texts and vectors do not match")
	}
	object := answerKey(texts)
	var marked error
	var marking sync.WaitGroup
	marking.Go(func() { // it shows other processes, and this one after a crash, that the index lacks the answer
		_, marked = l.Put(ctx, Texts, object, 0, Result{})
	})
	_, err := l.Put(ctx, Embed, object, 0, Result{Value: encodeAnswer(texts, vectors)})
	marking.Wait()
	if err == nil {
		err = marked
	}
	if err != nil {
		if l.FindTrouble() != nil {
			go l.learnLater(context.WithoutCancel(ctx), texts, object)
		}
		return err
	}
	l.texts.learnAnswer(&answer{object: object, texts: slices.Clone(texts), fresh: true, own: true})
	if l.sealDue(context.WithoutCancel(ctx)) {
		l.mergeDue(ctx)
	}
	return nil
}

// sealDue seals once there is enough for a pack of the index. Who finds another one at it goes on: waiting would stop
// all who pay, and each of them would then write a pack of the few texts that came meanwhile.
func (l *Ledger) sealDue(ctx context.Context) (sealed bool) {
	if l.texts.countUnsealed() < sealTexts || !l.texts.sealing.TryLock() {
		return false
	}
	defer l.texts.sealing.Unlock()
	if l.texts.countUnsealed() < sealTexts { // somebody sealed between the look and the lock
		return false
	}
	return l.sealAnswers(ctx, l.texts.listFresh(true)) == nil // else the marks stay: it is tried again
}

// mergeDue merges packs of the index where a build has written many: each text that is looked up asks the filters of
// all runs, and a first build looks up as many texts as it writes. Who finds another one at it goes on. An error is
// left to the upkeep of the next build.
func (l *Ledger) mergeDue(ctx context.Context) {
	if l.packs.packsOf(Texts).countRuns() <= mostRuns || !l.texts.merging.TryLock() {
		return
	}
	defer l.texts.merging.Unlock()
	release, err := l.claimUpkeep(ctx, Embed)
	if err != nil || release == nil {
		return
	}
	defer release()
	_, _ = l.Merge(ctx, Texts, time.Now())
}

// learnLater takes an answer in that is held until it can be stored. Its mark may have been taken for a dead one's.
func (l *Ledger) learnLater(ctx context.Context, texts []core.Digest, object core.Digest) {
	if l.Drain(ctx) != nil {
		return
	}
	raw, _, err := blob.Read(ctx, l.store, looseKey(Embed, object))
	if stored, _ := decodeAnswer(raw, object); err != nil || stored == nil {
		return
	}
	if _, err := l.Put(ctx, Texts, object, 0, Result{}); err == nil {
		l.texts.learnAnswer(&answer{object: object, texts: slices.Clone(texts), fresh: true, own: true})
	}
}

func (x *textIndex) countUnsealed() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.own
}

// lookForStored learns what other processes stored, unless that was done since; it gives when the last such look
// began.
func (l *Ledger) lookForStored(ctx context.Context, since time.Time) (time.Time, error) {
	x := l.texts
	x.refreshing.Lock()
	defer x.refreshing.Unlock()
	if x.refreshed.After(since) {
		return x.refreshed, nil
	}
	begun := time.Now()
	marked := map[core.Digest]bool{}
	var unknown []core.Digest
	for mark, err := range l.looseObjects(ctx, Texts) {
		if err != nil {
			return time.Time{}, err
		}
		marked[mark.key] = true
		if x.findAnswer(mark.key) == nil {
			unknown = append(unknown, mark.key)
		}
	}
	err := parallel.Each(ctx, len(unknown), readWidth, func(ctx context.Context, i int) error {
		_, err := l.readHead(ctx, unknown[i], true)
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	for _, found := range x.listFresh(false) {
		if !marked[found.object] {
			x.sealAnswer(found)
		}
	}
	l.packs.packsOf(Texts).forgetList() // a mark may have come and gone: its answer is in a pack that was not listed yet
	x.refreshed = begun
	return begun, nil
}

// listFresh gives the answers that the index does not hold, of this process or of others.
func (x *textIndex) listFresh(own bool) []*answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []*answer
	for _, found := range x.answers {
		if found.fresh && found.own == own {
			out = append(out, found)
		}
	}
	return out
}

// SealTexts writes what this process stored into the index, and removes its marks.
func (l *Ledger) SealTexts(ctx context.Context) error {
	l.texts.sealing.Lock()
	defer l.texts.sealing.Unlock()
	return l.sealAnswers(ctx, l.texts.listFresh(true))
}

func (l *Ledger) sealAnswers(ctx context.Context, answers []*answer) error {
	if len(answers) == 0 {
		return nil
	}
	if err := l.writeIndex(ctx, answers); err != nil {
		return err
	}
	marks := make([]string, len(answers))
	for i, found := range answers {
		marks[i] = looseKey(Texts, found.object)
		l.texts.sealAnswer(found)
	}
	l.packs.packsOf(Texts).forgetList()
	return artifact.DeleteAll(ctx, l.store, marks)
}

// indexBits are those that a text has in the filter of a pack of the index. A text that is new must not cost reads.
const indexBits = 20

// writeIndex writes a pack of the index. It holds no loose entries, so that nothing has to be swept after it.
func (l *Ledger) writeIndex(ctx context.Context, answers []*answer) error {
	slices.SortFunc(answers, func(a, b *answer) int { return slices.Compare(a.object[:], b.object[:]) })
	objects := map[core.Digest]core.Digest{}
	names := make([]string, 0, len(answers)+1)
	names = append(names, "texts/1")
	for _, found := range answers {
		names = append(names, found.object.String())
		for _, text := range found.texts {
			objects[text] = found.object
		}
	}
	texts := make([]core.Digest, 0, len(objects))
	for text := range objects {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b core.Digest) int { return strings.Compare(string(a[:]), string(b[:])) })
	rows, err := artifact.NewRows()
	if err != nil {
		return err
	}
	defer rows.Discard()
	for _, text := range texts {
		object := objects[text]
		rows.Append(text.String(), object[:])
	}
	rows.Cut()
	rows.Append(filterRow, bloomOf(texts, indexBits))
	key := packPrefix(Texts) + core.Sum(names...).String()
	if err := rows.StoreScratch(ctx, l.store, key); err != nil {
		return err
	}
	l.packs.packsOf(Texts).readmitPack(key)
	_, err = blob.Write(ctx, l.store, key+sweptMark, nil, blob.Cond{})
	return err
}

// readmitPack takes a pack in again that was set aside: it was written again.
func (t *taskPacks) readmitPack(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.aside, key)
}
