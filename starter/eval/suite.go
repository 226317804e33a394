package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
)

// Suite is what one run found on several sets, question by question, so that the next run is compared with it in pairs.
type Suite struct {
	At   time.Time  `json:"at"`
	Last *time.Time `json:"last,omitempty"` // the run that it is compared with
	Ks   []int      `json:"k"`
	Base string     `json:"base"` // the method that the others are compared with
	Rows []SuiteRow `json:"rows"`
}

// SuiteRow is one method on one set.
type SuiteRow struct {
	Set         string      `json:"set"`
	Questions   string      `json:"questions_sum"`
	Method      string      `json:"method"`
	N           int         `json:"n"`
	Recall      []Interval  `json:"recall"`
	AgainstBase []Interval  `json:"against_base,omitempty"` // paired differences of recall at each k
	AgainstLast []Interval  `json:"against_last,omitempty"`
	P50         float64     `json:"latency_p50_ms"`
	ByQuestion  [][]float64 `json:"recall_by_question"`
}

// suiteFile is what a run leaves for the next one.
const suiteFile = "suite.json"

// ListSets lists the datasets of a folder by name.
func ListSets(dir string) ([]*Dataset, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Usage.At("read suite", dir).Because(err)
	}
	var out []*Dataset
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		dataset, err := Load(path)
		if err != nil {
			return nil, err
		}
		out = append(out, dataset)
	}
	if len(out) == 0 {
		return nil, fault.Usage.At("read suite", dir).Because("it contains no folder").
			Advise("a suite is a folder of datasets: folders with corpus.jsonl and questions.jsonl")
	}
	return out, nil
}

// ReadSuite returns what an earlier run left in a folder; nil: none did.
func ReadSuite(dir string) (*Suite, error) {
	raw, err := os.ReadFile(filepath.Join(dir, suiteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var suite Suite
	if err == nil {
		err = json.Unmarshal(raw, &suite)
	}
	if err != nil {
		return nil, fault.Usage.At("read the last run", filepath.Join(dir, suiteFile)).Because(err).
			Advise("choose another --out, or delete the file")
	}
	return &suite, nil
}

// Add compares the methods of a report in pairs with the base, and each with itself in the last run, where that asked
// the same questions.
func (s *Suite) Add(report *Report, last *Suite) {
	drawn := drawResamples(report.N, report.Seed)
	var base *Row
	for i := range report.Rows {
		if report.Rows[i].Name == s.Base {
			base = &report.Rows[i]
		}
	}
	for _, row := range report.Rows {
		out := SuiteRow{
			Set: report.Dataset, Questions: report.Questions, Method: row.Name, N: report.N, Recall: row.Recall,
			P50: row.P50,
		}
		for _, scores := range row.scores {
			out.ByQuestion = append(out.ByQuestion, scores.Recall)
		}
		for k := range s.Ks {
			if base != nil && base.Name != row.Name {
				out.AgainstBase = append(out.AgainstBase, row.comparePaired(*base, k, drawn))
			}
			if was := last.findRow(out, s.Ks); was != nil {
				differences := make([]float64, report.N)
				for i := range differences {
					differences[i] = out.ByQuestion[i][k] - was.ByQuestion[i][k]
				}
				out.AgainstLast = append(out.AgainstLast, newInterval(differences, drawn))
			}
		}
		s.Rows = append(s.Rows, out)
	}
}

// findRow returns that of the same questions, method and cut-offs; nil: there is none.
func (s *Suite) findRow(now SuiteRow, ks []int) *SuiteRow {
	if s == nil || !slices.Equal(s.Ks, ks) {
		return nil
	}
	for i, row := range s.Rows {
		if row.Set == now.Set && row.Method == now.Method && row.Questions == now.Questions && len(row.ByQuestion) == now.N {
			return &s.Rows[i]
		}
	}
	return nil
}

// RenderMarkdown returns one table of all sets.
func (s *Suite) RenderMarkdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Suite, %s UTC\n\nRecall in percent at %v. Differences: paired, 95 %% (bootstrap, %d resamples); "+
		"bold where the interval leaves out 0.\n\n| set | questions | method |",
		s.At.Format("2006-01-02 15:04"), s.Ks, Resamples)
	for _, k := range s.Ks {
		fmt.Fprintf(&out, " @%d |", k)
	}
	fmt.Fprintf(&out, " against %s | against the last run | p50 ms |\n|---|---|---|%s---|---|---|\n", s.Base,
		strings.Repeat("---|", len(s.Ks)))
	for _, row := range s.Rows {
		fmt.Fprintf(&out, "| %s | %d | %s |", row.Set, row.N, row.Method)
		for _, recall := range row.Recall {
			fmt.Fprintf(&out, " %.1f |", 100*recall.Mean)
		}
		fmt.Fprintf(&out, " %s | %s | %.1f |\n", formatDiffs(row.AgainstBase), formatDiffs(row.AgainstLast), row.P50)
	}
	return out.String()
}

// formatDiffs writes differences at each cut-off in points.
func formatDiffs(differences []Interval) string {
	var out []string
	for _, one := range differences {
		cell := fmt.Sprintf("%+.1f (%+.1f to %+.1f)", 100*one.Mean, 100*one.Low, 100*one.High)
		if one.Low > 0 || one.High < 0 {
			cell = "**" + cell + "**"
		}
		out = append(out, cell)
	}
	return strings.Join(append(out, "–")[:max(1, len(out))], ", ")
}

// Write puts suite.json, suite.md and suite.svg into a folder.
func (s *Suite) Write(dir string) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return writeAll(
		dir, map[string]string{suiteFile: string(raw) + "\n", "suite.md": s.RenderMarkdown(), "suite.svg": s.SVG()},
	)
}
