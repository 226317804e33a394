package pipeline

import (
	"context"

	"github.com/unweaver/unweaver/internal/core"
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
	leastChunks int64 = 8_000
	leastRows   int64 = 60_000
)

func pieceOf(total, least, most int64) int64 { return min(max(total/firstPieces+1, least), most) }

// Pieces says how many splits and class runs of a build are units of work of their own: none where there is one of
// each. There may turn out to be fewer runs, never fewer splits.
type Pieces struct {
	Splits int `json:"splits,omitempty"`
	Runs   int `json:"runs,omitempty"`
}

// Count of the units of work.
func (p Pieces) Count() int { return p.Splits + p.Runs }

// Piece is a split or a class run that was written; without a digest there was nothing to write.
type Piece struct {
	Segment   core.Segment `json:"segment,omitzero"` // its rows are chunks or classes
	Documents int64        `json:"documents,omitempty"`
	Classes   int64        `json:"classes,omitempty"`
	Fresh     bool         `json:"fresh,omitempty"`
}

// span is [from, to).
type span struct{ from, to int }

func (s span) count() int { return s.to - s.from }

// splitCut is what one split is made of: units of the plan, and the shards of their chunks.
type splitCut struct{ units, shards span }

// splitCuts cuts the units of a build into splits.
func splitCuts(units int, shards Shards) []splitCut {
	most := int(pieceOf(shards.Made(), leastChunks, mostChunks))
	var cuts []splitCut
	var open splitCut
	gathered, shard := 0, 0
	for unit := range units {
		first, chunks := shard, 0
		for shard < len(shards.Shards) && shards.Shards[shard].Unit == unit {
			chunks += shards.Chunks[shard]
			shard++
		}
		if gathered > 0 && gathered+chunks > most {
			cuts = append(cuts, open)
			open, gathered = splitCut{span{unit, unit}, span{first, first}}, 0
		}
		open.units.to, open.shards.to = unit+1, shard
		gathered += chunks
	}
	if open.units.count() > 0 {
		cuts = append(cuts, open)
	}
	return cuts
}

// runCuts cuts partitions of classes into runs; those without a row are in none.
func runCuts(classes []core.Segment) []span {
	var total int64
	for _, part := range classes {
		total += part.Rows
	}
	most := pieceOf(total, leastRows, mostRows)
	var cuts []span
	for from := 0; from < len(classes); {
		to, rows := from, int64(0)
		for to < len(classes) && (rows == 0 || rows+classes[to].Rows <= most) {
			rows += classes[to].Rows
			to++
		}
		if rows > 0 {
			cuts = append(cuts, span{from, to})
		}
		from = to
	}
	return cuts
}

// piecesOf says what is written side by side, where the build makes at most so many classes in so many partitions. Two
// runs that follow one another have more rows than one may have, so there are at most twice as many as full ones.
func piecesOf(splits []splitCut, classes int64, partitions int) Pieces {
	full := (classes + pieceOf(classes, leastRows, mostRows) - 1) / pieceOf(classes, leastRows, mostRows)
	out := Pieces{Splits: len(splits), Runs: partitions}
	if most := 2*full + 1; full <= 1 {
		out.Runs = 1
	} else if int64(partitions) > most {
		out.Runs = int(most)
	}
	if out.Splits <= 1 && out.Runs <= 1 {
		return Pieces{}
	}
	return out
}

// writtenOr gives what unit of work n has written where there is one, or what is written now.
func (r *Run) writtenOr(
	ctx context.Context, n int, beside bool, write func(context.Context) (Piece, error),
) (Piece, error) {
	if beside {
		if made, found, err := pieceFile(n).Find(ctx, r.Scratch); err != nil || found {
			made.Fresh = false // counted by that unit
			return made, err
		}
	}
	return write(ctx)
}

// WritePiece writes a split or a class run of the build, by its place: splits come first.
func (r *Run) WritePiece(ctx context.Context, n int) error {
	_, err := finished(ctx, r, pieceFile(n), func(ctx context.Context) (Piece, core.Progress, error) {
		progress := core.Progress{Done: 1}
		release, err := r.Place(ctx)
		if err != nil {
			return Piece{}, progress, err
		}
		defer release()
		partitions, err := kept(ctx, r, partitionsFile)
		if err != nil {
			return Piece{}, progress, err
		}
		var made Piece
		if n < partitions.Pieces.Splits {
			made, err = r.splitPiece(ctx, n, partitions)
		} else {
			made, err = r.runPiece(ctx, n-partitions.Pieces.Splits, partitions)
		}
		if made.Fresh {
			progress.Written.Segments = 1
		}
		return made, progress, err
	})
	return err
}

