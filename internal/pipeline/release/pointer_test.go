package release_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

type bench struct {
	*testing.T
	art    artifact.Index
	mirror *coordmemory.Store
}

func newBench(t *testing.T) bench {
	return bench{t, artifact.Index{Store: blobmemory.New(), Name: "i"}, coordmemory.New()}
}

func (b bench) flipIn(gen string, seq, expected int64) release.FlipIn {
	return release.FlipIn{
		Artifacts: b.art, Mirror: b.mirror, Generation: gen, Manifest: "sha-" + gen, Seq: seq, Expected: expected,
	}
}

// pointers returns what the artifacts and the mirror say.
func (b bench) pointers() (current core.Pointer, mirrored string) {
	current, _, err := b.art.ReadPointer(b.Context())
	stagetest.Ok(b, err)
	raw, err := b.mirror.ReadMirror(b.Context(), "i")
	stagetest.Ok(b, err)
	return current, string(raw)
}

func (b bench) want(pointer core.Pointer) {
	current, mirrored := b.pointers()
	raw := fmt.Sprintf(
		`{"generation":%q,"manifest":%q,"seq":%d,"epoch":%d}`,
		pointer.Generation, pointer.Manifest, pointer.Seq, pointer.Epoch,
	)
	assert.True(b, current == pointer && mirrored == raw,
		"current is %+v, mirrored %s, want %+v", current, mirrored, pointer)
}

func TestAFlipWhoseAnswerWasLost(t *testing.T) {
	down := fault.StoreDown.At("write", "current.json")
	want := core.Pointer{Generation: "g1", Manifest: "sha-g1", Seq: 1, Epoch: 1}
	t.Run("is reported, and its repetition succeeds", func(t *testing.T) {
		b := newBench(t)
		in := b.flipIn("g1", 1, 0)
		in.Artifacts.Store = &stagetest.Tampered{Store: b.art.Store, AfterPut: func(string) error { return down }}
		_, err := release.Flip(t.Context(), in)
		require.True(t, errors.Is(err, down), "got %v", err)
		_, err = release.Flip(t.Context(), b.flipIn("g1", 1, 0))
		stagetest.Ok(t, err)
		b.want(want)
	})
	t.Run("and was repeated below, is no other run's", func(t *testing.T) {
		b := newBench(t)
		in := b.flipIn("g1", 1, 0)
		in.Artifacts.Store = &stagetest.Tampered{Store: b.art.Store, AfterPut: func(key string) error {
			return fault.Precondition.At("write", key)
		}}
		assert.Equal(t, want, musttest.Get(release.Flip(t.Context(), in))(t))
		b.want(want)
	})
	t.Run("but another run's flip is refused", func(t *testing.T) {
		b := newBench(t)
		in := b.flipIn("g1", 1, 0)
		in.Artifacts.Store = &stagetest.Tampered{Store: b.art.Store, OnPut: func(string) error {
			_, err := release.Flip(t.Context(), b.flipIn("other", 9, 0))
			return err
		}}
		musttest.Refuse(release.Flip(t.Context(), in))(t, fault.PointerMoved, "generation other")
		b.want(core.Pointer{Generation: "other", Manifest: "sha-other", Seq: 9, Epoch: 1})
	})
}

func TestAFlipBehindAnotherOneIsRefused(t *testing.T) {
	b := newBench(t)
	first, err := release.Flip(t.Context(), b.flipIn("g1", 1, 0))
	stagetest.Ok(t, err)
	for name, in := range map[string]release.FlipIn{
		"that was planned before it":        b.flipIn("g2", 2, 0),
		"that was planned behind the next":  b.flipIn("g2", 2, 7),
		"of the same manifest, planned now": {Artifacts: b.art, Mirror: b.mirror, Manifest: "sha-g1", Expected: 5},
	} {
		_, err := release.Flip(t.Context(), in)
		require.True(t, fault.Is(err, fault.PointerMoved), "%s: %v", name, err)
		for _, says := range []string{"switched to generation g1", "run the build", "unweaver publish"} {
			assert.Contains(t, err.Error(), says, name)
		}
	}
	b.want(first)
}

// deafMirror does not answer.
type deafMirror struct{ coordination.Readers }

func (deafMirror) Mirror(context.Context, string, []byte) error {
	return fault.StoreDown.At("mirror", "i")
}

func TestAMirrorThatFailsLeavesTheGenerationPublishedAndIsRepeated(t *testing.T) {
	b := newBench(t)
	in := b.flipIn("g1", 1, 0)
	in.Mirror = deafMirror{}
	got, err := release.Flip(t.Context(), in)
	require.True(t, fault.Is(err, fault.StoreDown) && got.Epoch == 1, "%v: %+v", err, got)
	current, mirrored := b.pointers()
	assert.True(t, current == got && mirrored == "", "current %+v, mirrored %q", current, mirrored)
	_, err = release.Flip(t.Context(), b.flipIn("g1", 1, 0))
	stagetest.Ok(t, err)
	b.want(got)
}
