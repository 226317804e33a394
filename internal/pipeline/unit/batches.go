package unit

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/batch"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// InBatches reports whether extraction is answered in batches.
func (r *Run) InBatches(ctx context.Context) (bool, error) {
	if !r.Settings.ChatOf(core.RoleExtraction).Batch.IsOn() {
		return false, nil
	}
	models, err := r.ModelSet()
	if err != nil {
		return false, err
	}
	_, can := model.As[batcher](models.Extractor())
	return can && models.Extractor().Info().Paid, nil
}

// batcher is a model whose server has a Batch API.
type batcher interface {
	model.Batcher
	Batches() batch.Server
}

// PayBatches pays in batches for the extractions that the ledger lacks, and returns when they are answered, or
// when the deadline has passed: extraction finds them in the ledger, and asks for the others. It is one unit of work:
// what it does is waiting, and one that reserves the tokens and the money of all reserves them exactly.
func (r *Run) PayBatches(ctx context.Context) (run.Batched, error) {
	return FinishUnit(ctx, r, run.BatchesFile, func(ctx context.Context, progress *core.Progress) (run.Batched, error) {
		out, err := r.payBatches(ctx)
		progress.Done = out.Known
		return out, err
	})
}

func (r *Run) payBatches(ctx context.Context) (run.Batched, error) {
	models, err := r.ModelSet()
	if err != nil {
		return run.Batched{}, err
	}
	server, can := model.As[batcher](models.Extractor())
	settings := r.Settings.ChatOf(core.RoleExtraction).Batch
	if !can || !settings.IsOn() {
		return run.Batched{}, nil
	}
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
	if err != nil {
		return run.Batched{}, err
	}
	ctx, release, err := r.onlyOne(ctx)
	if err != nil {
		return run.Batched{}, err
	}
	defer release()
	money, err := r.openBatchBook(ctx, settings.PricedAt)
	if err != nil {
		return run.Batched{}, err
	}
	defer money.unwatch()
	chooser, close, err := r.openChooser(ctx)
	defer close()
	if err != nil {
		return run.Batched{}, err
	}
	b := &batching{Run: r, chooser: chooser, shardOf: map[string]int{}, calls: &extract.Batches{
		Chat: models.Extractor(), Model: server, Ledger: r.Ledger, Spec: r.Settings, Attempt: r.Attempt,
		Paid: func(usage model.Usage) { money.Count(model.Extract, usage) },
	}}
	runner := &batch.Runner{
		Client: server.Batches(), Store: r.Artifacts, Prefix: r.Index.BatchesKey(),
		Tokens: settings.Tokens, Hourly: settings.Hourly, Until: fixed.Started.Add(time.Duration(settings.Deadline)),
		Now: time.Now, Missing: b.calls.FindMissing, Bodies: b.makeBodies,
		Admit: money.admitRequests, Adopted: money.countAdopted, Ended: money.countEnded, Free: b.releaseTexts,
		Take: func(ctx context.Context, answers []batch.Answer) error {
			if err := b.calls.TakeAnswers(ctx, answers); err != nil {
				return err
			}
			r.Progress.SetDone(b.taken.Add(int64(len(answers))))
			return money.Flush(ctx)
		},
		Wait: func(ctx context.Context, least time.Duration) error {
			return r.WaitAlive(ctx, max(least, time.Duration(settings.Poll)))
		},
	}
	runner.Hold = func(ctx context.Context, ids []string) ([]string, error) { return b.holdTexts(ctx, ids, runner.Until) }
	begun, err := run.MakeOnce(ctx, r.BaseRun(), run.BatchingFile, func(ctx context.Context) (run.BatchForm, error) {
		// What an earlier run left at work is ended and taken first: else it may be asked for below, and paid for twice.
		if _, err := runner.Run(ctx, nil); err != nil {
			return run.BatchForm{}, err
		}
		err := b.askFirst(ctx, models.Extractor())
		return run.BatchForm{Form: server.Form()}, err
	})
	if err != nil {
		return run.Batched{}, err
	}
	server.Begin(begun.Form)
	parts, err := b.cutParts(ctx, settings)
	if err != nil {
		return run.Batched{}, err
	}
	left, err := runner.Run(ctx, parts)
	if err != nil {
		if fault.Is(context.Cause(ctx), fault.Cancelled) {
			b.stopBatches(ctx, runner)
		}
		return run.Batched{}, err
	}
	out := run.Batched{Requests: b.requests, Online: int64(len(left)) + b.calls.CountLeft()}
	out.Known = out.Requests - out.Online
	return out, money.Flush(ctx)
}

