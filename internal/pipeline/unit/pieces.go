package unit

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/segment"
)

// mostChunks is how many chunks a split has, and mostRows how many rows a class run. A large corpus has several from
// the beginning, so that writing one again, once much of it is dead, costs a share of a night and not all of a corpus,
// and so that several workers write them.
const (
	mostChunks = 400_000
	mostRows   = 4_000_000

	firstPieces = 8
)

// What a split and a class run have at least. These are variables for tests alone.
var (
	LeastChunks int64 = 8_000
	LeastRows   int64 = 60_000
)

func pieceOf(total, least, most int64) int64 { return min(max(total/firstPieces+1, least), most) }

// SplitCut is what one split is made of: units of the plan, and the shards of their chunks.
type SplitCut struct{ units, shards run.Span }

// splitCuts cuts the units of a build into splits.
func splitCuts(units int, shards run.Shards) []SplitCut {
	most := int(pieceOf(shards.CountMade(), LeastChunks, mostChunks))
	var cuts []SplitCut
	var open SplitCut
	gathered, shard := 0, 0
	for unit := range units {
		first, chunks := shard, 0
		for shard < len(shards.Shards) && shards.Shards[shard].Unit == unit {
			chunks += shards.Chunks[shard]
			shard++
		}
		if gathered > 0 && gathered+chunks > most {
			cuts = append(cuts, open)
			open, gathered = SplitCut{run.Span{From: unit, To: unit}, run.Span{From: first, To: first}}, 0
		}
		open.units.To, open.shards.To = unit+1, shard
		gathered += chunks
	}
	if open.units.Count() > 0 {
		cuts = append(cuts, open)
	}
	return cuts
}

// RunCuts cuts partitions of classes into runs; those without a row are in none.
func RunCuts(classes []core.Segment) []run.Span {
	var total int64
	for _, part := range classes {
		total += part.Rows
	}
	most := pieceOf(total, LeastRows, mostRows)
	var cuts []run.Span
	for from := 0; from < len(classes); {
		to, rows := from, int64(0)
		for to < len(classes) && (rows == 0 || rows+classes[to].Rows <= most) {
			rows += classes[to].Rows
			to++
		}
		if rows > 0 {
			cuts = append(cuts, run.Span{From: from, To: to})
		}
		from = to
	}
	return cuts
}

// PiecesOf says what is written side by side, where the build makes at most so many classes in so many partitions. Two
// runs that follow one another have more rows than one may have, so there are at most twice as many as full ones.
func PiecesOf(splits []SplitCut, classes int64, partitions int) run.Pieces {
	full := (classes + pieceOf(classes, LeastRows, mostRows) - 1) / pieceOf(classes, LeastRows, mostRows)
	out := run.Pieces{Splits: len(splits), Runs: partitions}
	if most := 2*full + 1; full <= 1 {
		out.Runs = 1
	} else if int64(partitions) > most {
		out.Runs = int(most)
	}
	if out.Splits <= 1 && out.Runs <= 1 {
		return run.Pieces{}
	}
	return out
}

// writtenOr gives split or class run n of the build: what a unit of work has written, which counted it, where there is
// one, or what is written now.
func (r *Run) writtenOr(
	ctx context.Context, n int, split bool, fresh *int64, write func(context.Context) (run.Piece, error),
) (run.Piece, error) {
	partitions, err := run.ReadKept(ctx, r.BaseRun(), run.PartitionsFile)
	if err != nil {
		return run.Piece{}, err
	}
	beside := partitions.Pieces.Splits
	if !split {
		beside, n = beside+partitions.Pieces.Runs, beside+n
	}
	if n < beside {
		if made, found, err := run.PieceFile(n).Find(ctx, r.Scratch); err != nil || found {
			return made, err
		}
	}
	made, err := write(ctx)
	if made.Fresh {
		*fresh++
	}
	return made, err
}

// WritePiece writes a split or a class run of the build, by its place: splits come first.
func (r *Run) WritePiece(ctx context.Context, n int) error {
	_, err := FinishBusy(ctx, r, run.PieceFile(n), func(ctx context.Context, progress *core.Progress) (run.Piece, error) {
		partitions, err := run.ReadKept(ctx, r.BaseRun(), run.PartitionsFile)
		if err != nil {
			return run.Piece{}, err
		}
		var made run.Piece
		if n < partitions.Pieces.Splits {
			made, err = r.splitPiece(ctx, n, partitions)
		} else {
			made, err = r.runPiece(ctx, n-partitions.Pieces.Splits, partitions)
		}
		if made.Fresh {
			progress.Written.Segments = 1
		}
		return made, err
	})
	return err
}

