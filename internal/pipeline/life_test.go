package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

func TestANightBuildsWhatChangedAndAnUnchangedOneWritesNothing(t *testing.T) {
	s := newSite(t, sample(12))
	first := s.night(t)
	require.True(t, first.published.Status == core.StatusCompleted && first.manifest.Counts.Documents == 12, "%+v", first)
	report := s.report(t)
	assert.True(t, report.Written.Records != 0 && report.Written.Rows != 0 && report.Status == core.StatusCompleted,
		"the first report: %+v", report)
	again := s.night(t)
	if !again.planned.Unchanged || again.planned.Repair != 0 || again.manifest.Generation != first.manifest.Generation {
		t.Errorf("an unchanged night: %+v", again.planned)
	}
	if report := s.report(t); report.Written != (core.Written{}) || !report.Unchanged || report.Chunks == 0 {
		t.Errorf("its report: %+v", report)
	}
	s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
	night := s.night(t)
	if night.manifest.Counts.Documents != 13 || night.manifest.Parent == "" ||
		night.manifest.Hashes == first.manifest.Hashes {
		t.Errorf("%+v", night.manifest)
	}
}

// Promises: 24.
func TestAStoreThatLostItsMemoryIsFilledAgainAlsoWhenNothingChanged(t *testing.T) {
	for name, lose := range map[string]func(*site){
		"records":                func(s *site) { s.Records = recordsmemory.New() },
		"vectors":                func(s *site) { s.Vectors = vectorsmemory.New() },
		"records and vectors":    func(s *site) { s.Records, s.Vectors = recordsmemory.New(), vectorsmemory.New() },
		"one collection dropped": func(s *site) { _ = s.Vectors.Drop(context.Background(), collections(s).Chunks) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(8))
			first := s.night(t)
			lose(s)
			night := s.night(t)
			require.True(t, night.planned.Unchanged && night.planned.Repair != 0, "not noticed: %+v", night.planned)
			report := s.report(t)
			assert.True(t, report.Written.Records+report.Written.Rows != 0 && report.Calls.Sum() == 0,
				"written %+v, calls %+v", report.Written, report.Calls)
			assert.True(t, night.manifest.Hashes == first.manifest.Hashes, "the hashes changed")
			assert.Zero(t, s.night(t).planned.Repair, "it is repaired again although everything is there")
		})
	}
}

func collections(s *site) core.Collections {
	index := artifact.Index{Store: s.Artifacts, Name: s.spec.Index}
	current, _, err := index.ReadPointer(context.Background())
	if err != nil {
		panic(err)
	}
	manifest, err := index.Manifest(context.Background(), current.Manifest)
	if err != nil {
		panic(err)
	}
	return manifest.Collections
}

func TestNewRulesBuildAgainAndSayWhy(t *testing.T) {
	for name, change := range map[string]struct {
		apply func(*testing.T, *site)
		want  string
	}{
		"a new parser":       {func(t *testing.T, _ *site) { setMade(t, core.Made{Parser: "other"}) }, "parser"},
		"a new chunker":      {func(t *testing.T, _ *site) { setMade(t, core.Made{Chunker: "other"}) }, "chunker"},
		"new rules of names": {func(t *testing.T, _ *site) { setMade(t, core.Made{Names: "other"}) }, "names"},
		"new rules of words": {
			func(t *testing.T, _ *site) { setMade(t, core.Made{Analyser: "other"}) }, "analyser",
		},
		"another threshold":     {func(_ *testing.T, s *site) { s.spec.Shortening.Threshold = 100 }, "config: shortening"},
		"another chunk size":    {func(_ *testing.T, s *site) { s.spec.Chunking.MaxTokens = 700 }, "config: chunking"},
		"titles as they are":    {func(_ *testing.T, s *site) { s.spec.Parity = true }, "config: parity"},
		"a price: none of them": {func(_ *testing.T, s *site) { s.spec.Chat.Price.Prompt = 7 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(6))
			s.night(t)
			change.apply(t, s)
			night := s.night(t)
			reasons := strings.Join(s.report(t).Reasons, "; ")
			assert.True(t, night.planned.Unchanged == (change.want == "") && strings.Contains(reasons, change.want),
				"unchanged %v, reasons %q, want %q", night.planned.Unchanged, reasons, change.want)
		})
	}
}

