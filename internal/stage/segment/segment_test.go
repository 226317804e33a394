package segment_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

var update = flag.Bool("update", false, "write the golden files")

// TestTheBytesOfSegmentsDoNotChange compares what is written with files that an earlier version wrote: another byte is
// another content hash, and every generation would be written anew.
func TestTheBytesOfSegmentsDoNotChange(t *testing.T) {
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	for name, sha := range map[string]string{
		"live.segment":            built.Manifest.Segments.Live[0].SHA256,
		"search-titled.2.segment": built.Manifest.Segments.Search[0].SHA256,
	} {
		got, _, err := blob.Read(t.Context(), stores.Blobs, built.Index.SegmentKey(sha))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes differ from the %d that an earlier version wrote", name, len(got), len(want))
		}
	}
}
