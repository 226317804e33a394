package show

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
)

// Count returns a count with what it counts: "1 index", "2 indexes", "0 entries".
func Count[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, pluralOf(one))
}

// hashedRow is the key of a row that has no id of its own.
var hashedRow = regexp.MustCompile(`#([0-9a-f]{8})[0-9a-f]{56}$`)

// Key returns the key of a document for people, on one line: of a row, the file and the beginning of its hash.
func Key(key string) string { return OneLine(hashedRow.ReplaceAllString(key, ", row $1…")) }

// OneLine returns a name that others chose with line ends and tabs as Go escapes them.
func OneLine(name string) string { return escapeLines.Replace(name) }

var escapeLines = strings.NewReplacer("\n", `\n`, "\t", `\t`)

func pluralOf(one string) string {
	switch {
	case strings.HasSuffix(one, "s"), strings.HasSuffix(one, "x"), strings.HasSuffix(one, "ch"):
		return one + "es"
	case strings.HasSuffix(one, "ry"), strings.HasSuffix(one, "ty"):
		return strings.TrimSuffix(one, "y") + "ies"
	}
	return one + "s"
}

// Money returns an amount with its currency, where one is configured.
func Money(amount float64, currency string) string {
	text := fmt.Sprintf("%.4f", amount)
	if currency != "" {
		text += " " + currency
	}
	return text
}

// Age returns a time since, in one unit: "40 s", "12 min", "5 h", "3 days".
func Age(seconds float64) string {
	switch {
	case seconds < 90:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 90*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return Count(int64(math.Round(seconds/86400)), "day")
}

// Clock returns a time as lists show it, in the time zone of who looks.
func Clock(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Local().Format("2006-01-02 15:04:05")
}

// Table prints a row for each item, in columns, on one line. Cells are separated by tabs.
func Table[T any](w io.Writer, header string, items []T, row func(T) string) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(columns, header)
	for _, item := range items {
		_, _ = fmt.Fprintln(columns, strings.ReplaceAll(row(item), "\n", " "))
	}
	_ = columns.Flush() // what is printed goes to w, whose errors can be shown nowhere
}

// problemGroup are problems with the same code and cause.
type problemGroup struct {
	core.Problem
	count   int
	objects []string // the first few
}

// shownObjects is how many objects of one distinct problem are named.
const shownObjects = 3

// groupProblems gathers problems with the same code and cause, each on one line, in the order in which they come first.
func groupProblems(problems []core.Problem) []*problemGroup {
	var out []*problemGroup
	seen := map[string]*problemGroup{}
	for _, problem := range problems {
		for _, text := range []*string{&problem.Code, &problem.Object, &problem.Detail} {
			*text = control.JoinLines(*text)
		}
		cause := problem.Detail
		if problem.Object != "" { // errors name what they are about
			cause = strings.ReplaceAll(cause, problem.Object, "…")
		}
		known := seen[problem.Code+"\x00"+cause]
		if known == nil {
			known = &problemGroup{Problem: problem}
			seen[problem.Code+"\x00"+cause] = known
			out = append(out, known)
		}
		known.count++
		if len(known.objects) < shownObjects {
			known.objects = append(known.objects, problem.Object)
		}
	}
	return out
}

// formatLine shows distinct problems on one line, with how many there are and which come first.
func (a *problemGroup) formatLine() string {
	if a.count == 1 {
		text := a.Code + " " + a.Object
		if a.Detail != "" {
			text += ": " + a.Detail
		}
		return text
	}
	detail := a.Detail
	if a.Object != "" {
		detail = strings.ReplaceAll(detail, a.Object, "…")
	}
	text := fmt.Sprintf("%s, %d times: %s", a.Code, a.count, strings.Join(a.objects, ", "))
	if a.count > len(a.objects) {
		text += fmt.Sprintf(" and %d more", a.count-len(a.objects))
	}
	if detail != "" {
		text += ": " + detail
	}
	return text
}
