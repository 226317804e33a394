package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

func purgeOf() control.PurgeAnswer {
	digest := core.PurgedKey("docs", "a.md")
	return control.PurgeAnswer{
		Plan: core.PurgePlan{
			Index: "docs", Documents: []core.PurgeDocument{{Key: "a.md", Digest: digest, Known: true, Chunks: 3}},
			Current: "g2", Classes: 7, Shortenings: 1, Entries: map[string]int64{"extract": 3, "embed": 10},
			Drops: []core.PurgeGeneration{
				{Generation: "g2", State: "published", Current: true}, {Generation: "g1", State: "published", Tags: []string{"may"}},
			},
			Probes: []string{"s3://a/probes.jsonl"},
		},
		Purge: &core.Purge{ID: "p1", Documents: []core.Digest{digest}}, Run: &control.Run{Run: "docs/purge-1"},
	}
}

// Nothing is purged before somebody saw what goes, and confirmed it.
func TestAPurgeTellsWhatGoesAndWantsToBeConfirmed(t *testing.T) {
	c := &fakeControl{purging: purgeOf()}
	if got := run(t, c, "purge", "docs/a.md", "b.md", "--yes"); got.exit != 2 || len(c.asked) > 0 {
		t.Errorf("keys without an index: %+v, asked %q", got, c.asked)
	}
	got := run(t, c, "purge", "docs", "a.md")
	for _, want := range []string{"a.md", "3 passages", "at most 7 entity texts", "13 entries", "g1 (published, tagged may)",
		"g2 (published; served until", "s3://a/probes.jsonl", "--yes"} {
		assert.True(t, strings.Contains(got.out+got.err, want), "without %q: %s%s", want, got.out, got.err)
	}
	assert.True(t, got.exit == 2 && len(c.asked) == 1 && c.asked[0] == "purge docs [a.md] false true false",
		"exit %d, asked %q", got.exit, c.asked)
	c = &fakeControl{purging: purgeOf()}
	if got = run(t, c, "purge", "a.md", "--index", "docs", "--dry-run", "--yes", "--json"); got.exit != 0 ||
		c.asked[0] != "purge docs [a.md] false true true" || !strings.Contains(got.out, `"drops"`) {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
	c = &fakeControl{purging: purgeOf()}
	if got = run(t, c, "purge", "a.md", "b.jsonl#7", "--index", "docs", "--yes", "--allow-return"); got.exit != 0 ||
		c.asked[0] != "purge docs [a.md b.jsonl#7] true false true" || !strings.Contains(got.out, "docs/purge-1 started") {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
}

// A purge that is done exits 0 whatever stands failed from other runs; of an object with rows the plan names these.
func TestAPurgeThatIsDoneSucceeds(t *testing.T) {
	purging := purgeOf()
	purging.Plan.Documents[0] = core.PurgeDocument{Key: "a.json", Rows: []string{"a.json#1", "a.json#2"}}
	for state, exit := range map[string]int{core.PurgeDone: 0, core.PurgePending: 1} {
		c := &fakeControl{purging: purging, purges: control.PurgesAnswer{Purges: []core.Purge{{ID: "p1", State: state}}}}
		c.statuses = []control.Status{{Report: core.Report{Status: core.StatusErrors, Seconds: 38.5, IdleSeconds: 27.5}}}
		got := run(t, c, "purge", "docs", "a.md", "--yes", "--wait")
		assert.True(t, (got.exit == 0) == (exit == 0), "%s: exit %d, %s", state, got.exit, got.err)
		assert.Contains(t, got.out, "such as a.json#1, a.json#2")
		assert.Contains(t, got.out, "  11.0 s")
	}
}

// How purges stand says what is left to be done.
func TestPurgesTellWhatIsLeft(t *testing.T) {
	digest := core.PurgedKey("docs", "a.md")
	c := &fakeControl{purges: control.PurgesAnswer{Purges: []core.Purge{{
		ID: "p1", State: core.PurgePending, Documents: []core.Digest{digest}, Left: []string{"wait for a reader"},
		Gone: core.Purged{Generations: 2, Ledger: 4}, Shared: 1, Ended: time.Time{},
	}}}}
	got := run(t, c, "purge", "list", "docs")
	for _, want := range []string{"p1 pending: " + digest.Short(16), "2 generations", "4 ledger entries", "1 ledger entry",
		"unfinished: wait for a reader"} {
		assert.Contains(t, got.out, want, "without")
	}
	got = run(t, c, "purge", "list", "--index", "docs", "--readmit", "a.md")
	if got.exit != 0 || !strings.Contains(got.out, "may be indexed again") || c.asked[1] != "purges docs [a.md]" {
		t.Errorf("%+v, asked %q", got, c.asked)
	}
}
