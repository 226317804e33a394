package eval

import (
	"fmt"
	"html"
	"strings"

	"github.com/unweaver/unweaver/internal/model/sampling"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

// Share is an index of which the model extracted from a share of the chunks, and what was sent to it: what is paid for.
type Share struct {
	Share  float64 `json:"share"`
	Index  string  `json:"index"`
	Chunks int     `json:"chunks"`
	Sent   int     `json:"sent"`
	Tokens int64   `json:"tokens"` // of all chunks
	Paid   int64   `json:"paid"`   // tokens of those that were sent
}

// ShareOf counts what a share of a dataset's passages sends, each being one chunk.
func (d *Dataset) ShareOf(share float64, index string) Share {
	out := Share{Share: share, Index: index, Chunks: len(d.Passages)}
	for _, text := range d.Passages {
		n := int64(tokens.Count(text))
		out.Tokens += n
		if sampling.ShouldSend(text, share) {
			out.Sent++
			out.Paid += n
		}
	}
	return out
}

// PaidShare returns the share of the tokens of all chunks that was paid for.
func (s Share) PaidShare() float64 { return float64(s.Paid) / float64(max(1, s.Tokens)) }

// findRow returns the row of a share by the first method; nil: none was asked.
func (r *Report) findRow(share Share) *Row {
	for i, row := range r.Rows {
		index := row.System.Index
		if index == "" {
			index = r.Index
		}
		if index == share.Index && row.System.Method == r.Rows[0].System.Method && row.System.Rule == r.Rows[0].System.Rule {
			return &r.Rows[i]
		}
	}
	return nil
}

// writeShares writes recall against money.
func (r *Report) writeShares(text *strings.Builder) {
	if len(r.Shares) == 0 {
		return
	}
	fmt.Fprintf(text, "\nRecall of %s against money: the share that was set, and what was sent to the model of all "+
		"chunks and of their tokens; the rest was extracted by rule. Differences are to all by the model.\n\n"+
		"| share | chunks | tokens |", r.Rows[0].Name)
	for _, k := range r.Ks {
		fmt.Fprintf(text, " recall@%d | difference |", k)
	}
	text.WriteString("\n|---|---|---|" + strings.Repeat("---|---|", len(r.Ks)) + "\n")
	for _, share := range r.Shares {
		row := r.findRow(share)
		if row == nil {
			continue
		}
		fmt.Fprintf(text, "| %g | %d of %d | %.1f %% |", share.Share, share.Sent, share.Chunks, 100*share.PaidShare())
		for k, recall := range row.Recall {
			difference := "–"
			if k < len(row.Paired) {
				difference = row.Paired[k].formatDifference()
			}
			fmt.Fprintf(text, " %.1f (%.1f–%.1f) | %s |", 100*recall.Mean, 100*recall.Low, 100*recall.High, difference)
		}
		text.WriteString("\n")
	}
}

// SpendSVG draws recall at every cut-off over the share of the tokens that was paid for, with its interval; empty where
// no shares were asked for.
func (r *Report) SpendSVG() string {
	if len(r.Shares) == 0 {
		return ""
	}
	const width, right = 520, 120
	x := func(money float64) float64 { return svgLeft + 12 + money*(width-svgLeft-right-24) }
	var text strings.Builder
	fmt.Fprintf(&text,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+
			`<rect width="100%%" height="100%%" fill="white"/>`+
			`<text x="%d" y="20" font-size="14">Recall of %s on %s by what is paid for, %d questions</text>`,
		width, svgTop+svgHeight+60, svgLeft, html.EscapeString(r.Rows[0].Name), html.EscapeString(r.Dataset), r.N)
	for percent := 0; percent <= 100; percent += 20 {
		y := svgY(float64(percent) / 100)
		fmt.Fprintf(&text, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+
			`<text x="%d" y="%.1f" text-anchor="end">%d</text>`+
			`<text x="%.1f" y="%d" text-anchor="middle">%d %%</text>`,
			svgLeft, width-right, y, y, svgLeft-6, y+4, percent, x(float64(percent)/100), svgTop+svgHeight+18, percent)
	}
	fmt.Fprintf(&text, `<text x="%.1f" y="%d" text-anchor="middle">of the chunks' tokens sent to the model</text>`,
		x(0.5), svgTop+svgHeight+40)
	for k, cutoff := range r.Ks {
		colour := svgColours[k%len(svgColours)]
		var points []string
		for _, share := range r.Shares {
			row := r.findRow(share)
			if row == nil {
				continue
			}
			at, recall := x(share.PaidShare())+float64(3*(k-1)), row.Recall[k]
			points = append(points, fmt.Sprintf("%.1f,%.1f", at, svgY(recall.Mean)))
			fmt.Fprintf(&text, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s"/>`+
				`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`,
				at, at, svgY(recall.Low), svgY(recall.High), colour, at, svgY(recall.Mean), colour)
		}
		fmt.Fprintf(&text, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+
			`<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">recall@%d</text>`,
			strings.Join(points, " "), colour, width-95, svgTop+k*20, colour, width-78, svgTop+10+k*20, cutoff)
	}
	text.WriteString("</svg>\n")
	return text.String()
}
