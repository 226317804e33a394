package segments_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/text"
)

type shelf struct {
	*testing.T
	index artifact.Index
	cache *localfile.Cache
}

func newShelf(t *testing.T) shelf {
	cache := musttest.Get(localfile.New(t.TempDir(), 0))(t)
	return shelf{t, artifact.Index{Store: blobmemory.New(), Name: "i"}, cache}
}

func (s shelf) check(err error) { require.NoError(s, err) }

func (s shelf) put(write func(to io.Writer) error) core.Segment {
	file, err := artifact.NewFile()
	s.check(err)
	defer file.Discard()
	s.check(write(file))
	made, _, err := file.PutSegment(s.Context(), s.index)
	s.check(err)
	return made
}

// split writes one of documents, each of one chunk that says its key, with its documents segment.
func (s shelf) split(into *core.Segments, keys string) {
	writer := split.NewWriter()
	defer writer.Close()
	documents, err := artifact.NewRows()
	s.check(err)
	defer documents.Discard()
	part := len(into.Documents)
	for key := range strings.FieldsSeq(keys) {
		s.check(writer.BeginDocument(split.Row{Key: key}))
		chunk := split.Chunk{ID: chunkID(key), Digest: core.Sum(keys, key), Windows: 1}
		s.check(writer.AddChunk(chunk, []string{key}))
		documents.Append(key, rows.Document{Object: keys, Chunks: []rows.Place{{ID: chunk.ID}}}.Encode())
	}
	var expect split.Expect
	made := s.put(func(to io.Writer) (err error) {
		expect, err = writer.Write(to, text.Analyser, "en")
		return err
	})
	listed, _, err := documents.StoreSegment(s.Context(), s.index, part)
	s.check(err)
	into.Documents = append(into.Documents, listed)
	into.Splits = append(into.Splits,
		core.Split{Segment: made, Documents: int64(expect.Documents), Chunks: int64(expect.Chunks), Text: part, Texts: 1})
}

func (s shelf) run(into *core.Segments, names string) {
	writer := classrun.NewWriter()
	defer writer.Close()
	all := slices.SortedFunc(strings.FieldsSeq(names), func(a, b string) int {
		return strings.Compare(core.ClassID(a).String(), core.ClassID(b).String())
	})
	for _, name := range all {
		id := core.ClassID(name)
		s.check(writer.Add(classrun.Row{
			ID: id, Vector: core.Sum("vector", names, name).Prefix(), Record: core.Sum("record", names, name),
		}, name, "", []string{name}))
	}
	var expect classrun.Expect
	made := s.put(func(to io.Writer) (err error) {
		expect, err = writer.Write(to, text.Analyser, "en")
		return err
	})
	made.Rows = int64(expect.Classes)
	into.Runs = append(into.Runs, core.Run{Segment: made})
}

func (s shelf) bury(into *core.Segments, of core.Segment, unit string, count int64, dead ...int) {
	made := s.put(func(to io.Writer) error {
		return deletions.Write(to, deletions.Of{Segment: of.SHA256, Unit: unit, Rows: int(count)}, func(row int) bool {
			return slices.Contains(dead, row)
		})
	})
	into.Tombs = append(into.Tombs, core.Tomb{Segment: made, Of: of.SHA256})
}

func (s shelf) open(listed core.Segments) *segments.Table {
	table, err := segments.OpenTable(s.Context(), s.cache, s.index, &core.Manifest{Segments: listed})
	s.check(err)
	s.Cleanup(table.Release)
	return table
}

func chunkID(key string) core.ID { return core.ChunkID(key, key, 0) }

// two returns a generation and the one after it, in which document b and class y are of another night.
func two(s shelf) (was, is core.Segments) {
	s.split(&was, "a b c")
	s.run(&was, "x y z")
	is = was
	is.Splits, is.Runs, is.Documents = slices.Clone(was.Splits), slices.Clone(was.Runs), slices.Clone(was.Documents)
	s.split(&is, "b d")
	s.run(&is, "y")
	s.bury(&is, was.Splits[0].Segment, deletions.Documents, 3, 1)
	y := slices.IndexFunc(s.open(was).Runs[0].Rows, func(row classrun.Row) bool { return row.ID == core.ClassID("y") })
	s.bury(&is, was.Runs[0].Segment, deletions.Classes, 3, y)
	return was, is
}

