package show

import (
	"fmt"
	"io"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// ApplyFlag is the flag that chooses passages for other types, guidance or examples.
const ApplyFlag = "extraction-to"

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
		fmt.Fprintf(w, "  %s: %s", OneLine(why.Document), why.Reason)
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

// figure is a part of an estimate.
type figure struct {
	name     string
	expected core.Range
	actual   float64
	text     func(float64) string
}

// listFigures lists the parts of an estimate, with what a run came to.
func listFigures(expected core.Estimate, report core.Report) []figure {
	count := func(n float64) string { return fmt.Sprintf("%.0f", n) }
	money := func(amount float64) string { return Money(amount, report.Currency) }
	return []figure{
		{"extract", expected.Extract, float64(report.Calls.Extract), count},
		{"shorten", expected.Shorten, float64(report.Calls.Shorten), count},
		{"embed", expected.Embed, float64(report.Calls.Embed), count},
		{"transcribe", expected.Transcribe, float64(report.Calls.Transcribe), count},
		{"tokens", expected.Tokens, float64(report.Tokens.Sum()), count},
		{"cost", expected.Cost, report.Cost, money},
		{"time", expected.Seconds, report.Worked(), Duration},
	}
}

// formatRange writes what is expected.
func (f figure) formatRange() string {
	low, high := f.text(f.expected.Low), f.text(f.expected.High)
	if low == high {
		return low
	}
	return low + " to " + high
}

// showPlanned prints what was expected of a run beside what it came to.
func showPlanned(w io.Writer, report core.Report) {
	var parts []string
	for _, one := range listFigures(*report.Planned, report) {
		if (one.name == "cost" || one.name == "transcribe") && one.actual+one.expected.High == 0 {
			continue // no price is set, which the line before says, or no page was transcribed
		}
		parts = append(parts, fmt.Sprintf("%s %s, planned %s", one.name, one.text(one.actual), one.formatRange()))
	}
	fmt.Fprintf(w, "  against the plan: %s\n", strings.Join(parts, "; "))
}

// showEstimate prints what a dry run expects.
func showEstimate(w io.Writer, report core.Report) {
	estimate := *report.Estimate
	if estimate.SumCalls().High+estimate.Tokens.High == 0 {
		fmt.Fprintln(w, "  would need no model call")
	}
	for i, one := range listFigures(estimate, report) {
		name := one.name
		if i < 4 {
			name += " calls"
		}
		if one.expected.High > 0 {
			fmt.Fprintf(w, "  would need %-14s %s\n", name, one.formatRange())
		} else if name == "cost" && estimate.Tokens.High > 0 {
			fmt.Fprintf(w, "  would need %-14s ? (no price is set: models.*.price)\n", name)
		}
	}
	if calls := estimate.ApplyTo; calls != nil {
		fmt.Fprintf(w, "  extract calls by --%s: all %d, mentions %d, new %d\n", ApplyFlag, calls.All, calls.Mentions,
			calls.New)
	}
}
