package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
	"github.com/unweaver/unweaver/internal/pipeline/unit"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func TestAReportKeepsWhatHappenedAndTheRunLogReadsIt(t *testing.T) {
	s := newSite(t, sample(6))
	job, holder := s.job(t)
	step := func(stage string, do func(ctx context.Context, work *upkeep.Run) error) {
		require.NoError(t, s.unit(t.Context(), job, stage, do))
	}
	step("plan", func(ctx context.Context, work *upkeep.Run) error { return work.BeginStage(ctx, holder, "plan", 1) })
	step("plan", func(ctx context.Context, work *upkeep.Run) error {
		if _, err := work.Plan(ctx); err != nil {
			return err
		}
		return work.BeginStage(ctx, holder, "chunk", 6)
	})
	source := runlog.Source{Artifacts: s.Artifacts, Runs: s.Coordination}
	live, err := source.Read(t.Context(), "docs", "g001")
	require.True(t, err == nil && live.Documents == 6 && live.Unit == "documents" && live.Stage == "chunk",
		"documents are known while chunks are cut: %+v, %v", live, err)
	pause := run.Ending{Status: core.StatusPaused, Reason: "budget_spent", Detail: "all is spent"}
	for range 2 { // the second is a repeated attempt
		step("end", func(ctx context.Context, work *upkeep.Run) error { return work.End(ctx, holder, pause) })
	}
	step("steer", func(ctx context.Context, work *upkeep.Run) error { return work.ClearPause(ctx) })
	bytes := func() int64 {
		var state core.RunState
		require.NoError(t, json.Unmarshal(must(s.Coordination.ReadState(t.Context(), job.Name()))(t), &state))
		return state.Bytes
	}
	before := bytes()
	step("chunk", func(ctx context.Context, work *upkeep.Run) error { return work.BeginStage(ctx, holder, "chunk", 6) })
	assert.True(t, before > 0 && bytes() == before, "a stage that begins again has as much to do: %d, %d", before, bytes())
	step("chunk", func(ctx context.Context, work *upkeep.Run) error {
		work.ShowProblem(ctx, "chunk/1", core.Problem{Code: "store_unavailable", Object: "chunk", Detail: "no answer"})
		work.Progress.SetDone(2)
		return work.Flush(ctx)
	})
	step("end", func(ctx context.Context, work *upkeep.Run) error {
		return work.End(ctx, holder, run.Ending{Status: core.StatusCancelled, Reason: "cancelled"})
	})
	over := must(source.Read(t.Context(), "docs", "g001"))(t)
	var kinds []string
	for _, event := range over.Events {
		kinds = append(kinds, event.Kind+" "+event.Stage+event.Code)
	}
	want := []string{"started ", "stage plan", "stage chunk", "paused chunkbudget_spent", "resumed ", "ended cancelled"}
	require.Len(t, kinds, len(want), "%q, want %q", kinds, want)
	for i := range want {
		assert.Equal(t, want[i], kinds[i], "event %d", i)
	}
	if last := over.Stages[len(over.Stages)-1]; last.Name != "chunk" || last.Done == last.Total || last.Total != 6 {
		t.Errorf("a cancelled stage is not done: %+v", last)
	}
	assert.True(t, len(over.Retries) == 1 && over.Retries[0].Code == "store_unavailable" && over.Version != "",
		"retries %+v, version %q", over.Retries, over.Version)
	runs, err := source.List(t.Context(), "docs", 0)
	assert.True(t, err == nil && len(runs) == 1 && runs[0].Status == core.StatusCancelled, "%+v, %v", runs, err)
}

func TestACardShowsWhatIsServedAndTheRunThatEndedLast(t *testing.T) {
	s := builtSite(t, sample(6))
	s.night(t) // unchanged
	source := runlog.Source{Artifacts: s.Artifacts, Runs: s.Coordination}
	cards, err := source.ListCards(t.Context())
	require.True(t, err == nil && len(cards) == 1, "%+v, %v", cards, err)
	card := cards[0]
	assert.True(t, card.State == runlog.StatePublished && card.Documents == 6 && card.Bytes != 0 &&
		card.Generation == "g001" && card.Published != nil && card.LastRun != nil && card.LastRun.Run == "docs/g002" &&
		card.LastRun.Unchanged, "%+v", card)
	runs, err := source.List(t.Context(), "docs", 1)
	assert.True(t, err == nil && len(runs) == 1 && runs[0].Run == "docs/g002", "the newest run: %+v, %v", runs, err)
}

