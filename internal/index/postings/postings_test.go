package postings_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

func bytesOf(t *testing.T, builder *postings.Builder) []byte {
	defer builder.Close()
	var content bytes.Buffer
	writer := mapped.NewWriter(&content, "test", 1, nil)
	musttest.Get(builder.Write(writer, "x_"))(t)
	require.NoError(t, writer.Close())
	return content.Bytes()
}

func add(t *testing.T, builder *postings.Builder, documents ...[]string) {
	for _, terms := range documents {
		require.NoError(t, builder.Add(terms))
	}
}

// The weight of a posting is never above the raised maximum, with averages of all magnitudes; and the factor is needed.
// Promises: 81.
func TestARaisedMaximumIsNeverBelowAWeight(t *testing.T) {
	r, needed, tight := rand.New(rand.NewPCG(3, 3)), 0, 0
	for range 400 {
		var documents [][]string
		for range 17 + r.IntN(3) { // fewer have no maximum
			terms := []string{"t"}
			for range r.IntN(1 << r.IntN(11)) {
				terms = append(terms, []string{"t", "u", "u"}[r.IntN(3)])
			}
			documents = append(documents, terms)
		}
		side := searchtest.OpenSide(t, documents)
		list, _ := side.Find("t")
		stored := float64(list.MaxWeight(0))
		docs, counts := list.All()
		for range 200 {
			average := side.Average * math.Exp(6*r.Float64()-3)
			if r.IntN(4) == 0 { // a few bits beside the side's own
				average = math.Float64frombits(math.Float64bits(side.Average) + uint64(r.IntN(9)) - 4)
			}
			bound := stored * side.RaiseFactor(average)
			for i, doc := range docs {
				weight := float64(postings.Weight(counts[i], side.Lengths[doc], average))
				require.True(t, weight <= bound, "weight %v of %d in %d words, on average %v instead of %v, is above %v", weight,
					counts[i], side.Lengths[doc], average, side.Average, bound)
				if weight > stored {
					needed++
				}
				if weight > 0.9*bound {
					tight++
				}
			}
		}
	}
	assert.True(t, needed != 0 && tight != 0,
		"%d weights above the stored maximum, %d near the bound: nothing was tested", needed, tight)
}

func TestRunsThatWereSpilledAreOneSide(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	whole, spilled := postings.NewBuilder(), postings.NewBuilder()
	spilled.SpillAt(2 << 10)
	for range 700 {
		var terms []string
		for range r.IntN(12) {
			terms = append(terms, fmt.Sprint("t", r.IntN(200)))
		}
		add(t, whole, terms)
		add(t, spilled, terms)
	}
	assert.True(t, bytes.Equal(bytesOf(t, whole), bytesOf(t, spilled)), "other bytes once runs were spilled")
}

func TestTemporaryFilesGoWithTheBuilder(t *testing.T) {
	open, builder := scratchtest.In(t, t.TempDir()), postings.NewBuilder()
	builder.SpillAt(1)
	add(t, builder, []string{"a"}, []string{"b"}, []string{"c"})
	assert.True(t, len(open()) != 0, "nothing was spilled")
	builder.Close()
	assert.Empty(t, open())
}

func TestCountsEndAt255AndAnEmptySideIsOne(t *testing.T) {
	terms := slices.Repeat([]string{"often"}, 300)
	often, _ := searchtest.OpenSide(t, [][]string{terms}).Find("often")
	_, counts := often.All()
	assert.True(t, counts[0] == 255, "300 occurrences are counted as %d", counts[0])
	assert.InDelta(t, math.Log(1+(4-2+0.5)/2.5), postings.Totals{Documents: 4}.IDF(2), 1e-15)
	empty := searchtest.OpenSide(t, nil)
	assert.True(t, empty.Documents() == 0 && empty.Average == 1 && !empty.Has(""), "%+v", empty)
}

