package postings_test

import (
	"bytes"
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

	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

// bytesOf builds a side.
func bytesOf(t *testing.T, builder *postings.Builder) []byte {
	t.Helper()
	defer builder.Close()
	var content bytes.Buffer
	writer := mapped.NewWriter(&content, "test", 1, nil)
	_, err := builder.Write(writer, "x_")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	return content.Bytes()
}

// write builds a side and maps it.
func write(t *testing.T, builder *postings.Builder) *postings.Side {
	t.Helper()
	defer builder.Close()
	return keep(t, func(writer *mapped.Writer) (postings.Stats, error) { return builder.Write(writer, "x_") })
}

// keep maps what is written.
func keep(t testing.TB, write func(*mapped.Writer) (postings.Stats, error)) *postings.Side {
	t.Helper()
	var content bytes.Buffer
	writer := mapped.NewWriter(&content, "test", 1, nil)
	stats, err := write(writer)
	if err == nil {
		err = writer.Close()
	}
	path := filepath.Join(t.TempDir(), "side")
	if err == nil {
		err = os.WriteFile(path, content.Bytes(), 0o600)
	}
	require.NoError(t, err)
	opened, err := mapped.Open(path, "test", 1)
	require.NoError(t, err)
	t.Cleanup(opened.Close)
	return postings.Open(opened, "x_", stats)
}

func add(t *testing.T, builder *postings.Builder, documents ...[]string) {
	t.Helper()
	for _, terms := range documents {
		require.NoError(t, builder.Add(terms))
	}
}

func TestListsHoldDocumentsCountsAndBlockMaxima(t *testing.T) {
	builder := postings.NewBuilder()
	add(t, builder, []string{"a", "b", "a"}, nil, []string{"b"}, []string{"c", "a"})
	side := write(t, builder)
	assert.True(t, side.Fits() && side.Documents() == 4 && side.Average == 6.0/4 &&
		slices.Equal(side.Lengths, []uint32{3, 0, 1, 2}),
		"%d documents of %v, on average %g", side.Documents(), side.Lengths, side.Average)
	for term, want := range map[string]struct {
		docs   []uint32
		counts []uint8
	}{
		"a": {[]uint32{0, 3}, []uint8{2, 1}},
		"b": {[]uint32{0, 2}, []uint8{1, 1}},
		"c": {[]uint32{3}, []uint8{1}},
	} {
		list, ok := side.Find(term)
		docs, counts := list.All()
		assert.True(t, ok && slices.Equal(docs, want.docs) && slices.Equal(counts, want.counts) && list.Blocks() == 1,
			"%s: %v %v", term, docs, counts)
	}
	if _, ok := side.Find("d"); ok || side.Has("d") || !side.Has("c") {
		t.Error("a term that no document holds is found, or one that is there is not")
	}
	if got, want := side.Stats().Totals().IDF(2), math.Log(1+(4-2+0.5)/2.5); math.Abs(got-want) > 1e-15 {
		t.Errorf("idf %g, want %g", got, want)
	}
}

func TestEveryBlockHasItsLargestWeight(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	builder := postings.NewBuilder()
	for range 3*postings.BlockSize + 5 {
		terms := []string{"t"}
		for range r.IntN(40) {
			terms = append(terms, []string{"t", "u"}[r.IntN(2)])
		}
		add(t, builder, terms)
	}
	side := write(t, builder)
	list, _ := side.Find("t")
	docs, counts := list.All()
	require.True(t, list.Blocks() == 4 && len(docs) == 3*postings.BlockSize+5,
		"%d postings in %d blocks", len(docs), list.Blocks())
	for b := range list.Blocks() {
		largest := float32(0)
		for i := b * postings.BlockSize; i < min(len(docs), (b+1)*postings.BlockSize); i++ {
			largest = max(largest, postings.Weight(counts[i], side.Lengths[docs[i]], side.Average))
		}
		stored := list.MaxWeight(b)
		assert.False(t, stored < largest || stored >= largest+0x1p-14, "block %d: %g, want %g", b, stored, largest)
	}
}

// The weight of a posting is never above the raised maximum, with averages of all magnitudes; and the factor is needed.
// Promises: 81.
func TestARaisedMaximumIsNeverBelowAWeight(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	needed, tight := 0, 0
	for range 400 {
		builder := postings.NewBuilder()
		for range 17 + r.IntN(3) { // fewer have no maximum
			terms := []string{"t"}
			for range r.IntN(1 << r.IntN(11)) {
				terms = append(terms, []string{"t", "u", "u"}[r.IntN(3)])
			}
			add(t, builder, terms)
		}
		side := write(t, builder)
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

func TestTotalsAreThoseOfAllDocuments(t *testing.T) {
	builder := postings.NewBuilder()
	add(t, builder, []string{"a", "b", "a"}, []string{"b"})
	side := write(t, builder)
	var got []string
	for term, list := range side.Lists() {
		docs, _ := list.All()
		got = append(got, fmt.Sprint(term, docs, list.Len()))
	}
	want := "[a[0] 1 b[0 1] 2]"
	assert.True(t, fmt.Sprint(got) == want && !side.Has("c"), "%v, want %v", got, want)
	if got := side.Stats().Totals(); got != (postings.Totals{Documents: 2, Terms: 4}) || got.Average() != side.Average {
		t.Errorf("%+v", got)
	}
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
	if a, b := bytesOf(t, whole), bytesOf(t, spilled); !bytes.Equal(a, b) {
		t.Errorf("%d bytes, %d once runs were spilled, or others", len(a), len(b))
	}
}

func TestTemporaryFilesGoWithTheBuilder(t *testing.T) {
	open := scratchtest.In(t, t.TempDir())
	builder := postings.NewBuilder()
	builder.SpillAt(1)
	add(t, builder, []string{"a"}, []string{"b"}, []string{"c"})
	assert.True(t, len(open()) != 0, "nothing was spilled")
	builder.Close()
	files := open()
	assert.True(t, len(files) == 0, "%d files stay", len(files))
}

func TestCountsEndAt255AndAnEmptySideIsOne(t *testing.T) {
	builder := postings.NewBuilder()
	terms := make([]string, 300)
	for i := range terms {
		terms[i] = "often"
	}
	add(t, builder, terms)
	often, _ := write(t, builder).Find("often")
	_, counts := often.All()
	assert.True(t, counts[0] == 255, "300 occurrences are counted as %d", counts[0])
	empty := write(t, postings.NewBuilder())
	assert.True(t, empty.Fits() && empty.Documents() == 0 && empty.Average == 1 && !empty.Has(""), "%+v", empty)
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
		_, err := builder.Write(mapped.NewWriter(io.Discard, "test", 1, nil), "x_")
		require.NoError(t, err)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(documents/4), allocated(documents); many > few+documents {
		t.Errorf("%d bytes for %d documents, %d for a quarter of them", many, documents, few)
	}
}

func TestAFullDiskIsSaidSo(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "is-not-there"))
	builder := postings.NewBuilder()
	defer builder.Close()
	builder.SpillAt(1)
	require.Error(t, builder.Add([]string{"a"}), "nothing could be written, and nothing was said")
	assert.Error(t, builder.Add([]string{"b"}), "it goes on after a failure")
}

// Beside short rows a long page is many averages long, and its words still count.
func TestADocumentCountsAsThreeAveragesLongAtMost(t *testing.T) {
	at := func(length uint32) float32 { return postings.Weight(1, length, 20) }
	assert.True(t, at(20) > at(59) && at(59) > at(60) && at(60) == at(61) && at(60) == at(60_000),
		"%v, %v, %v, %v", at(20), at(59), at(60), at(60_000))
}