// What a night came to outlives its generation, in one small file.
func TestNightsAreKeptThoughTheirGenerationsAreCollected(t *testing.T) {
	s := newSite(t, sample(6))
	s.spec.Keep = 1
	s.night(t)
	s.buildFiles(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	s.night(t)
	key := s.index().NightsKey()
	var nights core.Nights
	must(blob.ReadJSON(t.Context(), s.Artifacts, key, &nights))(t)
	require.Len(t, nights.Nights, 3, "%+v", nights)
	first, second, third := nights.Nights[0], nights.Nights[1], nights.Nights[2]
	assert.True(t, first.Changed == 6 && first.Share == 1 && first.Bytes > 0 && first.Published, "the first: %+v", first)
	assert.True(t, second.Changed == 1 && second.Documents == 7 && second.Bytes > 0 && second.Bytes < first.Bytes,
		"the second: %+v", second)
	assert.True(t, third.Unchanged && third.Changed == 0 && third.Bytes == 0, "an unchanged one: %+v", third)
	must(blob.Write(t.Context(), s.Artifacts, key, []byte("{"), blob.Cond{}))(t)
	s.night(t)
	nights = core.Nights{}
	_, err := blob.ReadJSON(t.Context(), s.Artifacts, key, &nights)
	assert.True(t, err == nil && len(nights.Nights) == 1, "after damage: %+v, %v", nights, err)
}

// What renews the lease notes how far the run is; many processes note as much as one does.
func TestTheCourseOfALongRunIsNotedOnceByAllProcesses(t *testing.T) {
	s := newSite(t, sample(1))
	job, _ := s.begin(t)
	synctest.Test(t, func(t *testing.T) {
		holder := run.Holder{Workflow: job.Holder.Workflow, Run: "run"}
		var runs []*upkeep.Run
		for range 3 {
			other := portsOfAnother(s.Ports) // another process
			work := upkeep.OpenBare(other, job, core.StageExtract, "")
			defer work.Close()
			runs = append(runs, work)
		}
		require.NoError(t, runs[0].BeginStage(t.Context(), holder, core.StageExtract, 1000))
		const minutes = 4
		for second := range minutes * 60 {
			if second%10 == 0 {
				runs[0].Progress.SetDone(int64(second))
				require.NoError(t, runs[0].Flush(t.Context()))
			}
			for _, work := range runs {
				require.NoError(t, work.Renew(t.Context()))
			}
			time.Sleep(time.Second)
		}
		noted := must(s.Coordination.ReadProgress(t.Context(), job.Name()))(t)
		var course []core.Moment
		require.NoError(t, json.Unmarshal(noted["run"], &course))
		if least, most := minutes*60/20, minutes*60/5; len(course) < least || len(course) > most {
			t.Errorf("%d moments in %d minutes, want %d to %d", len(course), minutes, least, most)
		}
		for i := 1; i < len(course); i++ {
			require.True(t, course[i].Seconds-course[i-1].Seconds >= 5 && course[i].Share >= course[i-1].Share,
				"moments %+v and %+v", course[i-1], course[i])
		}
		require.NoError(t, runs[0].WriteReport(t.Context(), holder, run.Ending{Status: core.StatusPaused}))
		state, err := run.ReadState(context.Background(), s.Coordination, job.Name())
		assert.True(t, err == nil && len(state.Report.Course) >= len(course),
			"the report of a pause has %d moments: %v", len(state.Report.Course), err)
	})
}

func (s *site) difference(t *testing.T, from, to string) core.Difference {
	cache := must(localfile.New(t.TempDir(), 0))(t)
	return must(release.CompareGenerations(t.Context(), cache, s.index(), from, to))(t)
}

func listed(changes []core.Change, kind string) (out []string) {
	for _, change := range changes {
		if change.Change == kind {
			out = append(out, strings.TrimSuffix(change.Object+" < "+change.From, " < "))
		}
	}
	return out
}

// Promises: 37.
func TestADifferenceNamesWhatChanged(t *testing.T) {
	s := newSite(t, sample(20))
	s.write(t, map[string]string{"empty.md": "", "gone.md": ""}) // these are no documents
	first := s.night(t).manifest
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "gone.md")))
	for i := range 2 { // moved
		old := filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", i))
		require.NoError(t, os.Rename(old, filepath.Join(s.corpus, fmt.Sprintf("moved-%03d.md", i))))
	}
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-002.md")))
	second := s.buildFiles(t, map[string]string{
		"place-003.md": "# Harbour 3\n\nThe harbour of Port Alma 3 was closed by Ivo Kralj.\n",
		"new.md":       "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n",
	}).manifest
	_, err := blob.WriteJSON(t.Context(), s.Artifacts, s.index().GenerationKey("g002", "report.json"), core.Report{
		Status: core.StatusCompleted, Tokens: core.Tokens{Embedding: 284}, Cost: 0.25, // probes, behind the manifest
	}, blob.Cond{})
	require.NoError(t, err)
	got := s.difference(t, "", "")
	assert.Equal(t, 0.25, got.To.Cost)
	assert.EqualValues(t, 284, got.To.Tokens.Sum())
	require.True(t, got.From.Generation == "g001" && got.To.Generation == "g002" && got.To.State == "current" &&
		got.To.Counts == second.Counts, "%+v", got)
	d := got.Documents
	assert.True(t, d.Added == 1 && d.Changed == 1 && d.Moved == 2 && d.Removed == 1, "documents: %+v", d)
	for kind, want := range map[string]string{
		"added": "new.md", "changed": "place-003.md", "removed": "place-002.md",
		"moved": "moved-000.md < place-000.md,moved-001.md < place-001.md",
	} {
		assert.Equal(t, want, strings.Join(listed(d.Listed, kind), ","), "%s", kind)
	}
	assert.True(t, got.Chunks.Added-got.Chunks.Removed == second.Counts.Chunks-first.Counts.Chunks &&
		got.Chunks.Added == 4, "chunks: %+v", got.Chunks)
	c := got.Classes
	assert.True(t, c.Born != 0 && c.Died != 0 && c.Changed != 0 &&
		c.Born-c.Died == second.Counts.Classes-first.Counts.Classes, "classes: %+v", c)
	assert.True(t, slices.Contains(listed(c.Listed, "born"), "Tolmin"), "born: %v", listed(c.Listed, "born"))
	back := s.difference(t, "g002", "g001")
	assert.True(t, back.Documents.Added == 1 && back.Documents.Removed == 1 && back.Classes.Born == c.Died &&
		back.Classes.Changed == c.Changed, "backwards: %+v", back)
	if same := s.difference(t, "g002", "g002"); same.Documents.Added+same.Documents.Changed+same.Documents.Removed+
		same.Classes.Born+same.Classes.Changed+same.Classes.Died+same.Chunks.Added+same.Chunks.Removed != 0 {
		t.Errorf("with itself: %+v", same)
	}
}

