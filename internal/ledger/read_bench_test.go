package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// Reading an entry of 4 KiB, and the answer to a request of 256 texts of 1,024 numbers, in memory.
func BenchmarkLooseEntriesAreRead(b *testing.B) {
	book := &book{store: artifacttest.New()}
	book.reopen()
	must(book.Put(b.Context(), ledger.Extract, key(0), 0, ledger.Result{Value: make([]byte, 4<<10)}))
	b.Run("extract", func(b *testing.B) {
		for b.Loop() {
			must(book.Get(b.Context(), ledger.Extract, key(0), 0))
		}
	})
	texts, vectors := make([]core.Digest, 256), make([][]float32, 256)
	for i := range texts {
		texts[i], vectors[i] = key(i), make([]float32, 1024)
		vectors[i][i] = 1
	}
	require.NoError(b, book.PutVectors(b.Context(), texts, vectors))
	b.Run("embed", func(b *testing.B) {
		for b.Loop() {
			book.reopen()
			objects := must(book.FindTexts(b.Context(), texts))
			found, err := book.ReadVectors(b.Context(), texts, objects)
			require.True(b, err == nil && len(found) == 256 && found[0] != nil, "%v", err)
		}
	})
}
