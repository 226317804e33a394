package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// published are rows of the paper's Table 1 (arXiv 2603.29875): factual correctness, mean and variance of five runs.
var published = map[string][]struct {
	Method   string
	Mean, S2 float64
}{
	"covidqa": {
		{"UnWeaver", 0.3823, 1.32e-5}, {"UnWeaverPPR", 0.3701, 4.37e-6}, {"VectorRAG", 0.3790, 6.02e-6},
		{"RAPTOR", 0.3643, 8.04e-6}, {"GraphRAG", 0.3092, 3.66e-6}, {"HippoRAG2", 0.3735, 6.06e-6},
		{"ClosedBook", 0.2135, 1.50e-6}, {"Oracle", 0.4765, 3.77e-6},
	},
	"emanual": {
		{"UnWeaver", 0.4811, 2.47e-5}, {"UnWeaverPPR", 0.4514, 1.39e-5}, {"VectorRAG", 0.4793, 2.16e-5},
		{"RAPTOR", 0.4466, 2.17e-5}, {"GraphRAG", 0.3424, 5.87e-6}, {"HippoRAG2", 0.4680, 1.43e-5},
		{"ClosedBook", 0.1793, 5.01e-6}, {"Oracle", 0.5318, 2.30e-6},
	},
	"techqa": {
		{"UnWeaver", 0.3135, 7.54e-6}, {"UnWeaverPPR", 0.3123, 2.53e-6}, {"VectorRAG", 0.3218, 7.86e-6},
		{"GraphRAG", 0.2847, 4.19e-6}, {"HippoRAG2", 0.3448, 1.34e-5}, {"ClosedBook", 0.2052, 4.20e-6},
		{"Oracle", 0.3367, 1.66e-6},
	},
	"musique": {
		{"UnWeaver", 0.2028, 4.60e-6}, {"UnWeaverPPR", 0.1946, 3.88e-6}, {"VectorRAG", 0.2007, 1.47e-6},
		{"RAPTOR", 0.1858, 1.29e-6}, {"GraphRAG", 0.1353, 7.65e-6}, {"HippoRAG2", 0.2196, 1.01e-6},
		{"ClosedBook", 0.1476, 9.82e-6}, {"Oracle", 0.2176, 2.02e-6},
	},
}

// RenderMarkdown returns a report as Markdown.
func (r *Report) RenderMarkdown() string {
	var text strings.Builder
	built, answered := "", ""
	if !r.Published {
		answered = fmt.Sprintf(" (%d with answers)", r.WithAnswers)
		built = fmt.Sprintf(" (content %.12s, text %.12s, vectors %.12s); extraction by %s",
			r.Content, r.Text, r.Vectors, r.Chat)
	}
	fmt.Fprintf(&text, "# %s: %d questions%s\n\n", r.Dataset, r.N, answered)
	fmt.Fprintf(&text,
		"Index %s, generation %s%s, embeddings by %s. %s UTC. Intervals: 95 %%, paired bootstrap, %d resamples, seed %d.\n\n",
		r.Index, r.Generation, built, r.Models, r.At.Format("2006-01-02 15:04"), r.Resamples, r.Seed)
	r.writeRetrieval(&text)
	r.writeMissed(&text)
	r.writePairs(&text)
	if r.Published {
		return text.String()
	}
	r.writeChosen(&text)
	if !r.isPaid() {
		text.WriteString("\nNo tokens were spent: the models are built in or recorded.\n")
		return text.String()
	}
	r.writeTokens(&text)
	r.writePublished(&text)
	return text.String()
}

// writeRetrieval writes the table of recall and latency.
func (r *Report) writeRetrieval(text *strings.Builder) {
	text.WriteString("| method |")
	for _, k := range r.Ks {
		fmt.Fprintf(text, " recall@%d |", k)
	}
	last := r.Ks[len(r.Ks)-1]
	fmt.Fprintf(text, " all gold@%d | MRR | nDCG@%d | recall@%d against %s | p50 ms | p99 ms |\n|---|",
		last, last, last, r.Rows[0].Name)
	text.WriteString(strings.Repeat("---|", len(r.Ks)+6) + "\n")
	for _, row := range r.Rows {
		if len(row.Recall) == 0 {
			continue
		}
		p50, p99 := fmt.Sprintf("%.1f", row.P50), fmt.Sprintf("%.1f", row.P99)
		fmt.Fprintf(text, "| %s |", row.Name)
		for _, recall := range row.Recall {
			fmt.Fprintf(text, " %.1f (%.1f–%.1f) |", 100*recall.Mean, 100*recall.Low, 100*recall.High)
		}
		against := "–"
		if paired := row.Against; paired != nil {
			against = paired.formatDifference()
		}
		fmt.Fprintf(text, " %.1f | %.3f | %.3f | %s | %s | %s |\n",
			100*row.All[len(row.All)-1].Mean, row.MRR.Mean, row.NDCG.Mean, against, p50, p99)
	}
}

// writeMissed writes the first questions that the first method missed.
func (r *Report) writeMissed(text *strings.Builder) {
	if len(r.Missed) == 0 {
		return
	}
	fmt.Fprintf(text, "\n%s found none of the documents for %d of %d questions:\n\n", r.Rows[0].Name, len(r.Missed), r.N)
	for _, missed := range r.Missed[:min(10, len(r.Missed))] {
		fmt.Fprintf(text, "* %s (%s)\n", missed.Question, strings.Join(missed.Gold, ", "))
	}
}

// formatDifference writes a paired one in points, and what its interval lets one say of it.
func (i Interval) formatDifference() string {
	return fmt.Sprintf("%+.1f (%+.1f to %+.1f): %s", 100*i.Mean, 100*i.Low, 100*i.High, i.Verdict())
}

