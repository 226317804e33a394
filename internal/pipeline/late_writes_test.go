package pipeline_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// before is a store as an attempt sees it that looked for its unit's result before another one recorded it.
type before struct {
	blob.Store
	result string // the end of its key
	looked *atomic.Bool
}

func (b before) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if strings.HasSuffix(key, b.result) && b.looked.CompareAndSwap(false, true) {
		return nil, blob.Info{}, fault.NotFound.At("read", key)
	}
	return b.Store.Get(ctx, key, part)
}

// contents returns the files of a run.
func (s *site) contents(t *testing.T, job run.Job) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, key := range keysBelow(t, s.Artifacts, job.Index+"/runs/"+job.Generation+"/") {
		raw, _, err := blob.Read(t.Context(), s.Artifacts, key)
		require.NoError(t, err)
		out[key] = string(raw)
	}
	return out
}

// unitOf is a unit of a stage, and how its result's file ends.
type unitOf struct {
	stage, result string
	do            func(ctx context.Context, work *upkeep.Run) (any, error)
}

// late does a unit; then, once what it reads is another, as an attempt that began before that one ended. Nothing that
// was recorded may change, and the late attempt must take what was.
func (s *site) late(t *testing.T, job run.Job, unit unitOf, change func()) {
	t.Helper()
	try := func() string {
		var out any
		err := s.unit(t.Context(), job, unit.stage, func(ctx context.Context, work *upkeep.Run) (err error) {
			out, err = unit.do(ctx, work)
			return err
		})
		raw, encoding := json.Marshal(out)
		require.True(t, err == nil && encoding == nil, "%s: %v %v", unit.result, err, encoding)
		return string(raw)
	}
	first := try()
	recorded := s.contents(t, job)
	change()
	store := s.Artifacts
	looked := new(atomic.Bool)
	s.Artifacts = before{store, unit.result, looked}
	s.Forget() // it is in another process
	second := try()
	s.Artifacts = store
	assert.True(t, looked.Load(), "%s was not looked for", unit.result)
	assert.True(t, first == second, "%s: the late attempt came to\n%s, recorded is\n%s", unit.result, second, first)
	now := s.contents(t, job)
	for key, content := range recorded {
		assert.Equal(t, content, now[key], "%s: the late attempt changed %s", unit.result, key)
	}
	assert.True(t, len(now) != len(recorded), "%s: the late attempt wrote what the first one did", unit.result)
}

// An attempt that the engine gave up may live on, see another corpus and get other answers, and end after the attempt
// that took its place: what was recorded stands, and what it wrote goes with the scratch of the run.
// Promises: 31.
func TestAnAttemptThatEndsLateChangesNothingThatWasRecorded(t *testing.T) {
	undisturbed := newSite(t, sample(20)).night(t).manifest
	s := newSite(t, sample(20))
	s.write(t, map[string]string{"unread.bin": "no document"}) // so that there is a list of problems
	job, holder := s.leased(t)
	s.late(t, job, unitOf{"plan", "/build.json", func(ctx context.Context, work *upkeep.Run) (any, error) {
		return work.Plan(ctx)
	}}, func() {
		s.write(t, map[string]string{"later.md": "# Later\n\nCame later.", "later.bin": "no document"})
	})
	s.late(t, job, unitOf{"chunk", "/chunk-00000.json", func(ctx context.Context, work *upkeep.Run) (any, error) {
		return work.Chunk(ctx, 0)
	}}, func() {
		s.write(t, map[string]string{"place-003.md": "\x7fELF\x00\x01", "place-004.md": "# Other\n\nAnother text."})
	})
	err := s.unit(t.Context(), job, "chunk", func(ctx context.Context, work *upkeep.Run) error {
		_, _, err := work.SealChunks(ctx)
		return err
	})
	require.NoError(t, err)
	models := s.Models
	s.late(t, job, unitOf{"extract", "/extract-00000-00000.json", func(ctx context.Context, work *upkeep.Run) (any, error) {
		return work.Extract(ctx, 0, 0)
	}}, func() {
		s.Models = func(core.Spec, model.Meter) (model.Set, error) {
			other := &stagetest.Chat{Free: true, Answer: stagetest.Says(`{"entities":[{"name":"Other","description":"Else."}]}`)}
			return model.Set{Chat: other, Classes: builtin.Embedder{}, Chunks: builtin.Embedder{}}, nil
		}
	})
	s.Models = models
	out, err := s.stages(t.Context(), job, holder)
	require.True(t, err == nil && out.published.Status != core.StatusHeld, "%+v, %v", out.published, err)
	s.checkHashes(t, undisturbed)
	if left := keysBelow(t, s.Artifacts, "docs/runs/"); len(left) > 0 {
		t.Errorf("scratch is left: %q", left)
	}
}

// checkHashes compares what is published with a generation of the same documents.
func (s *site) checkHashes(t *testing.T, want *core.Manifest) {
	t.Helper()
	current, _, err := s.index().ReadPointer(t.Context())
	require.NoError(t, err)
	manifest, err := s.index().Manifest(t.Context(), current.Manifest)
	require.NoError(t, err)
	assert.True(t, manifest.Hashes == want.Hashes, "hashes %+v, want %+v", manifest.Hashes, want.Hashes)
}