// splitPiece writes a split from the files of its own units and shards.
func (r *Run) splitPiece(ctx context.Context, n int, partitions Partitions) (Piece, error) {
	fixed, err := kept(ctx, r, planFile)
	if err != nil {
		return Piece{}, err
	}
	shards, err := kept(ctx, r, shardsFile)
	if err != nil {
		return Piece{}, err
	}
	cut := splitCuts(len(fixed.Plan.Units), shards)[n]
	segments := core.Segments{
		Documents: make([]core.Segment, cut.units.to), Text: make([]core.Segment, cut.units.to),
		Chunks: make([]core.Segment, cut.shards.to), Mentions: make([]core.Segment, cut.shards.to),
	}
	copy(segments.Mentions[cut.shards.from:], partitions.Kept[cut.shards.from:cut.shards.to])
	unit := cut.units.from
	for chunked, err := range eachOf(ctx, r, cut.units, chunkFile) {
		if err != nil {
			return Piece{}, err
		}
		segments.Documents[unit], segments.Text[unit] = chunked.Documents, chunked.Text
		unit++
	}
	shard := cut.shards.from
	at := span{partitions.Partitions + cut.shards.from, partitions.Partitions + cut.shards.to}
	for loaded, err := range eachOf(ctx, r, at, loadFile) {
		if err != nil {
			return Piece{}, err
		}
		segments.Chunks[shard] = loaded.Chunks
		shard++
	}
	return r.writeSplit(ctx, cut, &segments)
}

// runPiece writes a class run, if there are so many.
func (r *Run) runPiece(ctx context.Context, n int, partitions Partitions) (Piece, error) {
	var classes []core.Segment
	for loaded, err := range each(ctx, r, partitions.Partitions, loadFile) {
		if err != nil {
			return Piece{}, err
		}
		classes = append(classes, loaded.Rows)
	}
	cuts := runCuts(classes)
	if n >= len(cuts) {
		return Piece{}, nil
	}
	return r.writeRun(ctx, classes[cuts[n].from:cuts[n].to])
}

// writeSplit writes a split of the units and shards of a cut.
func (r *Run) writeSplit(ctx context.Context, cut splitCut, segments *core.Segments) (Piece, error) {
	shards, err := kept(ctx, r, shardsFile)
	if err != nil {
		return Piece{}, err
	}
	var units []segment.SplitUnit
	shard := cut.shards.from
	for unit := cut.units.from; unit < cut.units.to; unit++ {
		next := segment.SplitUnit{Documents: segments.Documents[unit], Text: segments.Text[unit]}
		for ; shard < cut.shards.to && shards.Shards[shard].Unit == unit; shard++ {
			next.Shards = append(next.Shards, segment.SplitShard{
				Chunks:   r.Index.SegmentKey(segments.Chunks[shard].SHA256),
				Mentions: r.Index.SegmentKey(segments.Mentions[shard].SHA256),
			})
		}
		units = append(units, next)
	}
	settings, err := r.withNames(ctx)
	if err != nil {
		return Piece{}, err
	}
	made, expect, fresh, err := segment.Split(ctx, segment.SplitIn{
		Artifacts: r.Index, Spec: settings, Units: units, OnProgress: r.touch,
	})
	made.Rows = int64(expect.Chunks)
	return Piece{Segment: made, Documents: int64(expect.Documents), Classes: int64(expect.Classes), Fresh: fresh}, err
}

// writeRun writes a class run of partitions.
func (r *Run) writeRun(ctx context.Context, classes []core.Segment) (Piece, error) {
	made, expect, fresh, err := segment.ClassRun(ctx, segment.ClassRunIn{
		Artifacts: r.Index, Spec: r.Settings, Classes: classes, OnProgress: r.touch,
	})
	made.Rows = int64(expect.Classes)
	return Piece{Segment: made, Classes: int64(expect.Classes), Fresh: fresh}, err
}
