package deletedstats_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
)

var chunks = deletedstats.Of{Side: "chunks", Analyser: "words/1"}

func write(t testing.TB, former *deletedstats.File, changes ...deletedstats.Change) []byte {
	var content bytes.Buffer
	require.NoError(t, deletedstats.Write(&content, chunks, former, changes...))
	return content.Bytes()
}

func open(t testing.TB, content []byte, of deletedstats.Of) (*deletedstats.File, error) {
	open := func(path string) (*deletedstats.File, error) { return deletedstats.Open(path, of) }
	return scratchtest.Open(t, content, open)
}

func random(r *rand.Rand, documents int) [][]string {
	docs := make([][]string, documents)
	for i := range docs {
		for range r.IntN(12) {
			docs[i] = append(docs[i], fmt.Sprint("t", r.IntN(80)))
		}
	}
	return docs
}

// Rows die over nights in several segments; one segment is merged away. The table is that of the dead that are left.
func TestNightsAddUpAndMergesTakeAway(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		a, b := random(r, 1+r.IntN(60)), random(r, 1+r.IntN(60))
		sides := []*postings.Side{searchtest.OpenSide(t, a), searchtest.OpenSide(t, b)}
		night := func(n int) func(row int) bool { return func(row int) bool { return row%4 == n } }
		two := func(row int) bool { return row%4 < 2 }
		content := write(t, nil, deletedstats.Count(sides[0], night(0)), deletedstats.Count(sides[1], night(0)))
		first := musttest.Get(open(t, content, chunks))(t)
		both := write(t, first, deletedstats.Count(sides[0], night(1)), deletedstats.Count(sides[1], night(1)))
		once := write(t, nil, deletedstats.Count(sides[1], two), deletedstats.Count(sides[0], two))
		require.True(t, bytes.Equal(both, once), "two nights are other bytes than one")
		former := musttest.Get(open(t, both, chunks))(t)
		merged := write(t, former, deletedstats.NegateChange(deletedstats.Count(sides[0], two)))
		want := write(t, nil, deletedstats.Count(sides[1], two))
		require.True(t, bytes.Equal(merged, want), "what a merge left out still counts, or less than it does")
		var left [][]string // as if they were all
		for row, terms := range b {
			if two(row) {
				left = append(left, terms)
			}
		}
		whole, table := searchtest.OpenSide(t, left), musttest.Get(open(t, merged, chunks))(t)
		require.Equal(t, whole.Stats().Totals(), table.Totals())
		terms := 0
		for term, list := range whole.Lists() {
			terms++
			require.EqualValues(t, list.Len(), table.Frequency(term), term)
		}
		require.True(t, table.Terms() == terms && table.Frequency("t") == 0 && table.Frequency("zz") == 0,
			"%d terms, want %d", table.Terms(), terms)
	}
}

func TestCountsThatCannotBeAreRefusedAndErrorsPassedOn(t *testing.T) {
	type entry = deletedstats.Entry
	for name, change := range map[string]deletedstats.Change{
		"fewer than none": {Documents: -1, Entries: scratchtest.Yield[deletedstats.Entry]()},
		"a term less":     {Documents: 1, Terms: 3, Entries: scratchtest.Yield(entry{"a", -1})},
		"in too many":     {Documents: 1, Terms: 3, Entries: scratchtest.Yield(entry{"a", 2})},
		"too many terms":  {Documents: 1, Terms: 1, Entries: scratchtest.Yield(entry{"a", 1}, entry{"b", 1})},
		"out of order":    {Documents: 1, Terms: 3, Entries: scratchtest.Yield(entry{"b", 1}, entry{"a", 1})},
		"twice":           {Documents: 2, Terms: 3, Entries: scratchtest.Yield(entry{"a", 1}, entry{"a", 1})},
	} {
		musttest.Code(t, deletedstats.Write(&bytes.Buffer{}, chunks, nil, change), fault.Internal, name)
	}
	broken := errors.New("broken")
	fails := func(yield func(deletedstats.Entry, error) bool) {
		_ = yield(entry{"a", 1}, nil) && yield(entry{}, broken)
	}
	err := deletedstats.Write(&bytes.Buffer{}, chunks, nil, deletedstats.Change{Documents: 1, Terms: 1, Entries: fails})
	assert.ErrorIs(t, err, broken, "an error of the entries became")
}

func TestATableOfAnotherSideOrAnalyserIsRefused(t *testing.T) {
	content := write(t, nil, deletedstats.Change{Documents: 1, Terms: 1, Entries: scratchtest.Yield(deletedstats.Entry{Term: "a", Documents: 1})})
	musttest.Refuse(open(t, content, deletedstats.Of{Side: "classes", Analyser: "words/1"}))(t, fault.SegmentDamage)
	musttest.Refuse(open(t, content, deletedstats.Of{Side: "chunks", Analyser: "words/2"}))(t, fault.FormatUnknown)
}

// Terms without end are written from little memory, and their temporary files go.
func TestLargeTablesGoThroughFiles(t *testing.T) {
	left := scratchtest.In(t, t.TempDir())
	const terms = 300_000
	many := func(yield func(deletedstats.Entry, error) bool) {
		for i := range terms {
			assert.True(t, i != terms/2 || len(left()) != 0, "half of them are in memory")
			if !yield(deletedstats.Entry{Term: fmt.Sprintf("t%08d", i), Documents: 1}, nil) {
				return
			}
		}
	}
	table, err := open(t, write(t, nil, deletedstats.Change{Documents: 1, Terms: terms, Entries: many}), chunks)
	require.NoError(t, err)
	assert.True(t, table.Terms() == terms && table.Frequency("t00299999") == 1 && table.Frequency("t00300000") == 0,
		"%d terms", table.Terms())
	assert.Empty(t, left())
}
