package segment

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// NightIn is what a build that makes a part of a generation adds to its parent and takes away.
type NightIn struct {
	Artifacts  artifact.Index
	Spec       core.Spec
	Parent     *core.Manifest
	Table      *segments.Table // of the parent
	Gone       string          // key of the documents of the parent that do not count any more (plan.GoneKey)
	Ended      []string        // keys of the class rows of it that do not (join.EndedKey)
	New        core.Segments   // what the build wrote, in parts that the parent does not have
	OnProgress func(done int64)
}

// NightOut is the result. Counts are those of the chunks that do not count any more, Hashes their entries and those of
// their texts and vectors: both are to be taken away.
type NightOut struct {
	Segments core.Segments
	Counts   core.Counts
	Hashes   core.Hashes
	Fresh    int64 // files that were new
}

// JoinNight joins what a build wrote with its parent: what died is marked in bitmaps beside the parent's segments and
// counted, and a segment of which nothing counts any more is left out. Its cost follows the change. The same input
// gives the same bytes.
func JoinNight(ctx context.Context, in NightIn) (NightOut, error) {
	n := &night{NightIn: in, documents: map[int][]uint32{}, classes: map[int][]uint32{}}
	defer n.close()
	if err := n.buryDocuments(ctx); err != nil {
		return n.out, err
	}
	if err := n.buryClasses(ctx); err != nil {
		return n.out, err
	}
	n.makeLists()
	if err := n.writeTombs(ctx); err != nil {
		return n.out, err
	}
	return n.out, n.deadStats(ctx)
}

type night struct {
	NightIn
	documents  map[int][]uint32 // rows of each split of the parent that died, increasing
	classes    map[int][]uint32 // of each class run
	chunkWords termCounter
	classWords termCounter
	dropped    map[string]bool // splits and runs of which nothing counts any more
	counting   sync.Mutex      // while the dead are read: of all above but documents, and of what follows
	out        NightOut
	done       int64
}

func (n *night) close() {
	n.chunkWords.Close()
	n.classWords.Close()
}

func (n *night) tickProgress() {
	if n.done++; n.done%256 == 0 {
		n.OnProgress(n.done)
	}
}

// At once a night reads so many groups of what died, and writes so many bitmaps. A group has so many documents of one
// part at most: each is a separate read where changes are spread, so that opening the part again costs little.
const (
	buriesAtOnce  = 16
	groupToBury   = 128
	bitmapsAtOnce = 16
)

// grave is a group of documents of one split that died, all of one part.
type grave struct {
	split int
	keys  []string // they increase
}

// buryDocuments finds the documents that died. Groups of them are read side by side; what is counted of them does not
// depend on their order.
func (n *night) buryDocuments(ctx context.Context) error {
	keys := map[int][]string{} // of each split
	for row, err := range artifact.ScanAll(ctx, n.Artifacts.Store, n.Gone) {
		if err != nil {
			return err
		}
		key := string(row.Key)
		place, ok := n.Table.FindDocument(key)
		if !ok {
			return fault.Internal.At("take out document", fault.QuoteName(key)).
				Because("it does not count in the generation before").
				Advise("report this; " + n.Artifacts.AdviseRebuild())
		}
		n.documents[place.Segment] = append(n.documents[place.Segment], uint32(place.Row))
		keys[place.Segment] = append(keys[place.Segment], key)
	}
	var graves []grave
	for number := range n.Parent.Segments.Splits {
		of, err := n.cutGraves(number, keys[number])
		if err != nil {
			return err
		}
		graves = append(graves, of...)
	}
	return parallel.Each(ctx, len(graves), buriesAtOnce, func(ctx context.Context, i int) error {
		return n.buryIn(ctx, graves[i])
	})
}

// cutGraves cuts the documents of one split that died into groups.
func (n *night) cutGraves(number int, keys []string) (out []grave, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	walk, err := n.openWalk(number)
	if err != nil {
		return nil, err
	}
	for part := range walk.rows {
		of := walk.ofPart(part, keys)
		keys = keys[len(of):]
		for group := range slices.Chunk(of, groupToBury) {
			out = append(out, grave{number, group})
		}
	}
	if len(keys) > 0 {
		return nil, walk.toFault("document " + fault.QuoteName(keys[0]) + " is in none of its parts")
	}
	return out, nil
}

func (n *night) openWalk(number int) (*splitWalk, error) {
	return openSplit(n.Artifacts, n.Parent.Segments, number, n.Table.Splits[number])
}

// buryIn counts the chunks of a group of documents.
func (n *night) buryIn(ctx context.Context, group grave) error {
	walk, err := n.openWalk(group.split)
	if err != nil {
		return err
	}
	found := 0
	for document, err := range walk.streamDocuments(ctx, group.keys) {
		if err != nil {
			return err
		}
		found++
		if err := n.buryDocument(ctx, walk, document); err != nil {
			return err
		}
	}
	if found != len(group.keys) {
		return walk.toFault(fmt.Sprintf("its documents segments have %d of %d documents that it has", found, len(group.keys)))
	}
	return nil
}

