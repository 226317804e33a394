package show

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

// showAudit prints what an audit looked at and found.
func showAudit(w io.Writer, audit core.Audit) {
	seen := audit.Checked
	fmt.Fprintf(w, "  part %s of generation %s: %s (%s), %s of %s, %s of %s, %s, %s\n", audit.Sample,
		audit.Generation, Count(seen.Segments, "file"), core.FormatSize(seen.Bytes), Count(seen.Mentions, "mention"),
		Count(seen.Classes, "entity"), Count(seen.Chunks, "passage"), Count(seen.Documents, "document"),
		Count(seen.Records, "record"), Count(seen.Vectors, "vector"))
	if len(audit.Drift) == 0 {
		fmt.Fprintln(w, "  no differences")
		return
	}
	var parts []string
	for _, drift := range audit.Drift {
		part := fmt.Sprintf("%s %d", drift.Kind, drift.Found)
		if drift.Mended > 0 {
			part += fmt.Sprintf(" (%d mended)", drift.Mended)
		}
		parts = append(parts, part)
	}
	fmt.Fprintf(w, "  differs: %s; left: %d\n", strings.Join(parts, ", "), audit.Left)
	for _, found := range audit.Findings {
		fmt.Fprintf(w, "  ! %s %s: %s\n", found.Kind, found.Object, found.Why)
		if found.Remedy != "" {
			fmt.Fprintf(w, "    %s\n", found.Remedy)
		}
	}
}

// shownProblems is how many distinct problems are listed; the others are in the list that is named.
const shownProblems = 5

// DryRun is the reason of a run that only estimates: it leaves no artifact.
const DryRun = "dry_run"

// HasFailures reports whether anything of the index stands failed. Objects of a type that is not read count as no
// failure.
func HasFailures(report core.Report) bool {
	return report.DocumentsFailed > 0 || report.ChunksFailed > 0 || report.DeadLetters > 0
}

