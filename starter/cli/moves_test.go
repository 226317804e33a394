package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli"
)

func TestWhatIsServedIsMovedAsItIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		args string
		want control.MoveRequest
		says string
	}{
		{
			"rollback --index docs", control.MoveRequest{Action: "rollback", Index: "docs"},
			"docs now serves  (release 7); before: g2",
		},
		{
			"rollback g1 --index docs", control.MoveRequest{Action: "rollback", Index: "docs", Generation: "g1"},
			"docs now serves g1 (release 7); before: g2",
		},
		{
			"rollback --to 2026-11-22T18:00:00Z --index docs",
			control.MoveRequest{Action: "rollback", Index: "docs", To: time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)}, "",
		},
		{
			"publish g3 --force --index docs",
			control.MoveRequest{Action: "publish", Index: "docs", Generation: "g3", Force: true}, "docs now serves g3",
		},
		{
			"discard g3 --index docs", control.MoveRequest{Action: "discard", Index: "docs", Generation: "g3"},
			"discarded g3",
		},
		{
			"tag g1 audit-2026 --index docs",
			control.MoveRequest{Action: "tag", Index: "docs", Generation: "g1", Name: "audit-2026"}, "g1 has the tag audit-2026",
		},
		{
			"untag g1 audit-2026 --index docs",
			control.MoveRequest{Action: "untag", Index: "docs", Generation: "g1", Name: "audit-2026"}, "no longer has the tag audit-2026",
		},
	} {
		fake := &fakeControl{}
		got := run(t, fake, append(strings.Fields(c.args), "--by", "ada@desk", "--reason", "wrong answers")...)
		assert.True(t, got.exit == cli.ExitDone && fake.move == c.want && strings.Contains(got.out, c.says),
			"%s: %+v, asked for %+v", c.args, got, fake.move)
		assert.Equal(t, core.Operator{By: "ada@desk", Reason: "wrong answers"}, fake.operator, "%s", c.args)
	}
	same := &fakeControl{kept: []artifact.Generation{
		{Generation: "g1", ContentHash: "c"}, {Generation: "g2", ContentHash: "c"},
	}}
	contains(t, run(t, same, "rollback", "docs", "g1").out, "both have the same content")
	fake := &fakeControl{unchanged: true}
	if got := run(t, fake, "rollback", "g1", "--index", "docs"); got.exit != cli.ExitDone ||
		!strings.Contains(got.out, "already serves g1: nothing to do") {
		t.Errorf("to itself: %+v", got)
	}
	if by := fake.operator.By; !strings.Contains(by, "@") || len(by) < 3 {
		t.Errorf("by default no operator is named: %q", by)
	}
	if got := run(t, &fakeControl{}, "rollback", "--to", "yesterday", "--index", "docs"); got.exit != cli.ExitUsage {
		t.Errorf("a time that is none: %+v", got)
	}
	refused := &fakeControl{err: fault.GenCollected.At("rollback generation", "g1").Because("it was collected")}
	if got := run(t, refused, "rollback", "g1", "--index", "docs", "--json"); got.exit != cli.ExitUsage ||
		!strings.Contains(got.err, `"generation_collected"`) {
		t.Errorf("a collected one: %+v", got)
	}
}

func TestTheTrailIsShownWithWhoAndWhy(t *testing.T) {
	at := time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	fake := &fakeControl{operations: []core.Operation{
		{
			ID: "2", At: at, Action: "publish", Index: "docs", From: "g1", To: "g2", Forced: true,
			Operator: core.Operator{By: "bob@web", Via: "key 1a2b3c4d", Reason: "meant to go"},
			Outcome:  &core.OperationOutcome{Result: "failed", Code: "pointer_moved"},
		},
		{ID: "1", At: at, Action: "pause", Index: "docs", Run: "docs/g2", Operator: core.Operator{By: "ada@desk"}},
		{
			ID: "0", At: at, Action: core.ActionLimit, Index: "docs", Run: "docs/g2", Change: "concurrency 8",
			Operator: core.Operator{By: "ada@desk"}, Outcome: &core.OperationOutcome{Result: core.OperationDone},
		},
	}}
	got := run(t, fake, "operations", "--index", "docs", "--limit", "7")
	for _, part := range []string{
		"bob@web (key 1a2b3c4d): publish g2 (g1 was served), forced: failed (pointer_moved)", "meant to go",
		"ada@desk: pause docs/g2: no outcome is recorded", "ada@desk: limit docs/g2 (concurrency 8): done",
	} {
		assert.Contains(t, got.out, part)
	}
	assert.Equal(t, "operations docs 7", fake.asked[0], "%v", fake.asked)
	as := decoded(t, run(t, fake, "operations", "--index", "docs", "--json").out)
	if list := as["operations"].([]any); len(list) != 3 || list[0].(map[string]any)["by"] != "bob@web" ||
		list[1].(map[string]any)["outcome"] != nil {
		t.Errorf("%v", as)
	}
	if got := run(t, &fakeControl{}, "operations", "--index", "docs"); !strings.Contains(got.out, "no operation is recorded") {
		t.Errorf("%+v", got)
	}
}

func TestAListOfGenerationsSaysWhatKeepsThem(t *testing.T) {
	fake := &fakeControl{kept: []artifact.Generation{
		{Generation: "g2", State: "current"}, {Generation: "g1", State: "published", Tags: []string{"audit", "law"}},
		{Generation: "g0", State: "discarded", Collected: true},
	}}
	got := run(t, fake, "generations", "--index", "docs")
	assert.True(t, strings.Contains(got.out, "audit law") && strings.Contains(got.out, "being deleted"), "%s", got.out)
}

// Who meets a generation that was held after it was built sees what can be done with it; of a run that was held
// before, nothing can be asked or approved.
func TestAHeldRunSaysHowItIsApprovedOrDropped(t *testing.T) {
	held := finished(core.StatusHeld)
	held.Index, held.Generation, held.ContentHash, held.Reason = "docs", "g7", "ab", "failure_budget"
	got := run(t, &fakeControl{statuses: []control.Status{held}}, "status", "docs")
	for _, command := range []string{
		"query docs \"...\" --generation g7", "diff docs g7", "publish docs g7",
		"discard docs g7",
	} {
		assert.Contains(t, got.out, "unweaver "+command, "%q is not in", command)
	}
	assert.Equal(t, cli.ExitHeld, got.exit, "exit")
	held.Reason = "mass_deletion"
	if got := run(t, &fakeControl{statuses: []control.Status{held}}, "status", "docs"); strings.Contains(got.out, "publish g7") {
		t.Errorf("%s", got.out)
	}
}