func (n *night) buryDocument(ctx context.Context, walk *splitWalk, document standing) error {
	for _, chunk := range document.chunks {
		passage, err := walk.readPassage(ctx, document, chunk)
		if err != nil {
			return err
		}
		id := chunk.ID.String()
		content := core.Sum("chunk", id, document.key, fmt.Sprint(chunk.Ordinal))
		text := core.Sum("chunk", id, core.Sum(document.Title+"\n\n"+passage).String())
		vector := core.Sum("chunk", id, chunk.Digest.String())
		terms := languageOf(n.Spec).Terms(passageText(n.Spec, document.Title, passage))
		n.counting.Lock()
		n.out.Counts.Chunks++
		n.out.Counts.Tokens += int64(chunk.Tokens)
		n.out.Counts.Windows += int64(chunk.Windows)
		n.out.Hashes.Content.Add(content)
		n.out.Hashes.Text.Add(text)
		n.out.Hashes.Vector.Add(vector)
		n.chunkWords.addRow(terms)
		n.tickProgress()
		n.counting.Unlock()
	}
	return nil
}

// buryClasses finds the class rows that died.
func (n *night) buryClasses(ctx context.Context) error {
	return parallel.Each(ctx, len(n.Ended), buriesAtOnce, func(ctx context.Context, i int) error {
		for row, err := range artifact.ScanAll(ctx, n.Artifacts.Store, n.Ended[i]) {
			if err != nil {
				return err
			}
			ended, err := join.DecodeEnded(row.Value)
			if err != nil {
				return err
			}
			terms := languageOf(n.Spec).SurfaceWords(ended.Text)
			n.counting.Lock()
			n.classes[ended.Segment] = append(n.classes[ended.Segment], uint32(ended.Row))
			n.classWords.addRow(terms)
			n.tickProgress()
			n.counting.Unlock()
		}
		return nil
	})
}

// makeLists gives the parent's lists without what nothing counts of, and what the build wrote behind them.
func (n *night) makeLists() {
	n.dropped = map[string]bool{}
	listed := &n.Parent.Segments
	out := &n.out.Segments
	*out = core.Segments{
		ClassVecs: n.New.ClassVecs, ChunkVecs: n.New.ChunkVecs, IDF: n.New.IDF, // lists of them have the parent's already
	}
	within := func(list []core.Segment, first, count int) []core.Segment {
		return slices.DeleteFunc(slices.Clone(list), func(segment core.Segment) bool {
			return segment.Part < first || segment.Part >= first+count
		})
	}
	for i, one := range listed.Splits {
		if n.countLeft(one.SHA256, int(one.Documents), len(n.documents[i])) == 0 {
			n.dropped[one.SHA256] = true
			continue
		}
		out.Splits = append(out.Splits, one)
		out.Documents = append(out.Documents, within(listed.Documents, one.Text, one.Texts)...)
		out.Text = append(out.Text, within(listed.Text, one.Text, one.Texts)...)
		out.Extract = append(out.Extract, within(listed.Extract, one.Extract, one.Extracts)...)
		out.Mentions = append(out.Mentions, within(listed.Mentions, one.Extract, one.Extracts)...)
		out.Chunks = append(out.Chunks, within(listed.Chunks, one.Extract, one.Extracts)...)
	}
	for i, one := range listed.Runs {
		if n.countLeft(one.SHA256, int(one.Rows), len(n.classes[i])) == 0 {
			n.dropped[one.SHA256] = true
			continue
		}
		out.Runs = append(out.Runs, one)
		out.Classes = append(out.Classes, within(listed.Classes, one.Classes, one.Parts)...)
	}
	out.Splits = append(out.Splits, n.New.Splits...)
	out.Documents = append(out.Documents, n.New.Documents...)
	out.Text = append(out.Text, n.New.Text...)
	out.Extract = append(out.Extract, n.New.Extract...)
	out.Mentions = append(out.Mentions, n.New.Mentions...)
	out.Chunks = append(out.Chunks, n.New.Chunks...)
	out.Runs = append(out.Runs, n.New.Runs...)
	out.Classes = append(out.Classes, n.New.Classes...)
}

// countLeft returns how many rows of a segment count once so many more died.
func (n *night) countLeft(segment string, rows, died int) int {
	if former := n.Table.FindTomb(segment); former != nil {
		died += former.CountDead()
	}
	return rows - died
}

