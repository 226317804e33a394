package aliases

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/text/names"
)

// File is what people say of names, by the keys of docs/reference/formats.md, Mentions. Its lines are
//
//	pin A | B      A is always B
//	forbid A | B   A and B are never one
//	prefer A       of a group with A, A is shown
//
// Empty lines and those that begin with # are left.
type File struct {
	Pinned    map[string]string
	Forbidden map[[2]string]bool // both ways
	Preferred map[string]bool
}

// ParseFile reads a file. A line that is none, a name pinned to two, names pinned in a circle, and names that are both
// pinned to each other and forbidden are errors that name the line or the names.
func ParseFile(r io.Reader) (File, error) {
	f := File{map[string]string{}, map[[2]string]bool{}, map[string]bool{}}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if reason := f.readLine(line); reason != "" {
			return File{}, newFault("line " + strconv.Itoa(n) + ": " + reason)
		}
	}
	if err := lines.Err(); err != nil {
		return File{}, newFault(err.Error())
	}
	for from := range f.Pinned {
		if _, err := f.resolvePin(from); err != nil {
			return File{}, err
		}
	}
	for pair := range f.Forbidden {
		a, errA := f.resolvePin(pair[0])
		b, errB := f.resolvePin(pair[1])
		if errA == nil && errB == nil && a == b {
			return File{}, newFault(strconv.Quote(min(pair[0], pair[1])) + " and " +
				strconv.Quote(max(pair[0], pair[1])) + " are pinned to one and forbidden to be one")
		}
	}
	return f, nil
}

func newFault(reason string) error {
	return fault.BadConfig.At("read", "aliases").Because(reason)
}

func (f File) readLine(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	left, right, two := strings.Cut(rest, "|")
	a, b := names.Key(left, false), names.Key(right, false)
	switch {
	case a == "" || (two && (b == "" || a == b)):
		return "a name is empty or stands twice"
	case verb == "prefer" && !two:
		f.Preferred[a] = true
	case verb == "forbid" && two:
		f.Forbidden[[2]string{a, b}], f.Forbidden[[2]string{b, a}] = true, true
	case verb == "pin" && two:
		if known, pinned := f.Pinned[a]; pinned && known != b {
			return strconv.Quote(a) + " is pinned to two names"
		}
		f.Pinned[a] = b
	default:
		return "it is none of: pin A | B, forbid A | B, prefer A"
	}
	return ""
}

// resolvePin returns the name at the end of what a name is pinned to.
func (f File) resolvePin(name string) (string, error) {
	seen := map[string]bool{}
	for at := name; ; {
		next, pinned := f.Pinned[at]
		if !pinned {
			return at, nil
		}
		if seen[at] = true; seen[next] {
			return "", newFault("names are pinned in a circle, among them " + strconv.Quote(next))
		}
		at = next
	}
}
