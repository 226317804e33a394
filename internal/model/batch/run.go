package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// Runner has parts answered. Whoever runs a part must be the only one to: two at once would both send it. One that ends
// early, however it ends, is followed by another over the same parts, which sends nothing that was sent.
//
// Steps for each part, in rounds, as a batch may leave requests unanswered:
//
//  1. Record the intent: which requests, under the name <part>-<round>. The first record counts.
//  2. Upload and create, with the name in the metadata. Where it is open whether the batch was created, list and look
//     for the name before creating again.
//  3. Record the batch's id, and poll it until it ends.
//  4. Have the answers taken; then record that they are.
//
// A round that failed as too many tokens wait is sent again when there is room, and is no attempt. Rounds of parts that
// are not wanted any more, as a run before was of another corpus, are ended, and what they answered is taken.
type Runner struct {
	Client Server
	Store  blob.Store
	Prefix string // of the records; the folder holds nothing else
	Tokens int64  // of prompts that may wait on the server at once; 0 = any number
	Rounds int    // how often a request is sent at most; 0 = 3
	Hourly int    // batches that are created within an hour at most; 0 = any number

	// Until is when what has no answer is left to online calls: batches at work are cancelled, and what they answered is
	// taken. Zero: never.
	Until time.Time
	Now   func() time.Time

	// Bodies gives requests of a part with their bodies; nil: the part has them. So a corpus need not be in memory.
	Bodies func(ctx context.Context, part Part, ids []string) ([]Request, error)
	// Admit is asked before requests are sent, with their prompts' tokens, and may refuse them; its error ends Run. What
	// it admitted is in flight until Ended is called with the same numbers. Adopted gets what an earlier runner
	// sent. nil: no admission.
	Admit   func(ctx context.Context, requests int, tokens int64) error
	Adopted func(requests int, tokens int64)
	Ended   func(requests int, tokens int64)

	// Wait is called between polls. least is how long the server asks to be left alone.
	Wait func(ctx context.Context, least time.Duration) error
	// Missing says which requests have no answer yet.
	Missing func(ctx context.Context, ids []string) ([]string, error)
	// Hold takes requests for this runner, so that no runner of other parts sends them meanwhile, and gives those that it
	// got; one that another has is asked for later, if that one brings no answer. Free lets go of what Hold gave, or
	// would give. nil: no other runner has these requests.
	Hold func(ctx context.Context, ids []string) ([]string, error)
	Free func(ctx context.Context, ids []string) error
	// Take is given all that came of some requests, before it is forgotten; it must bear to be called again.
	Take func(ctx context.Context, answers []Answer) error
}

// record of a round is durable.
type record struct {
	Name     string   `json:"name"`
	IDs      []string `json:"ids"`
	Tokens   int64    `json:"tokens"`
	Attempts int      `json:"attempts"` // before this one
	Batch    string   `json:"batch,omitempty"`
	Ended    string   `json:"ended,omitempty"` // how; its answers are taken
}

// Ends of a round beside the states of a batch.
const (
	pushed = "no room"  // nothing was served
	unsent = "not sent" // it was too late
	lost   = "lost"     // the server does not know the batch any more
)

// lot is a part at work.
type lot struct {
	part  Part
	round int
	rec   *record // of the round; nil: none yet
	etag  string
	fresh bool // the intent is this runner's own and nothing was sent: no need to look for it
	alone int  // times in a row that there was no room for it alone
	left  []string
	done  bool
	stop  bool // it was asked to end
	old   bool // the part is no longer needed
}

func (l *lot) isOpen() bool { return l.rec != nil && l.rec.Ended == "" }

func (l *lot) roundName() string { return fmt.Sprintf("%s-%04d", l.part.Key[:nameDigits], l.round) }

// nameDigits of a part's key are in the names of its rounds, which fit metadata.
const nameDigits = 48

// run is the state of one Run.
type run struct {
	*Runner
	lots []*lot

	mu    sync.Mutex
	room  int64         // tokens that may wait; less than Tokens after the server had no room
	made  []time.Time   // when batches were created, within the last hour
	least time.Duration // that the server asks to be left alone
	files sync.Mutex    // is held by who reads files: they lie in memory
}