// What a side takes while it is written does not grow with its documents: the length of each lies in a file.
func TestASideIsWrittenInMemoryThatDoesNotGrowWithItsDocuments(t *testing.T) {
	const documents = 1 << 20
	allocated := func(documents int) uint64 {
		builder := postings.NewBuilder()
		defer builder.Close()
		for range documents {
			require.NoError(t, builder.Add(nil))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		musttest.Get(builder.Write(mapped.NewWriter(io.Discard, "test", 1, nil), "x_"))(t)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	assert.LessOrEqual(t, allocated(documents), allocated(documents/4)+documents, "bytes, for four times as many documents")
}

func TestAFullDiskIsSaidSo(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "is-not-there"))
	builder := postings.NewBuilder()
	defer builder.Close()
	builder.SpillAt(1)
	add(t, builder, []string{"a"}, []string{"b"})
	_, err := builder.Write(mapped.NewWriter(io.Discard, "test", 1, nil), "x_")
	musttest.Code(t, err, fault.StoreFull, "nothing could be written, and nothing was said")
}

// Up to three averages a weight is that of BM25's formula with K1 = 1.2 and B = 0.75.
func TestAWeightIsThatOfBM25(t *testing.T) {
	for _, c := range [][3]float64{{1, 20, 20}, {3, 5, 20}, {255, 60, 20}, {2, 1, 7}} {
		want := c[0] * 2.2 / (c[0] + 1.2*(0.25+0.75*c[1]/c[2]))
		assert.InDelta(t, want, float64(postings.Weight(uint8(c[0]), uint32(c[1]), c[2])), 1e-6, "%v", c)
	}
}

// Beside short rows a long page is many averages long, and its words still count.
func TestADocumentCountsAsThreeAveragesLongAtMost(t *testing.T) {
	at := func(length uint32) float32 { return postings.Weight(1, length, 20) }
	assert.True(t, at(20) > at(59) && at(59) > at(60) && at(60) == at(61) && at(60) == at(60_000),
		"%v, %v, %v, %v", at(20), at(59), at(60), at(60_000))
}

var update = flag.Bool("update", false, "write the golden files")

// texts returns documents with terms that are in one document, in a few, in a block, in many blocks and in all. Some
// names begin the same way, and now and then a document holds a term up to 400 times.
func texts(documents int) [][]string {
	r := rand.New(rand.NewPCG(6, uint64(documents)))
	zipf, out := rand.NewZipf(r, 1.2, 3, 3000), make([][]string, documents)
	for i := range out {
		out[i] = []string{"everywhere", fmt.Sprint("document", i)}
		for range r.IntN(30) {
			term := fmt.Sprintf("%x", zipf.Uint64()*zipf.Uint64()*7919)
			for range 1 + r.IntN(3)*r.IntN(2)*r.IntN(80)/40 {
				out[i] = append(out[i], term)
			}
		}
		if r.IntN(40) == 0 {
			out[i] = append(out[i], slices.Repeat([]string{"often"}, 1+r.IntN(400))...)
		}
		if r.IntN(3) == 0 {
			out[i] = append(out[i], "third", "", "\xff\xff")
		}
	}
	return out
}

// plain is which documents hold a term, and how often.
type plain struct {
	docs   []uint32
	counts []uint8
}

// sideOf writes a side of documents, and gives what it has to say.
func sideOf(t *testing.T, documents [][]string) (side *postings.Side, lists map[string]plain, stats postings.Stats) {
	lists, stats.Documents = map[string]plain{}, uint32(len(documents))
	for doc, terms := range documents {
		counts := map[string]int{}
		for _, term := range terms {
			counts[term]++
		}
		for term, count := range counts {
			list := lists[term]
			lists[term] = plain{append(list.docs, uint32(doc)), append(list.counts, uint8(min(count, 255)))}
		}
		stats.Terms += uint64(len(terms))
	}
	return searchtest.OpenSide(t, documents), lists, stats
}

