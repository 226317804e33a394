package gemstage_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

// A memory of 20,000 chunks of about 100 words is sealed with built-in models, whose vectors have 1,024 numbers; the
// most memory that the process held is reported, 164 MB of it two vectors of each chunk.
// go test -run - -bench Seal -benchtime 1x -timeout 30m ./internal/methods/gem/gemstage
func BenchmarkSeal(b *testing.B) {
	chunks := chunksOf(20_000)
	for i := range chunks {
		var text strings.Builder
		text.WriteString(chunks[i].Text)
		for j := range 12 {
			fmt.Fprintf(&text, " In %d Captain Name%d sold Ship%d to Town%d.", 1800+(i+j)%90, i%700, (i*7+j)%900, (i+j*j)%300)
		}
		chunks[i].Text = text.String()
	}
	in := maker(blobmemory.New(), builtin.Chat{}, builtin.Embedder{})
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Skip(err) // Linux alone reports it
	}
	for b.Loop() {
		out := bufio.NewWriter(io.Discard)
		sealed, err := in.Seal(b.Context(), listed(chunks), out)
		require.NoError(b, err)
		b.ReportMetric(float64(sealed.Counts.Questions), "questions")
	}
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(b, err)
	b.ReportMetric(float64(kilobytes)/1000, "peak-MB")
}
