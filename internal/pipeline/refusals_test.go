package pipeline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	shown "github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// One chunk of a small corpus that a model cannot extract from does not hold the first build; the report names the
// file, the chunk and the cause, that night and as long as it stands.
// Promises: 68.
func TestAFailedChunkIsNamedWithItsFileAndItsCauseAndHoldsNoFirstBuild(t *testing.T) {
	t.Setenv(keyVariable, "secret")
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
		if problem.Code != string(fault.BadOutput) || problem.Object != "place-002.md" ||
			!strings.Contains(problem.Detail, "passage 0 (") || !strings.Contains(problem.Detail, "Sorry, no entities.") {
			t.Errorf("%s: %+v", when, problem)
		}
		assert.Contains(t, shown.RenderMarkdown(report), "| place-002.md | nothing was extracted from passage 0 (", "%s", when)
	}
	named("the first night")
	calls := s.server.Stats().Tasks["extract"].Calls // the bad chunk is asked for until it is sure to be the chunk
	if again := s.night(t); !again.planned.Unchanged || again.planned.Status != core.StatusErrors {
		t.Errorf("%+v", again.planned)
	}
	named("an unchanged night")
	s.write(t, map[string]string{"more.md": "# More\n\nTin of Lake Verin.\n"})
	s.night(t)
	named("a night with something else new")
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-002.md")))
	s.night(t)
	if report := s.report(t); report.ChunksFailed != 0 || len(report.Problems) != 0 {
		t.Errorf("when its file is gone: %+v", report)
	}
	if extracted := s.server.Stats().Tasks["extract"].Calls; extracted != calls+1 {
		t.Errorf("%d extractions after %d of the first night, and one of a new file", extracted, calls)
	}
}

// A server that is set up wrongly pauses a run as soon as the first chunks are there, and has been asked for little;
// what was asked for is one of the calls that the build needs anyway, beside one short embedding.
// Promises: 67.
func TestModelsAreAskedForLittleBeforeTheWorkBegins(t *testing.T) {
	t.Setenv(keyVariable, "secret")
	for name, c := range map[string]struct {
		refuses string // task
		with    modeltest.Injection
		code    fault.Code
		paid    int64
	}{
		"the key of the chat model":      {"extract", modeltest.Injection{Status: 401}, fault.ModelAuth, 0},
		"the key of the embedding model": {"embed", modeltest.Injection{Status: 401}, fault.ModelAuth, 1},
		"another chat model":             {"extract", modeltest.Injection{Status: 404}, fault.ModelUnknown, 0},
		"no model server": {
			"extract", modeltest.Injection{Body: "<h1>Hello</h1>"}, fault.ModelUnreadable, 4,
		},
		"prose": {
			"extract", modeltest.Injection{Content: "I am a teapot."}, fault.ModelRefused, 3,
		},
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
			out, err := s.stages(t.Context(), job, holder)
			require.True(t, err == nil && out.published.Status == core.StatusCompleted,
				"when it is mended: %+v, %v", out.published, err)
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
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 12, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
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
