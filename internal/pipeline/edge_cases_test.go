package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A corpus that shrinks to nothing ends the night by name before anything is made, whatever the gate allows: what is
// served stays, and once the documents are back there is nothing to do.
// Promises: 112.
func TestACorpusThatShrinksToNothingEndsTheNightAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(6))
	s.spec.Gate.MaxRemoved = 1
	first := s.night(t)
	for i := range 6 {
		s.remove(t, fmt.Sprintf("place-%03d.md", i))
	}
	job, holder := s.leased(t)
	_, err := s.stages(t.Context(), job, holder)
	require.True(t, fault.Is(err, fault.CorpusEmpty) && strings.Contains(err.Error(), "holds no document"), "%v", err)
	err = s.unit(t.Context(), job, "end", func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, holder, run.Ending{Status: core.StatusFailed, Reason: string(fault.CodeOf(err))})
	})
	require.NoError(t, err)
	current, _, err := s.index().ReadPointer(t.Context())
	assert.True(t, err == nil && current.Generation == first.manifest.Generation, "%+v, %v", current, err)
	s.write(t, sample(6))
	if back := s.night(t); !back.planned.Unchanged || back.manifest.Hashes != first.manifest.Hashes {
		t.Errorf("%+v", back.planned)
	}
}

// full is a store that has no room left for objects above some bytes; below zero there is room.
type full struct {
	blob.Store
	room *atomic.Int64
}

func (f full) Put(ctx context.Context, key string, body io.Reader, size int64, c blob.Cond) (blob.Info, error) {
	if room := f.room.Load(); room >= 0 && size > room {
		return blob.Info{}, fault.StoreFull.At("write", key).Because("no room is left").Advise("make room")
	}
	return f.Store.Put(ctx, key, body, size, c)
}

// A store that is full but for small files serves what it served before by a rollback, and is collected, which makes
// room. One that takes no byte refuses both by name, and what is served stays.
// Promises: 112.
func TestAFullStoreIsRolledBackAndCollected(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(40))
	room := &atomic.Int64{}
	room.Store(-1)
	s.Artifacts = full{s.Artifacts, room}
	s.spec.Keep = 9
	for night := range 4 {
		texts := map[string]string{}
		for i := range 30 { // most of it is made again: whole segments are no longer wanted
			texts[fmt.Sprintf("place-%03d.md", i)] = fmt.Sprintf("# Harbour\n\nBern sells salt %d to Lake Verin %d.\n", night, i)
		}
		s.write(t, texts)
		s.night(t)
	}
	s.spec.Keep = 1
	job, holder := s.job(t)
	stored := func() (bytes int64) {
		for info, err := range s.Artifacts.List(t.Context(), "", "") {
			require.NoError(t, err)
			bytes += info.Size
		}
		return bytes
	}
	room.Store(4096)
	s.write(t, map[string]string{"more.md": "# More\n\nThe ferry goes to Tolmin.\n"})
	if move, err := s.act(t, core.ActionRollback, ""); err != nil || move.To != "g003" {
		t.Errorf("rollback: %+v, %v", move, err)
	}
	before := stored()
	var err error
	for range 2 { // what the first one condemns the second deletes, a grace later
		s.lease(t, &job, holder)
		if err = s.collect(t.Context(), job, holder); err != nil {
			break
		}
	}
	if after := stored(); err != nil || after >= before {
		t.Errorf("collect: %v, %d bytes, then %d", err, before, after)
	}
	room.Store(0)
	if _, err := s.act(t, core.ActionRollback, "g002"); !fault.Is(err, fault.StoreFull) {
		t.Errorf("rollback without a byte: %v", err)
	}
	current, _, err := s.index().ReadPointer(t.Context())
	assert.True(t, err == nil && current.Generation == "g003", "%+v, %v", current, err)
}