func TestWhatIsDeadInOneSegmentCountsByAnother(t *testing.T) {
	s := newShelf(t)
	was, is := two(s)
	table := s.open(is)
	for key, want := range map[string]struct {
		split, row int
		of         string
	}{"a": {0, 0, "a b c"}, "b": {1, 0, "b d"}, "c": {0, 2, "a b c"}, "d": {1, 1, "b d"}} {
		place, ok := table.FindDocument(key)
		chunk, found := table.FindChunk(chunkID(key))
		assert.True(t, ok && place == (segments.Place{Segment: want.split, Row: want.row}) && found &&
			chunk.Digest == core.Sum(want.of, key), "%s: %v %v, %v %v", key, place, ok, chunk, found)
		chunks, counts := table.ChunksOf(key)
		assert.True(t, counts && len(chunks) == 1 && chunks[0].ID == chunkID(key), "chunks of %s: %v", key, chunks)
	}
	for name, of := range map[string]string{"x": "x y z", "y": "y", "z": "x y z"} {
		class, ok := table.FindClass(core.ClassID(name))
		assert.True(t, ok && class.Record == core.Sum("record", of, name), "%s: %v %v", name, class, ok)
	}
	_, ok := table.FindDocument("e")
	assert.True(t, !ok && table.CountDocuments() == 4, "%d documents", table.CountDocuments())
	_, ok = s.open(was).FindChunk(chunkID("d"))
	assert.True(t, !ok, "a chunk counts before it was there")
	var ordered []string
	for id := range table.ClassesIn("", "") {
		ordered = append(ordered, id.String())
	}
	assert.True(t, len(ordered) == 3 && slices.IsSorted(ordered), "%v", ordered)
}

func TestDocumentsOfManySplitsComeInTheOrderOfKeys(t *testing.T) {
	s := newShelf(t)
	_, is := two(s)
	dead, err := segments.OpenTombs(t.Context(), s.cache, s.index, is)
	s.check(err)
	defer dead.Release()
	var got []string
	for row, err := range segments.StreamDocuments(t.Context(), s.index, is, dead) {
		s.check(err)
		document, err := rows.DecodeDocument(row.Value)
		s.check(err)
		got = append(got, fmt.Sprintf("%s of %s", row.Key, document.Object))
	}
	assert.Equal(t, []string{"a of a b c", "b of b d", "c of a b c", "d of b d"}, got)
	is.Splits[1].Texts = 2
	for _, err = range segments.StreamDocuments(t.Context(), s.index, is, dead) {
	}
	assert.True(t, fault.Is(err, fault.SegmentDamage), "a part that is not listed: %v", err)
}

// What goes with a generation is what no other counts by the very same row.
func TestOnlyRowsOfItsOwnAreLeftOfAGeneration(t *testing.T) {
	s := newShelf(t)
	was, is := two(s)
	former, now := s.open(was), s.open(is)
	left := func(t *segments.Table, others ...*segments.Table) map[string]bool {
		out := map[string]bool{}
		for class := range t.ClassesLeft(others) {
			out["class "+class.ID.String()] = true
		}
		for chunk := range t.ChunksLeft(others) {
			out["chunk "+chunk.ID.String()] = true
		}
		return out
	}
	y, got := "class "+core.ClassID("y").String(), left(former, now)
	assert.True(t, len(got) == 2 && got["chunk "+chunkID("b").String()] && got[y], "%v", got)
	got = left(now, former)
	assert.True(t, len(got) == 3 && got[y] && got["chunk "+chunkID("d").String()], "%v", got)
	assert.Len(t, left(former), 6)
}
