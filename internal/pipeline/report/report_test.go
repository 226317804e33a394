package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

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

// What a page holds is what its reader parses: every element and attribute is one of ours.
func TestNothingOfADocumentBecomesMarkup(t *testing.T) {
	r := sample()
	r.Index, r.Generation, r.Detail, r.Reason, r.Models.Chat = hostile, hostile, hostile, hostile, hostile
	r.Run, r.ProblemsPath, r.Currency, r.Version, r.Reasons = hostile, hostile, hostile, hostile, []string{hostile}
	r.Stages[0].Name, r.Events[0].Detail, r.Probes.Missing = hostile, hostile, []string{hostile}
	r.Retries = []core.Retry{{Stage: hostile, Code: hostile, Detail: hostile, Count: 2}}
	page := report.HTML(r)
	ours := map[string]bool{}
	for name := range strings.FieldsSeq("html head meta title style body h1 h2 span p section div table thead tbody tr " +
		"th td svg rect path text") {
		ours[name] = true
	}
	attributes := map[string]bool{}
	for name := range strings.FieldsSeq("lang charset http-equiv content name class scope width height viewBox y x rx d " +
		"role aria-label aria-hidden text-anchor") {
		attributes[name] = true
	}
	void := regexp.MustCompile(`<(meta[^>]*)>`) // written as HTML has them
	_, body, _ := strings.Cut(void.ReplaceAllString(page, "<$1/>"), "<!doctype html>")
	decoder := xml.NewDecoder(strings.NewReader(body))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !ours[start.Name.Local] {
			t.Errorf("element %s", start.Name.Local)
		}
		for _, attribute := range start.Attr {
			if !attributes[attribute.Name.Local] {
				t.Errorf("%s has attribute %s", start.Name.Local, attribute.Name.Local)
			}
		}
	}
	for _, bad := range []string{"<script", "\u202e", "http://", "https://", "url(", "@import", "src=", "href="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	text := report.Markdown(r)
	for line := range strings.Lines(text) {
		bare := strings.NewReplacer(`\\`, "", "\\`", "", `\*`, "", `\[`, "", `\]`, "", `\<`, "", `\>`, "", `\|`, "", `\~`,
			"", `\!`, "").Replace(line)
		if strings.ContainsAny(bare, "<>[]`") || strings.HasPrefix(line, "# heading") {
			t.Errorf("markdown %q", line)
		}
	}
}

func TestAReportSaysWhatHappenedAndWhatToDo(t *testing.T) {
	r := sample()
	for form, text := range map[string]string{"markdown": report.Markdown(r), "html": report.HTML(r)} {
		for _, wanted := range []string{
			"gate.max_recall_drop", "0.500", "publish 20260301t030000z --index docs", "store it without its password",
			"retry-failed docs", "1,200", "1.2500 USD", "1.0 MB", "chunker chunk/1 → chunk/2", "+17 %", "paused or waited",
		} {
			if !strings.Contains(text, wanted) {
				t.Errorf("%s does not say %q", form, wanted)
			}
		}
	}
	page := report.HTML(r)
	if !strings.Contains(page, `aria-label="Progress and cost over 1 min 0 s"`) ||
		!strings.Contains(page, `d="M52.0 186.0L344.0 105.0L636.0 24.0"`) {
		t.Errorf("the chart is not of the course: %s", page)
	}
	if report.HTML(sample()) != page || report.Markdown(sample()) != report.Markdown(r) {
		t.Error("equal reports give other bytes")
	}
	r.Course = nil
	if strings.Contains(report.HTML(r), "over time") {
		t.Error("a chart of nothing")
	}
}

// A run that ended before anything is a page, too.
func TestAnEmptyReport(t *testing.T) {
	if page := report.HTML(core.Report{}); !strings.HasSuffix(page, "</html>\n") || strings.Contains(page, "NaN") {
		t.Error(page)
	}
	if report.Markdown(core.Report{}) == "" {
		t.Error("nothing")
	}
}

func TestEnrichmentsAreToldWithWhatFailedOfThem(t *testing.T) {
	r := sample()
	if strings.Contains(report.Markdown(r), "Enrichments") {
		t.Error("enrichments are told of a generation without any")
	}
	r.Enriched = []core.Enrichment{{
		Name: "gem", Why: "kept: 1 chunks came and 0 went",
		Counts: map[string]int64{"chunks": 4300, "failed": 12, "since": 0},
	}}
	for _, text := range []string{report.Markdown(r), report.HTML(r)} {
		for _, want := range []string{"Its spectrum was kept: 1 chunks came", "12 chunks have no questions", "12 failed"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
		if strings.Contains(text, "0 since") {
			t.Error("what is nothing is told")
		}
	}
}
