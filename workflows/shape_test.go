package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/workflows"
)

func TestPiecesCoverEveryChunkOnce(t *testing.T) {
	for _, shape := range []workflows.Shape{{}, {ShardChunks: 10, BatchChunks: 3}, {ShardChunks: 64, BatchChunks: 64}} {
		for _, chunks := range []int{0, 1, 3, 10, 64, 65, 4999, 5000, 5001, 12_345} {
			covered := 0
			for n := range shape.CountShards(chunks) {
				from, to := shape.ShardRange(n, chunks)
				require.True(t, from == covered && to > from,
					"%+v: shard %d of %d chunks is [%d, %d), after %d", shape, n, chunks, from, to, covered)
				within := 0
				for batch := range shape.CountBatches(to - from) {
					lower, upper := shape.BatchRange(batch, to-from)
					require.True(t, lower == within && upper > lower,
						"%+v: batch %d of %d is [%d, %d)", shape, batch, to-from, lower, upper)
					within = upper
				}
				require.Equal(t, to-from, within, "%+v: batches cover", shape)
				covered = to
			}
			require.Equal(t, chunks, covered, "%+v: shards cover", shape)
		}
	}
}

func TestAShapeThatCannotWorkIsRefusedWithTheSettingsName(t *testing.T) {
	for says, shape := range map[string]workflows.Shape{
		"shape.batch_chunks is -1":   {BatchChunks: -1},
		"shape.batch_chunks is 6000": {BatchChunks: 6000},
		"shape.shard_chunks is -2":   {ShardChunks: -2},
		"shape.shard_window is 401":  {ShardWindow: 401},
		"shape.windows.chunk is -1":  {Windows: workflows.Windows{Chunk: -1}},
		"shape.windows.verify is":    {Windows: workflows.Windows{Verify: 1_000}},
		"has 5000 batches":           {BatchChunks: 1},
		"shape.format is 2":          {Format: workflows.Format + 1},
		"shape.format is -1":         {Format: -1},
		"start it again":             {}, // of a start without a format
		"shape.outage is -1s":        {Outage: -time.Second},
		"shape.outage is 200h":       {Outage: 200 * time.Hour},
	} {
		if shape != (workflows.Shape{}) && shape.Format == 0 {
			shape.Format = workflows.Format
		}
		err := shape.Validate()
		assert.True(t, err != nil && strings.Contains(err.Error(), says), "%+v: %v, want %q", shape, err, says)
	}
}

func TestTheShapeDecidesTheFanOut(t *testing.T) {
	f := newFake(100)
	shape := workflows.Shape{BatchChunks: 10}
	completes(t, f, workflows.Build{Shape: shape}, nil)
	assert.Equal(t, 10, f.count(workflows.ExtractChunks))
	for _, unit := range f.units {
		require.True(t, unit.Shape.BatchChunks == 10 && unit.Shape.ShardChunks == 5000, "a unit got shape %+v", unit.Shape)
	}
}

func TestABudgetLaidOverAnotherKeepsWhatItDoesNotGive(t *testing.T) {
	older := workflows.Budget{Calls: 10, Tokens: 20, Money: 3}
	over := &workflows.Budget{Calls: 50}
	assert.Equal(t, workflows.Budget{Calls: 50, Tokens: 20, Money: 3}, over.LayOver(older))
	assert.Equal(t, older, (*workflows.Budget)(nil).LayOver(older))
}
