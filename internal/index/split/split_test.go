package split_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

func id(name string) core.ID { return core.ClassID(name) }

var day = time.Date(2026, time.May, 1, 2, 3, 4, 0, time.UTC)

// chunk is one of the split that tests write: its words and the classes that it mentions.
type chunk struct{ words, classes string }

var sample = []struct {
	key    string
	meta   map[string]string
	chunks []chunk
}{
	{"a", map[string]string{"kind": "x"}, []chunk{{"river north", "Rhine Basel Rhine"}, {"river", "Rhine"}}},
	{"b", nil, nil},
	{"b/c", nil, []chunk{{"mountain", "Basel Alps"}}},
}

var expect = split.Expect{Analyser: "v1", Documents: 3, Chunks: 3, Classes: 3}

func fill(t *testing.T, writer *split.Writer, turned bool) {
	for n, document := range sample {
		require.NoError(t, writer.BeginDocument(split.Row{
			Key: document.key, Part: 1, Frame: uint32(n), Modified: day, Meta: maps.Clone(document.meta),
		}))
		for i, chunk := range document.chunks {
			row := split.Chunk{ID: id(document.key + chunk.words), Start: uint32(i), End: uint32(i + 1), Windows: 1}
			require.NoError(t, writer.AddChunk(row, strings.Fields(chunk.words)))
		}
	}
	mentions := mentions()
	if turned {
		slices.Reverse(mentions)
	}
	for _, one := range mentions {
		require.NoError(t, writer.AddMention(one.class, one.chunk, one.position))
	}
}

type mention struct {
	class    core.ID
	chunk    uint32
	position int
}

// mentions returns the mentions of the sample; the first class of each chunk is the title of its document.
func mentions() (out []mention) {
	number := uint32(0)
	for _, document := range sample {
		for _, chunk := range document.chunks {
			for position, name := range strings.Fields(chunk.classes) {
				out = append(out, mention{id(name), number, position - 1})
			}
			number++
		}
	}
	return out
}

func written(t *testing.T, writer *split.Writer) []byte {
	var out bytes.Buffer
	musttest.Get(writer.Write(&out, "v1", "en"))(t)
	return out.Bytes()
}

func whole(t *testing.T, turned bool) []byte {
	writer := split.NewWriter()
	defer writer.Close()
	fill(t, writer, turned)
	return written(t, writer)
}

func TestASplitSaysWhatWasGiven(t *testing.T) {
	file := musttest.Get(split.Open(scratchtest.WriteFile(t, whole(t, false)), expect))(t)
	defer file.Close()
	at := 0
	for i, document := range sample {
		row := file.Documents[i]
		meta, modified := file.FilterFields(i)
		assert.True(t, string(file.KeyBytes(i)) == document.key && maps.Equal(meta, document.meta) && modified.Equal(day) &&
			row.Part == 1 && row.Frame == uint32(i) && int(row.Chunks) == at && int(row.Count) == len(document.chunks),
			"document %d: %q %v %v %+v", i, file.KeyBytes(i), meta, modified, row)
		for n, chunk := range document.chunks {
			row := file.Chunks[at]
			assert.True(t, row.ID == id(document.key+chunk.words) && int(row.Document) == i && int(row.Ordinal) == n,
				"chunk %d: %+v", at, row)
			for _, name := range strings.Fields(chunk.classes) {
				class := file.ClassFrom(id(name))
				assert.True(t, file.ClassIDs[class] == id(name) && slices.Contains(file.ChunksOf(class), uint32(at)),
					"chunk %d does not mention %s", at, name)
			}
			at++
		}
	}
	river, _ := file.Words.Find("river")
	docs, _ := river.All()
	assert.True(t, slices.Equal(docs, []uint32{0, 1}), "river is in %v", docs)
	assert.Equal(t, []uint32{0, 1}, file.ChunksOf(file.ClassFrom(id("Rhine"))))
}

func TestEqualContentGivesEqualBytes(t *testing.T) {
	assert.True(t, bytes.Equal(whole(t, false), whole(t, true)),
		"the order in which a chunk's classes are given is in the bytes")
}

func TestASplitSaysWhereAndHowOftenAClassIsMentioned(t *testing.T) {
	file := musttest.Get(split.Open(scratchtest.WriteFile(t, whole(t, true)), expect))(t)
	defer file.Close()
	all := func(uint32) bool { return true }
	for _, one := range []struct {
		class          string
		places         []uint16
		mentions, some int64 // but for those of chunk 0
	}{{"Rhine", []uint16{0, 0}, 3, 1}, {"Basel", []uint16{1, 0}, 2, 1}, {"Alps", []uint16{1}, 1, 1}} {
		class := file.ClassFrom(id(one.class))
		some := file.MentionsOf(class, func(chunk uint32) bool { return chunk > 0 })
		got := file.PlacesOf(class)
		assert.True(t, slices.Equal(got, one.places) && file.MentionsOf(class, all) == one.mentions && some == one.some,
			"%s: %v, %d, %d", one.class, got, file.MentionsOf(class, all), some)
	}
}

