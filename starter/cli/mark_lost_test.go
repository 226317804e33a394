package cli_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

func TestWaitFollowsTheRunThatItStartedAndNoOtherOfItsName(t *testing.T) {
	c := &fakeControl{runID: "r2", statuses: []control.Status{{Report: core.Report{Status: core.StatusCompleted}}}}
	require.Zero(t, run(t, c, "index", t.TempDir(), "--index", "docs", "--wait").exit)
	assert.True(t, slices.Contains(c.asked, "status docs/g1#r2"), "asked %q", c.asked)
}

func TestALostRunIsDeclaredLostAndNotCancelled(t *testing.T) {
	c := &fakeControl{}
	if got := run(t, c, "cancel", "docs/g1", "--lost"); got.exit != 0 || !slices.Equal(c.asked, []string{"lost docs/g1"}) {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
	c = &fakeControl{}
	if got := run(t, c, "cancel", "docs/g1"); got.exit != 0 || !slices.Equal(c.asked, []string{"cancel docs/g1"}) {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
}
