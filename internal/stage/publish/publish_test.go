package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func newIndex(t *testing.T) artifact.Index {
	t.Helper()
	store := stagetest.Must(dir.Open(t.TempDir()))
	return artifact.Index{Store: store, Name: "i"}
}

func TestStoreTwiceIsStoreOnce(t *testing.T) {
	art := newIndex(t)
	manifest := &core.Manifest{Index: "i", Generation: "g1", Seq: 4, Format: core.ManifestFormat}
	held := stagetest.Must(publish.Store(t.Context(), art, manifest, "held"))
	published := stagetest.Must(publish.Store(t.Context(), art, manifest, "published"))
	assert.Equal(t, published, held)
	ref, err := art.GenerationRef(t.Context(), "g1")
	assert.True(t, err == nil && ref == (core.GenerationRef{Manifest: held, Seq: 4, State: "published"}),
		"%v: %+v", err, ref)
	back, err := art.Manifest(t.Context(), held)
	assert.True(t, err == nil && back.Generation == "g1" && back.Seq == 4, "%v: %+v", err, back)
	n := 0
	for range art.Store.List(t.Context(), "i/segments/", "") {
		n++
	}
	assert.Equal(t, 1, n)
}

func TestAGenerationWhoseManifestWasNotWrittenIsNotNamed(t *testing.T) {
	art := newIndex(t)
	full := fault.StoreFull.At("write", "segments")
	art.Store = &stagetest.Tampered{Store: art.Store, OnPut: func(key string) error {
		if strings.Contains(key, "/segments/") {
			return full
		}
		return nil
	}}
	_, err := publish.Store(t.Context(), art, &core.Manifest{Generation: "g1"}, "published")
	assert.True(t, errors.Is(err, full), "got %v", err)
	if _, _, err := blob.Read(t.Context(), art.Store, art.GenerationKey("g1", "manifest.json")); !fault.Is(
		err, fault.NotFound,
	) {
		t.Errorf("the generation is named: %v", err)
	}
}

func TestSeqIsOneMoreThanTheLargest(t *testing.T) {
	art := newIndex(t)
	for i, seq := range []int64{7, 12, 3} {
		stagetest.Must(publish.Store(t.Context(), art, &core.Manifest{Generation: fmt.Sprint("g", i), Seq: seq}, "held"))
	}
	assert.Equal(t, int64(13), stagetest.Must(publish.NextSeq(t.Context(), art)))
	if got, err := publish.NextSeq(t.Context(), newIndex(t)); err != nil || got != 1 {
		t.Errorf("of a new index: %v, %d", err, got)
	}
}
