package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// beforeMerge returns a site with a generation whose next night merges all that it has, and what that night comes to.
func beforeMerge(t *testing.T) (*site, *core.Manifest) {
	t.Helper()
	s := newSite(t, sample(12))
	s.night(t)
	edits := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("place-%03d.md", i)
		edits[name] = sample(12)[name] + "\n\nMore salt of Tolmin goes to Port Alma.\n"
	}
	s.write(t, edits)
	sound := s.copied(t).night(t).manifest
	require.True(t, len(sound.Segments.Tombs) == 0, "nothing was merged: %+v", sound.Segments.Tombs)
	return s, sound
}

// crowded is a night over a store that is full from a write of the step that merges on, until it is mended.
type crowded struct {
	*site
	merging, mended atomic.Bool
	writes          atomic.Int64
}

func fillsAt(t *testing.T, from *site, at int64) *crowded {
	t.Helper()
	f := &crowded{site: from.copied(t)}
	f.Artifacts = processBlobs{f.Artifacts, &process{put: func(key string) error {
		if f.merging.Load() && !f.mended.Load() && f.writes.Add(1) >= at {
			return fault.StoreFull.At("write", key)
		}
		return nil
	}}}
	f.before = func(stage string) { f.merging.Store(stage == "segment") }
	return f
}

// A disk that fills in the middle of a merge, at each of its writes in turn: the run says so, what is served stays
// whole, and once there is room the same run comes to what it would have come to.
func TestADiskThatFillsDuringAMergeCostsNothing(t *testing.T) {
	first, sound := beforeMerge(t)
	failed := int64(0)
	for at := int64(1); ; at++ {
		s := fillsAt(t, first, at)
		job, holder := s.leased(t)
		_, err := s.stages(t.Context(), job, holder)
		if err == nil {
			break // it has fewer writes
		}
		failed++
		require.True(t, fault.Is(err, fault.StoreFull), "write %d: %v", at, err)
		assert.Equal(t, "g001", s.pointer(t).Generation, "write %d", at)
		s.whole(t)
		s.mended.Store(true)
		_, err = s.stages(t.Context(), job, holder)
		require.NoError(t, err, "write %d, resumed", at)
		s.whole(t)
		made := s.current(t)
		if made.Generation != "g002" || made.Hashes != sound.Hashes || len(made.Segments.Tombs) != 0 {
			t.Errorf("write %d: %s, hashes equal %v, %d bitmaps", at, made.Generation, made.Hashes == sound.Hashes,
				len(made.Segments.Tombs))
		}
	}
	t.Logf("%d writes failed, each in turn", failed)
	if failed < 10 { // a split has five files beside its own, a run two
		t.Errorf("only %d writes failed", failed)
	}
}

// Two attempts of one merge at once, as where a worker was lost sight of that goes on, write the same.
func TestTwoMergesAtOnceWriteTheSame(t *testing.T) {
	s, sound := beforeMerge(t)
	again := s.copied(t)
	job, holder := s.leased(t)
	twice := false
	s.before = func(stage string) {
		if stage != "segment" || twice {
			return
		}
		twice = true
		before := s.before
		s.before = nil
		defer func() { s.before = before }()
		err := parallel.Each(t.Context(), 2, 2, func(ctx context.Context, _ int) error {
			return s.unit(ctx, job, "segment", func(ctx context.Context, run *upkeep.Run) error {
				_, err := run.WriteSegments(ctx)
				return err
			})
		})
		assert.NoError(t, err)
	}
	_, err := s.stages(t.Context(), job, holder)
	require.NoError(t, err)
	s.whole(t)
	made, alone := s.current(t), again.night(t).manifest
	assert.True(t, twice && made.Hashes == sound.Hashes && fmt.Sprint(made.Segments) == fmt.Sprint(alone.Segments),
		"twice %v, hashes equal %v:\n%+v\nwant\n%+v", twice, made.Hashes == sound.Hashes, made.Segments, alone.Segments)
}

// A rollback while a night merges: the night is held, and what the rollback serves and what it left are whole.
func TestARollbackDuringAMergeLeavesBothWhole(t *testing.T) {
	s := newSite(t, sample(12))
	s.night(t)
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	left := s.night(t).manifest
	edits := map[string]string{}
	for i := range 4 {
		name := fmt.Sprintf("place-%03d.md", i)
		edits[name] = sample(12)[name] + "\n\nMore salt of Tolmin goes to Port Alma.\n"
	}
	s.write(t, edits)
	first := left.Segments.Splits[0].SHA256
	merged := s.copied(t).night(t).manifest.Segments.Splits
	if slices.ContainsFunc(merged, func(split core.Split) bool { return split.SHA256 == first }) {
		t.Fatalf("nothing was merged: %+v", merged)
	}
	s.before = func(stage string) {
		if stage == "segment" && s.pointer(t).Generation == "g002" {
			_, err := s.act(t, core.ActionRollback, "g001")
			assert.NoError(t, err)
		}
	}
	night := s.night(t)
	s.before = nil
	if night.published.Status != core.StatusHeld || night.published.Reason != string(fault.PointerMoved) ||
		s.pointer(t).Generation != "g001" {
		t.Fatalf("%+v, %s is served", night.published, s.pointer(t).Generation)
	}
	s.whole(t)
	_, err := s.act(t, core.ActionRollback, "g002")
	require.NoError(t, err)
	s.whole(t)
	assert.True(t, s.current(t).Hashes == left.Hashes, "g002 is another one")
	s.write(t, map[string]string{"last.md": "# Last\n\nTin of Tolmin goes to Port Alma 4.\n"})
	next := s.night(t)
	fresh := s.fromNothing(t).Hashes // whose vectors weigh words otherwise
	if made := next.manifest.Hashes; next.published.Status != core.StatusCompleted ||
		made.Content != fresh.Content || made.Text != fresh.Text {
		t.Errorf("the night after: %+v", next.published)
	}
	s.whole(t)
}