// Report prints a run for people.
func Report(w io.Writer, status control.Status) {
	showState(w, status)
	showFound(w, status.Report)
	if nothing := status.Documents == 0 && status.Calls.Sum() == 0; !nothing || !core.IsTerminal(status.Status) {
		showCost(w, status.Report)
	}
	for _, retry := range status.Retries {
		fmt.Fprintf(w, "  retried: %s %s, %s, last at %s\n", retry.Stage, retry.Code, Count(retry.Count, "time"),
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
			fmt.Fprintf(w, "  next: %s\n", control.JoinLines(line))
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
		fmt.Fprintf(w, "  rewritten: %s, %s, %s\n", Count(report.Written.Segments, "segment"),
			Count(report.Written.Records, "record"), Count(report.Written.Rows, "vector"))
		return
	}
	if report.Audit != nil {
		showAudit(w, *report.Audit)
		return
	}
	if report.Documents+report.Chunks == 0 && core.IsTerminal(report.Status) {
		return
	}
	fmt.Fprintf(w, "  %s", Count(report.Documents, "document"))
	if report.Within > 0 {
		fmt.Fprintf(w, " (rows and attachments of files: %d)", report.Within)
	}
	fmt.Fprintf(w, ", %s", Count(report.Chunks, "passage"))
	if report.Reason != DryRun { // which extracts nothing
		fmt.Fprintf(w, ", %s, %s", Count(report.Classes, "entity"), Count(report.Mentions, "mention"))
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

// PublishedSince follows the status of a run that a gate held and an operator published.
const PublishedSince = ", published by an operator"

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
		fmt.Fprintf(w, " (%s)", control.JoinLines(status.Reason))
	}
	if status.Status == core.StatusHeld && status.Published {
		fmt.Fprint(w, PublishedSince)
	}
	if line := waitingLine(status); line != "" {
		fmt.Fprintf(w, "  %s", line)
	}
	if status.Unchanged {
		fmt.Fprint(w, "  nothing changed")
		if HasFailures(status.Report) {
			fmt.Fprint(w, ", but earlier failures remain")
		}
	}
	fmt.Fprintln(w)
	if status.Detail != "" {
		fmt.Fprintf(w, "  %s\n", control.JoinLines(status.Detail))
	}
	if line := givenLine(status); line != "" {
		fmt.Fprintf(w, "  changed during the run: %s\n", line)
	}
	if status.Stage != "" {
		fmt.Fprintf(w, "  %.0f %% done, stage %s, %s, %s, %s so far, %s\n", 100*status.Overall, status.Stage,
			unitsDone(status), formatRate(status.Rate), Duration(status.Seconds), describeRemaining(status))
	}
}

// givenLine returns what a run was given with the limit command, or as it was resumed.
func givenLine(status control.Status) string {
	var parts []string
	if status.Limits != nil {
		parts = append(parts, status.Limits.String())
	}
	if budget := status.Budget; budget != nil && *budget != (core.Budget{}) {
		parts = append(parts, Budget(*budget, status.Currency))
	}
	return strings.Join(parts, ", ")
}

// Budget names the bounds of a budget.
func Budget(budget core.Budget, currency string) string {
	var bounds []string
	if budget.Calls > 0 {
		bounds = append(bounds, fmt.Sprintf("%d calls", budget.Calls))
	}
	if budget.Tokens > 0 {
		bounds = append(bounds, fmt.Sprintf("%d tokens", budget.Tokens))
	}
	if budget.Money > 0 {
		bounds = append(bounds, Money(budget.Money, currency))
	}
	return "a budget of " + strings.Join(bounds, ", ")
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
		showEstimate(w, report)
	} else if report.Calls.Sum() > 0 || report.Tokens != (core.Tokens{}) {
		verb := "paid"
		if report.Reason == DryRun {
			verb = "would pay"
		}
		fmt.Fprintf(w,
			"  %s: %d extract, %d shorten, %d embed calls%s; %d prompt, %d completion, %d embedding tokens; %s\n", verb,
			report.Calls.Extract, report.Calls.Shorten, report.Calls.Embed, nameTranscribed(report.Calls.Transcribe, " calls"),
			report.Tokens.Prompt, report.Tokens.Completion, report.Tokens.Embedding, describeCost(report))
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
			Count(lost.Calls.Sum(), "more call"), why, lost.Tokens.Prompt, lost.Tokens.Completion, lost.Tokens.Embedding,
			Money(lost.Cost, report.Currency))
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
	return "cost " + Money(report.Cost, report.Currency)
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
		fmt.Fprintf(w, "  skipped: %s of other types%s\n", Count(out.OtherTypes, "file"), extensionsOf(out))
	}
	if report.Refused > 0 {
		fmt.Fprintf(w, "  not read: %d of the files and rows\n", report.Refused)
	}
	if report.DocumentsFailed > 0 || report.ChunksFailed > 0 {
		fmt.Fprintf(w, "  failed: %s, %s", Count(report.DocumentsFailed, "document"),
			Count(report.ChunksFailed, "passage"))
		if report.Stale > 0 {
			serve := "serve"
			if report.Stale == 1 {
				serve = "serves"
			}
			fmt.Fprintf(w, "; %s %s the earlier version (stale)", Count(report.Stale, "document"), serve)
		}
		fmt.Fprintln(w)
	}
	if report.DocumentsEmpty > 0 {
		fmt.Fprintf(w, "  without text: %s\n", Count(report.DocumentsEmpty, "document"))
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
	case rest > 0 && report.Reason != DryRun: // which leaves nothing
		fmt.Fprintf(w, "  problems: %d, all listed in %s\n", total, list)
	default:
		fmt.Fprintf(w, "  problems: %d\n", total)
	}
	for _, problem := range shown {
		fmt.Fprintf(w, "  ! %s\n", problem.formatLine())
	}
	if rest > 0 && report.Reason == DryRun {
		fmt.Fprintf(w, "  … and %d more\n", rest)
	} else if rest > 0 {
		fmt.Fprintf(w, "  … and %d more: unweaver logs %s\n", rest, report.Run)
	}
}

// showChanged prints the standing questions whose passages changed.
func showChanged(w io.Writer, found *core.Watched) {
	lines, rows := reports.FormatWatched(found)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", line)
	}
	for _, row := range rows {
		fmt.Fprintf(w, "    %s\n      before: %s\n      after:  %s\n      because of: %s\n", row[0], row[1], row[2], row[3])
	}
}
