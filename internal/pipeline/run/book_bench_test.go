package run

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/coordination/memory"
)

// BenchmarkLook measures one look at control and accounts, by how many processes worked on the run. The size of the
// corpus does not enter.
func BenchmarkLook(b *testing.B) {
	for _, workers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d processes", workers), func(b *testing.B) {
			store := memory.New()
			for i := range workers {
				account := []byte(`{"calls":{"extract":17000},"tokens":{"prompt":9000000},"done":{"extract":17000}}`)
				require.NoError(b, store.SetAccount(b.Context(), "i/g", fmt.Sprint("w", i), account))
			}
			all := &books{}
			through := all.openBook(&Ports{Coordination: store}, "i/g", 1)
			through.setPrices(core.Spec{})
			_, end := through.Watch(b.Context(), "extract")
			defer end()
			for b.Loop() {
				require.NoError(b, through.CheckControl(b.Context()))
			}
		})
	}
}
