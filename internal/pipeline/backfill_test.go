package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// filling is the payments of a backfill of a site.
type filling struct {
	*paidSite
	job   run.Job
	index artifact.Index
}

// fills begins a backfill.
func (s *paidSite) fills(t *testing.T, name string, choice core.BackfillChoice) *filling {
	job, _ := s.job(t)
	f := &filling{paidSite: s, job: job, index: artifact.Index{Store: s.blobs, Name: "docs"}}
	f.job.Generation, f.job.Backfill, f.job.Batch = "backfill-"+name+"-1", name, 4
	require.NoError(t, upkeep.KeepBackfill(t.Context(), f.index, core.Backfill{
		Index: "docs", Name: name, Run: "docs/" + f.job.Generation, Choice: choice, Started: time.Now().UTC(),
	}))
	return f
}

// unit does a piece of the payments, as an activity does.
func (f *filling) unit(ctx context.Context, do func(context.Context, *upkeep.Run) error) error {
	work := f.Bare(f.job, "backfill", upkeep.BackfillFolder)
	defer work.Close()
	if err := work.Configure(ctx); err != nil {
		return err
	}
	watched, end := work.Watch(ctx)
	defer end()
	if err := work.CheckControl(watched); err != nil {
		return err
	}
	err := do(watched, work)
	if cause := context.Cause(watched); err != nil && cause != nil {
		err = cause
	}
	return err
}

func (f *filling) open(t *testing.T) (opened upkeep.OpenedBackfill) {
	require.NoError(t, f.unit(t.Context(), func(ctx context.Context, work *upkeep.Run) (err error) {
		opened, err = work.OpenBackfill(ctx)
		return err
	}))
	return opened
}

func noOtherBuild(context.Context) (string, error) { return "", nil }

func (f *filling) pay(ctx context.Context, unit int, going upkeep.Going) error {
	return f.unit(ctx, func(ctx context.Context, work *upkeep.Run) error { return work.PayBackfill(ctx, unit, going) })
}

// publish does the build that publishes the backfill.
func (f *filling) publish(t *testing.T) outcome {
	f.backfill = f.job.Backfill
	defer func() { f.backfill = "" }()
	return f.night(t)
}

func (f *filling) end(t *testing.T, status string) core.Backfill {
	require.NoError(t, f.unit(t.Context(), func(ctx context.Context, work *upkeep.Run) error {
		return work.EndBackfill(ctx, run.Ending{Status: status})
	}))
	return must(run.ReadBackfill(t.Context(), f.index, f.job.Backfill))(t)
}

func (f *filling) state(t *testing.T) core.Backfill {
	return must(run.ReadBackfill(t.Context(), f.index, f.job.Backfill))(t)
}

func archive(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("old/place-%03d.md", i)] = fmt.Sprintf(
			"# Quay %d\n\nThe quay of Old Verin %d was built in 18%02d by Dora Sanz.\n", i, i, i%100)
	}
	return files
}

