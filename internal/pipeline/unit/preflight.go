package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// preflightChunks is how many chunks of a unit are looked at for one that would be paid for.
const preflightChunks = 64

// RunPreflight asks the models for something small as soon as the first chunks are there, so that a server, key or
// model that is wrong pauses the run within seconds, and not after all documents are read. It asks where the ledger
// does not have everything that it looks at: for the extraction of one chunk and the vector of one, which are kept. A
// run that would ask for nothing asks for nothing.
func (r *Run) RunPreflight(ctx context.Context, unit int) (err error) {
	defer func() { err = r.ReusedDamage(err) }()
	done, begun, err := run.PreflightFile.Find(ctx, r.Scratch)
	if err != nil || done.Embedder {
		return err
	}
	models, err := r.ModelSet()
	if err != nil {
		return err
	}
	chunked, err := run.ChunkFile(unit).Read(ctx, r.Scratch)
	if err != nil {
		return err
	}
	most := int(min(chunked.Counts.Chunks, preflightChunks))
	if !begun {
		chooser, release, err := r.openChooser(ctx)
		defer release()
		if err != nil {
			return err
		}
		done.Asked, err = r.firstOf(ctx, extract.In{
			Spec: r.Settings, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Gen: r.Generation, Text: chunked.Text,
			Chunks: r.ChunksKey(unit, chunked), Shard: extract.Shard{Unit: unit, To: most}, To: most, Attempt: r.Attempt,
			Chooser: chooser, Chat: models.Extractor(), Health: r.Book.HealthOf(model.Extract), Ledger: r.Ledger,
			OnProgress: r.TouchProgress,
		})
		if err == nil {
			err = run.PreflightFile.Write(ctx, r.Scratch, done)
		}
		if err != nil {
			return err
		}
	}
	if err := r.preflightEmbedding(ctx, models, unit, chunked, most); err != nil {
		return err
	}
	done.Embedder = true
	return run.PreflightFile.Write(ctx, r.Scratch, done)
}

// preflightEmbedding asks for the first vector of the chunks that it looks at which would be paid for, and the ledger
// keeps it: the stage that embeds does not ask for it again. What is wrong with the text alone is that stage's to tell.
func (r *Run) preflightEmbedding(
	ctx context.Context, models model.Set, unit int, chunked chunk.Result, most int,
) error {
	fixed, err := run.PlanFile.Read(ctx, r.Scratch)
	if err != nil || !models.Chunks.Info().Paid || most == 0 {
		return err
	}
	wanted, err := r.ReadWindows(ctx, chunked, unit, 0, most, fixed.Chunk)
	if err != nil {
		return err
	}
	source := embed.Source{Embedder: models.Chunks, Ledger: r.Ledger}
	missing, err := source.FindMissing(ctx, wanted)
	if err != nil || len(missing) == 0 {
		return err
	}
	if err = source.Pay(model.WithUrgency(ctx), missing[:1]); fault.KindOf(err) == fault.Content {
		return nil
	}
	return err
}