// partsAtOnce bounds requests about parts in flight.
const partsAtOnce = 8

// Run gives the requests that are left to online calls.
func (r *Runner) Run(ctx context.Context, parts []Part) (left []string, err error) {
	a := &run{Runner: r, room: r.Tokens}
	for _, part := range parts {
		a.lots = append(a.lots, &lot{part: part})
	}
	if err := a.each(ctx, a.lots, a.loadRecord); err != nil {
		return nil, err
	}
	if err := a.addOldRounds(ctx); err != nil {
		return nil, err
	}
	for _, l := range a.lots {
		if !l.isOpen() {
			continue
		}
		if a.Adopted != nil {
			a.Adopted(len(l.rec.IDs), l.rec.Tokens)
		}
		if a.Hold != nil { // they are held from their intent on, unless that was forgotten
			if _, err := a.Hold(ctx, l.rec.IDs); err != nil {
				return nil, err
			}
		}
	}
	for {
		a.least = 0
		if err := a.runPass(ctx); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(a.lots, func(l *lot) bool { return !l.done }) {
			break
		}
		if err := r.Wait(ctx, a.least); err != nil {
			return nil, err
		}
	}
	for _, l := range a.lots {
		left = append(left, l.left...)
	}
	return left, nil
}

func (a *run) each(ctx context.Context, lots []*lot, do func(context.Context, *lot) error) error {
	return parallel.Each(ctx, len(lots), min(partsAtOnce, max(1, len(lots))), func(ctx context.Context, i int) error {
		return do(ctx, lots[i])
	})
}

func (a *run) getLots(is func(*lot) bool) []*lot {
	var out []*lot
	for _, l := range a.lots {
		if !l.done && is(l) {
			out = append(out, l)
		}
	}
	return out
}

// loadRecord reads the last record of a part.
func (a *run) loadRecord(ctx context.Context, l *lot) error {
	for {
		var rec record
		info, err := blob.ReadJSON(ctx, a.Store, a.recordKey(l), &rec)
		if fault.Is(err, fault.NotFound) {
			if l.rec != nil {
				l.round--
			}
			return nil
		}
		if err != nil {
			return err
		}
		l.rec, l.etag = &rec, info.ETag
		l.round++
	}
}

func (a *run) recordKey(l *lot) string { return a.Prefix + "/" + l.roundName() + ".json" }

// addOldRounds adds the rounds of other parts that are open, and forgets those that ended: their answers are taken.
func (a *run) addOldRounds(ctx context.Context) error {
	wanted := map[string]bool{}
	for _, l := range a.lots {
		wanted[l.part.Key[:nameDigits]] = true
	}
	var old []*lot
	for info, err := range a.Store.List(ctx, a.Prefix+"/", "") {
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(info.Key, a.Prefix+"/"), ".json")
		part, number, ok := strings.Cut(name, "-")
		round, err := strconv.Atoi(number)
		if !ok || err != nil || len(part) != nameDigits || wanted[part] {
			continue
		}
		old = append(old, &lot{part: Part{Key: part}, round: round, old: true})
	}
	err := a.each(ctx, old, func(ctx context.Context, l *lot) error {
		var rec record
		info, err := blob.ReadJSON(ctx, a.Store, a.recordKey(l), &rec)
		if err != nil {
			return err
		}
		if l.rec, l.etag = &rec, info.ETag; l.isOpen() {
			return nil
		}
		l.done = true
		return a.Store.Delete(ctx, a.recordKey(l))
	})
	for _, l := range old {
		if !l.done {
			a.lots = append(a.lots, l)
		}
	}
	return err
}

// Stop has the batches at work end, as their run was cancelled: nothing more is begun, and what they answered by then
// is taken by the next Run.
func (r *Runner) Stop(ctx context.Context) error {
	a := &run{Runner: r}
	if err := a.addOldRounds(ctx); err != nil {
		return err
	}
	return a.each(ctx, a.getLots((*lot).isOpen), func(ctx context.Context, l *lot) error {
		if err := a.freeRequests(ctx, l.rec.IDs); err != nil || l.rec.Batch == "" {
			return err
		}
		batch, err := a.Client.Get(ctx, l.rec.Batch)
		if err != nil || batch.HasEnded() {
			return err
		}
		return a.Client.Cancel(ctx, l.rec.Batch)
	})
}

