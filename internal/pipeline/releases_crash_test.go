package pipeline_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// A process that dies at any write of an approval, or cannot write the pointer, leaves what the same command finishes.
func TestAnApprovalThatDiedAtAnyWriteIsFinishedByTheSameCommand(t *testing.T) {
	for at := int64(0); ; at++ {
		s := newSite(t, sample(4))
		s.night(t)
		held := s.held(t)
		died := &dying{Store: s.Artifacts}
		died.left.Store(at)
		desk := s.desk()
		desk.Artifacts = died
		_, err := desk.Do(t.Context(), release.Request{Action: core.ActionPublish, Index: "docs", Generation: held})
		require.True(t, err == nil || errors.Is(err, errDied), "at write %d: %v", at, err)
		if _, again := s.act(t, core.ActionPublish, held); again != nil || s.pointer(t).Generation != held {
			t.Errorf("again after write %d: %v; %s is served", at, again, s.pointer(t).Generation)
		}
		if err == nil {
			require.True(t, at >= 3, "it takes %d writes only", at)
			break
		}
	}
}

// overtaking has somebody else move the pointer at the moment in which it is written.
type overtaking struct {
	blob.Store
	once  sync.Once
	other func()
}

func (o *overtaking) Put(ctx context.Context, key string, body io.Reader, n int64, c blob.Cond) (blob.Info, error) {
	if key == "docs/current.json" {
		o.once.Do(o.other)
	}
	return o.Store.Put(ctx, key, body, n, c)
}

// A generation that was promoted before and gone back from stays one to go back to where a second promote of it loses.
func TestAPromoteThatIsOvertakenTakesNothingFromTheBase(t *testing.T) {
	s := branchSite(t)
	first := s.pointer(t).Generation
	s.on("docs", 4000)
	s.changed(t)
	if _, err := s.branch(t, "exp", nil); err != nil {
		t.Fatal(err)
	}
	s.on("exp", 200)
	s.night(t)
	if _, err := s.promote(t, "exp"); err != nil {
		t.Fatal(err)
	}
	s.on("docs", 4000)
	promoted := s.pointer(t).Generation
	if _, err := s.act(t, core.ActionRollback, ""); err != nil {
		t.Fatal(err)
	}
	s.on("exp", 200)
	if out := s.night(t); !out.planned.Unchanged {
		t.Fatalf("%+v", out.planned)
	}
	whole := s.Artifacts
	s.Artifacts = &overtaking{Store: whole, other: func() {
		desk := s.desk()
		desk.Artifacts = whole
		_, err := desk.Do(t.Context(), release.Request{Action: core.ActionRollback, Index: "docs", Generation: first})
		assert.NoError(t, err)
	}}
	_, err := s.promote(t, "exp")
	s.Artifacts = whole
	s.on("docs", 4000)
	if !fault.Is(err, fault.PointerMoved) || s.pointer(t).Generation != first {
		t.Errorf("%v; %s is served", err, s.pointer(t).Generation)
	}
	refs, err := artifact.New(s.Artifacts, "docs").ListRefs(t.Context())
	assert.True(t, err == nil && refs[promoted].State == core.GenerationPublished,
		"the base does not know %s any more: %+v, %v", promoted, refs, err)
	_, err = s.act(t, core.ActionRollback, promoted)
	assert.NoError(t, err, "it cannot be gone back to")
}
