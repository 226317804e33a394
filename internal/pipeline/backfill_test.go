package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	shown "github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
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

// As many calls as were paid for last as long as the throttle says.
func TestABackfillCallsNoFasterThanItsThrottle(t *testing.T) {
	s := newPaidSite(t, 3, calm)
	s.night(t)
	s.write(t, archive(9))
	f := s.fills(t, "old", core.BackfillChoice{Prefix: "old/"})
	begun := f.state(t)
	begun.Throttle.CallsPerMinute = 1200
	require.NoError(t, upkeep.KeepBackfill(t.Context(), f.index, begun))
	f.open(t)
	damages["cut"](t, f.index.Store, f.index.BackfillKey(f.job.Backfill, run.BackfillPaid))
	f.open(t) // as after an attempt that left its record damaged
	start := time.Now()
	require.NoError(t, f.pay(t.Context(), 0, noOtherBuild))
	calls := f.state(t).Calls.Sum()
	assert.Greater(t, calls, int64(9))
	assert.GreaterOrEqual(t, time.Since(start), time.Duration(calls)*50*time.Millisecond, "%d calls", calls)
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

// lettersSite has a model that answers nothing about two of its documents until it gets better.
func lettersSite(t *testing.T, better *atomic.Bool) *paidSite {
	s := newPaidSite(t, 8, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
		bad := strings.Contains(seen.Text, "Port Alma 2 was") || strings.Contains(seen.Text, "Port Alma 5 was")
		if seen.Task == "extract" && bad && !better.Load() {
			return modeltest.Injection{Content: "Sorry,\nno entities."}
		}
		return modeltest.Injection{}
	})
	s.spec.Failures.Share = 0.9
	return s
}

func (s *paidSite) letters(t *testing.T, generation string) []core.Letter {
	return must(run.ReadLetters(t.Context(), artifact.Index{Store: s.Artifacts, Name: "docs"}, generation))(t)
}

// A round of retry-failed asks for what failed and for nothing else, whatever the corpus has by then; a model that got
// better empties the list, and one that did not leaves it with one attempt more. Under parity a chunk that failed has
// no mention by which it could be counted.
func TestARetryAsksForWhatFailedAloneAndABetterModelEmptiesTheList(t *testing.T) {
	for _, parity := range []bool{false, true} {
		t.Run(fmt.Sprintf("parity %v", parity), func(t *testing.T) { retryLetters(t, parity) })
	}
}

func retryLetters(t *testing.T, parity bool) {
	var better atomic.Bool
	s := lettersSite(t, &better)
	s.spec.Parity = parity
	first := s.night(t)
	letters := s.letters(t, first.manifest.Generation)
	require.True(t, len(letters) == 2 && letters[0].Document == "place-002.md" && letters[0].Kind == core.LetterContent &&
		letters[0].Attempts == 1 && strings.Contains(letters[0].Raw, "Sorry"), "%+v", letters)
	// What changes in the corpus meanwhile waits for the next night.
	s.write(t, map[string]string{
		"new.md": "# New\n\nTolmin sells tin.\n", "place-001.md": "# Other\n\nBern sells salt.\n",
	})
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-003.md")))
	for round := 1; round <= 2; round++ {
		s.attempt = round
		before := s.server.Stats().Tasks["extract"].Calls
		again := s.night(t)
		letters = s.letters(t, again.manifest.Generation)
		require.True(t, len(letters) == 2 && letters[0].Attempts == round+1 && again.manifest.Counts.DeadLetters == 2,
			"round %d of a model that is as it was: %+v", round, letters)
		if asked := s.server.Stats().Tasks["extract"].Calls - before; asked < 2 || asked > 16 { // until it is sure to be the chunks
			t.Errorf("round %d asked %d times for two chunks", round, asked)
		}
	}
	better.Store(true)
	asked := s.server.Stats().Tasks["extract"].Calls
	s.attempt = 3
	done := s.night(t)
	assert.True(t, done.published.Status == core.StatusCompleted && done.manifest.Counts.DeadLetters == 0 &&
		len(s.letters(t, done.manifest.Generation)) == 0, "%+v, %+v", done.published, done.manifest.Counts)
	assert.Equal(t, int64(2), s.server.Stats().Tasks["extract"].Calls-asked)
	assert.True(t, done.manifest.Counts.Documents == first.manifest.Counts.Documents && done.planned.Documents == 2,
		"%d documents were made; %+v, was %+v", done.planned.Documents, done.manifest.Counts, first.manifest.Counts)
	s.attempt = 0
	night := s.night(t) // which takes in what the corpus has by now
	assert.True(t, night.planned.Documents == 2 && night.manifest.Counts.Documents == 8 &&
		night.manifest.Counts.DeadLetters == 0, "%+v, %+v", night.planned, night.manifest.Counts)
	// What came of it is what a build from nothing comes to.
	fresh := newPaidSite(t, 0, calm)
	fresh.corpus, fresh.spec.Corpus, fresh.spec.Parity = s.corpus, s.corpus, parity
	if built := fresh.night(t); built.manifest.Hashes.Content != night.manifest.Hashes.Content {
		t.Errorf("content hash %s, from nothing %s", night.manifest.Hashes.Content.Digest().Short(12), built.manifest.Hashes.Content.Digest().Short(12))
	}
}