// saveRecord records a step of a round. Only this runner writes it.
func (a *run) saveRecord(ctx context.Context, l *lot) error {
	cond := blob.Cond{Match: l.etag}
	if l.etag == "" {
		cond = blob.Cond{Absent: true}
	}
	info, err := blob.WriteJSON(ctx, a.Store, a.recordKey(l), l.rec, cond)
	if err == nil {
		l.etag = info.ETag
	}
	return err
}

func (a *run) isLate() bool { return !a.Until.IsZero() && !a.Now().Before(a.Until) }

// runPass takes every part as far as it gets without waiting.
func (a *run) runPass(ctx context.Context) error {
	if err := a.adoptBatches(ctx); err != nil {
		return err
	}
	if err := a.each(ctx, a.getLots(func(l *lot) bool { return l.isOpen() && l.rec.Batch != "" }), a.pollLot); err != nil {
		return err
	}
	idle := a.getLots(func(l *lot) bool { return !l.isOpen() })
	if err := a.each(ctx, idle, a.beginRound); err != nil {
		return err
	}
	return a.each(ctx, a.getLots(func(l *lot) bool { return l.isOpen() && l.rec.Batch == "" && l.fresh }), a.sendRound)
}

// adoptBatches looks for the batches of rounds that may have been sent. Those that were not are sent by this pass.
func (a *run) adoptBatches(ctx context.Context) error {
	doubtful := a.getLots(func(l *lot) bool { return l.isOpen() && l.rec.Batch == "" && !l.fresh })
	if len(doubtful) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, l := range doubtful {
		names[l.rec.Name] = true
	}
	found, err := a.Client.Find(ctx, names)
	if err != nil {
		return a.deferTransient(err)
	}
	return a.each(ctx, doubtful, func(ctx context.Context, l *lot) error {
		switch batches := found[l.rec.Name]; {
		case len(batches) > 0:
			l.rec.Batch = batches[len(batches)-1].ID // the eldest
			return a.saveRecord(ctx, l)
		case a.isLate() || l.old:
			a.endRound(l, unsent)
			return errors.Join(a.saveRecord(ctx, l), a.freeRequests(ctx, l.rec.IDs))
		}
		l.fresh = true
		return nil
	})
}

// deferTransient bears errors that pass: the next pass tries again.
func (a *run) deferTransient(err error) error {
	if fault.KindOf(err) != fault.Transient || fault.As(err) == nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.least = max(a.least, fault.RetryAfter(err))
	return nil
}

// beginRound begins the next round of a part where there is something to ask and room for it.
func (a *run) beginRound(ctx context.Context, l *lot) error {
	if l.old {
		l.done = true
		return a.Store.Delete(ctx, a.recordKey(l))
	}
	ids := make([]string, len(l.part.Requests))
	for i, request := range l.part.Requests {
		ids[i] = request.ID
	}
	missing, err := a.Missing(ctx, ids)
	if err != nil {
		return err
	}
	attempts, round := 0, 0
	if l.rec != nil {
		attempts, round = l.rec.Attempts, l.round+1
		if l.rec.Ended != pushed && l.rec.Ended != unsent {
			attempts++
		}
	}
	rounds := a.Rounds
	if rounds <= 0 {
		rounds = 3
	}
	if len(missing) == 0 || a.isLate() {
		l.left, l.done = missing, true
		_, _, err := a.holdRequests(ctx, missing) // what is left to online calls no other runner should send, either
		return err
	}
	if !a.hasRoomFor(l.part, missing) {
		return nil
	}
	mine, others, err := a.holdRequests(ctx, missing)
	if err != nil {
		return err
	}
	if attempts >= rounds || l.alone >= rounds || len(mine) == 0 {
		if !others && len(mine) > 0 { // they are left to online calls, and stay held until those are answered
			l.left, l.done = mine, true
			return nil
		}
		return a.freeRequests(ctx, mine)
	}
	rec := &record{IDs: mine, Attempts: attempts, Tokens: sumTokens(l.part, mine)}
	held, err := a.reserveRound(ctx, l, rec, round)
	if err != nil || !held {
		return errors.Join(err, a.freeRequests(ctx, mine))
	}
	return a.saveRecord(ctx, l)
}