// writeTombs writes the bitmaps of segments of which something died, side by side; those of the others stay.
func (n *night) writeTombs(ctx context.Context) error {
	listed := &n.Parent.Segments
	died := map[string][]uint32{}
	var marked []deletions.Of // in the order of the lists
	mark := func(of deletions.Of, rows []uint32) {
		if len(rows) > 0 {
			died[of.Segment] = rows
			slices.Sort(rows)
			if !n.dropped[of.Segment] {
				marked = append(marked, of)
			}
		}
	}
	for i, one := range listed.Splits {
		mark(deletions.Of{Segment: one.SHA256, Unit: deletions.Documents, Rows: int(one.Documents)}, n.documents[i])
	}
	for i, one := range listed.Runs {
		mark(deletions.Of{Segment: one.SHA256, Unit: deletions.Classes, Rows: int(one.Rows)}, n.classes[i])
	}
	for _, former := range listed.Tombs {
		if !n.dropped[former.Of] && len(died[former.Of]) == 0 {
			n.out.Segments.Tombs = append(n.out.Segments.Tombs, former)
		}
	}
	fresh := make([]bool, len(marked))
	made := make([]core.Tomb, len(marked))
	err := parallel.Each(ctx, len(marked), bitmapsAtOnce, func(ctx context.Context, i int) (err error) {
		of := marked[i]
		made[i].Of = of.Segment
		made[i].Segment, fresh[i], err = putFile(ctx, n.Artifacts, func(to io.Writer) error {
			return deletions.Add(to, of, n.Table.FindTomb(of.Segment), died[of.Segment])
		})
		return err
	})
	n.out.Segments.Tombs = append(n.out.Segments.Tombs, made...)
	for _, one := range fresh {
		if one {
			n.out.Fresh++
		}
	}
	return err
}

// deadStats writes what the dead rows of each side count that are still in segments.
func (n *night) deadStats(ctx context.Context) error {
	analyser := languageOf(n.Spec).Analyser()
	sides := []deadSide{
		{core.ChunkSide, analyser, n.chunkWords.rows, []deletedstats.Change{n.chunkWords.toChange()}},
		{core.ClassSide, analyser, n.classWords.rows, []deletedstats.Change{n.classWords.toChange()}},
	}
	for i, one := range n.Parent.Segments.Splits {
		if n.dropped[one.SHA256] {
			sides[0].dropSegment(deletedstats.Count(n.Table.Splits[i].Words, nil))
		}
	}
	for i, one := range n.Parent.Segments.Runs {
		if n.dropped[one.SHA256] {
			sides[1].dropSegment(deletedstats.Count(n.Table.Runs[i].Words, nil))
		}
	}
	for _, side := range sides {
		listed, fresh, err := side.writeStats(ctx, n.Artifacts, n.Parent.Segments, n.Table.DeadStats(side.name))
		if err != nil {
			return err
		}
		if fresh {
			n.out.Fresh++
		}
		n.out.Segments.DeadStats = append(n.out.Segments.DeadStats, listed...)
	}
	return nil
}

// deadSide is what becomes of the dead rows of one side.
type deadSide struct {
	name     string
	analyser string // that cut the words
	rows     int64  // that died
	changes  []deletedstats.Change
}

// dropSegment takes away what a segment that is left out counts, of which every row is dead.
func (s *deadSide) dropSegment(counted deletedstats.Change) {
	s.rows -= counted.Documents
	s.changes = append(s.changes, deletedstats.NegateChange(counted))
}

// writeStats gives the side's entry of the manifest: none where nothing is dead, the former where nothing changed.
func (s *deadSide) writeStats(
	ctx context.Context, index artifact.Index, listed core.Segments, former *deletedstats.File,
) ([]core.DeadStat, bool, error) {
	dead, changed := s.rows, false
	if former != nil {
		dead += int64(former.Totals().Documents)
	}
	for _, change := range s.changes {
		changed = changed || change.Documents != 0
	}
	if dead == 0 {
		return nil, false, nil
	}
	if !changed {
		return slices.DeleteFunc(slices.Clone(listed.DeadStats), func(one core.DeadStat) bool {
			return one.Side != s.name
		}), false, nil
	}
	made, fresh, err := putFile(ctx, index, func(to io.Writer) error {
		return deletedstats.Write(to, deletedstats.Of{Side: s.name, Analyser: s.analyser}, former, s.changes...)
	})
	return []core.DeadStat{{Segment: made, Side: s.name}}, fresh, err
}

// putFile stores a file by content.
func putFile(
	ctx context.Context, index artifact.Index, write func(to io.Writer) error,
) (core.Segment, bool, error) {
	file, err := artifact.NewFile()
	if err != nil {
		return core.Segment{}, false, err
	}
	defer file.Discard()
	if err := write(file); err != nil {
		return core.Segment{}, false, err
	}
	return file.PutSegment(ctx, index)
}
