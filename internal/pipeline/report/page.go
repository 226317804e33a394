package report

import (
	"fmt"
	"html"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// Policy forbids the page everything but its own style: no script, no request. It stands in the page, for who opens the
// file, and whoever serves it sends it too.
const Policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

const style = `:root{color-scheme:light dark;--ink:#1f2937;--soft:#6b7280;--line:#e5e7eb;--paper:#fff;
--a:#0f766e;--b:#b45309}
@media(prefers-color-scheme:dark){
:root{--ink:#e5e7eb;--soft:#9ca3af;--line:#374151;--paper:#111827;--a:#2dd4bf;--b:#fbbf24}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.05rem;margin:2rem 0 .4rem}.soft{color:var(--soft)}.wide{overflow-x:auto}
table{border-collapse:collapse}th,td{text-align:left;vertical-align:top;padding:.25rem .9rem .25rem 0;
border-bottom:1px solid var(--line);overflow-wrap:anywhere}th{font-weight:600;color:var(--soft)}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.good{color:var(--a)}.warn,.bad{color:var(--b)}svg{max-width:100%;height:auto}
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}.a{stroke:var(--a)}.b{stroke:var(--b)}.fill{fill:var(--a)}
.a,.b{fill:none;stroke-width:2}.grid{stroke:var(--line)}.ka{fill:var(--a)!important}.kb{fill:var(--b)!important}
`

// HTML is report.html: one file that needs no other.
func HTML(r core.Report) string {
	var page strings.Builder
	page.WriteString("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"" + Policy + "\">\n" +
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
		"<meta name=\"referrer\" content=\"no-referrer\">\n")
	fmt.Fprintf(&page, "<title>%s</title>\n<style>\n%s</style>\n</head>\n<body>\n", safe(heading(r)), style)
	fmt.Fprintf(&page, "<h1>%s %s: <span class=\"%s\">%s</span></h1>\n", safe(r.Index), safe(r.Generation), tone(r.Status),
		safe(strings.ReplaceAll(r.Status, "_", " ")))
	if line := sentence(r.Reason, r.Detail); line != "" {
		fmt.Fprintf(&page, "<p class=\"warn\">%s</p>\n", safe(line))
	}
	for _, one := range parts(r) {
		section(&page, one)
		if one.title == "What it came to" {
			chart(&page, r)
		}
	}
	page.WriteString("</body>\n</html>\n")
	return page.String()
}

func tone(status string) string {
	switch status {
	case core.StatusCompleted:
		return "good"
	case core.StatusFailed:
		return "bad"
	}
	return "warn"
}

func section(page *strings.Builder, one part) {
	fmt.Fprintf(page, "<section>\n<h2>%s</h2>\n", safe(one.title))
	for _, line := range one.lines {
		fmt.Fprintf(page, "<p>%s</p>\n", safe(line))
	}
	if len(one.rows) > 0 {
		table(page, one)
	}
	page.WriteString("</section>\n")
}

func table(page *strings.Builder, one part) {
	page.WriteString("<div class=\"wide\"><table>\n<thead><tr>")
	class := make([]string, len(one.columns))
	for i, name := range one.columns {
		if number := strings.TrimPrefix(name, "#"); number != name {
			class[i], name = ` class="n"`, number
		}
		fmt.Fprintf(page, "<th scope=\"col\"%s>%s</th>", class[i], safe(name))
	}
	if len(one.bars) > 0 {
		page.WriteString("<th scope=\"col\"></th>")
	}
	page.WriteString("</tr></thead>\n<tbody>\n")
	for number, row := range one.rows {
		page.WriteString("<tr>")
		for i, cell := range row {
			fmt.Fprintf(page, "<td%s>%s</td>", class[i], safe(cell))
		}
		if len(one.bars) > 0 {
			fmt.Fprintf(page, `<td><svg width="200" height="12" viewBox="0 0 200 12" aria-hidden="true">`+
				`<rect class="fill" y="1" width="%.1f" height="10" rx="2"/></svg></td>`, 200*one.bars[number])
		}
		page.WriteString("</tr>\n")
	}
	page.WriteString("</tbody>\n</table></div>\n")
}

// safe is text that is shown as it is, wherever it stands in the page.
func safe(text string) string { return html.EscapeString(oneLine(text)) }

// Measures of the chart, in its own units.
const (
	chartWidth, chartHeight = 720.0, 220.0
	chartLeft, chartRight   = 52.0, 84.0
	chartTop, chartBottom   = 24.0, 34.0
)

// chart draws progress and what was paid over the time of the run. Where nothing has a price it draws calls.
func chart(page *strings.Builder, r core.Report) {
	course := r.Course
	if len(course) < 2 || course[len(course)-1].Seconds <= 0 {
		return
	}
	last := course[len(course)-1]
	paid, name, most := func(m core.Moment) float64 { return m.Cost }, "cost", money(last.Cost, r.Currency)
	if last.Cost == 0 {
		paid, name, most = func(m core.Moment) float64 { return float64(m.Calls) }, "calls paid for", count(last.Calls)
	}
	highest := 0.0
	for _, moment := range course {
		highest = max(highest, paid(moment))
	}
	wide, high := chartWidth-chartLeft-chartRight, chartHeight-chartTop-chartBottom
	x := func(m core.Moment) float64 { return chartLeft + wide*min(1, max(0, m.Seconds/last.Seconds)) }
	y := func(share float64) float64 { return chartTop + high*(1-min(1, max(0, share))) }
	line := func(of func(core.Moment) float64) string {
		var path strings.Builder
		for i, moment := range course {
			step := "L"
			if i == 0 {
				step = "M"
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", step, x(moment), y(of(moment)))
		}
		return path.String()
	}
	fmt.Fprintf(page, `<section>`+"\n"+`<h2>Progress and %s over time</h2>`+"\n"+
		`<svg viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" role="img" aria-label="Progress and %s over %s">`+"\n",
		name, chartWidth, chartHeight, chartWidth, chartHeight, name, duration(last.Seconds))
	for i := range 5 {
		share := float64(i) / 4
		fmt.Fprintf(page, `<path class="grid" d="M%.1f %.1fH%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%.0f %%</text>`+
			"\n", chartLeft, y(share), chartLeft+wide, chartLeft-8, y(share)+4, 100*share)
	}
	for i := range 5 {
		at := last.Seconds * float64(i) / 4
		fmt.Fprintf(page, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", chartLeft+wide*float64(i)/4,
			chartHeight-chartBottom+20, duration(at))
	}
	fmt.Fprintf(page, `<path class="a" d="%s"/>`+"\n", line(func(m core.Moment) float64 { return m.Share }))
	fmt.Fprintf(page, `<text class="ka" x="%.1f" y="14">progress</text>`+"\n", chartLeft)
	if highest > 0 {
		fmt.Fprintf(page, `<path class="b" d="%s"/>`+"\n", line(func(m core.Moment) float64 { return paid(m) / highest }))
		fmt.Fprintf(page, `<text class="kb" x="%.1f" y="14">%s</text>`+"\n", chartLeft+90, name)
		fmt.Fprintf(page, `<text class="kb" x="%.1f" y="%.1f">%s</text>`+"\n", chartLeft+wide+6, y(1)+4, safe(most))
	}
	page.WriteString("</svg>\n</section>\n")
}