// askFirst asks online for one chunk that is not paid for, before anything is in a batch: a file of requests in a form
// that the server does not take would come back whole.
func (b *batching) askFirst(ctx context.Context, chat model.Chat) error {
	shards, err := run.ReadKept(ctx, b.BaseRun(), run.ShardsFile)
	if err != nil {
		return err
	}
	for number := range shards.Shards {
		in, err := b.shardIn(ctx, number)
		if err != nil {
			return err
		}
		in.Gen, in.Attempt, in.Chat, in.Ledger = b.Generation, b.Attempt, chat, b.Ledger
		in.Health, in.OnProgress = b.Book.HealthOf(model.Extract), b.TouchProgress
		if asked, err := b.firstOf(ctx, in); err != nil || !asked.IsZero() {
			return err
		}
	}
	return nil
}

// batching are the requests of a build: which parts they are in, and of which shard each part is.
type batching struct {
	*Run
	chooser  *extract.Chooser
	calls    *extract.Batches
	shardOf  map[string]int // by key of the part
	requests int64
	taken    atomic.Int64
}

// cutParts cuts the calls of all chunks into parts, shard by shard: a shard of the same chunks has the same parts
// whatever became of the others. Bodies are forgotten, so that 64 bytes a chunk stay.
func (b *batching) cutParts(ctx context.Context, settings core.BatchMode) ([]batch.Part, error) {
	shards, err := run.ReadKept(ctx, b.BaseRun(), run.ShardsFile)
	if err != nil {
		return nil, err
	}
	var all []batch.Part
	for number := range shards.Shards {
		in, err := b.shardIn(ctx, number)
		if err != nil {
			return nil, err
		}
		requests, err := b.calls.BuildRequests(ctx, in)
		if err != nil {
			return nil, err
		}
		parts, err := batch.Cut(requests, batch.Limits{Requests: settings.Requests, Tokens: settings.Tokens})
		if err != nil {
			return nil, err
		}
		for _, part := range parts {
			if _, twice := b.shardOf[part.Key]; twice {
				continue // the same texts: one of them pays
			}
			b.shardOf[part.Key] = number
			b.requests += int64(len(part.Requests))
			for i := range part.Requests {
				part.Requests[i].Body = nil
			}
			all = append(all, part)
		}
		b.Progress.Touch()
	}
	return all, nil
}

func (b *batching) shardIn(ctx context.Context, number int) (extract.In, error) {
	shard, chunked, err := b.readShard(ctx, number)
	return extract.In{
		Spec: b.Settings, Artifacts: b.Index, Scratch: b.Scratch.Prefix, Text: chunked.Text,
		Chunks: b.ChunksKey(shard.Unit, chunked), Shard: shard, From: shard.From, To: shard.To, Chooser: b.chooser,
	}, err
}

// holdSlack is how long texts are held for an index behind the time at which its batches are ended.
const holdSlack = time.Hour

// holdTexts takes texts for this index's batches, so that another index that shares them waits for their answers.
func (r *Run) holdTexts(ctx context.Context, ids []string, until time.Time) ([]string, error) {
	life := max(0, time.Until(until)) + holdSlack
	got, err := r.Coordination.ClaimAll(ctx, heldNames(ids), r.Job.Index, life)
	if err != nil {
		return nil, err
	}
	mine := make([]string, 0, len(ids))
	for i, id := range ids {
		if got[i] {
			mine = append(mine, id)
		}
	}
	return mine, nil
}

func (r *Run) releaseTexts(ctx context.Context, ids []string) error {
	return r.Coordination.ReleaseAll(ctx, heldNames(ids), r.Job.Index)
}

// firstOf returns extract.First of a chunk that no batch has: of this index, or of another.
func (r *Run) firstOf(ctx context.Context, in extract.In) (core.Digest, error) {
	var held []string
	asked, err := extract.ExtractFirst(ctx, in, func(ctx context.Context, key core.Digest) (bool, error) {
		mine, err := r.holdTexts(ctx, []string{key.String()}, time.Time{})
		held = append(held, mine...)
		return len(mine) == 1, err
	})
	if len(held) > 0 {
		err = errors.Join(err, r.releaseTexts(context.WithoutCancel(ctx), held))
	}
	return asked, err
}

func heldNames(ids []string) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = "batched:" + model.Extract + ":" + id
	}
	return names
}

func (b *batching) makeBodies(ctx context.Context, part batch.Part, ids []string) ([]batch.Request, error) {
	in, err := b.shardIn(ctx, b.shardOf[part.Key])
	if err != nil {
		return nil, err
	}
	return b.calls.SelectRequests(ctx, in, ids)
}

// stopPatience is how long batches are asked to end after a cancel.
const stopPatience = 20 * time.Second

// stopBatches ends the batches at work, as the run was cancelled. One that cannot be reached goes on; its answers
// are taken by the next build in mode batch.
func (b *batching) stopBatches(ctx context.Context, runner *batch.Runner) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if err := runner.Stop(ctx); err != nil {
		b.Log.Warn("batches go on at the server", "run_id", b.Name(), "error", err.Error())
	}
}

