package upkeep

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/estimate"
	"github.com/unweaver/unweaver/internal/stage/extract"
)

// vectorCount counts chunks whose vectors the parent does not have.
type vectorCount struct {
	looked  int64        // up in the ledger
	missing estimate.New // there, too: they would be paid for
}

// vectorsAtOnce is how many chunks are looked up together.
const vectorsAtOnce = 512

// countVectors looks the vectors of a unit's chunks up in the ledger: all of them where another embedder makes them, or
// makes them elsewhere, else those of chunks that the parent does not have.
func (e *estimating) countVectors(
	ctx context.Context, unit int, chunked chunk.Result, known func(core.ID) bool,
) error {
	if !e.models.Chunks.Info().Paid || chunked.Counts.Chunks == 0 {
		return nil
	}
	skip := known
	if e.parent == nil || e.cut || e.embedsAgain(e.fixed.Chunk, e.parent.Chunk) {
		skip = nil
	}
	source := embed.Source{Embedder: e.models.Chunks, Ledger: e.Ledger}
	var items []embed.Item
	var sizes []int64 // of chunks, in tokens; Item.Window is the number of one here
	look := func() error {
		missing, err := source.FindMissing(ctx, items)
		last := -1
		for _, item := range missing {
			if item.Window != last {
				e.vectors.missing.Chunks++
				e.vectors.missing.Tokens += sizes[item.Window]
			}
			last = item.Window
		}
		items, sizes = items[:0], sizes[:0]
		return err
	}
	for one, err := range e.StreamWindows(ctx, chunked, unit, 0, int(chunked.Counts.Chunks), e.fixed.Chunk, skip) {
		if err != nil {
			return err
		}
		for _, item := range one.Windows {
			item.Window = len(sizes)
			items = append(items, item)
		}
		e.vectors.looked++
		if sizes = append(sizes, int64(one.Tokens)); len(sizes) == vectorsAtOnce {
			if err := look(); err != nil {
				return err
			}
		}
	}
	return look()
}

// embedsAgain reports whether no vector of the parent serves.
func (e *estimating) embedsAgain(now, was core.Fingerprint) bool {
	return e.fixed.Trust.Moved || now != was
}

// knownChunks says which chunks the parent has.
func (e *estimating) knownChunks(ctx context.Context) (known func(core.ID) bool, release func(), err error) {
	none := func(core.ID) bool { return false }
	if e.parent == nil {
		return none, func() {}, nil
	}
	table, err := e.OpenTable(ctx, e.parent)
	if err != nil {
		return none, func() {}, err
	}
	e.table = table
	return func(id core.ID) bool {
		_, counts := table.FindChunk(id)
		return counts
	}, table.Release, nil
}

// countAgain estimates how many classes of the parent are embedded again. With another embedder all are, as far as the
// ledger lacks them as it lacks those of chunks. With other texts any may be: which of them, the extraction says.
func (e *estimating) countAgain(extracting extract.Estimate, texts bool) (out estimate.Range) {
	counts := e.parent.Counts
	if e.embedsAgain(e.fixed.Class, e.parent.Class) {
		out = estimate.Range{Low: counts.Classes * e.vectors.missing.Chunks / max(1, e.vectors.looked), High: counts.Classes}
	} else if texts || e.cut {
		out.High = counts.Classes
	}
	out.High += counts.Mentions * (extracting.Calls - e.fresh.Unseen) / max(1, counts.Chunks)
	return out
}

// choices choose requests for chunks: as the plan fixed it, and as each choice of passages would.
type choices struct {
	planned *extract.Chooser
	others  []*extract.Chooser // none: a choice makes no difference to this build
}

// openChoices opens them. The choices differ where all passages are made again and other ones were asked for. Release
// them.
func (e *estimating) openChoices(ctx context.Context) (out choices, release func(), err error) {
	before, now := unit.AskedOf(e.parent), e.fixed.Extraction
	differ := e.parent != nil && !e.fixed.Part &&
		(len(before.Earlier) > 0 || before.Request.Digest() != now.Request.Digest())
	if !differ && len(now.Earlier) == 0 {
		return out, func() {}, nil
	}
	former, release, err := e.OpenFormer(ctx, e.fixed.Parent)
	if err != nil {
		return out, release, err
	}
	out.planned = extract.NewChooser(now, former)
	for _, apply := range []string{core.ApplyAll, core.ApplyNew, core.ApplyMentions} {
		if differ {
			out.others = append(out.others, extract.NewChooser(core.AskOver(before, now.Request, apply), former))
		}
	}
	return out, release, nil
}

// report enters the calls of each choice.
func (c choices) report(into *core.Estimate, counted extract.Estimate) {
	if len(c.others) > 0 {
		into.ApplyTo = &core.ApplyCalls{All: counted.Others[0], New: counted.Others[1], Mentions: counted.Others[2]}
	}
}
