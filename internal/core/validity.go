package core

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fields of metadata that say when a document holds, which documents it replaces, and what weight it has.
const (
	ValidFrom  = "valid_from"
	ValidUntil = "valid_until"
	Supersedes = "supersedes"
	Authority  = "authority"
)

// ParseNumber reads a number as people write it: neither Inf nor 0x10.
func ParseNumber(text string) (number float64, ok bool) {
	if strings.Trim(text, "+-.0123456789eE") != "" {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil
}

// ParseMoment reads a time of RFC 3339, or a day for its beginning in UTC.
func ParseMoment(text string) (at time.Time, isDay, ok bool) {
	layout := time.RFC3339
	if isDay = len(text) == len(time.DateOnly); isDay {
		layout = time.DateOnly
	} else if len(text) < len("2006-01-02T15:04:05Z") || text[4] != '-' {
		return at, false, false
	}
	at, err := time.Parse(layout, text)
	return at, isDay, err == nil
}

// Validity is the time in which a document holds: From is included, Until is not. Zero times are open ends.
type Validity struct{ From, Until time.Time }

// ReadValidity reads the time in which a document holds from its metadata. A day of valid_until counts as a whole. A
// value that is no date leaves its end open.
func ReadValidity(meta map[string]string) (out Validity) {
	if at, _, ok := ParseMoment(meta[ValidFrom]); ok {
		out.From = at
	}
	if at, isDay, ok := ParseMoment(meta[ValidUntil]); ok {
		if out.Until = at; isDay {
			out.Until = at.AddDate(0, 0, 1)
		}
	}
	return out
}

// Contains reports whether a document holds at a time.
func (v Validity) Contains(at time.Time) bool {
	return (v.From.IsZero() || !at.Before(v.From)) && (v.Until.IsZero() || at.Before(v.Until))
}

// CheckValidity returns what is wrong with the fields of a document's metadata that say when it holds and what it
// replaces; empty where nothing is.
func CheckValidity(key string, meta map[string]string) string {
	var out []string
	for _, field := range []string{ValidFrom, ValidUntil} {
		if text, has := meta[field]; has {
			if _, _, ok := ParseMoment(text); !ok {
				out = append(out, fmt.Sprintf("metadata %s is ignored: %.40q is no date (write 2026-01-31 or "+
					"2026-01-31T12:00:00Z)", field, text))
			}
		}
	}
	dated := meta[ValidFrom] != "" || meta[ValidUntil] != "" || meta[Supersedes] != "" // else authority may be of anything
	if text, has := meta[Authority]; has && dated {
		if _, ok := ParseNumber(text); !ok {
			out = append(out, fmt.Sprintf("metadata authority is ignored: %.40q is no number (write 2)", text))
		}
	}
	if dates := ReadValidity(meta); !dates.Until.IsZero() && !dates.Until.After(dates.From) {
		out = append(out, "it never holds: valid_until is before valid_from")
	}
	if strings.Contains(", "+meta[Supersedes]+", ", ", "+key+", ") {
		out = append(out, "metadata supersedes is ignored: it names the document itself (name the one that it replaces)")
	}
	return strings.Join(out, "; ")
}
