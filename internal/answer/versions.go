package answer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
)

// describeForce returns why a passage is not in force at a time; empty where it is. Passages of the response that
// supersede it are named by their numbers.
func (r *Response) describeForce(chunk *Chunk, at time.Time) string {
	var out []string
	for _, key := range chunk.SupersededBy {
		words := fmt.Sprintf("superseded by %.200q", key)
		place := slices.IndexFunc(r.Chunks, func(other Chunk) bool {
			return other.Document == key && other.Index == chunk.Index
		})
		if place >= 0 {
			words += fmt.Sprintf(", passage %d", place+1)
		}
		out = append(out, words)
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
