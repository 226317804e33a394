package answer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
)

// mostNewer documents that supersede another are named in its mark.
const mostNewer = 3

// describeForce returns why a passage is not in force at a time; empty where it is. Of what supersedes it, passages of
// the response come first and are named by their numbers.
func (r *Response) describeForce(chunk *Chunk, at time.Time) string {
	var out, others []string
	for _, key := range chunk.SupersededBy {
		words := fmt.Sprintf("superseded by %.200q", key)
		place := slices.IndexFunc(r.Chunks, func(other Chunk) bool {
			return other.Document == key && other.Index == chunk.Index
		})
		if place >= 0 {
			out = append(out, fmt.Sprintf("%s, passage %d", words, place+1))
		} else {
			others = append(others, words)
		}
	}
	out = append(out, others...)
	if more := len(out) + chunk.MoreNewer - mostNewer; more > 0 {
		out = append(out[:mostNewer], fmt.Sprintf("and %d more", more))
	}
	dates := core.ReadValidity(chunk.Metadata)
	switch {
	case dates.Contains(at):
	case !dates.From.IsZero() && at.Before(dates.From):
		out = append(out, "not in force before "+chunk.ValidFrom)
	default:
		out = append(out, "in force until "+chunk.ValidUntil+" only")
	}
	return strings.Join(out, "; ")
}

// describeVersion returns what the chat model reads of a passage behind its title: why it is not in force, and what
// weight it has.
func (r *Response) describeVersion(chunk *Chunk, at time.Time) string {
	words := r.describeForce(chunk, at)
	if words != "" {
		words = "; " + words
	}
	if chunk.Authority != nil {
		words += fmt.Sprintf("; authority %v", *chunk.Authority)
	}
	return words
}

// cite returns the number of a passage in brackets, and its mark behind it, where it has one.
func cite(place int, mark string) string {
	if mark = strings.TrimPrefix(mark, "; "); mark == "" {
		return fmt.Sprintf("[%d]", place+1)
	}
	return fmt.Sprintf("[%d] (%s)", place+1, mark)
}
