package run

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

// scratchRun returns a unit of work of a process, with its scratch in the artifact store.
func scratchRun(ports *Ports) *Run {
	return &Run{Ports: ports, Scratch: Scratch{Store: ports.Artifacts, Prefix: "i/runs/g/1"}}
}

// However many units of work begin in a process, each file that all of them need is read once; what was not there is
// looked for again.
func TestAProcessReadsAFileOfItsRunOnce(t *testing.T) {
	requests := distance.New(0)
	ports := &Ports{Artifacts: distance.Blob(blobmemory.New(), requests)}
	run := scratchRun(ports)
	_, err := ReadKept(t.Context(), run, ShardsFile)
	require.Error(t, err, "a file that is not there was read")
	want := Shards{Chunks: []int{3, 1}}
	require.NoError(t, ShardsFile.Write(t.Context(), run.Scratch, want))
	requests.Take()
	for range 100 {
		got, err := ReadKept(t.Context(), scratchRun(ports), ShardsFile)
		require.True(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "%v, %v", got, err)
	}
	assert.Equal(t, int64(1), requests.Take().Of(""), "it was read")
	for unit := range 3 * mostKept {
		file := fileOf[int]("other-%d.json", unit)
		require.NoError(t, file.Write(t.Context(), run.Scratch, unit))
		got, err := ReadKept(t.Context(), run, file)
		require.True(t, err == nil && got == unit, "%d, %v", got, err)
	}
	if n := len(ports.Kept.values); n != mostKept || len(ports.Kept.order) != mostKept {
		t.Errorf("%d files are kept, at most %d", n, mostKept)
	}
}

// Files of units are read side by side: at 15 ms a request 640 take 20 times that, not 640 times.
func TestFilesOfUnitsAreReadSideBySide(t *testing.T) {
	const units = 20 * readWidth
	near := blobmemory.New()
	file := func(unit int) File[int] { return fileOf[int]("unit-%d.json", unit) }
	run := scratchRun(&Ports{Artifacts: near})
	for unit := range units {
		require.NoError(t, file(unit).Write(t.Context(), run.Scratch, unit))
	}
	requests := distance.New(15 * time.Millisecond)
	far := scratchRun(&Ports{Artifacts: distance.Blob(near, requests)})
	want := 0
	for unit, err := range ReadEach(t.Context(), far, units, file) {
		require.True(t, err == nil && unit == want, "unit %d, want %d, %v", unit, want, err)
		want++
	}
	if chain := requests.Take().Chain; want != units || chain > 4*units/readWidth {
		t.Errorf("%d files in a chain of %d requests", want, chain)
	}
}
