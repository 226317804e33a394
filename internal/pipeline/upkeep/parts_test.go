package upkeep

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/stage/audit"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// The classes that the samples of a generation look at are all of them, and none twice.
func TestTheSamplesOfAnAuditDivideTheClasses(t *testing.T) {
	full := unit.MentionsPerPartition
	for _, mentions := range []int64{0, full, full + 1, 9 * full} {
		for _, of := range []int{1, 2, 3, 7, 1000} {
			manifest, end := &core.Manifest{Counts: core.Counts{Mentions: mentions}}, ""
			for n := 1; n <= of; n++ {
				sample := core.Sample{Part: n, Of: of}
				for _, part := range auditPartitions(manifest, sample) {
					from, to, some := auditBounds(part.Partitions, sample, part.Partition)
					require.True(t, some)
					require.Equal(t, strings.TrimRight(end, "\x00"), strings.TrimRight(from, "\x00"), "%d mentions, %s", mentions, sample)
					end = to
				}
				assert.Equal(t, n == of, end == "", "%d mentions: after %s", mentions, sample)
			}
		}
	}
	manifest := &core.Manifest{Segments: core.Segments{Text: []core.Segment{{SHA256: "../x"}}}}
	musttest.Refuse(auditParts("", manifest, core.Everything))(t, fault.SegmentDamage, `"../x"`)
}

// A segment that several units could not read is one finding.
func TestDamageThatManyUnitsMeetIsCountedOnce(t *testing.T) {
	seen, all := map[string]bool{}, audit.Result{}
	for range 3 {
		var one audit.Result
		one.AddFinding(core.Found{Kind: core.DriftSegment, Object: "a"}, false)
		one.AddFinding(core.Found{Kind: core.DriftClass, Object: "c"}, true)
		one.Checked.Classes, one.Unread = 2, true
		all.Merge(newDamage(one, seen))
	}
	want := []core.Drift{{Kind: core.DriftSegment, Found: 1}, {Kind: core.DriftClass, Found: 3, Mended: 3}}
	assert.ElementsMatch(t, want, all.Drift)
	assert.True(t, all.Unread && all.Checked.Classes == 6 && len(all.Findings) == 4, "%+v", all)
}

// Of each content as many moved as left under one key and came under another; what is left over came or went.
func TestWhatAPlanDecidesIsListedWithWhatMoved(t *testing.T) {
	d := newDecisions("b/2.txt")
	defer d.close()
	one, two := core.Sum("one"), core.Sum("two")
	for _, seen := range []plan.Decision{
		{Key: "a/1.txt", Reason: plan.DecidedRemoved, Was: one, Chunks: 3},
		{Key: "a/2.txt", Reason: plan.DecidedRemoved, Was: two, Chunks: 5}, {Key: "b/1.txt", Reason: plan.DecidedAdded, Version: one},
		{Key: "b/2.txt", Reason: plan.DecidedAdded, Version: one, Made: true}, {Key: "b/3.txt", Reason: plan.DecidedSame, Version: one},
		{Key: "c.txt", Reason: plan.DecidedChanged, Made: true, Version: two, Was: one},
	} {
		d.addDecision(seen)
	}
	require.NoError(t, d.matchMoves())
	var got []string
	for _, one := range musttest.Get(d.listPlanned())(t) {
		got = append(got, fmt.Sprint(one.Document, " ", one.Reason, " ", one.Version != ""))
	}
	assert.Equal(t, []string{"a/2.txt removed false", "b/1.txt moved true", "b/2.txt added true", "c.txt changed true"}, got)
	assert.ElementsMatch(t, []core.Share{{Reason: "changed", Documents: 1}, {Reason: "moved", Documents: 1},
		{Reason: "added", Documents: 1}, {Reason: "removed", Documents: 1, Chunks: 5}}, d.shares)
	assert.Equal(t, &core.Why{Document: "b/2.txt", Reason: "added", Version: one.String()}, d.asked)
	require.NoError(t, d.walkReasons())
	assert.Equal(t, "moved", d.shares[musttest.Get(d.shareOf("b/1.txt"))(t)].Reason)
	musttest.Refuse(d.shareOf("b/3.txt"))(t, fault.Internal, "b/3.txt")
}

