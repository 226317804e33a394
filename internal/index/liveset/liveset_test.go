package liveset_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

// invented is a corpus of documents of three chunks; four of five classes are mentioned once.
type invented struct {
	documents int
	key       []string // of documents, in order
	classes   [][]core.ID
	first     map[core.ID]mention
	ids       []core.ID // of classes, in order
}

// mention is where a class is mentioned first: the number of the chunk, the position in it.
type mention struct{ chunk, position int }

const perDocument = 3

func mixed(kind byte, n int) (id core.ID) {
	binary.BigEndian.PutUint64(id[:], (uint64(n)+1)*0x9e3779b97f4a7c15^uint64(kind))
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func invent(documents, classesPerChunk int) *invented {
	r := rand.New(rand.NewPCG(4, 4))
	out, once := &invented{documents: documents, first: map[core.ID]mention{}}, 0
	for d := range documents {
		out.key = append(out.key, fmt.Sprintf("%08d", d*7))
		for range perDocument {
			var classes []core.ID
			for position := range classesPerChunk {
				id := mixed('o', once)
				if once++; position%5 == 4 {
					id = mixed('m', r.IntN(max(1, documents/8)))
				}
				if slices.Contains(classes, id) {
					continue
				}
				if _, known := out.first[id]; !known {
					out.first[id] = mention{len(out.classes), position}
					out.ids = append(out.ids, id)
				}
				classes = append(classes, id)
			}
			out.classes = append(out.classes, classes)
		}
	}
	slices.SortFunc(out.ids, func(a, b core.ID) int { return bytes.Compare(a[:], b[:]) })
	return out
}

// splits deals the documents to n splits; each has dead copies of some that live elsewhere.
func (c *invented) splits(t testing.TB, n int) []liveset.Split {
	r, home := rand.New(rand.NewPCG(uint64(n), 5)), make([]int, c.documents)
	for d := range home {
		home[d] = r.IntN(n)
	}
	var out []liveset.Split
	for at := range n {
		writer := split.NewWriter()
		var dead []bool
		chunks := uint32(0)
		for d := range c.documents {
			copied := home[d] != at && r.IntN(8*n) == 0
			if home[d] != at && !copied {
				continue
			}
			dead = append(dead, copied)
			require.NoError(t, writer.BeginDocument(split.Row{Key: c.key[d], Modified: time.UnixMilli(int64(d))}))
			for n := range perDocument {
				number := d*perDocument + n
				require.NoError(t, writer.AddChunk(split.Chunk{ID: mixed('k', number)}, nil))
				for position, class := range c.classes[number] {
					require.NoError(t, writer.AddMention(class, chunks, position))
				}
				chunks++
			}
		}
		var raw bytes.Buffer
		expect := musttest.Get(writer.Write(&raw, "v1", "en"))(t)
		writer.Close()
		opened := musttest.Get(split.Open(scratchtest.WriteFile(t, raw.Bytes()), expect))(t)
		t.Cleanup(opened.Close)
		out = append(out, liveset.Split{File: opened, Dead: func(i int) bool { return dead[i] }})
	}
	return out
}

// runs deals the classes to n runs; each has dead rows of some that live elsewhere.
func (c *invented) runs(t testing.TB, n int) []liveset.Run {
	r, home := rand.New(rand.NewPCG(uint64(n), 6)), make([]int, len(c.ids))
	for i := range home {
		home[i] = r.IntN(n)
	}
	var out []liveset.Run
	for at := range n {
		writer := classrun.NewWriter()
		var dead []bool
		for i, id := range c.ids {
			copied := home[i] != at && r.IntN(8*n) == 0
			if home[i] != at && !copied {
				continue
			}
			dead = append(dead, copied)
			require.NoError(t, writer.Add(classrun.Row{ID: id}, c.name(i), "", nil))
		}
		var raw bytes.Buffer
		expect := musttest.Get(writer.Write(&raw, "v1", "en"))(t)
		writer.Close()
		opened := musttest.Get(classrun.Open(scratchtest.WriteFile(t, raw.Bytes()), expect))(t)
		t.Cleanup(opened.Close)
		out = append(out, liveset.Run{File: opened, Dead: func(i int) bool { return dead[i] }})
	}
	return out
}

// name returns the name of the i-th class; three classes have the same one.
func (c *invented) name(i int) string { return fmt.Sprintf("name %d", i*31%len(c.ids)/3) }

func (c *invented) open(t testing.TB, splits, runs int) *liveset.Set {
	return musttest.Get(liveset.New(t.Context(), "test", c.splits(t, splits), c.runs(t, runs)))(t)
}

// Orders are divided and merged side by side: what comes of it is what sorting all rows gives.
func TestNumbersAreThoseOfSortingEverything(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // so many parts
	c := invent(9000, 2)
	for _, n := range []int{1, 5} {
		set := c.open(t, n, n)
		documents, chunks, classes := set.Counts()
		require.True(t, documents == c.documents && chunks == len(c.classes) && classes == len(c.ids),
			"%d documents, %d chunks, %d classes", documents, chunks, classes)
		for d, key := range c.key {
			require.True(t, set.Key(d) == key && int(set.DocumentAt(d).Chunks) == d*perDocument,
				"document %d is %s from chunk %d", d, set.Key(d), set.DocumentAt(d).Chunks)
		}
		placeOf := map[core.ID]uint32{}
		for place, id := range c.ids {
			require.True(t, set.ClassID(uint32(place)) == id && set.ClassPlace(id) == place,
				"class %d is %s", place, set.ClassID(uint32(place)))
			placeOf[id] = uint32(place)
		}
		of := make([][]uint32, classes)
		for number, mentioned := range c.classes {
			chunk := set.ByNumber(number)
			require.True(t, chunk.ID == mixed('k', number) && set.FindChunk(chunk.ID).Number == uint32(number),
				"chunk %d is %s", number, chunk.ID)
			var places []uint32
			for _, id := range mentioned {
				places = append(places, placeOf[id])
				of[placeOf[id]] = append(of[placeOf[id]], uint32(number))
			}
			slices.Sort(places)
			require.Equal(t, places, set.Graph.ClassesOf(uint32(number)), "%d", number)
		}
		inNames, inFirsts := make([]uint32, classes), make([]uint32, classes)
		for place, chunks := range of {
			require.Equal(t, chunks, set.Graph.ChunksOf(uint32(place)), "%d", place)
			inNames[place], inFirsts[place] = uint32(place), uint32(place)
		}
		sort.SliceStable(inNames, func(i, j int) bool { return c.name(int(inNames[i])) < c.name(int(inNames[j])) })
		sort.SliceStable(inFirsts, func(i, j int) bool {
			a, b := c.first[c.ids[inFirsts[i]]], c.first[c.ids[inFirsts[j]]]
			return a.chunk < b.chunk || (a.chunk == b.chunk && a.position < b.position)
		})
		assert.True(t, slices.Equal(set.Place, inFirsts), "classes are not in the order of their first mentions")
		for i, place := range inNames {
			require.True(t, set.Name(i) == c.name(int(place)) && set.ByName(i).ID == c.ids[place] &&
				set.Place[set.Rank[i]] == uint32(i), "name %d is %s", i, set.Name(i))
		}
	}
}