// Whatever nights did to the files, splits and runs that were merged among it, the difference is that of the corpora;
// and what both have is not read.
// Promises: 37.
func TestADifferenceOverNightsIsThatOfTheCorpora(t *testing.T) {
	s := newSite(t, sample(40))
	s.spec.Keep = 99
	s.night(t)
	for night := range 12 {
		out := s.buildFiles(t, map[string]string{
			fmt.Sprintf("place-%03d.md", night): fmt.Sprintf("# Harbour %d\n\nPort Alma %d trades tin.\n", night, night),
		})
		require.True(t, out.published.Status == core.StatusCompleted, "%+v", out.published)
	}
	d := s.difference(t, "g001", "").Documents
	assert.True(t, d.Changed == 12 && d.Added+d.Removed+d.Moved == 0, "of twelve nights: %+v", d)
	for night := 2; night <= 13; night++ {
		from, to := fmt.Sprintf("g%03d", night-1), fmt.Sprintf("g%03d", night)
		if d := s.difference(t, from, to); d.Documents.Changed != 1 || d.Documents.Added+d.Documents.Removed != 0 ||
			d.Chunks.Added != 1 || d.Chunks.Removed != 1 {
			t.Errorf("%s to %s: %+v, %+v", from, to, d.Documents, d.Chunks)
		}
	}
	refs := s.references(t)
	one := must(s.index().Manifest(t.Context(), refs["g012"].Manifest))(t)
	other := must(s.index().Manifest(t.Context(), refs["g013"].Manifest))(t)
	apart := segments.DiffSegments(other.Segments, one.Segments)
	assert.True(t, len(apart.Splits) < len(other.Segments.Splits) || len(other.Segments.Splits) <= 2,
		"%d of %d splits are opened", len(apart.Splits), len(other.Segments.Splits))
	// Documents segments of splits that both have can be gone: they are not read.
	parts := map[string]bool{}
	for _, split := range apart.Splits {
		for _, segment := range other.Segments.Documents {
			parts[segment.SHA256] = parts[segment.SHA256] || segment.Part >= split.Text && segment.Part < split.Text+split.Texts
		}
	}
	removed := 0
	for sha, needed := range parts {
		if needed {
			continue
		}
		removed++
		require.NoError(t, s.Artifacts.(*blobmemory.Store).Delete(t.Context(), s.index().SegmentKey(sha)))
	}
	assert.True(t, removed != 0, "the two share no split: this shows nothing")
	assert.EqualValues(t, 1, s.difference(t, "g012", "g013").Documents.Changed)
}

