package segment

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/unweaver/unweaver/internal/build/items"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/deadstats"
	"github.com/unweaver/unweaver/internal/format/tomb"
	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/segments"
)

// NightIn is what a build that makes a part of a generation of many segments adds to its parent and takes away.
type NightIn struct {
	Artifacts  artifact.Index
	Spec       corpus.Spec
	Parent     *corpus.Manifest
	Table      *segments.Table // of the parent
	Gone       string          // key of the documents of the parent that do not count any more (plan.GoneKey)
	Ended      []string        // keys of the class rows of it that do not (items.EndedKey)
	New        corpus.Segments // what the build wrote, in parts that the parent does not have
	OnProgress func(done int64)
}

// NightOut is the result. Counts are those of the chunks that do not count any more, Hashes their entries and those of
// their texts and vectors: both are to be taken away.
type NightOut struct {
	Segments corpus.Segments
	Counts   corpus.Counts
	Hashes   corpus.Hashes
	Fresh    int64 // files that were new
}

// Night joins what a build wrote with its parent: what died is marked in bitmaps beside the parent's segments and
// counted, and a segment of which nothing counts any more is left out. Its cost follows the change. The same input
// gives the same bytes.
func Night(ctx context.Context, in NightIn) (NightOut, error) {
	n := &night{NightIn: in, documents: map[int][]uint32{}, classes: map[int][]uint32{}}
	defer n.close()
	if err := n.buryDocuments(ctx); err != nil {
		return n.out, err
	}
	if err := n.buryClasses(ctx); err != nil {
		return n.out, err
	}
	n.lists()
	if err := n.tombs(ctx); err != nil {
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
	out        NightOut
	done       int64
}

func (n *night) close() {
	n.chunkWords.Close()
	n.classWords.Close()
}

func (n *night) tick() {
	if n.done++; n.done%256 == 0 {
		n.OnProgress(n.done)
	}
}

// buryDocuments finds the documents that died.
func (n *night) buryDocuments(ctx context.Context) error {
	keys := map[int][]string{} // of each split
	for row, err := range artifact.ScanAll(ctx, n.Artifacts.Store, n.Gone) {
		if err != nil {
			return err
		}
		key := string(row.Key)
		place, ok := n.Table.Document(key)
		if !ok {
			return fault.Internal.At("take out document", fault.Quoted(key)).
				Because("it does not count in the generation before").Advise("report this")
		}
		n.documents[place.Segment] = append(n.documents[place.Segment], uint32(place.Row))
		keys[place.Segment] = append(keys[place.Segment], key)
	}
	for number := range n.Parent.Segments.Splits {
		if len(keys[number]) == 0 {
			continue
		}
		if err := n.buryIn(ctx, number, keys[number]); err != nil {
			return err
		}
	}
	return nil
}

// buryIn counts the chunks of documents of one split, whose keys increase.
func (n *night) buryIn(ctx context.Context, number int, keys []string) error {
	walk, err := openSplit(n.Artifacts, n.Parent.Segments, number, n.Table.Splits[number])
	if err != nil {
		return err
	}
	found := 0
	for document, err := range walk.documents(ctx, keys) {
		if err != nil {
			return err
		}
		found++
		if err := n.bury(ctx, walk, document); err != nil {
			return err
		}
		n.tick()
	}
	if found != len(keys) {
		return walk.unfit(fmt.Sprintf("its documents segments have %d of %d documents that it has", found, len(keys)))
	}
	return nil
}

func (n *night) bury(ctx context.Context, walk *splitWalk, document standing) error {
	for _, chunk := range document.chunks {
		passage, err := walk.passage(ctx, document, chunk)
		if err != nil {
			return err
		}
		id := chunk.ID.String()
		n.out.Counts.Chunks++
		n.out.Counts.Tokens += int64(chunk.Tokens)
		n.out.Counts.Windows += int64(chunk.Windows)
		n.out.Hashes.Content.Add(corpus.Sum("chunk", id, document.key, fmt.Sprint(chunk.Ordinal)))
		n.out.Hashes.Text.Add(corpus.Sum("chunk", id, corpus.Sum(document.Title+"\n\n"+passage).String()))
		n.out.Hashes.Vector.Add(corpus.Sum("chunk", id, chunk.Digest.String()))
		n.chunkWords.add(text.Terms(passageText(n.Spec, document.Title, passage)))
	}
	return nil
}

// buryClasses finds the class rows that died.
func (n *night) buryClasses(ctx context.Context) error {
	for _, key := range n.Ended {
		for row, err := range artifact.ScanAll(ctx, n.Artifacts.Store, key) {
			if err != nil {
				return err
			}
			ended, err := items.DecodeEnded(row.Value)
			if err != nil {
				return err
			}
			n.classes[ended.Segment] = append(n.classes[ended.Segment], uint32(ended.Row))
			n.classWords.add(text.Surface(ended.Text))
			n.tick()
		}
	}
	return nil
}

// lists gives the parent's lists without what nothing counts of, and what the build wrote behind them.
func (n *night) lists() {
	n.dropped = map[string]bool{}
	listed := &n.Parent.Segments
	out := &n.out.Segments
	*out = corpus.Segments{
		ClassVecs: n.New.ClassVecs, ChunkVecs: n.New.ChunkVecs, IDF: n.New.IDF, // lists of them have the parent's already
	}
	within := func(list []corpus.Segment, first, count int) []corpus.Segment {
		return slices.DeleteFunc(slices.Clone(list), func(segment corpus.Segment) bool {
			return segment.Part < first || segment.Part >= first+count
		})
	}
	for i, one := range listed.Splits {
		if n.left(one.SHA256, int(one.Documents), len(n.documents[i])) == 0 {
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
		if n.left(one.SHA256, int(one.Rows), len(n.classes[i])) == 0 {
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

// left is how many rows of a segment count once so many more died.
func (n *night) left(segment string, rows, died int) int {
	if former := n.Table.Tomb(segment); former != nil {
		died += former.Count()
	}
	return rows - died
}

// tombs writes the bitmaps of segments of which something died; those of the others stay.
func (n *night) tombs(ctx context.Context) error {
	listed := &n.Parent.Segments
	died := map[string][]uint32{}
	of := map[string]tomb.Of{}
	for i, one := range listed.Splits {
		died[one.SHA256] = n.documents[i]
		of[one.SHA256] = tomb.Of{Segment: one.SHA256, Unit: tomb.Documents, Rows: int(one.Documents)}
	}
	for i, one := range listed.Runs {
		died[one.SHA256] = n.classes[i]
		of[one.SHA256] = tomb.Of{Segment: one.SHA256, Unit: tomb.Classes, Rows: int(one.Rows)}
	}
	for _, former := range listed.Tombs {
		if !n.dropped[former.Of] && len(died[former.Of]) == 0 {
			n.out.Segments.Tombs = append(n.out.Segments.Tombs, former)
		}
	}
	segmentOf := func(sha string) error {
		rows := died[sha]
		if n.dropped[sha] || len(rows) == 0 {
			return nil
		}
		slices.Sort(rows)
		made, fresh, err := putFile(ctx, n.Artifacts, func(to io.Writer) error {
			return tomb.Add(to, of[sha], n.Table.Tomb(sha), rows)
		})
		if fresh {
			n.out.Fresh++
		}
		n.out.Segments.Tombs = append(n.out.Segments.Tombs, corpus.Tomb{Segment: made, Of: sha})
		return err
	}
	for _, one := range listed.Splits {
		if err := segmentOf(one.SHA256); err != nil {
			return err
		}
	}
	for _, one := range listed.Runs {
		if err := segmentOf(one.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// deadStats writes what the dead rows of each side count that are still in segments.
func (n *night) deadStats(ctx context.Context) error {
	sides := []deadSide{
		{corpus.ChunkSide, n.chunkWords.rows, []deadstats.Change{n.chunkWords.change()}},
		{corpus.ClassSide, n.classWords.rows, []deadstats.Change{n.classWords.change()}},
	}
	for i, one := range n.Parent.Segments.Splits {
		if n.dropped[one.SHA256] {
			sides[0].leave(deadstats.Count(n.Table.Splits[i].Words, nil))
		}
	}
	for i, one := range n.Parent.Segments.Runs {
		if n.dropped[one.SHA256] {
			sides[1].leave(deadstats.Count(n.Table.Runs[i].Words, nil))
		}
	}
	for _, side := range sides {
		listed, fresh, err := side.write(ctx, n.Artifacts, n.Parent.Segments, n.Table.DeadStats(side.name))
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
	name    string
	rows    int64 // that died
	changes []deadstats.Change
}

// leave takes away what a segment that is left out counts, of which every row is dead.
func (s *deadSide) leave(counted deadstats.Change) {
	s.rows -= counted.Documents
	s.changes = append(s.changes, deadstats.Negated(counted))
}

// write gives the side's entry of the manifest: none where nothing is dead, the former where nothing changed.
func (s *deadSide) write(
	ctx context.Context, index artifact.Index, listed corpus.Segments, former *deadstats.File,
) ([]corpus.DeadStat, bool, error) {
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
		return slices.DeleteFunc(slices.Clone(listed.DeadStats), func(one corpus.DeadStat) bool {
			return one.Side != s.name
		}), false, nil
	}
	made, fresh, err := putFile(ctx, index, func(to io.Writer) error {
		return deadstats.Write(to, deadstats.Of{Side: s.name, Analyser: text.Analyser}, former, s.changes...)
	})
	return []corpus.DeadStat{{Segment: made, Side: s.name}}, fresh, err
}

// putFile stores a file by content.
func putFile(
	ctx context.Context, index artifact.Index, write func(to io.Writer) error,
) (corpus.Segment, bool, error) {
	file, err := artifact.NewFile()
	if err != nil {
		return corpus.Segment{}, false, err
	}
	defer file.Discard()
	if err := write(file); err != nil {
		return corpus.Segment{}, false, err
	}
	return file.PutSegment(ctx, index)
}