// Verdict returns the verdict on a paired difference: it is real where its interval leaves no room for none.
func (i Interval) Verdict() string {
	switch {
	case i.Low > 0:
		return "more"
	case i.High < 0:
		return "less"
	}
	return "not significant"
}

// writePairs writes what variants change.
func (r *Report) writePairs(text *strings.Builder) {
	first := true
	for _, row := range r.Rows {
		if len(row.Paired) == 0 {
			continue
		}
		if first {
			text.WriteString("\nDifferences of recall, question by question; where the interval holds 0 nothing is shown:\n\n")
			text.WriteString("| what | against | generation |")
			for _, k := range r.Ks {
				fmt.Fprintf(text, " recall@%d |", k)
			}
			text.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(r.Ks)) + "\n")
			first = false
		}
		fmt.Fprintf(text, "| %s | %s | %s |", row.Name, row.Base, row.Generation)
		for _, paired := range row.Paired {
			fmt.Fprintf(text, " %s |", paired.formatDifference())
		}
		text.WriteString("\n")
	}
}

// choosers are the sets whose questions chose the setting of hybrid (docs/explain/retrieval.md), as their folders are
// called.
var choosers = []string{"musique", "2wiki", "covid_qa"}

// writeChosen says on which questions the setting was chosen.
func (r *Report) writeChosen(text *strings.Builder) {
	fmt.Fprintf(text, "\nQuestions %.12s: do not compare these figures with a report of another checksum, "+
		"because its questions differ.", r.Questions)
	text.WriteString(" The setting of hybrid was chosen on samples of MuSiQue (100 questions), 2Wiki (120) and CovidQA")
	if slices.Contains(choosers, strings.ToLower(r.Dataset)) {
		text.WriteString(": this set has the name of one of them, " +
			"and if these are its questions, hybrid's figures flatter it.\n")
	} else {
		text.WriteString(", and on no set of this name.\n")
	}
}

// writeTokens writes the table of tokens and of the answers' correctness.
func (r *Report) writeTokens(text *strings.Builder) {
	text.WriteString("\nTokens that each method needs. Those of the index are the ledger's, whenever they were paid: " +
		"equal on a re-run; embeddings of them are counted in o200k tokens. What gem and apr add to an " +
		"index is not among them. Those of questions count as if none was asked before.\n\n" +
		"| method | extraction prompt | completion | class embedding | chunk embedding | question embedding | " +
		"answer prompt | completion | factual correctness ± its deviation | against the first | failed as 0 | skipped |\n" +
		strings.Repeat("|---", 12) + "|\n")
	for _, row := range r.Rows {
		fmt.Fprintf(text, "| %s |", row.Name)
		used := row.Tokens
		for _, n := range []int64{
			used.PromptIndex, used.CompletionIndex, used.EmbedClasses, used.EmbedChunks, used.EmbedQuery, used.PromptQuery,
			used.CompletionQuery,
		} {
			if n == 0 {
				text.WriteString(" – |")
			} else {
				fmt.Fprintf(text, " %d |", n)
			}
		}
		if f1 := row.F1; f1 != nil {
			against := "–"
			if f1.Against != nil {
				against = f1.Against.formatDifference()
			}
			deviation := math.Sqrt(f1.Variance)
			fmt.Fprintf(text, " %.4f ± %.4f | %s | %.4f | %d |\n", f1.Mean, deviation, against, f1.AsZero, f1.Skipped)
		} else {
			text.WriteString(" – | – | – | – |\n")
		}
	}
}

// writePublished writes what the paper says of a dataset of that name.
func (r *Report) writePublished(text *strings.Builder) {
	rows := published[strings.ReplaceAll(r.Dataset, "_", "")]
	if len(rows) == 0 {
		return
	}
	text.WriteString("\nPublished for a set of that name " +
		"(mean and variance; another selection of questions and other models: a distant comparison): ")
	for i, row := range rows {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(text, "%s %.4f (%.2e)", row.Method, row.Mean, row.S2)
	}
	text.WriteString(".\n")
}

// isPaid reports whether anything was paid for.
func (r *Report) isPaid() bool {
	for _, x := range r.Rows {
		if x.Tokens != (Tokens{}) || x.F1 != nil {
			return true
		}
	}
	return false
}

// Write puts report.json, report.md and the answers that were judged into a folder.
func (r *Report) Write(dir string) error {
	raw, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return writeAll(dir, map[string]string{
		"questions.jsonl": r.formatAnswers(), "report.json": string(raw) + "\n",
		"report.md": r.RenderMarkdown(),
	})
}

// formatAnswers has a line for each question that was answered and judged: by system, its answer and how factual it is
// by run, null where it could not be judged.
func (r *Report) formatAnswers() string {
	type one struct {
		Answer  string     `json:"answer"`
		Factual []*float64 `json:"factual_correctness"`
	}
	var text strings.Builder
	for i, id := range r.ids {
		line := map[string]any{"id": id}
		for _, row := range r.Rows {
			if len(row.rated) == 0 {
				continue
			}
			said := one{Answer: row.answers[i]}
			for _, run := range row.rated {
				var value *float64
				if !math.IsNaN(run[i]) {
					value = &run[i]
				}
				said.Factual = append(said.Factual, value)
			}
			line[row.Name] = said
		}
		if raw, err := json.Marshal(line); err == nil && len(line) > 1 { // texts and numbers always marshal
			text.Write(append(raw, '\n'))
		}
	}
	return text.String()
}

// writeAll writes files into a folder, without those that hold nothing.
func writeAll(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, body := range files {
		if body == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return err
		}
	}
	return nil
}
