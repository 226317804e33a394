package pipeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// paidNight is a whole night, with its report.
func (s *paidSite) paidNight(t *testing.T) core.Report {
	t.Helper()
	job, holder := s.start(t)
	out, err := s.stages(t.Context(), job, holder)
	if err != nil {
		t.Fatal(err)
	}
	ending := run.Ending{Status: out.published.Status, Reason: out.published.Reason}
	if out.planned.Unchanged {
		ending = run.Ending{Status: core.StatusCompleted, Unchanged: true}
	}
	report := s.end(t, job, holder, ending)
	timed := report // stages of a night in a test are not timed
	timed.Stages = []core.StageProgress{{Name: core.StageExtract, Seconds: 10}}
	key := artifact.Index{Store: s.Artifacts, Name: job.Index}.GenerationKey(job.Generation, "report.json")
	if _, err := blob.WriteJSON(t.Context(), s.Artifacts, key, timed, blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	return report
}

// A night that nobody planned tells what it expected when it had compared the listing, beside what it came to, for
// which it reads no document more than it would; one that has nothing to do expects nothing.
func TestANightWithoutAPlanIsToldAgainstItsOwnEstimate(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 40, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	holds := func(report core.Report, name string, expected core.Range, actual int64) {
		t.Helper()
		if float64(actual) < expected.Low || float64(actual) > expected.High {
			t.Errorf("%s: %s came to %d, expected %+v", report.Generation, name, actual, expected)
		}
	}
	check := func(report core.Report, runs int) {
		t.Helper()
		planned := report.Planned
		if planned == nil || !planned.Sizes || planned.Runs != runs {
			t.Fatalf("%s: planned %+v", report.Generation, planned)
		}
		holds(report, "extract", planned.Extract, report.Calls.Extract)
		if runs > 0 { // which classes become long is a guess before
			holds(report, "shorten", planned.Shorten, report.Calls.Shorten)
		}
		holds(report, "embed", planned.Embed, report.Calls.Embed)
		holds(report, "tokens", planned.Tokens, report.Tokens.Sum())
		if report.Cost < planned.Cost.Low || report.Cost > planned.Cost.High || planned.Cost.High == 0 {
			t.Errorf("%s: cost %v, expected %+v", report.Generation, report.Cost, planned.Cost)
		}
	}
	first := s.paidNight(t)
	check(first, 0)
	if first.Planned.Extract.Low != 40 {
		t.Errorf("a document has at least one chunk: %+v", first.Planned.Extract)
	}
	for night := range 4 {
		s.write(t, map[string]string{
			"place-003.md":                  fmt.Sprintf("# Other\n\nBern sold %d bars of salt to Lake Verin.\n", night),
			"place-004.md":                  fmt.Sprintf("# Other\n\nTolmin sold %d bars of tin to Port Alma 4.\n", night),
			fmt.Sprintf("new-%d.md", night): "# New\n\nLake Verin buys from Carla Ruiz.\n",
		})
		check(s.paidNight(t), min(night+1, 4))
	}
	if err := os.Remove(filepath.Join(s.corpus, "new-0.md")); err != nil {
		t.Fatal(err)
	}
	if gone := s.paidNight(t); gone.Planned == nil || gone.Planned.Extract.High != 0 || gone.Calls.Extract != 0 {
		t.Errorf("a night of a deletion alone: %+v", gone.Planned)
	}
	if same := s.paidNight(t); !same.Unchanged || same.Planned != nil {
		t.Errorf("a night with nothing to do: %+v", same.Planned)
	}
}

// A first build that costs nothing has nothing to be told of before: nobody knows how long it takes.
func TestAFirstBuildThatCostsNothingExpectsNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(4))
	s.night(t)
	if report := s.report(t); report.Planned != nil {
		t.Errorf("%+v", report.Planned)
	}
}