// Promises: 82.
func TestASideSaysWhatItsDocumentsSay(t *testing.T) {
	for _, documents := range []int{0, 1, 2, 16, 17, 127, 128, 129, 130, 257, 3000} {
		side, want, stats := sideOf(t, texts(documents))
		if got := side.Stats(); got.Documents != stats.Documents || got.Terms != stats.Terms {
			t.Fatalf("%d documents: %+v, %+v", documents, got, stats)
		}
		for doc, terms := range texts(documents) {
			require.EqualValues(t, len(terms), side.Lengths[doc], "%d %d", doc, len(terms))
		}
		var cursor postings.Cursor
		before, terms := "", 0
		for term, list := range side.Lists() {
			require.True(t, terms <= 0 || term > before, "%q follows %q", term, before)
			before = term
			terms++
			found, held := side.Find(term)
			docs, counts := list.All()
			wantDocs, wantCounts := want[term].docs, want[term].counts
			require.True(t, held && found == list && slices.Equal(docs, wantDocs) && slices.Equal(counts, wantCounts),
				"%q of %d documents: %v %v, want %v %v", term, documents, docs, counts, wantDocs, wantCounts)
			cursor.Reset(list)
			for _, doc := range []uint32{0, 1, 128, 129, docs[0], docs[len(docs)-1], uint32(documents - 1), uint32(documents)} {
				at, there := slices.BinarySearch(docs, doc)
				count, held := cursor.Seek(doc)
				require.True(t, held == there && (!there || count == counts[at]), "%q in %d: %d times, %v", term, doc, count, held)
			}
			for _, other := range []string{term + "\x00", term + "z", term[:len(term)/2], term[:max(0, len(term)-1)] + "!"} {
				_, there := want[other]
				require.True(t, side.Has(other) == there, "%q is in the index: %v, found: %v", other, there, side.Has(other))
			}
		}
		assert.True(t, terms == len(want) && !side.Has("zzz") && !side.Has("\xff\xff\xff") &&
			(documents != 0 || !side.Has("")), "%d terms, want %d", terms, len(want))
	}
}

func TestAFinderFindsWhatTermsFoundOneByOneAre(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	for _, documents := range []int{0, 1, 17, 3000} {
		side, _, _ := sideOf(t, texts(documents))
		other, _, _ := sideOf(t, texts(documents+1))
		terms := []string{"", "zzz", "document", "document1", "\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff\xff"}
		for term := range side.Lists() {
			if r.IntN(3) == 0 {
				terms = append(terms, term, term+"a", term[:len(term)/2])
			}
		}
		r.Shuffle(len(terms), func(i, j int) { terms[i], terms[j] = terms[j], terms[i] })
		for _, some := range [][]string{nil, terms[:1], terms[:5], terms} {
			finder := postings.NewFinder(some)
			lists := finder.AppendLists(other, finder.AppendLists(side, nil)) // one after another
			for i, term := range some {
				first, _ := side.Find(term)
				second, _ := other.Find(term)
				require.True(t, lists[i] == first && lists[len(some)+i] == second,
					"%q of %d documents: %v, alone %v", term, documents, lists[i].Len(), first.Len())
			}
		}
	}
}

// Promises: 82.
func TestDecodingAllocatesNothing(t *testing.T) {
	side, _, _ := sideOf(t, texts(3000))
	var lists []postings.List
	for _, list := range side.Lists() {
		lists = append(lists, list)
	}
	cursor, sum := new(postings.Cursor), 0
	allocations := testing.AllocsPerRun(3, func() {
		for _, list := range lists {
			cursor.Reset(list)
			for block := range list.Blocks() {
				cursor.Load(block)
				sum += len(cursor.Docs) + len(cursor.Counts())
			}
		}
	})
	assert.True(t, allocations == 0 && sum != 0, "%v allocations", allocations)
}

// The bytes of a side are those of the stored one: other bytes are another content hash of every segment.
func TestBytesOfThisVersion(t *testing.T) {
	builder := postings.NewBuilder()
	add(t, builder, texts(300)...)
	got, path := bytesOf(t, builder), filepath.Join("testdata", "side.segment")
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want := musttest.Get(os.ReadFile(path))(t)
	assert.True(t, bytes.Equal(got, want), "%d bytes differ from the %d that were written before", len(got), len(want))
}
