package idf_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/idf"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
	"github.com/unweaver/unweaver/internal/text"
)

// golden is the sha256 of the table of three sentences, as the first release wrote it.
const golden = "92d8d3861d74ca3246787c3489e8608bcff728ea850fbbabf87d2b09b0997e9a"

func learn(t *testing.T, all ...string) []byte {
	var file bytes.Buffer
	require.NoError(t, idf.Learn(t.Context(), &file, text.LanguageOf(""), int64(len(all)), scratchtest.Yield(all...)))
	return file.Bytes()
}

func open(t *testing.T, raw []byte) (*idf.Table, error) {
	return idf.Open(scratchtest.WriteFile(t, raw))
}

func TestAStemWeighsLessTheMoreChunksHoldIt(t *testing.T) {
	table := musttest.Get(open(t, learn(t, "the river rises", "the river falls", "a mountain stands")))(t)
	defer table.Close()
	musttest.Refuse(open(t, nil))(t, fault.SegmentDamage)
	assert.Equal(t, int64(3), table.Total(), "learned from")
	for _, c := range []struct {
		stem   string
		chunks float64
	}{{"river", 2}, {"mountain", 1}, {"nowhere", 0}} {
		assert.Equal(t, math.Log(1+4/(c.chunks+0.5)), table.Weight(c.stem), "%s", c.stem)
	}
}

// The table's digest is part of the embedder's fingerprint: other bytes would embed every corpus again.
func TestTheBytesOfATableAreFixed(t *testing.T) {
	sum := sha256.Sum256(learn(t, "the river rises", "the river falls", "a mountain stands"))
	assert.Equal(t, golden, hex.EncodeToString(sum[:]), "sha256")
}

func TestLearningStopsAtAnErrorAndWhenItIsCancelled(t *testing.T) {
	boom := errors.New("boom")
	err := idf.Learn(t.Context(), &bytes.Buffer{}, text.LanguageOf(""), 2, func(yield func(string, error) bool) {
		yield("", boom)
	})
	assert.ErrorIs(t, err, boom)
	ctx := musttest.EndedContext(t)
	assert.ErrorIs(t, idf.Learn(ctx, &bytes.Buffer{}, text.LanguageOf(""), 1, scratchtest.Yield("a b")), context.Canceled)
}