func TestAMassDeletionIsHeldBeforeAnythingIsBuilt(t *testing.T) {
	s := newSite(t, sample(10))
	first := s.night(t)
	for i := range 5 {
		require.NoError(t, os.Remove(filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", i))))
	}
	night := s.night(t)
	require.True(t, night.planned.Held == "mass_deletion" && night.manifest.Generation == first.manifest.Generation,
		"%+v", night.planned)
	report := s.report(t)
	if report.Status != core.StatusHeld || !strings.Contains(report.Detail, "5 of 10") || report.Written.Segments != 0 {
		t.Errorf("%+v", report)
	}
}

func TestAnUnreadableDocumentIsToldEveryNightWhileItStands(t *testing.T) {
	s := newSite(t, sample(12))
	s.write(t, map[string]string{"broken.pdf": "%PDF-1.4\nnothing that a parser could use"})
	first := s.night(t)
	require.True(t, first.published.Status == core.StatusErrors && first.manifest.Counts.Failed == 1,
		"%+v, %+v", first.published, first.manifest.Counts)
	for night := range 2 {
		again := s.night(t)
		report := s.report(t)
		if !again.planned.Unchanged || again.planned.Status != core.StatusErrors || report.DocumentsFailed != 1 ||
			report.ProblemsTotal != 1 || len(report.Problems) != 1 || report.Problems[0].Object != "broken.pdf" {
			t.Errorf("night %d: %+v, report %+v", night, again.planned, report)
		}
		list, _, err := blob.Read(t.Context(), s.Artifacts, report.ProblemsPath)
		assert.True(t, err == nil && strings.Contains(string(list), "broken.pdf"),
			"the list of problems at %q: %v, %s", report.ProblemsPath, err, list)
	}
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "broken.pdf")))
	if healed := s.night(t); s.report(t).DocumentsFailed != 0 || healed.manifest.Counts.Documents != 12 {
		t.Errorf("%+v", s.report(t))
	}
}

func TestMostDocumentsUnreadableAreHeld(t *testing.T) {
	files := sample(3)
	for i := range 20 {
		files[fmt.Sprintf("rubbish-%02d.pdf", i)] = "%PDF-1.4\nrubbish"
	}
	s := newSite(t, files)
	night := s.night(t)
	if night.published.Status != core.StatusHeld || night.published.Reason != "failure_budget" || night.manifest != nil {
		t.Fatalf("%+v", night)
	}
	assert.Contains(t, s.report(t).Detail, "20 of 23 documents", "it says")
}

// Promises: 28.
func TestAPublicationThatIsRepeatedKnowsItsOwnFlip(t *testing.T) {
	s := newSite(t, sample(5))
	job, holder := s.leased(t)
	_, err := s.stages(t.Context(), job, holder)
	require.NoError(t, err)
	// As a worker that was killed between the flip and its answer; meanwhile more was counted.
	account := []byte(`{"calls":{"extract":7},"tokens":{"prompt":700},"cost":1}`)
	require.NoError(t, s.Coordination.SetAccount(t.Context(), job.Name(), "another", account))
	job.Generation = "g002"
	s.runs = 1
	fence := job.Fence
	job, holder = s.job(t)
	job.Fence = fence
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt from Tolmin.\n"})
	out, err := s.stages(t.Context(), job, holder)
	require.True(t, err == nil && out.published.Status == core.StatusCompleted, "%v %v", out.published, err)
}

