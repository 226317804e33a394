package cli_test

import (
	"slices"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/ops"
)

func TestWaitFollowsTheRunThatItStartedAndNoOtherOfItsName(t *testing.T) {
	c := &control{runID: "r2", statuses: []ops.Status{{Report: corpus.Report{Status: corpus.StatusCompleted}}}}
	if got := run(t, c, "index", t.TempDir(), "--index", "docs", "--wait"); got.exit != 0 {
		t.Fatalf("%+v", got)
	}
	if !slices.Contains(c.asked, "status docs/g1#r2") {
		t.Errorf("asked %q", c.asked)
	}
}

func TestALostRunIsDeclaredLostAndNotCancelled(t *testing.T) {
	c := &control{}
	if got := run(t, c, "cancel", "docs/g1", "--lost"); got.exit != 0 || !slices.Equal(c.asked, []string{"lost docs/g1"}) {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
	c = &control{}
	if got := run(t, c, "cancel", "docs/g1"); got.exit != 0 || !slices.Equal(c.asked, []string{"cancel docs/g1"}) {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
}