func TestADifferenceWithWhatIsNotThere(t *testing.T) {
	s := newSite(t, sample(4))
	cache := must(localfile.New(t.TempDir(), 0))(t)
	ask := func(from, to string) error {
		_, err := release.CompareGenerations(t.Context(), cache, s.index(), from, to)
		return err
	}
	refuses(t, ask("", ""), fault.UnknownGen, "", "of nothing")
	s.night(t)
	if err := ask("", ""); !fault.Is(err, fault.UnknownGen) || !strings.Contains(err.Error(), "no parent to compare") {
		t.Errorf("of the first: %v", err)
	}
	if err := ask("g001", "g077"); !fault.Is(err, fault.UnknownGen) || !strings.Contains(err.Error(), "g077") {
		t.Errorf("of one that never was: %v", err)
	}
	held := s.held(t)
	got := s.difference(t, "", held)
	assert.True(t, got.From.Generation == "g001" && got.To.State == core.GenerationHeld && got.To.Counts.Failed == 20,
		"a held one: %+v", got)
}

func (s *site) estimating() upkeep.Estimating {
	return upkeep.Estimating{
		Artifacts: s.Artifacts, Corpora: s.Corpora, StoreID: s.StoreID, Settings: s.spec, Listed: true,
		Models: func(spec core.Spec) (model.Set, error) { return s.Models(spec, nil) },
		Folder: func(path string) (blob.Store, error) { return dir.Open(path) },
		Runs:   func(string) (coordination.Store, error) { return coordinationmemory.New(), nil },
		Parser: s.Parser, Limits: s.Limits,
	}
}

func estimated(t *testing.T, in upkeep.Estimating) core.Estimated {
	return must(upkeep.EstimateBuild(t.Context(), in))(t)
}

// parsed counts the documents that are parsed.
type parsed struct {
	document.Parser
	count *atomic.Int64
}

func (p parsed) Parse(ctx context.Context, reader io.Reader, kind document.Kind, object string) (document.Doc, error) {
	p.count.Add(1)
	return p.Parser.Parse(ctx, reader, kind, object)
}

func shares(report core.Estimated) map[string]int64 {
	out := map[string]int64{}
	for _, share := range report.Shares {
		out[share.Reason] = share.Documents
	}
	return out
}