// A process that is killed in the middle of the payments costs what was in flight; nights leave to the backfill what it
// chose; its build asks for no extraction; and the result is that of a build from nothing.
// Promises: 44.
func TestAKilledBackfillPaysForNothingTwice(t *testing.T) {
	var extracts, kill atomic.Int64
	s := newPaidSite(t, 6, func(s *paidSite, seen modeltest.Seen) modeltest.Injection {
		if seen.Task == "extract" && extracts.Add(1) == kill.Load() {
			s.process().dead.Store(true)
		}
		return modeltest.Injection{}
	})
	first := s.night(t)
	const chosen = 20
	s.write(t, archive(chosen))
	s.write(t, map[string]string{"news.md": "# News\n\nTolmin sells tin.\n"})
	f := s.fills(t, "old", core.BackfillChoice{Prefix: "old/"})
	opened := f.open(t)
	require.True(t, opened.Documents == chosen && opened.Units == 1, "%+v", opened)
	kill.Store(extracts.Load() + 10)
	require.Error(t, f.pay(t.Context(), 0, noOtherBuild), "a killed process paid to the end")
	s.begin()

	night := s.night(t)
	assert.Equal(t, int64(7), night.manifest.Counts.Documents, "a night beside the backfill")
	assert.True(t, s.report(t).LeftOut.Backfills == chosen, "it left out %+v", s.report(t).LeftOut)
	require.NoError(t, f.pay(t.Context(), 0, noOtherBuild))
	now := f.state(t)
	assert.True(t, now.BytesDone == now.Bytes && now.ChunksDone == chosen && now.UnitsDone == 1 &&
		now.Base == first.manifest.Generation, "%+v", now)
	asked := s.server.Stats().Tasks["extract"].Calls
	filled := f.publish(t)
	after := s.server.Stats().Tasks["extract"].Calls
	assert.True(t, after == asked, "the build that publishes it asked for %d extractions", after-asked)
	if twice := s.server.Stats().Duplicates; twice > 4 { // a batch was in flight
		t.Errorf("%d answers were paid for twice", twice)
	}
	assert.Equal(t, int64(7+chosen), filled.manifest.Counts.Documents, "%+v", filled.manifest.Counts)
	f.note(t, filled.manifest.Generation)
	end := f.end(t, core.StatusCompleted)
	assert.True(t, end.Rebased && end.Parent == night.manifest.Generation && end.Generation == filled.manifest.Generation,
		"%+v", end.BackfillState)
	// It is what a build from nothing comes to, and the next night has nothing to do.
	other := newPaidSite(t, 0, calm)
	other.corpus, other.spec.Corpus = s.corpus, s.corpus
	got := other.night(t).manifest
	assert.True(t, got.Hashes.Content == filled.manifest.Hashes.Content, "it is not what a build from nothing comes to")
	next := s.night(t)
	assert.True(t, next.planned.Unchanged, "%+v", next.planned)
}

// note writes down which build publishes it, as its workflow does.
func (f *filling) note(t *testing.T, generation string) {
	require.NoError(t, f.unit(t.Context(), func(ctx context.Context, work *upkeep.Run) error {
		return work.NoteBackfill(ctx, func(state *core.BackfillState) {
			state.Builds = append(state.Builds, core.BackfillBuild{Run: "docs/" + generation})
		})
	}))
}

// What a backfill did not choose stays as it is served, whatever the corpus has by then: changed, removed and new
// documents are the next night's.
// Promises: 44.
func TestABackfillTouchesNothingElse(t *testing.T) {
	s := newPaidSite(t, 6, calm)
	s.night(t)
	s.write(t, archive(3))
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells tin.\n", "place-001.md": "# Other\n\nBern sells salt.\n"})
	s.remove(t, "place-002.md")
	f := s.fills(t, "old", core.BackfillChoice{Documents: []string{"old/place-000.md", "old/place-002.md"}})
	assert.Equal(t, int64(2), f.open(t).Documents)
	filled := f.publish(t)
	served := s.served(t, filled.manifest)
	for key, want := range map[string]bool{
		"old/place-000.md": true, "old/place-001.md": false, "old/place-002.md": true, "new.md": false,
		"place-001.md": true, "place-002.md": true,
	} {
		_, got := served[key]
		assert.True(t, got == want, "%s is served: %v, want %v", key, got, want)
	}
	f.end(t, core.StatusCancelled) // from now on nights bring what it chose
	next := s.night(t)
	assert.True(t, next.manifest.Counts.Documents == 9, "%+v", next.manifest.Counts)
}