// One letter is asked for again by itself; a discarded one is asked for by its name alone.
func TestALetterIsShownReplayedAndDiscardedByItsChunk(t *testing.T) {
	var better atomic.Bool
	s := lettersSite(t, &better)
	first := s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	letters := s.letters(t, first.manifest.Generation)
	shown := musttest.Get(run.FindLetter(t.Context(), index, first.manifest, letters[1].Chunk))(t)
	assert.True(t, strings.Contains(shown.Text, "The harbour of Port Alma 5 was built"), "%+v", shown)
	for _, unknown := range []string{strings.Repeat("0", 32), "../../current", ""} {
		_, err := run.FindLetter(t.Context(), index, first.manifest, unknown)
		assert.True(t, fault.Is(err, fault.NotFound), "%q: %v", unknown, err)
	}
	generation := first.manifest.Generation
	err := run.DiscardLetters(t.Context(), index, generation, []string{letters[0].Chunk, strings.Repeat("0", 32)}, "why")
	assert.True(t, fault.Is(err, fault.NotFound) && s.letters(t, generation)[0].Discarded == nil,
		"one of two is unknown: %v", err)
	require.NoError(t, run.DiscardLetters(t.Context(), index, generation, []string{letters[0].Chunk}, "a table"))
	better.Store(true)
	s.attempt = 1
	night := s.night(t)
	left := s.letters(t, night.manifest.Generation)
	require.True(t, len(left) == 1 && left[0].Discarded != nil && left[0].Discarded.Why == "a table",
		"after a round for all: %+v", left)
	s.attempt = 2
	next := "g003"
	require.NoError(t, run.ChooseLetters(t.Context(), index, next, []string{left[0].Chunk}))
	if named := s.night(t); named.manifest.Generation != next || len(s.letters(t, next)) != 0 {
		t.Errorf("asked for by its name: %s, %+v", named.manifest.Generation, s.letters(t, next))
	}
}

// A letter that a purge takes while somebody discards it does not come back: it holds what the model answered.
func TestALetterThatWentIsNotWrittenAgainByADiscard(t *testing.T) {
	var better atomic.Bool
	s := lettersSite(t, &better)
	generation := s.night(t).manifest.Generation
	letters := s.letters(t, generation)
	twice := []string{letters[0].Chunk, letters[0].Chunk}
	vanishing := &stagetest.Tampered{Store: s.Artifacts, OnPut: func(key string) error {
		return s.Artifacts.Delete(t.Context(), key) // at the moment in which it is written
	}}
	index := artifact.Index{Store: vanishing, Name: "docs"}
	refuses(t, run.DiscardLetters(t.Context(), index, generation, twice, "why"), fault.GenBusy, "", "")
	left := s.letters(t, generation)
	assert.True(t, len(left) == len(letters)-1, "%d of %d letters are left", len(left), len(letters))
	twice = []string{letters[1].Chunk, letters[1].Chunk}
	assert.NoError(t, run.DiscardLetters(t.Context(), s.index(), generation, twice, "why"), "named twice")
}