// Documents that did not change are neither parsed nor cut, and what would be made is reported by its reason.
func TestAnEstimateParsesWhatChangedAloneAndTellsWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(30))
	first := estimated(t, s.estimating())
	if got := fmt.Sprint(shares(first)); got != "map[added:30]" || first.Shares[0].Chunks != first.Chunks {
		t.Errorf("a first build: %s of %d chunks, %+v", got, first.Chunks, first.Shares)
	}
	was := s.night(t)
	reported := core.Report{ // stages of a night in a test are not timed
		Status: core.StatusCompleted, Diff: core.Diff{Added: 30},
		Stages: []core.StageProgress{{Name: core.StageChunk, Seconds: 10}},
	}
	key := artifact.Index{Store: s.Artifacts, Name: "docs"}.GenerationKey(was.manifest.Generation, "report.json")
	must(blob.WriteJSON(t.Context(), s.Artifacts, key, reported, blob.Cond{}))(t)
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells tin.\n",
		"place-003.md": "# Other\n\nBern sells salt.\n"})
	for _, change := range []error{
		os.Rename(filepath.Join(s.corpus, "place-004.md"), filepath.Join(s.corpus, "renamed.md")),
		os.Remove(filepath.Join(s.corpus, "place-005.md")),
	} {
		require.NoError(t, change)
	}
	in := s.estimating()
	var count atomic.Int64
	in.Parser, in.Why = parsed{in.Parser, &count}, "renamed.md"
	report := estimated(t, in)
	assert.Equal(t, "map[added:1 changed:1 moved:1 removed:1]", fmt.Sprint(shares(report)))
	assert.Equal(t, int64(3), count.Load())
	assert.True(t, report.Why != nil && report.Why.Reason == "moved" && report.Why.Chunks != 0 && report.Why.Version != "",
		"why: %+v", report.Why)
	assert.False(t, report.Estimate.Runs != 1 || report.Estimate.Seconds.High < 10,
		"not by the run before: %+v", report.Estimate)
	night := s.night(t)
	assert.True(t, report.Chunks == night.manifest.Counts.Chunks && report.Documents == night.manifest.Counts.Documents,
		"expected %d chunks of %d documents, came %+v", report.Chunks, report.Documents, night.manifest.Counts)
	assert.True(t, report.Plan.Manifest != "" && len(report.Plan.Documents) == 4 &&
		report.Plan.Parent == was.manifest.Generation, "plan: %+v", report.Plan)
}

func TestAnEstimateSaysWhichSettingHasAllMadeAgain(t *testing.T) {
	t.Parallel()
	s := builtSite(t, sample(5))
	s.spec.Chunking.MaxTokens = 700
	in := s.estimating()
	in.Why = "place-001.md"
	report := estimated(t, in)
	got := fmt.Sprint(shares(report))
	assert.True(t, got == "map[config: chunking:5]" && report.Why.Reason == "config: chunking", "%s, %+v", got, report.Why)
	in.Why = "nowhere.md"
	refused(upkeep.EstimateBuild(t.Context(), in))(t, fault.NotFound, "nowhere.md", "a document that is not there")
}

// A plan says what has moved since: listing, parent, configuration.
func TestAPlanTellsWhatHasMovedSince(t *testing.T) {
	t.Parallel()
	s := builtSite(t, sample(6))
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells tin.\n"})
	plan := estimated(t, s.estimating()).Plan
	again := func() []string {
		in := s.estimating()
		in.Unpriced = true
		return plan.ListDifferences(*estimated(t, in).Plan)
	}
	require.Empty(t, again(), "nothing moved")
	s.write(t, map[string]string{"new.md": "# New\n\nTolmin sells iron.\n",
		"place-001.md": "# Other\n\nBern sells salt.\n"})
	want := []string{"new.md: other bytes", "place-001.md: changed, was as the parent has it"}
	assert.Equal(t, want, again(), "the listing")
	s.night(t)
	moved := again()
	assert.True(t, len(moved) == 2 && strings.HasPrefix(moved[0], "parent: generation ") &&
		moved[1] == "new.md: as the parent has it, was added", "the parent: %q", moved)
	s.spec.Chunking.MaxTokens = 700
	if moved := again(); !slices.Contains(moved, "indexes.docs.chunking.max_tokens: 700, was 1500") {
		t.Errorf("the configuration: %q", moved)
	}
}

// What a plan expects of a build stands in its report.
func TestAReportTellsWhatWasExpected(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(4))
	job, holder := s.leased(t)
	expected := core.Estimate{Extract: core.Range{Low: 3, High: 7}}
	require.NoError(t, unit.WriteExpected(t.Context(), s.index(), job.Generation, expected))
	out := must(s.stages(t.Context(), job, holder))(t)
	require.NoError(t, s.finish(t.Context(), job, holder, run.Ending{Status: out.published.Status}))
	assert.Equal(t, &expected, s.report(t).Planned)
}

