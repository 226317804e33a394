package upkeep

import (
	"context"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// yieldEvery is how often a backfill looks at who holds the lease, while it yields.
const yieldEvery = 2 * time.Second

// Going says which run goes first; empty: none does.
type Going func(ctx context.Context) (run string, err error)

// PayBackfill pays for the chunks of one unit, a few at a time. Before each few it lets others go first, and after them
// it waits as its throttle says: between them it holds no claim, so that none waits for it. What is paid for already
// costs a look at the ledger.
func (r *Run) PayBackfill(ctx context.Context, unit int, going Going) error {
	asked, err := run.ReadBackfill(ctx, r.Index, r.Backfill)
	if err != nil {
		return err
	}
	p := &backfillPayer{Run: r, asked: asked, going: going, unit: unit}
	if err := p.waitTurn(ctx); err != nil {
		return err
	}
	begun := time.Now()
	if p.fixed, err = run.ReadKept(ctx, r.BaseRun(), run.PlanFile); err != nil {
		return err
	}
	if err := p.refusePurged(ctx); err != nil {
		return err
	}
	if p.chunked, err = r.Chunk(ctx, unit); err != nil {
		return err
	}
	if p.models, err = r.ModelSet(); err != nil {
		return err
	}
	release, err := p.openChooser(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := p.readAccount(ctx); err != nil {
		return err
	}
	p.worked = time.Since(begun)
	all := int(p.chunked.Counts.Chunks)
	for from := 0; from < all; from += r.Batch {
		if err := p.waitTurn(ctx); err != nil {
			return err
		}
		if err := p.refusePurged(ctx); err != nil {
			return err
		}
		if err := p.payBatch(ctx, from, min(from+r.Batch, all)); err != nil {
			return err
		}
	}
	return p.writeProgress(ctx, all, true)
}

type backfillPayer struct {
	*Run
	asked   core.Backfill // YieldsTo is what is written down of it
	going   Going
	unit    int
	fixed   run.Plan
	chunked chunk.Result
	models  model.Set
	chooser *extract.Chooser
	account run.Account   // of all payments, after the last batch
	worked  time.Duration // since tell last wrote it down
}

// openChooser opens what chooses the request of a chunk as a build over what is served now would. Release it.
func (p *backfillPayer) openChooser(ctx context.Context) (release func(), err error) {
	current, parent, err := p.Index.ReadServed(ctx)
	if err != nil {
		return nil, err
	}
	fixed := run.Plan{Parent: current.Manifest}
	p.FixExtraction(&fixed, parent)
	p.chooser, release, err = p.OpenChooser(ctx, fixed)
	return release, err
}

// waitTurn waits until no build goes first, and reports which one it waits for.
func (p *backfillPayer) waitTurn(ctx context.Context) error {
	for {
		run, err := p.going(ctx)
		if err != nil {
			return err
		}
		if run != p.asked.YieldsTo {
			p.asked.YieldsTo = run
			if err := p.changeProgress(ctx, func(now *core.BackfillProgress) { now.YieldsTo = run }); err != nil {
				return err
			}
		}
		if run == "" {
			return nil
		}
		if err := p.WaitAlive(ctx, yieldEvery); err != nil {
			return err
		}
	}
}

// refusePurged refuses to go on where documents were purged since the payments were planned: what is to be paid for may
// be theirs.
func (p *backfillPayer) refusePurged(ctx context.Context) error {
	now, err := p.listPurged(ctx)
	if err != nil {
		return err
	}
	for digest := range now.Keys {
		if !p.fixed.Excluded.Keys[digest] {
			return fault.PlanMoved.At("pay for backfill", p.Backfill).
				Because("documents were purged since the backfill started").
				Advise("to continue with a new listing, with paid results kept: unweaver backfill resume " + p.Job.Index +
					" " + p.Backfill)
		}
	}
	return nil
}

// payBatch pays for a few chunks, and waits as long after it as its calls have to last.
func (p *backfillPayer) payBatch(ctx context.Context, from, to int) error {
	begun := time.Now()
	number := from / p.Batch
	_, err := unit.FinishUnit(ctx, p.Run.Run.Run, run.ExtractFile(p.unit, number), func(
		ctx context.Context, progress *core.Progress,
	) (extract.Result, error) {
		result, err := extract.Run(ctx, extract.In{
			Spec: p.Settings, Artifacts: p.Index, Scratch: p.Scratch.Prefix, Gen: p.Generation, Text: p.chunked.Text,
			Chunks: p.ChunksKey(p.unit, p.chunked),
			Shard:  extract.Shard{Number: p.unit, Unit: p.unit, To: int(p.chunked.Counts.Chunks)}, Batch: number,
			From: from, To: to, Chooser: p.chooser, Chat: p.models.Extractor(),
			Health: p.Book.HealthOf(model.Extract),
			Ledger: p.Ledger, OnProgress: p.Progress.Report,
		})
		if err == nil {
			err = p.payVectors(ctx, from, to)
		}
		*progress = result.Progress
		return result, err
	})
	p.worked += time.Since(begun)
	if err != nil {
		return err
	}
	before := p.account.Calls.Sum()
	if err := p.writeProgress(ctx, to, false); err != nil {
		return err
	}
	if perMinute := p.asked.Throttle.CallsPerMinute; perMinute > 0 {
		lasts := time.Duration(p.account.Calls.Sum()-before) * time.Minute / time.Duration(perMinute)
		return p.WaitAlive(ctx, time.Until(begun.Add(lasts)))
	}
	return nil
}

// payVectors pays for the vectors of chunks that the ledger does not have.
func (p *backfillPayer) payVectors(ctx context.Context, from, to int) error {
	if !p.models.Chunks.Info().Paid {
		return nil
	}
	wanted, err := p.ReadWindows(ctx, p.chunked, p.unit, from, to, p.fixed.Chunk)
	if err != nil {
		return err
	}
	source := embed.Source{Embedder: p.models.Chunks, Ledger: p.Ledger}
	missing, err := source.FindMissing(ctx, wanted)
	if err != nil {
		return err
	}
	for some, err := range embed.CutBatches(func(yield func(embed.Item, error) bool) {
		for _, item := range missing {
			if !yield(item, nil) {
				return
			}
		}
	}) {
		if err != nil {
			return err
		}
		// The build that publishes a text reports what is wrong with it alone.
		if err := source.Pay(ctx, some); err != nil && fault.KindOf(err) != fault.Content {
			return err
		}
	}
	return nil
}

// writeProgress writes down how far the unit is, in figures of the plan: a unit that is repeated counts once.
func (p *backfillPayer) writeProgress(ctx context.Context, done int, all bool) error {
	if err := p.readAccount(ctx); err != nil {
		return err
	}
	planned := p.fixed.Plan.Units
	return p.changeProgress(ctx, func(now *core.BackfillProgress) {
		before := int64(0)
		for _, unit := range planned[:p.unit] {
			before += unit.Bytes
		}
		bytes := planned[p.unit].Bytes
		if chunks := p.chunked.Counts.Chunks; chunks > 0 && !all {
			bytes = bytes * int64(done) / chunks
		}
		now.BytesDone = max(now.BytesDone, before+bytes)
		now.ChunksDone = now.ChunksBefore + int64(done)
		if all && now.UnitsDone <= p.unit {
			now.UnitsDone, now.ChunksBefore = p.unit+1, now.ChunksDone
		}
		now.WorkedSeconds += p.worked.Seconds()
		now.Calls, now.Tokens, now.Cost, now.LedgerHits = p.account.Calls, p.account.Tokens, p.account.Cost, p.account.Hits
		p.worked = 0
	})
}

// readAccount reads what the payments came to.
func (p *backfillPayer) readAccount(ctx context.Context) (err error) {
	if err = p.Flush(ctx); err == nil {
		p.account, err = run.ReadTotals(ctx, p.Coordination, p.Name())
	}
	return err
}

// changeProgress rewrites how far the payments are: one unit works at a time.
func (p *backfillPayer) changeProgress(ctx context.Context, change func(*core.BackfillProgress)) error {
	return changeBackfill(ctx, p.Index, p.Backfill, run.BackfillPaid, change)
}