// One chunk of a small corpus that a model cannot extract from does not hold the first build; the report names the
// file, the chunk and the cause, that night and as long as it stands.
// Promises: 68.
func TestAFailedChunkIsNamedWithItsFileAndItsCauseAndHoldsNoFirstBuild(t *testing.T) {
	s := newPaidSite(t, 4, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
		if seen.Task == "extract" && strings.Contains(seen.Text, "Port Alma 2 was") {
			return modeltest.Injection{Content: "Sorry,\nno entities."}
		}
		return modeltest.Injection{}
	})
	first := s.night(t)
	require.True(t, first.published.Status == core.StatusErrors && first.manifest.Counts.DeadLetters == 1,
		"%+v, %+v", first.published, first.manifest.Counts)
	named := func(when string) {
		report := s.report(t)
		require.True(t, report.ChunksFailed == 1 && report.ProblemsTotal == 1 && len(report.Problems) == 1,
			"%s: %+v", when, report)
		problem := report.Problems[0]
		assert.True(t, problem.Code == string(fault.BadOutput) && problem.Object == "place-002.md" &&
			strings.Contains(problem.Detail, "passage 0 (") && strings.Contains(problem.Detail, "Sorry, no entities."),
			"%s: %+v", when, problem)
		assert.Contains(t, shown.RenderMarkdown(report), "| place-002.md | nothing was extracted from passage 0 (", "%s", when)
	}
	named("the first night")
	calls := s.server.Stats().Tasks["extract"].Calls // the bad chunk is asked for until it is sure to be the chunk
	again := s.night(t)
	assert.True(t, again.planned.Unchanged && again.planned.Status == core.StatusErrors, "%+v", again.planned)
	named("an unchanged night")
	s.buildFiles(t, map[string]string{"more.md": "# More\n\nTin of Lake Verin.\n"})
	named("a night with something else new")
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-002.md")))
	s.night(t)
	report := s.report(t)
	assert.True(t, report.ChunksFailed == 0 && len(report.Problems) == 0, "when its file is gone: %+v", report)
	if extracted := s.server.Stats().Tasks["extract"].Calls; extracted != calls+1 {
		t.Errorf("%d extractions after %d of the first night, and one of a new file", extracted, calls)
	}
}

// A server that is set up wrongly pauses a run as soon as the first chunks are there, and has been asked for little;
// what was asked for is one of the calls that the build needs anyway, beside one short embedding.
// Promises: 67.
func TestModelsAreAskedForLittleBeforeTheWorkBegins(t *testing.T) {
	for name, c := range map[string]struct {
		refuses string // task
		with    modeltest.Injection
		code    fault.Code
		paid    int64
	}{
		"the key of the chat model":      {"extract", modeltest.Injection{Status: 401}, fault.ModelAuth, 0},
		"the key of the embedding model": {"embed", modeltest.Injection{Status: 401}, fault.ModelAuth, 1},
		"another chat model":             {"extract", modeltest.Injection{Status: 404}, fault.ModelUnknown, 0},
		"no model server":                {"extract", modeltest.Injection{Body: "<h1>Hello</h1>"}, fault.ModelUnreadable, 4},
		"prose":                          {"extract", modeltest.Injection{Content: "I am a teapot."}, fault.ModelRefused, 3},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := true
			s := newPaidSite(t, 30, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
				if wrong && seen.Task == c.refuses {
					return c.with
				}
				return modeltest.Injection{}
			})
			job, holder := s.start(t)
			_, err := s.stages(t.Context(), job, holder)
			require.True(t, fault.Is(err, c.code), "%v, want %s", err, c.code)
			stats := s.server.Stats()
			assert.True(t, stats.Chat+stats.Embed == c.paid && stats.Started <= 6,
				"%d requests, %d of them paid, want %d", stats.Started, stats.Chat+stats.Embed, c.paid)
			wrong = false
			out := musttest.Get(s.stages(t.Context(), job, holder))(t)
			require.True(t, out.published.Status == core.StatusCompleted, "when it is mended: %+v", out.published)
			report := s.end(t, job, holder, run.Ending{Status: out.published.Status})
			useless := stats.Tasks["extract"].Calls - stats.Duplicates
			if c.refuses == "embed" {
				useless = 0
			}
			assert.True(t, report.Calls.Extract == 30+useless && report.LedgerHits.Extract == 0,
				"calls %+v for 30 chunks and %d of no use, hits %+v", report.Calls, useless, report.LedgerHits)
			if now := s.server.Stats(); now.EmbedTwice != 0 || now.Duplicates != 0 {
				t.Errorf("%d texts and %d answers were paid twice", now.EmbedTwice, now.Duplicates)
			}
		})
	}
}

// What asks for nothing does not ask whether it could: the server may be away.
// Promises: 67.
func TestANightThatHasEverythingAsksNoModel(t *testing.T) {
	s := newPaidSite(t, 12, calm)
	s.night(t)
	asked := s.server.Stats().Started
	s.night(t) // unchanged
	s.server.Close()
	s.spec.Index = "again" // the same documents
	again := s.night(t)
	if started := s.server.Stats().Started; started != asked || again.published.Status != core.StatusCompleted {
		t.Errorf("%d requests after %d, %+v", started, asked, again.published)
	}
}
