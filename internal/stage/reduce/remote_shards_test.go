package reduce_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

// The shards of a partition are opened side by side: their number does not enter the chain of requests.
func TestDistantShardsAreOpenedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near := artifact.Index{Store: blobmemory.New(), Name: "i"}
		var shards []string
		for n := range 30 {
			name := fmt.Sprint("shard", n)
			shard(t, near, name, []mention{of("crane", n, 0, "A crane."), of(fmt.Sprint("lone", n), n, 1, "One.")})
			shards = append(shards, name)
		}
		requests := distance.New(15 * time.Millisecond)
		far := artifact.Index{Store: distance.Blob(near.Store, requests), Name: "i"}
		in := reduce.In{
			Spec: spec(256), Artifacts: far, Scratch: "s", Shards: shards, Partitions: 1, OnProgress: func(int64) {},
		}
		result, err := reduce.Run(t.Context(), in)
		require.True(t, err == nil && result.Counts.Mentions == 60, "%+v %v", result.Counts, err)
		counted := requests.Take()
		t.Logf("\n%s", counted)
		assert.True(t, counted.Chain <= 8 && counted.Of("") <= 5*30, "a chain of %d:\n%s", counted.Chain, counted)
	})
}
