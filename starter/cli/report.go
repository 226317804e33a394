package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	reports "github.com/unweaver/unweaver/internal/pipeline/report"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// shownProblems is how many distinct problems are listed; the others are in the list that is named.
const shownProblems = 5

// dryRun is the reason of a run that only estimates: it leaves no artifact.
const dryRun = "dry_run"

// reportRun shows a run and sets the exit code.
func (a *App) reportRun(status control.Status) error {
	a.exit = exitOf(status.Report)
	return a.printOut(status, func(w io.Writer) { showReport(w, status) })
}

// exitOf gives the exit code of a run. One that completed exits with errors while anything is failed, also since
// an earlier run.
func exitOf(report core.Report) int {
	switch report.Status {
	case core.StatusFailed, core.StatusCancelled:
		return ExitFailed
	case core.StatusErrors:
		return ExitErrors
	case core.StatusHeld:
		if !report.Published {
			return ExitHeld
		}
	case core.StatusPaused:
		return ExitPaused
	case core.StatusCompleted:
		if hasFailures(report) && report.Reason != dryRun { // which failed at nothing
			return ExitErrors
		}
	}
	return ExitDone
}

// hasFailures reports whether anything of the index stands failed. Objects of a type that is not read count as no
// failure.
func hasFailures(report core.Report) bool {
	return report.DocumentsFailed > 0 || report.ChunksFailed > 0 || report.DeadLetters > 0
}

// showReport prints a run for people.
func showReport(w io.Writer, status control.Status) {
	showState(w, status)
	showFound(w, status.Report)
	if nothing := status.Documents == 0 && status.Calls.Sum() == 0; !nothing || !core.IsTerminal(status.Status) {
		showCost(w, status.Report)
	}
	for _, retry := range status.Retries {
		fmt.Fprintf(w, "  retried: %s %s, %s, last at %s\n", retry.Stage, retry.Code, countOf(retry.Count, "time"),
			retry.Last.Local().Format(time.TimeOnly))
	}
	fmt.Fprintf(w, "  %.1f s", status.Worked())
	for _, stage := range status.Stages {
		fmt.Fprintf(w, "  %s %.1f", stage.Name, stage.Seconds)
	}
	fmt.Fprintln(w)
	if status.ContentHash != "" {
		fmt.Fprintf(w, "  content hash %s\n", status.ContentHash)
	}
	showChanged(w, status.Watched)
	showProblems(w, status.Report)
	if core.IsTerminal(status.Status) || status.Status == core.StatusPaused {
		for _, line := range reports.AdviseNext(status.Report) {
			fmt.Fprintf(w, "  next: %s\n", line)
		}
	}
}

// showFound prints what a run found and what it wrote. A restore finds nothing, and neither does a run that failed
// before it had listed the corpus.
func showFound(w io.Writer, report core.Report) {
	if strings.HasPrefix(report.Generation, runlog.KindRestore+"-") {
		if report.Written == (core.Written{}) && report.Status == core.StatusCompleted {
			fmt.Fprintln(w, "  no file, record or vector was missing")
			return
		}
		fmt.Fprintf(w, "  rewritten: %s, %s, %s\n", countOf(report.Written.Segments, "segment"),
			countOf(report.Written.Records, "record"), countOf(report.Written.Rows, "vector"))
		return
	}
	if report.Audit != nil {
		showAudit(w, *report.Audit)
		return
	}
	if report.Documents+report.Chunks == 0 && core.IsTerminal(report.Status) {
		return
	}
	fmt.Fprintf(w, "  %s", countOf(report.Documents, "document"))
	if report.Within > 0 {
		fmt.Fprintf(w, " (rows and attachments of files: %d)", report.Within)
	}
	fmt.Fprintf(w, ", %s", countOf(report.Chunks, "passage"))
	if report.Reason != dryRun { // which extracts nothing
		fmt.Fprintf(w, ", %s, %s", countOf(report.Classes, "entity"), countOf(report.Mentions, "mention"))
	}
	if report.Models.Chat != "" {
		fmt.Fprintf(w, "  [%s]", listModels(report.Models))
	}
	fmt.Fprintln(w)
	if diff := report.Diff; diff.Changed+diff.Moved+diff.Removed+diff.Same > 0 { // a first build adds all
		fmt.Fprintf(w, "  since the previous generation: %d added, %d changed, %d moved, %d removed, %d unchanged\n",
			diff.Added, diff.Changed, diff.Moved, diff.Removed, diff.Same)
	}
}

// publishedSince follows the status of a run that a gate held and an operator published.
const publishedSince = ", published by an operator"

// listModels names the chat model, those of roles that have their own, and the embedder.
func listModels(models core.ModelSummary) string {
	out := models.Chat
	for _, role := range slices.Sorted(maps.Keys(models.Roles)) {
		out += ", " + role + ": " + models.Roles[role]
	}
	return out + " / " + models.Embedding
}