// Extraction in batches costs at least their share of the price, and at most what it costs online, where late requests
// go.
func TestAnEstimateOfBatchesTellsTheirPrice(t *testing.T) {
	s := newSite(t, sample(6))
	s.Models = (&shop{sold: map[string]int{}}).models
	s.spec.Chat = core.ChatModel{
		Provider: "openai", BaseURL: "http://127.0.0.1:1/v1", Model: "small",
		Price: core.Price{Prompt: 1000, Completion: 4000},
	}
	online := estimated(t, s.estimating()).Estimate
	s.spec.Chat.Batch = core.BatchMode{Deadline: core.Duration(time.Hour), PricedAt: 0.25}
	batched := estimated(t, s.estimating()).Estimate
	require.False(t, online.Extract.Low == 0 || online.Shorten.Low > 0 || online.Cost.Low == 0, "%+v", online)
	assert.False(t, math.Abs(batched.Cost.Low-online.Cost.Low/4) > 1e-9 || batched.Cost.High != online.Cost.High,
		"%+v, online %+v", batched.Cost, online.Cost)
	assert.True(t, batched.Tokens == online.Tokens && batched.Extract == online.Extract,
		"%+v, online %+v", batched, online)
}

// counting is an embedder that counts what it is asked.
type counting struct {
	model.Embedder
	identity string
	calls    *atomic.Int64
}

func (c counting) Info() model.Info {
	return model.Info{Provider: "openai", Model: c.identity, Paid: true}
}

func (c counting) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	c.calls.Add(1)
	return c.Embedder.Embed(ctx, texts)
}

// What is embedded again for another embedder, for other texts of entities, or for another identity of the same model
// is counted, and what was paid for once is not.
func TestAnEstimateCountsWhatIsEmbeddedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(40))
	var calls atomic.Int64
	sold, weights := &shop{sold: map[string]int{}}, ""
	s.Models = func(spec core.Spec, _ model.Meter) (model.Set, error) {
		embedder := counting{&stagetest.Embedder{Dim: spec.Embedding.Dimension}, spec.Embedding.Model + weights, &calls}
		return model.Set{Chat: shopChat{sold, spec.Chat.Model}, Classes: embedder, Chunks: embedder}, nil
	}
	s.spec.Chat.Provider, s.spec.Chat.Model = "openai", "c1"
	s.spec.Embedding = core.EmbedModel{Provider: "openai", Model: "a", Dimension: 8}
	for _, change := range []struct {
		name string
		do   func()
		paid bool // surely
	}{
		{"a first build", func() {}, true},
		{"nothing", func() {}, false},
		{"another model", func() { s.spec.Embedding.Model = "b" }, true},
		{"another dimension", func() { s.spec.Embedding.Dimension = 16 }, true},
		{"a shorter input", func() { s.spec.Embedding.MaxInputTokens = 8 }, true},
		{"other weights", func() { weights = " weights/2" }, true},
		{"what was paid for before", func() {
			s.spec.Embedding, weights = core.EmbedModel{Provider: "openai", Model: "a", Dimension: 8}, ""
		}, false},
		{"another chat model", func() { s.spec.Chat.Model = "c2" }, false},
		{"other short texts", func() { s.spec.Shortening.Threshold = 30 }, false},
	} {
		change.do()
		expected := estimated(t, s.estimating()).Estimate.Embed
		calls.Store(0)
		s.night(t)
		came := float64(calls.Load())
		assert.True(t, expected.Low <= came && came <= expected.High && (expected.Low > 0) == change.paid,
			"%s: expected %+v, came %v", change.name, expected, came)
	}
}

// What cannot be read is reported by an estimate as the build reports it.
func TestAnEstimateNamesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(2))
	s.write(t, map[string]string{"blank.txt": " \n", "cut.json": `{"text": "Bern`, "cut.pdf": "%PDF-1.7\n"})
	in := s.estimating()
	in.Why = "cut.json"
	report := estimated(t, in)
	assert.True(t, report.DocumentsFailed == 2 && report.DocumentsEmpty == 1 && report.ProblemsTotal == 3 &&
		report.Documents == 2 && len(report.Problems) == 3, "%+v", report.Report)
	assert.Contains(t, report.Why.Detail, "unreadable_document: ")
	s.night(t)
	came := s.report(t)
	for _, problem := range report.Problems {
		assert.Contains(t, came.Problems, problem)
	}
	assert.True(t, came.DocumentsFailed == 2 && came.DocumentsEmpty == 1 && came.ProblemsTotal == 3, "%+v", came)
	again := estimated(t, s.estimating())
	assert.True(t, again.DocumentsFailed == 2 && again.DocumentsEmpty == 1 && again.Unchanged, "%+v", again.Report)
}
