package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/stage/publish"
)

// part is a section of a report: some sentences, or a table, or both.
type part struct {
	title   string
	lines   []string
	columns []string // of the table; those of numbers begin with #
	rows    [][]string
}

// listParts returns the parts of a report, in the order in which they are read. Those that have nothing to say are left
// out.
func listParts(r core.Report) []part {
	var out []part
	watched := part{title: "Standing questions", columns: []string{"question", "before", "after", "because of"}}
	watched.lines, watched.rows = FormatWatched(r.Watched)
	for _, one := range []part{
		{title: "What to do", lines: AdviseNext(r)},
		formatFigures(r), formatChanges(r), formatEnrichments(r), formatGates(r), watched,
		formatStages(r), formatCosts(r), formatEstimate(r), formatEvents(r),
		formatRetries(r), formatFailures(r), formatIdentity(r),
	} {
		if len(one.lines)+len(one.rows) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// formatHeading says which run it is, and how it ended.
func formatHeading(r core.Report) string {
	return fmt.Sprintf("%s %s: %s", r.Index, r.Generation, strings.ReplaceAll(r.Status, "_", " "))
}

// Summarize returns one sentence of what a run came to. It names no document.
func Summarize(r core.Report) string {
	night := r.ToNight()
	paid := ""
	if night.Calls+night.Tokens > 0 {
		paid = fmt.Sprintf("; %s calls, %s tokens, cost %s", toCount(night.Calls), toCount(night.Tokens),
			toMoney(r.Cost, r.Currency))
	}
	text := fmt.Sprintf("%s documents, %s changed%s; %s", toCount(r.Documents), toCount(night.Changed), paid,
		toDuration(r.Worked()))
	switch {
	case r.Unchanged:
		text = "nothing changed; " + text
	case r.Published:
		text = "published; " + text
	case core.IsTerminal(r.Status):
		text = "not published; " + text
	}
	if r.DocumentsFailed+r.DeadLetters > 0 {
		text += fmt.Sprintf("; %s documents failed, %s dead letters", toCount(r.DocumentsFailed), toCount(r.DeadLetters))
	}
	if r.DocumentsEmpty > 0 {
		text += fmt.Sprintf("; %s documents without text", toCount(r.DocumentsEmpty))
	}
	return text
}

func formatFigures(r core.Report) part {
	return part{
		title:   "Result",
		lines:   []string{Summarize(r) + "."},
		columns: []string{"#documents", "#passages", "#entities", "#mentions", "#dead letters", "#bytes written"},
		rows: [][]string{{
			toCount(r.Documents), toCount(r.Chunks), toCount(r.Classes), toCount(r.Mentions), toCount(r.DeadLetters),
			core.FormatSize(r.Bytes),
		}},
	}
}

func formatChanges(r core.Report) part {
	out := part{title: "Changes by reason", columns: []string{"reason", "#documents"}}
	add := func(reason string, n int64) {
		if n > 0 {
			out.rows = append(out.rows, []string{reason, toCount(n)})
		}
	}
	add("added", r.Diff.Added)
	add("changed", r.Diff.Changed)
	add("moved", r.Diff.Moved)
	add("removed", r.Diff.Removed)
	add("the same", r.Diff.Same)
	add("cannot be used", r.Diff.Unusable)
	add("refused: files and rows that cannot be read", r.Refused)
	add("left out: hidden", r.LeftOut.Hidden)
	add("left out: in node_modules and the like", r.LeftOut.Packages)
	add("left out: not included", r.LeftOut.NotIncluded)
	add("left out: excluded", r.LeftOut.Excluded)
	add("left out: purged, and still in the corpus", r.LeftOut.Purged)
	add("skipped: of other types", r.LeftOut.OtherTypes)
	for _, reason := range r.Reasons {
		out.lines = append(out.lines, "Rebuilt, although the documents did not change: "+reason+".")
	}
	return out
}

// plainNames gives people's words for the names of counts.
var plainNames = strings.NewReplacer("_", " ", "chunks", "passages", "classes", "entities")

// formatEnrichments says what was made beside entities and passages, and what failed of it.
func formatEnrichments(r core.Report) part {
	out := part{title: "Enrichments"}
	for _, one := range r.Enriched {
		var counts []string
		for _, name := range slices.Sorted(maps.Keys(one.Counts)) {
			if n := one.Counts[name]; n > 0 {
				counts = append(counts, toCount(n)+" "+plainNames.Replace(name))
			}
		}
		out.lines = append(out.lines, joinSentence(one.Name, strings.Join(counts, ", "))+".")
		for _, note := range methods.Enrichments[one.Name].Notes {
			if n := one.Counts[note.Count]; n > 0 {
				out.lines = append(out.lines, toCount(n)+" "+note.Text)
			}
		}
	}
	return out
}

// formatGates says which of them spoke.
func formatGates(r core.Report) part {
	out := part{title: "Gates"}
	switch {
	case r.Status == core.StatusHeld:
		out.lines = append(out.lines, joinSentence("Held by "+gateOf(r.Reason), r.Detail))
	case core.IsTerminal(r.Status) && r.Published:
		out.lines = append(out.lines, "No gate held it.")
	}
	if probed := r.Probes; probed != nil {
		before := "there is no previous generation to compare with"
		if probed.Before != nil {
			before = fmt.Sprintf("%.3f before", *probed.Before)
		}
		out.lines = append(out.lines, fmt.Sprintf("Probes: %s questions, recall %.3f, %s.", toCount(int64(probed.Asked)),
			probed.Recall, before))
		for _, question := range probed.Worse {
			out.rows = append(out.rows, []string{"found less", question})
		}
		for _, missing := range probed.Missing {
			out.rows = append(out.rows, []string{"no such document", missing})
		}
	}
	if len(out.rows) > 0 {
		out.columns = []string{"probe", "question or document"}
	}
	return out
}

// Reasons of the gate of probe questions, which package release gives.
const (
	recallFell    = "recall"
	probesInvalid = "probes_invalid"
)

// gateOf says which gate a reason is of.
func gateOf(reason string) string {
	switch reason {
	case publish.MassDeletion:
		return "gate.max_removed (" + reason + ")"
	case publish.FailureBudget:
		return "failures (" + reason + ")"
	case recallFell:
		return "gate.max_recall_drop (" + reason + ")"
	case probesInvalid:
		return "gate.probes (" + reason + ")"
	case publish.SizeJump:
		return "gate.max_size_change (" + reason + ")"
	case publish.CostJump:
		return "gate.max_cost (" + reason + ")"
	}
	return reason
}

// FormatWatched returns what became of standing questions: sentences, and a row for each change that is listed, with
// the question, the documents of both answers and the cause.
func FormatWatched(found *core.Watched) (lines []string, rows [][]string) {
	if found == nil {
		return nil, nil
	}
	since := "no earlier generation to compare with"
	if found.Since != "" {
		since = "compared with " + found.Since
	}
	lines = append(lines, fmt.Sprintf(
		"%s of %s standing questions changed; %s; %s asked; %s not asked: their readers see nothing new.",
		toCount(int64(found.Changed)), toCount(int64(found.Questions)), since, toCount(int64(found.Asked)),
		toCount(int64(found.Same))))
	if found.Failed > 0 {
		lines = append(lines, fmt.Sprintf("%s were not compared: %s", toCount(int64(found.Failed)), found.Problem))
	}
	if found.Changed > len(found.Listed) {
		lines = append(lines, "All changes are listed in "+found.Path+".")
	}
	for _, one := range found.Listed {
		var because []string
		for _, cause := range one.Because {
			because = append(because, strings.TrimSpace(cause.Change+" "+cause.Object))
		}
		rows = append(rows, []string{
			one.Question.Question, listDocuments(one.Before), listDocuments(one.After),
			cmp.Or(strings.Join(because, ", "), "ranks moved"),
		})
	}
	return lines, rows
}

// listDocuments names the documents of an answer, each once.
func listDocuments(answer core.WatchedAnswer) string {
	var out []string
	for _, passage := range answer.Passages {
		if !slices.Contains(out, passage.Document) {
			out = append(out, passage.Document)
		}
	}
	return strings.Join(out, ", ")
}

func formatStages(r core.Report) part {
	out := part{title: "Stages", columns: []string{"stage", "#done", "#time"}}
	for _, stage := range r.Stages {
		out.rows = append(out.rows, []string{stage.Name, toCount(stage.Done), toDuration(stage.Seconds)})
	}
	if r.IdleSeconds > 0 {
		out.lines = append(out.lines, "It paused or waited for "+toDuration(r.IdleSeconds)+".")
	}
	return out
}

func formatCosts(r core.Report) part {
	if r.Calls.Sum()+r.LedgerHits.Sum()+r.Tokens.Sum()+r.Unsettled.Calls.Sum() == 0 {
		return part{title: "What was paid for", lines: []string{"Nothing."}}
	}
	row := func(name string, calls, hits int64) []string { return []string{name, toCount(calls), toCount(hits)} }
	out := part{
		title: "What was paid for", columns: []string{"task", "#calls paid for", "#from the ledger"},
		rows: [][]string{
			row("extract", r.Calls.Extract, r.LedgerHits.Extract), row("shorten", r.Calls.Shorten, r.LedgerHits.Shorten),
			row("embed", r.Calls.Embed, r.LedgerHits.Embed),
		},
	}
	if r.Calls.Transcribe+r.LedgerHits.Transcribe > 0 {
		out.rows = append(out.rows, row("transcribe", r.Calls.Transcribe, r.LedgerHits.Transcribe))
	}
	cost := "cost " + toMoney(r.Cost, r.Currency)
	if r.Cost == 0 && r.Tokens.Sum() > 0 {
		cost = "no price is set (models.*.price)"
	}
	out.lines = append(out.lines, fmt.Sprintf("%s prompt, %s completion, %s embedding tokens; %s.",
		toCount(r.Tokens.Prompt), toCount(r.Tokens.Completion), toCount(r.Tokens.Embedding), cost))
	if lost := r.Unsettled; lost.Calls.Sum() > 0 {
		out.lines = append(out.lines, fmt.Sprintf("Sent without a counted answer, perhaps billed, and not included in the "+
			"figures above: %s calls, about %s tokens, cost %s.", toCount(lost.Calls.Sum()), toCount(lost.Tokens.Sum()),
			toMoney(lost.Cost, r.Currency)))
	}
	return out
}

func formatEstimate(r core.Report) part {
	out := part{title: "Estimate against actual", columns: []string{"", "#planned", "#actual", "#missed by"}}
	if r.Planned == nil {
		return part{}
	}
	number := func(n float64) string { return toCount(int64(n)) }
	amount := func(n float64) string { return toMoney(n, r.Currency) }
	for _, line := range []struct {
		name   string
		want   core.Range
		actual float64
		text   func(float64) string
	}{
		{"extract calls", r.Planned.Extract, float64(r.Calls.Extract), number},
		{"shorten calls", r.Planned.Shorten, float64(r.Calls.Shorten), number},
		{"embed calls", r.Planned.Embed, float64(r.Calls.Embed), number},
		{"transcribe calls", r.Planned.Transcribe, float64(r.Calls.Transcribe), number},
		{"tokens", r.Planned.Tokens, float64(r.Tokens.Sum()), number},
		{"cost", r.Planned.Cost, r.Cost, amount},
		{"time", r.Planned.Seconds, r.Worked(), toDuration},
	} {
		if line.want.High == 0 && line.actual == 0 {
			continue
		}
		low, high := line.text(line.want.Low), line.text(line.want.High)
		if low != high {
			low += " to " + high
		}
		out.rows = append(
			out.rows, []string{line.name, low, line.text(line.actual), FormatMiss(line.want.MeasureMiss(line.actual))},
		)
	}
	return out
}

// FormatMiss returns by how much an estimate was too low (+) or too high (-), see core.Missed.
func FormatMiss(share float64) string {
	if share == 0 {
		return "in range"
	}
	return fmt.Sprintf("%+.0f %%", 100*share)
}

func formatEvents(r core.Report) part {
	out := part{title: "What happened", columns: []string{"time (UTC)", "event", "code", "detail"}}
	for _, event := range r.Events {
		what := strings.TrimSpace(event.Kind + " " + event.Stage + event.Status)
		out.rows = append(out.rows, []string{event.At.UTC().Format(time.DateTime), what, event.Code, event.Detail})
	}
	return out
}

func formatRetries(r core.Report) part {
	out := part{title: "Tried again", columns: []string{"stage", "code", "#times", "last"}}
	for _, retry := range r.Retries {
		out.rows = append(out.rows, []string{retry.Stage, retry.Code, toCount(retry.Count), retry.Detail})
	}
	return out
}

// formatFailures returns the problems with what to do about each kind.
func formatFailures(r core.Report) part {
	out := part{title: "Failures, and what to do", columns: []string{"code", "on", "why", "what to do"}}
	for _, problem := range r.Problems {
		out.rows = append(out.rows, []string{problem.Code, problem.Object, problem.Detail, findRemedy(problem.Code, r)})
	}
	total := r.CountProblems()
	if total > int64(len(r.Problems)) {
		out.lines = append(out.lines, fmt.Sprintf("%s in total, all listed in %s.", toCount(total), r.ProblemsPath))
	}
	if r.Stale > 0 {
		out.lines = append(out.lines, fmt.Sprintf("Of %s failed documents, %s serve their earlier version (stale).",
			toCount(r.DocumentsFailed), toCount(r.Stale)))
	}
	return out
}

func formatIdentity(r core.Report) part {
	out := part{title: "Identity", columns: []string{"", ""}}
	for _, line := range [][2]string{
		{"run", r.Run}, {"workflow run", r.RunID}, {"chat model", r.Models.Chat}, {"embedding model", r.Models.Embedding},
		{"content hash", r.ContentHash}, {"text hash", r.TextHash}, {"vector hash", r.VectorHash},
		{"began", toTime(&r.Started)}, {"ended", toTime(r.Ended)}, {"unweaver", r.Version},
	} {
		if line[1] != "" {
			out.rows = append(out.rows, []string{line[0], line[1]})
		}
	}
	for _, role := range slices.Sorted(maps.Keys(r.Models.Roles)) {
		out.rows = append(out.rows, []string{"chat model of " + role, r.Models.Roles[role]})
	}
	return out
}

func toTime(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.DateTime) + " UTC"
}

func joinSentence(parts ...string) string {
	var out []string
	for _, one := range parts {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return strings.Join(out, ": ")
}

// toCount groups the digits of a number.
func toCount(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func toMoney(amount float64, currency string) string {
	return strings.TrimSpace(fmt.Sprintf("%.4f %s", amount, currency))
}

func toDuration(seconds float64) string {
	switch {
	case seconds < 60:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%d min %d s", int(seconds)/60, int(seconds)%60)
	}
	return fmt.Sprintf("%d h %d min", int(seconds)/3600, int(seconds)%3600/60)
}

// AdviseNext returns what a person would do next, each with its command.
func AdviseNext(r core.Report) []string {
	var out []string
	add := func(line string) { out = append(out, line) }
	of, again := r.Index+" "+r.Generation, "unweaver index [CORPUS] --wait --index "+r.Index
	switch {
	case r.Status == core.StatusHeld && r.Published: // by an operator
		add("Ask it: unweaver query " + r.Index + ` "..."`)
	case r.Status == core.StatusHeld && r.Reason == publish.MassDeletion:
		look := "Check that the corpus is complete. If it is"
		if slices.Contains(r.Reasons, core.AttachmentsOff) {
			look = "Attachments are no longer read, because documents.attachments is off. If that is intended"
		}
		add(look + ": " + again + " --set indexes." + r.Index + ".gate.max_removed=1")
	case r.Status == core.StatusHeld && r.ContentHash == "":
		add("Check that the corpus is complete, then index again.")
	case r.Status == core.StatusHeld && r.Reason == publish.Empty:
		add("Fix the files without usable text, then: " + again)
		add("Or drop it: unweaver discard " + of + " --reason ...")
	case r.Status == core.StatusHeld:
		if r.Reason == publish.FailureBudget {
			add("Fix what failed, then: " + again)
		}
		add("Ask it: unweaver query " + r.Index + ` "..." --generation ` + r.Generation)
		add("Compare it: unweaver diff " + of)
		add("Publish it as it is: unweaver publish " + of + " --reason ...")
		add("Or drop it: unweaver discard " + of + " --reason ...")
	case r.Status == core.StatusPaused && r.Reason == string(fault.BudgetSpent):
		add("Give it a larger budget: unweaver resume " + r.Run + " --budget-calls N, --budget-tokens N or --budget-money N")
	case r.Status == core.StatusPaused:
		add("Fix the cause, then: unweaver resume " + r.Run)
	case r.Status == core.StatusFailed:
		add("Fix the cause, then index again: paid results are kept.")
	case r.Status == core.StatusCancelled:
		add("Index again at any time: paid results are kept.")
	case r.Published && !r.Unchanged:
		add("Ask it: unweaver query " + r.Index + ` "..."`)
	}
	if r.DeadLetters > 0 && r.Published {
		add("Retry the passages whose extraction failed: unweaver retry-failed " + r.Index)
	}
	return out
}

// findRemedy returns what a person can do about problems of a code.
func findRemedy(code string, r core.Report) string {
	switch fault.Code(code) {
	case fault.Unreadable, fault.EmptyDocument, fault.BinaryContent, fault.ParseCrashed, fault.ParseMemory,
		fault.ParseTimeout, fault.TooLarge:
		return "open and fix the document, or exclude it (indexes.*.exclude); the next run reads it again"
	case fault.PartsMissing:
		return "mend what it names (pages without text: run text recognition, OCR) and store it again; the rest is indexed"
	case fault.Encrypted:
		return "store it without its password, or exclude it"
	case fault.NotFollowed:
		return "nothing, if it need not be indexed; else convert it to a supported type"
	case fault.DuplicateRow:
		return "give each row a unique id"
	case fault.DocumentChanged:
		return "nothing: the next run reads it"
	case fault.Quarantined:
		return "workers crashed while reading it: check their logs, fix or exclude the document, then index again"
	case fault.BadOutput, fault.ModelRejected, fault.BadVector:
		return "check the answers of the model: unweaver dead-letters list " + r.Index
	case fault.ModelUnavailable, fault.ModelRateLimited, fault.ModelRefused, fault.ModelUnreadable,
		fault.EmbedderDown, fault.BadEmbeddings:
		return "check the log of the model server, then: unweaver retry-failed " + r.Index
	case fault.ModelAuth, fault.ModelQuota, fault.ModelUnknown:
		return "check the API key, quota and name of the model, then: unweaver resume " + r.Run
	case fault.StoreDown, fault.StoreFull, fault.StoreDenied:
		return "check the store: unweaver doctor"
	case fault.LedgerDamage:
		return "nothing: missing results are paid for again; check the disk of the files in the workers' log"
	case fault.SegmentDamage, fault.ParentDamaged:
		return "unweaver audit " + r.Index + " --repair --wait"
	}
	return "for details: unweaver logs " + r.Run
}
