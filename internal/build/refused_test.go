package build_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/modeltest"
)

// One chunk of a small corpus that a model cannot extract from does not hold the first build; the report names the file,
// the chunk and the cause, that night and as long as it stands.
func TestAFailedChunkIsNamedWithItsFileAndItsCauseAndHoldsNoFirstBuild(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 4, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
		if seen.Task == "extract" && strings.Contains(seen.Text, "Port Alma 2 was") {
			return modeltest.Injection{Content: "Sorry,\nno entities."}
		}
		return modeltest.Injection{}
	})
	first := s.night(t)
	if first.published.Status != corpus.StatusErrors || first.manifest.Counts.DeadLetters != 1 {
		t.Fatalf("%+v, %+v", first.published, first.manifest.Counts)
	}
	named := func(when string) {
		report := s.report(t)
		if report.ChunksFailed != 1 || report.ProblemsTotal != 1 || len(report.Problems) != 1 {
			t.Fatalf("%s: %+v", when, report)
		}
		problem := report.Problems[0]
		if problem.Code != string(fault.BadOutput) || problem.Object != "place-002.md" ||
			!strings.Contains(problem.Detail, "chunk 0 (") || !strings.Contains(problem.Detail, "Sorry, no entities.") {
			t.Errorf("%s: %+v", when, problem)
		}
		if !strings.Contains(report.Markdown(), "place-002.md: nothing was extracted from chunk 0 (") {
			t.Errorf("%s: %s", when, report.Markdown())
		}
	}
	named("the first night")
	calls := s.server.Stats().Tasks["extract"].Calls // the bad chunk is asked for until it is sure to be the chunk
	if again := s.night(t); !again.planned.Unchanged || again.planned.Status != corpus.StatusErrors {
		t.Errorf("%+v", again.planned)
	}
	named("an unchanged night")
	s.write(t, map[string]string{"more.md": "# More\n\nTin of Lake Verin.\n"})
	s.night(t)
	named("a night with something else new")
	if err := os.Remove(filepath.Join(s.corpus, "place-002.md")); err != nil {
		t.Fatal(err)
	}
	s.night(t)
	if report := s.report(t); report.ChunksFailed != 0 || len(report.Problems) != 0 {
		t.Errorf("when its file is gone: %+v", report)
	}
	if extracted := s.server.Stats().Tasks["extract"].Calls; extracted != calls+1 {
		t.Errorf("%d extractions after %d of the first night, and one of a new file", extracted, calls)
	}
}
