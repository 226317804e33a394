package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// ApplyFlag is the flag that chooses passages for other types, guidance or examples.
const ApplyFlag = "extraction-to"

// showApply prints what each choice of passages would pay for.
func showApply(w io.Writer, calls *core.ApplyCalls) {
	if calls != nil {
		fmt.Fprintf(w, "  extract calls by --%s: all %d, mentions %d, new %d\n", ApplyFlag, calls.All, calls.Mentions,
			calls.New)
	}
}

// showShares prints what would be made, by the reason for it.
func showShares(w io.Writer, report core.Report) {
	for _, share := range report.Shares {
		fmt.Fprintf(w, "  %s: %s, %s", share.Reason, Count(share.Documents, "document"), Count(share.Chunks, "passage"))
		if share.Fresh > 0 {
			fmt.Fprintf(w, ", %d of them new", share.Fresh)
		}
		if share.Calls > 0 {
			fmt.Fprintf(w, ", %s", Count(share.Calls, "extraction"))
		}
		fmt.Fprintln(w)
	}
	if why := report.Why; why != nil {
		fmt.Fprintf(w, "  %s: %s", why.Document, why.Reason)
		if why.Detail != "" {
			fmt.Fprintf(w, " (%s)", why.Detail)
		}
		if why.Version+why.Was == "" { // it was purged: it was not looked up
			fmt.Fprintln(w)
			return
		}
		fmt.Fprintf(w, "; %s, %d of them new, %s to pay for\n", Count(why.Chunks, "passage"), why.Fresh,
			Count(why.Calls, "extraction"))
		fmt.Fprintf(w, "    in the corpus %s, in the published generation %s\n", cutVersion(why.Version), cutVersion(why.Was))
	}
	if runs := report.Estimate.Runs; runs > 0 {
		fmt.Fprintf(w, "  by what %s came to:\n", Count(int64(runs), "earlier generation"))
	}
}

// cutVersion returns the beginning of a version.
func cutVersion(version string) string {
	if version == "" {
		return "not there"
	}
	return "version " + version[:min(len(version), 12)]
}

// showPlanned prints what was expected of a run beside what it came to.
func showPlanned(w io.Writer, report core.Report) {
	count := func(n float64) string { return fmt.Sprintf("%.0f", n) }
	tokens := report.Tokens.Sum()
	var parts []string
	for _, line := range []struct {
		name   string
		figure core.Range
		actual float64
		text   func(float64) string
	}{
		{"extract", report.Planned.Extract, float64(report.Calls.Extract), count},
		{"shorten", report.Planned.Shorten, float64(report.Calls.Shorten), count},
		{"embed", report.Planned.Embed, float64(report.Calls.Embed), count},
		{"transcribe", report.Planned.Transcribe, float64(report.Calls.Transcribe), count},
		{"tokens", report.Planned.Tokens, float64(tokens), count},
		{"cost", report.Planned.Cost, report.Cost, func(amount float64) string { return Money(amount, report.Currency) }},
		{"time", report.Planned.Seconds, report.Worked(), Duration},
	} {
		if (line.name == "cost" || line.name == "transcribe") && line.actual+line.figure.High == 0 {
			continue // no price is set, which the line before says, or no page was transcribed
		}
		low, high := line.text(line.figure.Low), line.text(line.figure.High)
		if low != high {
			low += " to " + high
		}
		parts = append(parts, fmt.Sprintf("%s %s, planned %s", line.name, line.text(line.actual), low))
	}
	fmt.Fprintf(w, "  against the plan: %s\n", strings.Join(parts, "; "))
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
		{"cost", estimate.Cost, func(amount float64) string { return Money(amount, currency) }},
		{"time", estimate.Seconds, Duration},
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