// While another build goes on nothing is asked, and it is reported for whom the backfill waits; a pause ends the wait.
// Promises: 44.
func TestABackfillLetsABuildGoFirst(t *testing.T) {
	s := newPaidSite(t, 3, calm)
	s.night(t)
	s.write(t, archive(9))
	f := s.fills(t, "old", core.BackfillChoice{Prefix: "old/"})
	f.open(t)
	before := s.server.Stats().Chat
	looks := 0
	err := f.pay(t.Context(), 0, func(context.Context) (string, error) {
		if looks++; looks == 1 {
			return "docs/night", nil
		}
		if now := f.state(t); now.YieldsTo != "docs/night" || s.server.Stats().Chat != before {
			t.Errorf("%+v, %d calls", now.BackfillProgress, s.server.Stats().Chat-before)
		}
		assert.NoError(t, s.steer(f.job, run.CommandPause, nil))
		return "docs/night", nil
	})
	assert.True(t, fault.Is(err, fault.Paused), "%v", err)
	require.NoError(t, s.steer(f.job, run.CommandResume, nil))
	require.NoError(t, f.pay(t.Context(), 0, noOtherBuild))
	if now := f.state(t); now.YieldsTo != "" || now.ChunksDone != 9 || now.Calls.Extract != 9 || now.Calls.Embed == 0 {
		t.Errorf("%+v", now.BackfillProgress)
	}
}

// Where everything is made again a backfill is refused before it pays for anything: a night has to come first.
// Promises: 44.
func TestABackfillOfAnIndexThatIsMadeAgainIsRefused(t *testing.T) {
	s := newPaidSite(t, 3, calm)
	s.night(t)
	s.write(t, archive(3))
	s.spec.Shortening.Threshold++
	f := s.fills(t, "old", core.BackfillChoice{Prefix: "old/"})
	before := s.server.Stats().Chat
	err := f.unit(t.Context(), func(ctx context.Context, work *upkeep.Run) error {
		_, err := work.OpenBackfill(ctx)
		return err
	})
	assert.True(t, fault.Is(err, fault.PlanMoved) && s.server.Stats().Chat == before,
		"%v, %d calls", err, s.server.Stats().Chat-before)
	refused(run.ReadBackfill(t.Context(), f.index, "other"))(t, fault.NotFound, "", "")
}

func TestBackfillsAreListedTheLastBegunFirst(t *testing.T) {
	s := newSite(t, sample(1))
	all, err := run.ReadBackfills(t.Context(), s.index())
	require.True(t, err == nil && len(all) == 0, "%v %v", all, err)
	begun := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for i, name := range []string{"b", "c", "a"} {
		one := core.Backfill{Name: name, Started: begun.Add(time.Duration(i) * time.Hour)}
		require.NoError(t, upkeep.KeepBackfill(t.Context(), s.index(), one))
	}
	all, err = run.ReadBackfills(t.Context(), s.index())
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	assert.True(t, err == nil && slices.Equal(names, []string{"a", "c", "b"}), "%v %v", names, err)
}

// A backfill that was planned before a purge pays for nothing more, and the purge does not end beside it: once it is
// begun again, it leaves the document out.
func TestABackfillThatWasPlannedBeforeAPurgeStops(t *testing.T) {
	s := newPaidSite(t, 5, calm)
	s.buildFiles(t, map[string]string{"secret.md": secretDocument(0)})
	s.write(t, archive(3))
	s.write(t, map[string]string{"secret.md": secretDocument(1)})
	f := s.fills(t, "old", core.BackfillChoice{Documents: []string{"old/place-000.md", "secret.md"}})
	require.Equal(t, int64(2), f.open(t).Documents)
	purge := s.purge(t, "secret.md")
	s.night(t)
	now := s.purged(t, purge.ID)
	assert.True(t, now.State == core.PurgePending && len(now.Left) != 0 && strings.Contains(now.Left[0], "backfill old"),
		"%+v", now)
	asked := s.server.Stats().Tasks["extract"].Calls
	refuses(t, f.pay(t.Context(), 0, noOtherBuild), fault.PlanMoved, "", "")
	assert.Zero(t, s.server.Stats().Tasks["extract"].Calls-asked)
	f.end(t, core.StatusFailed)
	s.night(t)
	assert.Equal(t, core.PurgeDone, s.purged(t, purge.ID).State)
	assert.Empty(t, s.holding(t, secrets...), "still stored")
}
