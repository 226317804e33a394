package served

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/telemetry"
	memory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// While a query still reads the copy that another program wrote to, each copy of that content counts as changed.
func TestANamedGenerationIsHeldOnceItIsOpenWhateverBecameOfItsFormerCopy(t *testing.T) {
	folder, stores := t.TempDir(), retrievetest.NewStores(t)
	for i, name := range []string{"g1", "g2"} {
		options := retrievetest.Options{Generation: name, Seq: int64(i + 1)}
		retrievetest.Publish(t, retrievetest.Build(t, stores, "sample", retrievetest.Sample(), options), int64(i+1))
	}
	set := New(Config{
		Artifacts: stores.Blobs, Records: stores.Records, Readers: stores.Readers, Runs: memory.New(),
		Vectors: stores.Vectors, Cache: musttest.Get(localfile.New(folder, 0))(t), Log: slog.New(slog.DiscardHandler),
		Timeout: time.Minute, Telemetry: telemetry.New("test"),
	})
	t.Cleanup(func() { require.NoError(t, set.Close(context.Background())) })
	reading := musttest.Get(set.holdGeneration(t.Context(), "sample", "g1"))(t)
	defer reading.Close()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))
	}))
	require.True(t, reading.HasChanged())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	musttest.Get(set.holdGeneration(ctx, "sample", "g1"))(t).Close()
}
