package eval

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// published are rows of the paper's Table 1 (arXiv 2603.29875): factual correctness, mean over five runs.
var published = map[string][]struct {
	Method string
	F1     float64
}{
	"covid_qa": {
		{"UnWeaver", 0.3823},
		{"UnWeaverPPR", 0.3701},
		{"VectorRAG", 0.3790},
		{"RAPTOR", 0.3643},
		{"GraphRAG", 0.3092},
		{"HippoRAG2", 0.3735},
		{"ClosedBook", 0.2135},
		{"Oracle", 0.4765},
	},
	"musique": {
		{"UnWeaver", 0.2028},
		{"UnWeaverPPR", 0.1946},
		{"VectorRAG", 0.2007},
		{"RAPTOR", 0.1858},
		{"GraphRAG", 0.1353},
		{"HippoRAG2", 0.2196},
		{"ClosedBook", 0.1476},
		{"Oracle", 0.2176},
	},
}

// Markdown of a report.
func (r *Report) Markdown() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s: %d questions (%d with answers)\n\n", r.Dataset, r.N, r.WithAnswers)
	fmt.Fprintf(
		&text,
		"Index %s, generation %s (content %.12s, text %.12s, vectors %.12s); extraction by %s, embeddings by %s. %s UTC. Intervals: 95 %%, paired bootstrap, %d resamples, seed %d.\n\n",
		r.Index,
		r.Generation,
		r.Content,
		r.Text,
		r.Vectors,
		r.Chat,
		r.Models,
		r.At.Format("2006-01-02 15:04"),
		r.Resamples,
		r.Seed,
	)
	text.WriteString("| method |")
	for _, k := range r.Ks {
		fmt.Fprintf(&text, " recall@%d |", k)
	}
	last := r.Ks[len(r.Ks)-1]
	fmt.Fprintf(
		&text,
		" all gold@%d | MRR | nDCG@%d | recall@%d against %s | p50 ms | p99 ms |\n|---|",
		last,
		last,
		last,
		r.Rows[0].Name,
	)
	text.WriteString(strings.Repeat("---|", len(r.Ks)+6) + "\n")
	for _, row := range r.Rows {
		if len(row.Recall) == 0 {
			continue
		}
		fmt.Fprintf(&text, "| %s |", row.Name)
		for _, v := range row.Recall {
			fmt.Fprintf(&text, " %.1f (%.1f–%.1f) |", 100*v.Mean, 100*v.Low, 100*v.High)
		}
		against := "–"
		if row.Against != nil {
			against = fmt.Sprintf(
				"%+.1f (%+.1f to %+.1f)",
				100*row.Against.Mean,
				100*row.Against.Low,
				100*row.Against.High,
			)
		}
		fmt.Fprintf(
			&text,
			" %.1f | %.3f | %.3f | %s | %.1f | %.1f |\n",
			100*row.All[len(row.All)-1].Mean,
			row.MRR.Mean,
			row.NDCG.Mean,
			against,
			row.P50,
			row.P99,
		)
	}
	if !r.spent() {
		text.WriteString("\nNo token was spent: built-in models, or recordings.\n")
		return text.String()
	}
	text.WriteString(
		"\n| method | prompt index | prompt query | completion index | completion query | embedding index | embedding query | factual correctness (variance) | failed as 0 | skipped |\n|---|---|---|---|---|---|---|---|---|---|\n",
	)
	for _, x := range r.Rows {
		f := "– | – | –"
		if x.F1 != nil {
			f = fmt.Sprintf("%.4f (%.2e) | %.4f | %d", x.F1.Mean, x.F1.Variance, x.F1.AsZero, x.F1.Skipped)
		}
		t := x.Tokens
		fmt.Fprintf(
			&text,
			"| %s | %d | %d | %d | %d | %d | %d | %s |\n",
			x.Name,
			t.PromptIndex,
			t.PromptQuery,
			t.CompletionIndex,
			t.CompletionQuery,
			t.EmbedIndex,
			t.EmbedQuery,
			f,
		)
	}
	if rows := published[r.Dataset]; len(rows) > 0 {
		text.WriteString(
			"\nPublished for a set of that name (another selection of questions, other models: a distant comparison): ",
		)
		for i, p := range rows {
			if i > 0 {
				text.WriteString(", ")
			}
			fmt.Fprintf(&text, "%s %.4f", p.Method, p.F1)
		}
		text.WriteString(".\n")
	}
	return text.String()
}

// spent tells whether anything was paid for.
func (r *Report) spent() bool {
	for _, x := range r.Rows {
		if x.Tokens != (Tokens{}) || x.F1 != nil {
			return true
		}
	}
	return false
}

// SVG draws recall at every cut-off with its interval, a group of bars a method.
func (r *Report) SVG() string {
	const left, top, height, bar, gap = 48, 40, 260, 18, 22
	colours := []string{"#8fb8de", "#3f7fbf", "#1b4f8a", "#0e2f55"}
	group := len(r.Ks)*bar + gap
	var rows []Row
	for _, x := range r.Rows {
		if len(x.Recall) > 0 {
			rows = append(rows, x)
		}
	}
	width := left + len(rows)*group + 120
	y := func(v float64) float64 { return top + height*(1-v) }
	var text strings.Builder
	fmt.Fprintf(
		&text,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`,
		width,
		top+height+60,
	)
	fmt.Fprintf(
		&text,
		`<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="14">Recall on %s, %d questions, 95 %% intervals</text>`,
		left,
		html.EscapeString(r.Dataset),
		r.N,
	)
	for v := 0; v <= 100; v += 20 {
		fmt.Fprintf(
			&text,
			`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%d</text>`,
			left,
			width-110,
			y(float64(v)/100),
			y(float64(v)/100),
			left-6,
			y(float64(v)/100)+4,
			v,
		)
	}
	for i, row := range rows {
		at := left + gap/2 + i*group
		for k, v := range row.Recall {
			fmt.Fprintf(
				&text,
				`<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`,
				at+k*bar,
				y(v.Mean),
				bar-3,
				height*v.Mean,
				colours[k%len(colours)],
			)
			mid := float64(at+k*bar) + float64(bar-3)/2
			fmt.Fprintf(
				&text,
				`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#444"/>`,
				mid,
				mid,
				y(v.Low),
				y(v.High),
			)
		}
		for l, part := range strings.FieldsFunc(row.Name, func(c rune) bool { return c == '/' || c == '-' }) {
			fmt.Fprintf(
				&text,
				`<text x="%d" y="%d" text-anchor="middle">%s</text>`,
				at+len(r.Ks)*bar/2,
				top+height+18+14*l,
				html.EscapeString(part),
			)
		}
	}
	for k, v := range r.Ks {
		fmt.Fprintf(
			&text,
			`<rect x="%d" y="%d" width="12" height="12" fill="%s"/><text x="%d" y="%d">recall@%d</text>`,
			width-95,
			top+k*20,
			colours[k%len(colours)],
			width-78,
			top+10+k*20,
			v,
		)
	}
	text.WriteString("</svg>\n")
	return text.String()
}

// Write puts report.json, report.md and recall.svg into a folder.
func (r *Report) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	for name, body := range map[string]string{"report.json": string(raw) + "\n", "report.md": r.Markdown(), "recall.svg": r.SVG()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return err
		}
	}
	return nil
}
