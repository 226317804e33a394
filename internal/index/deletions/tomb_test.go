package deletions_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

func of(rows int) deletions.Of {
	return deletions.Of{Segment: "5e9", Unit: deletions.Documents, Rows: rows}
}

func write(t testing.TB, rows int, dead func(int) bool) []byte {
	var content bytes.Buffer
	require.NoError(t, deletions.Write(&content, of(rows), dead))
	return content.Bytes()
}

func open(t testing.TB, content []byte, of deletions.Of) (*deletions.File, error) {
	return scratchtest.Open(t, content, func(path string) (*deletions.File, error) { return deletions.Open(path, of) })
}

func TestBitmapsSayOfEveryRowWhatWasWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, rows := range []int{0, 1, 63, 64, 65, 1000, 70_000} {
		dead, count := make([]bool, rows), 0
		for i := range dead {
			if dead[i] = r.IntN(3) == 0; dead[i] {
				count++
			}
		}
		content := write(t, rows, func(row int) bool { return dead[row] })
		bitmap := musttest.Get(open(t, content, of(rows)))(t)
		assert.True(t, bitmap.CountDead() == count && bitmap.CountRows() == rows,
			"%d of %d are dead, want %d of %d", bitmap.CountDead(), bitmap.CountRows(), count, rows)
		for i := range dead {
			require.Equal(t, dead[i], bitmap.IsDead(i), "row %d of %d", i, rows)
		}
	}
}

func TestWhatDiesLaterIsAddedAndOrderOfNightsDoesNotMatter(t *testing.T) {
	first, second := []uint32{3, 64, 99}, []uint32{0, 64, 65}
	var onceFirst, together bytes.Buffer
	require.NoError(t, deletions.Add(&onceFirst, of(100), nil, first))
	former := musttest.Get(open(t, onceFirst.Bytes(), of(100)))(t)
	require.NoError(t, deletions.Add(&together, of(100), former, second))
	want := write(t, 100, func(row int) bool {
		return slices.Contains(first, uint32(row)) || slices.Contains(second, uint32(row))
	})
	assert.True(t, bytes.Equal(together.Bytes(), want), "rows that died in two nights are other bytes than of one")
	for name, err := range map[string]error{
		"out of order":      deletions.Add(&together, of(100), nil, []uint32{5, 4}),
		"out of range":      deletions.Add(&together, of(100), nil, []uint32{100}),
		"of another length": deletions.Add(&together, of(101), former, nil),
		"without a unit":    deletions.Write(&together, deletions.Of{Segment: "5e9", Rows: 1}, nil),
	} {
		assert.True(t, fault.Is(err, fault.Internal), "rows %s: %v", name, err)
	}
}

func TestABitmapOfAnotherSegmentIsRefused(t *testing.T) {
	content := write(t, 100, func(row int) bool { return row == 7 })
	for name, other := range map[string]deletions.Of{
		"segment":        {Segment: "5ea", Unit: deletions.Documents, Rows: 100},
		"unit":           {Segment: "5e9", Unit: deletions.Classes, Rows: 100},
		"number of rows": {Segment: "5e9", Unit: deletions.Documents, Rows: 101},
	} {
		musttest.Code(t, musttest.Err(open(t, content, other)), fault.SegmentDamage, "another %s", name)
	}
}
