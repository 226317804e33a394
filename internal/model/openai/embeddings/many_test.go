package embeddings_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/openai/embeddings"
)

func TestVectorsThatNobodyAskedForAreCountedAndNotKept(t *testing.T) {
	body := []byte(`{"data":[` + strings.Repeat("{},", 300_000) + `{}]}`)
	took := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := embeddings.Decode(body, 2)
			require.ErrorContains(b, err, "300001 vectors came back for 2 texts")
		}
	})
	assert.Less(t, took.AllocedBytesPerOp(), int64(len(body)))
}