func TestPlacesBehindTheLastAreThatOne(t *testing.T) {
	writer := split.NewWriter()
	defer writer.Close()
	given := []error{writer.BeginDocument(split.Row{Key: "a"}), writer.AddChunk(split.Chunk{ID: id("a")}, nil)}
	for i, position := range []int{-1, 0, split.MaxPlace - 2, split.MaxPlace - 1, 1 << 40} {
		given = append(given, writer.AddMention(core.ID{byte(i)}, 0, position))
	}
	require.NoError(t, errors.Join(given...))
	file, err := split.Open(scratchtest.WriteFile(t, written(t, writer)), split.Expect{Analyser: "v1", Documents: 1, Chunks: 1, Classes: 5})
	require.NoError(t, err)
	defer file.Close()
	var places []uint16
	for class := range file.ClassIDs {
		places = append(places, file.PlacesOf(class)...)
	}
	assert.Equal(t, []uint16{0, 1, split.MaxPlace - 1, split.MaxPlace, split.MaxPlace}, places)
}

func TestWhatCannotBeNumberedOrOrderedIsRefused(t *testing.T) {
	writer := split.NewWriter()
	defer writer.Close()
	assert.Error(t, writer.AddChunk(split.Chunk{}, nil), "a chunk of no document")
	assert.Error(t, writer.AddMention(id("Rhine"), 0, 0), "a chunk that there is not mentions a class")
	for _, next := range []string{"a", "b"} {
		unordered := split.NewWriter()
		defer unordered.Close()
		require.NoError(t, unordered.BeginDocument(split.Row{Key: "b"}))
		assert.Error(t, unordered.BeginDocument(split.Row{Key: next}), "%s comes after b", next)
		assert.Error(t, musttest.Err(unordered.Write(&bytes.Buffer{}, "v1", "en")), "a split without what was refused")
	}
	small := split.NewWriter()
	defer small.Close()
	small.SetLimit(2)
	require.NoError(t, small.BeginDocument(split.Row{Key: "a"}))
	for n := range 3 {
		err := small.AddChunk(split.Chunk{ID: core.ID{byte(n)}}, nil)
		assert.True(t, (n >= 2 || err == nil) && (n != 2 || fault.Is(err, fault.TooLarge)), "chunk %d of 2: %v", n, err)
	}
	classes := split.NewWriter()
	defer classes.Close()
	fill(t, classes, false)
	classes.SetLimit(2)
	musttest.Refuse(classes.Write(&bytes.Buffer{}, "v1", "en"))(t, fault.TooLarge)
}

func TestASplitThatIsAnotherIsRefused(t *testing.T) {
	path := scratchtest.WriteFile(t, whole(t, false))
	for name, other := range map[string]struct {
		expect split.Expect
		code   fault.Code
	}{
		"analyser":  {split.Expect{Analyser: "v2", Documents: 3, Chunks: 3, Classes: 3}, fault.FormatUnknown},
		"documents": {split.Expect{Analyser: "v1", Documents: 2, Chunks: 3, Classes: 3}, fault.SegmentDamage},
		"chunks":    {split.Expect{Analyser: "v1", Documents: 3, Chunks: 4, Classes: 3}, fault.SegmentDamage},
		"classes":   {split.Expect{Analyser: "v1", Documents: 3, Chunks: 3}, fault.SegmentDamage},
	} {
		musttest.Code(t, musttest.Err(split.Open(path, other.expect)), other.code, "other %s", name)
	}
}

// Numbers of labels are of one split alone; one without labels has no section of them.
func TestLabelsOfDocumentsComeBackAndAreBounded(t *testing.T) {
	writer := split.NewWriter()
	defer writer.Close()
	given := []core.LabelSet{"b", core.Everybody, "a,b", core.Nobody, "b"}
	for i, labels := range given {
		require.NoError(t, writer.BeginDocument(split.Row{Key: fmt.Sprint(i), Labels: labels}))
	}
	path := scratchtest.WriteFile(t, written(t, writer))
	file := musttest.Get(split.Open(path, split.Expect{Analyser: "v1", Documents: len(given)}))(t)
	defer file.Close()
	for i, labels := range given {
		assert.Equal(t, labels, file.LabelsOf(i))
	}
	assert.Equal(t, []core.LabelSet{"b", "a,b", core.Nobody}, file.LabelSets())
	full, err := split.NewWriter(), error(nil)
	defer full.Close()
	for i := 0; i <= core.MaxLabelSets && err == nil; i++ {
		err = full.BeginDocument(split.Row{Key: fmt.Sprintf("%05d", i), Labels: core.LabelSet(fmt.Sprint(i))})
	}
	assert.ErrorContains(t, err, "01000", "more sets than there may be: the document is not named")
	long := split.NewWriter()
	defer long.Close()
	err = nil
	for i := 0; i < 300 && err == nil; i++ {
		err = long.BeginDocument(split.Row{Key: fmt.Sprint(1000 + i), Labels: core.LabelSet(fmt.Sprintf("%01000d", i))})
	}
	musttest.Code(t, err, fault.TooLarge, "more bytes of sets than there may be")
	for _, bad := range []core.LabelSet{"b,a", "a,a", "public", "a,"} {
		other := split.NewWriter()
		defer other.Close()
		require.NoError(t, other.BeginDocument(split.Row{Key: "a", Labels: bad}))
		at := scratchtest.WriteFile(t, written(t, other))
		err := musttest.Err(split.Open(at, split.Expect{Analyser: "v1", Documents: 1}))
		musttest.Code(t, err, fault.SegmentDamage, "labels %s", bad)
	}
}