// showState prints how a run ended, or where it stands.
func showState(w io.Writer, status control.Status) {
	fmt.Fprintf(w, "%s  %s", status.Run, status.Status)
	if status.Reason != "" && status.Reason != status.Status {
		fmt.Fprintf(w, " (%s)", status.Reason)
	}
	if status.Status == core.StatusHeld && status.Published {
		fmt.Fprint(w, publishedSince)
	}
	if line := waitingLine(status); line != "" {
		fmt.Fprintf(w, "  %s", line)
	}
	if status.Unchanged {
		fmt.Fprint(w, "  nothing changed")
		if hasFailures(status.Report) {
			fmt.Fprint(w, ", but earlier failures remain")
		}
	}
	fmt.Fprintln(w)
	if status.Detail != "" {
		fmt.Fprintf(w, "  %s\n", status.Detail)
	}
	if line := givenLine(status); line != "" {
		fmt.Fprintf(w, "  changed during the run: %s\n", line)
	}
	if status.Stage != "" {
		fmt.Fprintf(
			w,
			"  %.0f %% done, stage %s, %s, %s, %s so far, %s\n",
			100*status.Overall,
			status.Stage,
			unitsDone(status),
			formatRate(status.Rate),
			durationOf(status.Seconds),
			describeRemaining(status),
		)
	}
}