// Twenty nights on which three of a hundred documents change leave in the stores what the kept generations name, and
// hardly more.
// Promises: 26.
func TestManyNightsDoNotFillTheStores(t *testing.T) {
	s := newSite(t, sample(100))
	s.night(t)
	for night := range 20 {
		for i := 3 * night; i < 3*night+3; i++ {
			s.write(t, map[string]string{fmt.Sprintf("place-%03d.md", i): fmt.Sprintf(
				"# Harbour %d, new\n\nPort Alma %d was rebuilt by Ivo Kralj %d. It trades tin with Lake Verin.\n", i, i, i)})
		}
		out := s.night(t)
		require.True(t, out.published.Status == core.StatusCompleted, "night %d: %+v", night, out.published)
	}
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	refs, err := index.ListRefs(t.Context())
	require.NoError(t, err)
	named := map[string]bool{}
	classes, rows := int64(0), int64(0)
	for _, ref := range refs {
		manifest, err := index.Manifest(t.Context(), ref.Manifest)
		require.NoError(t, err)
		named[ref.Manifest] = true
		for _, segment := range manifest.Segments.All() {
			named[segment.SHA256] = true
		}
		classes, rows = max(classes, manifest.Counts.Classes), max(rows, manifest.Counts.Classes+manifest.Counts.Windows)
	}
	records := int64(0)
	err = s.Records.ScanRecords(t.Context(), s.StoreID[:8]+":c:docs:", func(keys []string) error {
		records += int64(len(keys))
		return nil
	})
	require.NoError(t, err)
	stored := int64(0)
	for _, collection := range []string{collections(s).Classes, collections(s).Chunks} {
		count, err := s.Vectors.Count(t.Context(), collection)
		require.NoError(t, err)
		stored += count
	}
	files := 0
	for _, err := range s.Artifacts.List(t.Context(), "docs/", "") {
		require.NoError(t, err)
		files++
	}
	t.Logf("%d generations; %d records of %d classes, %d rows of %d, %d files of %d named",
		len(refs), records, classes, stored, rows, files, len(named))
	assert.False(t, float64(records) > 1.3*float64(classes) || float64(stored) > 1.3*float64(rows),
		"%d records of %d classes, %d rows of %d", records, classes, stored, rows)
	// Besides what is named there are a reference, a report in two forms and a configuration to each generation.
	assert.True(t, files <= 2*len(named), "%d files, %d of them named", files, len(named))
}

func TestAStoreThatLosesItsMemoryWhileABuildVerifiesIsNoticedByTheNextNight(t *testing.T) {
	s := newSite(t, sample(8))
	job, holder := s.leased(t)
	s.before = func(stage string) {
		if stage == "publish" {
			s.Records = recordsmemory.New()
		}
	}
	_, err := s.stages(t.Context(), job, holder)
	require.NoError(t, err)
	s.before = nil
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	require.NoError(t, run.GiveLease(t.Context(), index, holder))
	if night := s.night(t); night.planned.Repair == 0 || s.report(t).Written.Records == 0 {
		t.Errorf("not noticed: %+v", night.planned)
	}
}

func TestNothingIsPaidUnderTheNameOfARunThatEnded(t *testing.T) {
	s := newSite(t, sample(4))
	s.night(t)
	job, holder := s.job(t)
	job.Generation = "g001" // a worker that was cut off still believes to work on it
	err := s.unit(t.Context(), job, "extract", func(context.Context, *upkeep.Run) error { return nil })
	assert.True(t, fault.Is(err, fault.Cancelled), "a unit of an ended run: %v", err)
	work, err := s.Open(t.Context(), job, "lease")
	require.NoError(t, err)
	defer work.Close()
	require.NoError(t, work.Reopen(t.Context(), run.Holder{Workflow: holder.Workflow, Run: "a later one"}))
	err = s.unit(t.Context(), job, "extract", func(context.Context, *upkeep.Run) error { return nil })
	assert.NoError(t, err, "a later run of that name")
}
