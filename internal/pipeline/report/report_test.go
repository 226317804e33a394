package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/report"
)

const hostile = "<script>alert(1)</script>\"' onload=x |](javascript:alert(2)) `code` \n# heading\u202e"

func sample() core.Report {
	began := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	ended := began.Add(time.Minute)
	before := 0.9
	return core.Report{
		Index: "docs", Generation: "20260301t030000z", Run: "docs/20260301t030000z", Status: core.StatusHeld,
		Reason: "recall", Detail: "recall fell from 0.900 to 0.500", Documents: 1200, Chunks: 4300, ContentHash: "ab12",
		Calls: core.Calls{Extract: 30, Embed: 2}, Tokens: core.Tokens{Prompt: 9000}, Cost: 1.25, Currency: "USD",
		Seconds: 60, IdleSeconds: 10, Bytes: 1 << 20, DeadLetters: 1, DocumentsFailed: 1,
		Diff:    core.Diff{Added: 3, Changed: 9, Removed: 2, Same: 1186},
		Reasons: []string{"chunker chunk/1 → chunk/2"}, Started: began, Ended: &ended,
		Stages:  []core.StageProgress{{Name: "extract", Done: 30, Total: 30, Seconds: 40}},
		Planned: &core.Estimate{Extract: core.Range{Low: 20, High: 25}, Seconds: core.Range{Low: 45, High: 55}},
		Probes:  &core.Probed{Asked: 10, Recall: 0.5, Before: &before, Worse: []string{"Who " + hostile}},
		Events:  []core.Event{{At: began, Kind: core.EventStarted}, {At: ended, Kind: core.EventEnded}},
		Problems: []core.Problem{
			{Code: "encrypted_document", Object: hostile, Detail: hostile}, {Code: "model_unavailable", Object: "extract"},
		},
		Course: []core.Moment{{Seconds: 0}, {Seconds: 30, Share: 0.5, Cost: 1}, {Seconds: 60, Share: 1, Cost: 1.25}},
	}
}

func TestNothingOfADocumentBecomesMarkup(t *testing.T) {
	r := sample()
	r.Index, r.Generation, r.Detail, r.Reason, r.Models.Chat = hostile, hostile, hostile, hostile, hostile
	r.Run, r.ProblemsPath, r.Currency, r.Version, r.Reasons = hostile, hostile, hostile, hostile, []string{hostile}
	r.Stages[0].Name, r.Events[0].Detail, r.Probes.Missing = hostile, hostile, []string{hostile}
	r.Retries = []core.Retry{{Stage: hostile, Code: hostile, Detail: hostile, Count: 2}}
	text := report.RenderMarkdown(r)
	for line := range strings.Lines(text) {
		bare := strings.NewReplacer(`\\`, "", "\\`", "", `\*`, "", `\[`, "", `\]`, "", `\<`, "", `\>`, "", `\|`, "", `\~`,
			"", `\!`, "").Replace(line)
		assert.True(t, !strings.ContainsAny(bare, "<>[]`\u202e") && !strings.HasPrefix(line, "# heading"),
			"markdown %q", line)
	}
}

func TestAReportSaysWhatHappenedAndWhatToDo(t *testing.T) {
	served := sample()
	served.Published = true
	assert.NotContains(t, strings.Join(report.AdviseNext(served), "\n"), "unweaver publish")
	for reason, first := range map[string]string{
		"empty": "Fix the files", "failure_budget": "Fix what failed", "recall": "Ask it",
	} {
		held := sample()
		held.Reason = reason
		next := strings.Join(report.AdviseNext(held), "\n")
		assert.True(t, strings.HasPrefix(next, first) && strings.Contains(next, "unweaver publish") == (reason != "empty"),
			"%s: %s", reason, next)
	}
	text := report.RenderMarkdown(sample())
	for _, wanted := range []string{
		"gate.max_recall_drop", "0.500", "publish docs 20260301t030000z", "store it without its password",
		"retry-failed docs", "1,200", "1.2500 USD", "1.0 MB", "chunker chunk/1 → chunk/2", "+17 %", "paused or waited",
	} {
		assert.Contains(t, text, wanted, "the report does not say")
	}
	assert.Equal(t, text, report.RenderMarkdown(sample()), "equal reports give other bytes")
	idle := report.RenderMarkdown(core.Report{Planned: &core.Estimate{Seconds: core.Range{High: 9}}})
	assert.Contains(t, idle, "## What was paid for\n\n* Nothing.\n")
	assert.NotContains(t, idle, "extract calls", "what is nothing is shown")
	enriched := sample()
	enriched.Enriched = []core.Enrichment{{Name: "gem", Counts: map[string]int64{"chunks": 4300, "failed": 12, "themes": 0}}}
	text = report.RenderMarkdown(enriched)
	assert.True(t, strings.Contains(text, "12 passages have no questions") && !strings.Contains(text, "0 themes"), "%s", text)
	empty := report.RenderMarkdown(core.Report{})
	assert.True(t, empty != "" && !strings.Contains(empty, "NaN"), "an empty report is %q", empty)
}
