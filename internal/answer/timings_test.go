package answer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/answer"
)

func TestThePartsOfAQuerysTimeAreItsTotal(t *testing.T) {
	timings := answer.Timings{
		Open: 1, Parse: 2, Embed: 3, Search: 4, Ballots: 5, Election: 6, Chunks: 7, Rerank: 8, Context: 9, Answer: 10,
	}
	timings.End(57500 * time.Microsecond)
	assert.Equal(t, 57.5, timings.Total)
	assert.Equal(t, 2.5, timings.Other)
	timings.End(time.Millisecond)
	assert.Zero(t, timings.Other)
}
