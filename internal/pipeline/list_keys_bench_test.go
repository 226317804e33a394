package pipeline_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/stage/collect"
)

// BenchmarkListed says how long the keys take that the upkeep of the ledger must keep, which are read from the
// segments of all generations once a day. UNWEAVER_BENCH_CHUNKS is how many documents of one chunk there are.
func BenchmarkListed(b *testing.B) {
	documents := 1000
	if asked := os.Getenv("UNWEAVER_BENCH_CHUNKS"); asked != "" {
		var err error
		documents, err = strconv.Atoi(asked)
		require.NoError(b, err)
	}
	s := newSite(b, sample(documents))
	paying(s)
	s.shard, s.batch, s.width = 5000, 64, 8
	s.night(b)
	indexes := []artifact.Index{{Store: s.Artifacts, Name: s.spec.Index}}
	for b.Loop() {
		for _, task := range ledger.Tasks() {
			begin, keys := time.Now(), map[core.Digest]bool{}
			for key, err := range collect.ListKeys(b.Context(), indexes, task) {
				require.NoError(b, err)
				keys[key] = true
			}
			b.ReportMetric(time.Since(begin).Seconds()*1e6/float64(documents), task+"-µs/chunk")
			b.ReportMetric(float64(len(keys))/float64(documents), task+"-keys/chunk")
		}
	}
}