// Nights leave documents to a backfill as soon as it has begun: its other files are there by then. A write that fails
// leaves none that has begun.
func TestABackfillBeginsWithItsLastFile(t *testing.T) {
	broken := errors.New("broken")
	for writes := range 3 {
		store := artifacttest.New()
		store.Fail = func(op artifacttest.Op, _ string) error {
			if op == artifacttest.Put && store.Calls(op) > writes {
				return broken
			}
			return nil
		}
		index := artifact.Index{Store: store, Name: "docs"}
		require.ErrorIs(t, KeepBackfill(t.Context(), index, core.Backfill{Name: "old"}), broken)
		_, err := store.Stat(t.Context(), index.BackfillKey("old", run.BackfillBegun))
		musttest.Code(t, err, fault.NotFound, "%d writes", writes)
	}
}

func TestABackfillThatIsGoneEndsUnlessItHasEnded(t *testing.T) {
	index := artifact.Index{Store: artifacttest.New(), Name: "docs"}
	state := func() (out core.BackfillState) {
		musttest.Get(blob.ReadJSON(t.Context(), index.Store, index.BackfillKey("old", run.BackfillState), &out))(t)
		return out
	}
	begun := time.Now().Add(-time.Hour).UTC()
	require.NoError(t, KeepBackfill(t.Context(), index, core.Backfill{Name: "old", Started: begun}))
	assert.Equal(t, core.StatusRunning, state().Status)
	for _, status := range []string{core.StatusFailed, core.StatusCancelled} {
		require.NoError(t, EndAbsentBackfill(t.Context(), index, "old", status, "the engine lost it"))
		now := state()
		assert.Equal(t, []string{core.StatusFailed, "gone", "the engine lost it"}, []string{now.Status, now.Code, now.Detail})
		assert.True(t, now.Since.After(begun))
	}
	var names []string // the last begun first
	for i, name := range []string{"c", "a"} {
		started := begun.Add(time.Duration(i+1) * time.Minute)
		require.NoError(t, KeepBackfill(t.Context(), index, core.Backfill{Name: name, Started: started}))
	}
	for _, one := range musttest.Get(run.ReadBackfills(t.Context(), index))(t) {
		names = append(names, one.Name)
	}
	assert.Equal(t, []string{"a", "c", "old"}, names)
	musttest.Get(blob.Write(t.Context(), index.Store, index.BackfillKey("old", run.BackfillState), []byte("{"), blob.Cond{}))(t)
	assert.Error(t, EndAbsentBackfill(t.Context(), index, "old", core.StatusFailed, ""), "a damaged state is not replaced")
}

func TestADocumentIsTheSameWhereverItsTextLies(t *testing.T) {
	was := rows.Document{Frame: 1, Chunks: []rows.Place{{ID: core.ID{1}, End: 9}}}
	is := was
	for _, want := range []bool{true, false} {
		is.Frame++
		assert.Equal(t, want, musttest.Get(sameDocument(was.Encode(), is.Encode()))(t))
		is.Chunks = []rows.Place{{ID: core.ID{1}, End: 8}}
	}
	for _, pair := range [][2][]byte{{[]byte("x"), is.Encode()}, {is.Encode(), []byte("x")}} {
		same, err := sameDocument(pair[0], pair[1])
		assert.True(t, err != nil && !same, "%v", err)
	}
	index := artifact.Index{Name: "docs"}
	spec := core.Spec{Aliases: core.SentFile + "b", Gate: core.Gate{Probes: core.SentFile + "a"}}
	assert.Equal(t, []string{index.ProbesKey("a"), index.AliasesKey("b")}, sentFilesOf(index, spec))
	assert.Empty(t, sentFilesOf(index, core.Spec{Aliases: "names.yaml", Gate: core.Gate{Probes: "probes.jsonl"}}))
}