// givenLine returns what a run was given with the limit command, or as it was resumed.
func givenLine(status control.Status) string {
	var parts []string
	if status.Limits != nil {
		parts = append(parts, status.Limits.String())
	}
	if budget := status.Budget; budget != nil {
		for _, one := range []struct {
			given bool
			text  string
		}{
			{budget.Calls > 0, fmt.Sprintf("a budget of %d calls", budget.Calls)},
			{budget.Tokens > 0, fmt.Sprintf("a budget of %d tokens", budget.Tokens)},
			{budget.Money > 0, "a budget of " + moneyOf(budget.Money, status.Currency)},
		} {
			if one.given {
				parts = append(parts, one.text)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// describeRemaining returns the time left in words. That of a paused run is not known before it is resumed.
func describeRemaining(status control.Status) string {
	if status.Status == core.StatusPaused {
		return "paused"
	}
	return timeLeft(status.ETASeconds) + " left"
}

// waitingLine says what a run waits for, and until when; empty where it does not.
func waitingLine(status control.Status) string {
	if status.Status != core.StatusWaiting || status.Waiting == nil {
		return ""
	}
	const clock = "15:04"
	return fmt.Sprintf("waiting for %s since %s, next attempt %s (%d failed); unweaver resume retries now",
		status.Reason, status.Waiting.Since.Local().Format(clock), status.Waiting.Next.Local().Format(clock),
		status.Waiting.Tries)
}

// showCost prints what a run paid for, or would pay for.
func showCost(w io.Writer, report core.Report) {
	if report.Estimate != nil {
		showShares(w, report)
		showEstimate(w, *report.Estimate, report.Currency)
	} else if report.Calls.Sum() > 0 || report.Tokens != (core.Tokens{}) {
		verb := "paid"
		if report.Reason == dryRun {
			verb = "would pay"
		}
		fmt.Fprintf(
			w,
			"  %s: %d extract, %d shorten, %d embed calls%s; %d prompt, %d completion, %d embedding tokens; %s\n",
			verb,
			report.Calls.Extract,
			report.Calls.Shorten,
			report.Calls.Embed,
			nameTranscribed(report.Calls.Transcribe, " calls"),
			report.Tokens.Prompt,
			report.Tokens.Completion,
			report.Tokens.Embedding,
			describeCost(report),
		)
	}
	if report.Planned != nil && report.Calls.Sum() > 0 {
		showPlanned(w, report)
	}
	if lost := report.Unsettled; lost.Calls.Sum() > 0 {
		why := "unanswered because a process died, perhaps billed"
		if !core.IsTerminal(report.Status) {
			why = "in flight, or lost because a process died"
		}
		fmt.Fprintf(w, "  %s %s: about %d prompt, %d completion, %d embedding tokens; cost %s\n",
			countOf(lost.Calls.Sum(), "more call"), why, lost.Tokens.Prompt, lost.Tokens.Completion, lost.Tokens.Embedding,
			moneyOf(lost.Cost, report.Currency))
	}
	if hits := report.LedgerHits; hits.Sum() > 0 {
		fmt.Fprintf(w, "  from the ledger: %d extract, %d shorten, %d embed%s\n", hits.Extract, hits.Shorten, hits.Embed,
			nameTranscribed(hits.Transcribe, ""))
	}
}

// nameTranscribed says how many pages were transcribed, in a unit, where any were.
func nameTranscribed(pages int64, unit string) string {
	if pages == 0 {
		return ""
	}
	return fmt.Sprintf(", %d transcribe%s", pages, unit)
}

// describeCost says what was paid in money. Tokens that cost nothing are those of a model without a price.
func describeCost(report core.Report) string {
	if report.Cost == 0 && report.Tokens != (core.Tokens{}) {
		return "no price is set (models.*.price)"
	}
	return "cost " + moneyOf(report.Cost, report.Currency)
}

// showEstimate prints what a dry run expects.
func showEstimate(w io.Writer, estimate core.Estimate, currency string) {
	count := func(n float64) string { return fmt.Sprintf("%.0f", n) }
	if estimate.SumCalls().High+estimate.Tokens.High == 0 {
		fmt.Fprintln(w, "  would need no model call")
	}
	for _, line := range []struct {
		name   string
		figure core.Range
		text   func(float64) string
	}{
		{"transcribe calls", estimate.Transcribe, count},
		{"extract calls", estimate.Extract, count},
		{"shorten calls", estimate.Shorten, count},
		{"embed calls", estimate.Embed, count},
		{"tokens", estimate.Tokens, count},
		{"cost", estimate.Cost, func(amount float64) string { return moneyOf(amount, currency) }},
		{"time", estimate.Seconds, durationOf},
	} {
		if line.name == "cost" && line.figure.High == 0 && estimate.Tokens.High > 0 {
			fmt.Fprintf(w, "  would need %-14s ? (no price is set: models.*.price)\n", line.name)
			continue
		}
		low, high := line.text(line.figure.Low), line.text(line.figure.High)
		if line.figure.High == 0 {
			continue
		}
		if low != high {
			low += " to " + high
		}
		fmt.Fprintf(w, "  would need %-14s %s\n", line.name, low)
	}
	showApply(w, estimate.ApplyTo)
}

// leftOutLine says how much of the corpus was not looked at, and why.
func leftOutLine(out core.LeftOut) string {
	var parts []string
	for _, part := range []struct {
		count int64
		what  string
	}{
		{out.Hidden, "hidden"}, {out.Packages, "in node_modules and the like"}, {out.NotIncluded, "not included"},
		{out.Excluded, "excluded"}, {out.Backfills, "left to running backfills"},
		{out.Purged, "purged, but still in the corpus"},
	} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// extensionsOf returns the commonest extensions of files that are skipped, in parentheses.
func extensionsOf(out core.LeftOut) string {
	names := slices.SortedFunc(maps.Keys(out.Extensions), func(a, b string) int {
		return cmp.Or(cmp.Compare(out.Extensions[b], out.Extensions[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, out.Extensions[name])
	}
	if len(names) == 0 {
		return ""
	}
	const most = 6
	if len(names) > most {
		names = append(names[:most], "...")
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// showProblems prints what stands failed, why, and where all of it is listed.
func showProblems(w io.Writer, report core.Report) {
	generation := path.Join(report.Index, "generations", report.Generation)
	if below := path.Join(report.Index, "generations") + "/"; strings.HasPrefix(report.ProblemsPath, below) {
		name, _, _ := strings.Cut(strings.TrimPrefix(report.ProblemsPath, below), "/")
		generation = below + name // an unchanged corpus: what stands failed is the current generation's
	}
	if line := leftOutLine(report.LeftOut); line != "" {
		fmt.Fprintf(w, "  left out: %s\n", line)
	}
	if out := report.LeftOut; out.OtherTypes > 0 {
		fmt.Fprintf(w, "  skipped: %s of other types%s\n", countOf(out.OtherTypes, "file"), extensionsOf(out))
	}
	if report.Refused > 0 {
		fmt.Fprintf(w, "  not read: %d of the files and rows\n", report.Refused)
	}
	if report.DocumentsFailed > 0 || report.ChunksFailed > 0 {
		fmt.Fprintf(w, "  failed: %s, %s", countOf(report.DocumentsFailed, "document"),
			countOf(report.ChunksFailed, "passage"))
		if report.Stale > 0 {
			serve := "serve"
			if report.Stale == 1 {
				serve = "serves"
			}
			fmt.Fprintf(w, "; %s %s the earlier version (stale)", countOf(report.Stale, "document"), serve)
		}
		fmt.Fprintln(w)
	}
	if report.DocumentsEmpty > 0 {
		fmt.Fprintf(w, "  without text: %s\n", countOf(report.DocumentsEmpty, "document"))
	}
	if report.DeadLetters > 0 {
		fmt.Fprintf(w, "  dead letters: %d in %s/dead-letters/\n", report.DeadLetters, generation)
	}
	total := report.CountProblems()
	if total == 0 {
		return
	}
	list := report.ProblemsPath
	if list == "" {
		list = generation + "/report.json"
	}
	shown := groupProblems(report.Problems)
	shown = shown[:min(len(shown), shownProblems)]
	rest := total
	for _, problem := range shown {
		rest -= int64(problem.count)
	}
	live := report.Status == core.StatusRunning || report.Status == core.StatusWaiting
	switch {
	case live && report.ProblemsPath == "": // report.json is written when it pauses or ends
		fmt.Fprintf(w, "  problems: %d so far\n", total)
	case rest > 0 && report.Reason != dryRun: // which leaves nothing
		fmt.Fprintf(w, "  problems: %d, all listed in %s\n", total, list)
	default:
		fmt.Fprintf(w, "  problems: %d\n", total)
	}
	for _, problem := range shown {
		fmt.Fprintf(w, "  ! %s\n", problem.formatLine())
	}
	if rest > 0 && report.Reason == dryRun {
		fmt.Fprintf(w, "  … and %d more\n", rest)
	} else if rest > 0 {
		fmt.Fprintf(w, "  … and %d more: unweaver logs %s\n", rest, report.Run)
	}
}
