package eval

import (
	"strings"
	"testing"
)

func TestAWalkInThisProcessShowsNoLatency(t *testing.T) {
	one := []Interval{{Mean: 1, Low: 1, High: 1}}
	row := func(name string) Row {
		return Row{System: System{Method: name}, Name: name, Recall: one, All: one}
	}
	report := Report{Ks: []int{5}, Rows: []Row{row("hybrid"), row(HippoName)}}
	var out strings.Builder
	report.retrieval(&out)
	text := out.String()
	_, walk, _ := strings.Cut(text, "| "+HippoName)
	if !strings.Contains(walk, "| – | – |\n") || !strings.Contains(text, "| 0.0 | 0.0 |\n") ||
		!strings.Contains(text, "--compare=false") {
		t.Error(text)
	}
	report.Rows = report.Rows[:1]
	out.Reset()
	if report.retrieval(&out); strings.Contains(out.String(), "--compare") {
		t.Error(out.String())
	}
}
