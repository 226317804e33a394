package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
)

// What can be read again is forgotten after a while without a look; what the index lacks stays known.
func TestWhatCanBeReadAgainIsForgottenWhenNobodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := ledger.New(artifacttest.New(), memory.NewClaims())
		vectors := [][]float32{{1}, {2}, {3}, {4}}
		inIndex, lacking := texts(0, 4), texts(4, 8)
		put := func(of []core.Digest) {
			require.NoError(t, l.PutVectors(t.Context(), of, vectors))
		}
		look := func(of []core.Digest) {
			objects := must(l.FindTexts(t.Context(), of))
			found := must(l.ReadVectors(t.Context(), of, objects))
			for i, vector := range found {
				if len(vector) != 1 || vector[0] != vectors[i][0] {
					t.Errorf("the vector of text %d is %v, want %v", i, vector, vectors[i])
				}
			}
		}
		put(inIndex)
		require.NoError(t, l.SealTexts(t.Context()))
		put(lacking)
		for range 2 {
			look(inIndex)
			look(lacking)
			time.Sleep(10 * time.Second)
			look(lacking)
			time.Sleep(10 * time.Second)
			if answers, held := l.Remembered(); answers != 2 || held != 8 {
				t.Errorf("%d answers and %d vectors are remembered while somebody looks, want 2 and 8", answers, held)
			}
			time.Sleep(10 * time.Second)
			if answers, held := l.Remembered(); answers != 1 || held != 0 {
				t.Errorf("%d answers and %d vectors are remembered, want 1, which the index lacks, and 0", answers, held)
			}
		}
	})
}