// reserveRound makes a record the lot's where there is room for its tokens, and its requests are admitted.
func (a *run) reserveRound(ctx context.Context, l *lot, rec *record, round int) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.hasRoom(rec.Tokens) || a.reachesHourlyLimit() {
		return false, nil
	}
	if a.Admit != nil {
		if err := a.Admit(ctx, len(rec.IDs), rec.Tokens); err != nil {
			return false, err
		}
	}
	l.round, l.etag, l.fresh, l.stop = round, "", true, false
	rec.Name = l.roundName()
	l.rec = rec
	return true, nil
}

// endRound ends a round.
func (a *run) endRound(l *lot, how string) {
	l.rec.Ended = how
	if a.Ended != nil {
		a.Ended(len(l.rec.IDs), l.rec.Tokens)
	}
}

// sendRound uploads a round and creates its batch.
func (a *run) sendRound(ctx context.Context, l *lot) error {
	asked := idSet(l.rec.IDs)
	requests := slices.DeleteFunc(slices.Clone(l.part.Requests), func(r Request) bool { return !asked[r.ID] })
	if a.Bodies != nil {
		var err error
		if requests, err = a.Bodies(ctx, l.part, l.rec.IDs); err != nil {
			return err
		}
	}
	lines, err := Encode(requests)
	if err != nil {
		return err
	}
	file, err := a.Client.Upload(ctx, l.rec.Name+".jsonl", lines)
	if err != nil {
		return a.deferTransient(err) // no batch can be of a file without an id
	}
	l.fresh = false
	// A creation that is given up halfway may still be carried out, after a list that was asked for to find it.
	made, err := a.Client.Create(context.WithoutCancel(ctx), file, l.rec.Name)
	if fault.Is(err, fault.NotFound) { // the server does not see the file yet
		return nil
	}
	if err != nil {
		return a.deferTransient(err)
	}
	l.rec.Batch = made.ID
	return a.saveRecord(ctx, l)
}

// pollLot looks at a batch, and takes what came of it when it has ended.
func (a *run) pollLot(ctx context.Context, l *lot) error {
	batch, err := a.Client.Get(ctx, l.rec.Batch)
	if fault.Is(err, fault.NotFound) { // as after 30 days
		a.endRound(l, lost)
		return errors.Join(a.saveRecord(ctx, l), a.freeRequests(ctx, l.rec.IDs))
	}
	if err != nil {
		return a.deferTransient(err)
	}
	if !batch.HasEnded() {
		if (a.isLate() || l.old) && !l.stop {
			err = a.Client.Cancel(ctx, batch.ID)
			l.stop = err == nil
			return a.deferTransient(err)
		}
		return nil
	}
	sent := idSet(l.rec.IDs)
	a.files.Lock()
	defer a.files.Unlock()
	files := make([][]byte, 0, 2)
	for _, file := range []string{batch.Output, batch.Errors} {
		if file == "" {
			continue
		}
		raw, err := a.Client.Content(ctx, file, len(l.rec.IDs))
		if fault.Is(err, fault.NotFound) { // what it said is asked for in another round
			continue
		}
		if err != nil {
			return a.deferTransient(err)
		}
		files = append(files, raw)
	}
	outcome := Read(sent, files...)
	answers := make([]Answer, 0, len(outcome.Answers))
	for _, id := range l.rec.IDs {
		if answer, got := outcome.Answers[id]; got {
			answers = append(answers, answer)
		}
	}
	if len(answers) > 0 {
		if err := a.Take(ctx, answers); err != nil {
			return err
		}
	}
	a.releaseTokens(l, batch)
	if err := errors.Join(a.saveRecord(ctx, l), a.freeRequests(ctx, l.rec.IDs)); err != nil {
		return err
	}
	for _, file := range []string{batch.Input, batch.Output, batch.Errors} {
		if file != "" {
			_ = a.Client.Delete(ctx, file) // the server does so, too, after its time: texts need not lie there until then
		}
	}
	return nil
}

func idSet(ids []string) map[string]bool {
	out := make(map[string]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}