// WaitAlive lets time pass, with signs of life.
func (r *Run) WaitAlive(ctx context.Context, wait time.Duration) error {
	for end := time.Now().Add(wait); time.Now().Before(end); {
		r.Progress.Touch()
		if retry.Wait(ctx, min(time.Until(end), time.Second)) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// batchesTTL is how long the claim on an index's batches outlives its process.
const batchesTTL = 30 * time.Second

// onlyOne waits until no other run sends batches of the index, and keeps it so: two would send the same. The
// context that it gives ends where that can no longer be said.
func (r *Run) onlyOne(ctx context.Context) (context.Context, func(), error) {
	name, owner := "batches:"+r.Job.Index, r.Book.Worker
	for {
		got, err := r.Coordination.Claim(ctx, name, owner, batchesTTL)
		if err != nil {
			return ctx, nil, err
		}
		if got {
			break
		}
		if err := r.WaitAlive(ctx, time.Second); err != nil {
			return ctx, nil, err
		}
	}
	held, end := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		ticker := time.NewTicker(batchesTTL / 6)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-held.Done():
				return
			case <-ticker.C:
			}
			got, err := r.Coordination.Claim(held, name, owner, batchesTTL)
			if err == nil && got {
				last = time.Now()
			} else if err == nil || time.Since(last) > batchesTTL/2 {
				end(fault.StoreDown.At("keep the claim on", name).Because("it could not be renewed in time").
					Advise("no request is sent while another process may send it; check stores.classes"))
				return
			}
		}
	})
	return held, func() {
		end(nil)
		renewing.Wait()
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), run.ExchangePatience)
		defer cancel()
		_ = r.Coordination.Release(release, name, owner) // else it runs out
	}, nil
}

// batchBook is the account of a run's batches. All processes share it: the next one goes on
// from what the one before wrote, so that what is at work at the server counts once after a death, too.
type batchBook struct {
	*run.Book
	unwatch func()
}

// batchWorker is the name that it has among the workers' accounts.
const batchWorker = "batches"

func (r *Run) openBatchBook(ctx context.Context, pricedAt float64) (*batchBook, error) {
	accounts, err := r.Coordination.ReadAccounts(ctx, r.Name())
	if err != nil {
		return nil, err
	}
	mine := run.Account{Done: map[string]int64{}}
	if raw := accounts[batchWorker]; raw != nil {
		if err := json.Unmarshal(raw, &mine); err != nil || mine.IsDamaged() {
			return nil, fault.ControlUnreadable.At("read account of", r.Name()+" by "+batchWorker).Because(err)
		}
		mine.InFlight, mine.Expected, mine.Risk = core.Calls{}, core.Tokens{}, 0 // counted again by adopted
	}
	opened := &batchBook{Book: r.NewBook(r.Name(), batchWorker, mine)}
	opened.Settings, opened.Factor = r.Settings, pricedAt
	_, opened.unwatch = opened.Watch(ctx, "") // it is looked at every second while batches are at work
	return opened, nil
}

// flightOf returns the flight of requests: n of them, each of the mean size.
func (b *batchBook) flightOf(n int, tokens int64) run.Flight {
	usage := model.Usage{Prompt: tokens / int64(max(1, n)), Completion: b.EstimateReply(model.Extract)}
	return run.Flight{
		Task: model.Extract, Prompt: usage.Prompt, Completion: usage.Completion, Cost: b.Cost(model.Extract, usage),
	}
}

// admitRequests lets requests be sent where the run goes on and its budget has room for all of them.
func (b *batchBook) admitRequests(ctx context.Context, n int, tokens int64) error {
	if err := b.AwaitStored(ctx); err != nil {
		return err
	}
	if err := b.CheckControl(ctx); err != nil {
		return err
	}
	asked := b.flightOf(n, tokens)
	b.Mu.Lock()
	total := b.Total()
	total.CountFlight(asked, int64(n-1))
	spent := run.CheckBudget(b.Control.LimitBudget(b.Settings.Budget), total, b.Run)
	b.Mu.Unlock()
	if spent != nil {
		return spent
	}
	b.countAdopted(n, tokens)
	return b.Flush(ctx)
}

// countAdopted counts what an earlier process sent.
func (b *batchBook) countAdopted(n int, tokens int64) {
	asked := b.flightOf(n, tokens)
	b.Change(func(account *run.Account) { account.CountFlight(asked, int64(n)) })
}

// countEnded counts requests that are not at work any more.
func (b *batchBook) countEnded(n int, tokens int64) {
	asked := b.flightOf(n, tokens)
	b.Change(func(account *run.Account) {
		account.CountFlight(asked, -int64(n))
		if account.InFlight.Sum() <= 0 { // the mean reply, and so what is expected, changed meanwhile
			account.InFlight, account.Expected, account.Risk = core.Calls{}, core.Tokens{}, 0
		}
		account.Expected.Prompt = max(0, account.Expected.Prompt)
		account.Expected.Completion = max(0, account.Expected.Completion)
		account.Risk = max(0, account.Risk)
	})
}
