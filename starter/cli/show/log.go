package show

import (
	"fmt"
	"io"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/runlog"
)

// Log prints what happened in a run.
func Log(w io.Writer, log runlog.Log) {
	showState(w, log.Run)
	if log.Version != "" {
		fmt.Fprintf(w, "  unweaver %s\n", log.Version)
	}
	for _, event := range log.Events {
		fmt.Fprintf(w, "%s  %s\n", Clock(event.At), control.JoinLines(eventLine(event)))
	}
	if len(log.Retries) > 0 {
		fmt.Fprintln(w, "tried again:")
	}
	for _, retry := range log.Retries {
		fmt.Fprintf(w, "  %s %s, %s, %s to %s: %s\n", retry.Stage, retry.Code, Count(retry.Count, "time"),
			Clock(retry.First), retry.Last.Local().Format(time.TimeOnly), control.JoinLines(retry.Detail))
	}
	problems := log.Problems
	if len(log.Listed) > len(problems) {
		problems = log.Listed
	}
	if len(problems) > 0 {
		fmt.Fprintln(w, "problems:")
	}
	for _, problem := range groupProblems(problems) {
		fmt.Fprintf(w, "  ! %s\n", problem.formatLine())
	}
	if total := log.ProblemsTotal; total > int64(len(problems)) {
		fmt.Fprintf(w, "  … and %d more in %s\n", total-int64(len(problems)), log.ProblemsPath)
	}
	if len(log.Letters) > 0 {
		fmt.Fprintf(w, "dead letters, in %s:\n", log.LettersPath)
	}
	for _, letter := range log.Letters {
		fmt.Fprintf(w, "  ! %s: %s\n", control.JoinLines(letter.Object), control.JoinLines(letter.Detail))
	}
	showCost(w, log.Report)
}

// eventLine shows an event in words.
func eventLine(event core.Event) string {
	var text string
	switch event.Kind {
	case core.EventStage:
		return "stage " + event.Stage
	case core.EventEnded:
		text = "ended: " + event.Status
		if event.Code != "" && event.Code != event.Status {
			text += " (" + event.Code + ")"
		}
	case core.EventPaused, core.EventWaiting:
		text = event.Kind + ": " + event.Code
		if event.Stage != "" {
			text += " in stage " + event.Stage
		}
		if event.Count > 1 {
			text += fmt.Sprintf(", %d attempts failed", event.Count)
		}
	default:
		text = event.Kind
	}
	if event.Detail != "" {
		text += ": " + event.Detail
	}
	return text
}