// splitPiece writes a split from the files of its own units and shards.
func (r *Run) splitPiece(ctx context.Context, n int, partitions run.Partitions) (run.Piece, error) {
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
	if err != nil {
		return run.Piece{}, err
	}
	shards, err := run.ReadKept(ctx, r.BaseRun(), run.ShardsFile)
	if err != nil {
		return run.Piece{}, err
	}
	cut := splitCuts(len(fixed.Plan.Units), shards)[n]
	segments := core.Segments{
		Documents: make([]core.Segment, cut.units.To), Text: make([]core.Segment, cut.units.To),
		Chunks: make([]core.Segment, cut.shards.To), Mentions: make([]core.Segment, cut.shards.To),
	}
	copy(segments.Mentions[cut.shards.From:], partitions.Kept[cut.shards.From:cut.shards.To])
	unit := cut.units.From
	for chunked, err := range run.EachOf(ctx, r.BaseRun(), cut.units, run.ChunkFile) {
		if err != nil {
			return run.Piece{}, err
		}
		segments.Documents[unit], segments.Text[unit] = chunked.Documents, chunked.Text
		unit++
	}
	shard := cut.shards.From
	at := run.Span{From: partitions.Partitions + cut.shards.From, To: partitions.Partitions + cut.shards.To}
	for loaded, err := range run.EachOf(ctx, r.BaseRun(), at, run.LoadFile) {
		if err != nil {
			return run.Piece{}, err
		}
		segments.Chunks[shard] = loaded.Chunks
		shard++
	}
	return r.writeSplit(ctx, cut, &segments)
}

// runPiece writes a class run, if there are so many.
func (r *Run) runPiece(ctx context.Context, n int, partitions run.Partitions) (run.Piece, error) {
	var classes []core.Segment
	for loaded, err := range run.ReadEach(ctx, r.BaseRun(), partitions.Partitions, run.LoadFile) {
		if err != nil {
			return run.Piece{}, err
		}
		classes = append(classes, loaded.Rows)
	}
	cuts := RunCuts(classes)
	if n >= len(cuts) {
		return run.Piece{}, nil
	}
	return r.writeRun(ctx, classes[cuts[n].From:cuts[n].To])
}

// writeSplit writes a split of the units and shards of a cut.
func (r *Run) writeSplit(ctx context.Context, cut SplitCut, segments *core.Segments) (run.Piece, error) {
	shards, err := run.ReadKept(ctx, r.BaseRun(), run.ShardsFile)
	if err != nil {
		return run.Piece{}, err
	}
	var units []segment.SplitUnit
	shard := cut.shards.From
	for unit := cut.units.From; unit < cut.units.To; unit++ {
		next := segment.SplitUnit{Documents: segments.Documents[unit], Text: segments.Text[unit]}
		for ; shard < cut.shards.To && shards.Shards[shard].Unit == unit; shard++ {
			next.Shards = append(next.Shards, segment.SplitShard{
				Chunks:   r.Index.SegmentKey(segments.Chunks[shard].SHA256),
				Mentions: r.Index.SegmentKey(segments.Mentions[shard].SHA256),
			})
		}
		units = append(units, next)
	}
	settings, err := r.withNames(ctx)
	if err != nil {
		return run.Piece{}, err
	}
	made, expect, fresh, err := segment.WriteSplit(ctx, segment.SplitIn{
		Artifacts: r.Index, Spec: settings, Units: units, OnProgress: r.Touch,
	})
	made.Rows = int64(expect.Chunks)
	return run.Piece{
		Segment: made, Documents: int64(expect.Documents), Classes: int64(expect.Classes), Fresh: fresh,
	}, err
}

// writeRun writes a class run of partitions.
func (r *Run) writeRun(ctx context.Context, classes []core.Segment) (run.Piece, error) {
	made, expect, fresh, err := segment.ClassRun(ctx, segment.ClassRunIn{
		Artifacts: r.Index, Spec: r.Settings, Classes: classes, OnProgress: r.Touch,
	})
	made.Rows = int64(expect.Classes)
	return run.Piece{Segment: made, Classes: int64(expect.Classes), Fresh: fresh}, err
}
