package core

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of standing questions.
const (
	MaxWatched      = 10_000 // of an index
	MaxWatchedRunes = 1_000  // of one question
	ShownWatched    = 20     // changes that a report lists
)

// Normalize returns a question as an index keeps it, with the id that follows from its text and labels, or why it
// cannot be kept.
func (q Question) Normalize() (Question, error) {
	q.Question = strings.Join(strings.Fields(q.Question), " ")
	q.Labels = slices.Compact(slices.Sorted(slices.Values(q.Labels)))
	runes := utf8.RuneCountInString(q.Question)
	switch {
	case q.Question == "" || !utf8.ValidString(q.Question):
		return q, fmt.Errorf("the question is empty, or no UTF-8")
	case runes > MaxWatchedRunes:
		return q, fmt.Errorf("the question has %d characters, the limit is %d", runes, MaxWatchedRunes)
	case len(q.Labels) > MaxLabels:
		return q, fmt.Errorf("there are %d labels, the limit is %d", len(q.Labels), MaxLabels)
	case q.Notify != "" && !ValidSlug(q.Notify):
		return q, fmt.Errorf("notify %.70q is not the name of a webhook: letters a-z, digits and hyphens", q.Notify)
	}
	for _, label := range q.Labels {
		if err := CheckLabel(label); err != nil && label != AnyLabel {
			return q, err
		}
	}
	id := Sum(append([]string{"standing-question/1", q.Question}, q.Labels...)...)
	q.ID = ID(id[:16]).String()
	return q, nil
}

// Watched is what a night found by standing questions.
type Watched struct {
	Questions int             `json:"questions"`         // there are
	Asked     int             `json:"asked"`             // of both generations
	Same      int             `json:"same"`              // not asked: who asks sees nothing that changed
	Changed   int             `json:"changed"`           // have other passages, or another order
	Since     string          `json:"since,omitempty"`   // oldest generation that was compared with; empty: none
	Seconds   float64         `json:"seconds"`           // that asking took
	Failed    int             `json:"failed,omitempty"`  // could not be compared
	Code      string          `json:"code,omitempty"`    // of why the first of them could not, or none was asked
	Problem   string          `json:"problem,omitempty"` // that in words
	Listed    []WatchedChange `json:"listed,omitempty"`  // the first changes
	Path      string          `json:"path,omitempty"`    // artifact with all changes, a line of JSON each
}

// WatchedChange is a standing question whose passages changed, from what to what and why.
type WatchedChange struct {
	Question
	Before  WatchedAnswer `json:"before"`
	After   WatchedAnswer `json:"after"`
	Because []Change      `json:"because"` // documents of the passages that left or came; empty: only ranks moved
}

// WatchedAnswer is what a generation says to a question.
type WatchedAnswer struct {
	Passages []Citation `json:"passages"` // best first
	Quote    string     `json:"quote"`    // the sentences that answer; empty: none is good enough
	Reason   string     `json:"reason,omitempty"`
}

// Citation is a passage by its place.
type Citation struct {
	Document string `json:"document"`
	Chunk    string `json:"chunk"`
	Start    int    `json:"start"` // code points of the document
	End      int    `json:"end"`
}

// Names reports whether a change names a document of which has reports true.
func (c WatchedChange) Names(has func(document string) bool) bool {
	cites := func(one Citation) bool { return has(one.Document) }
	return slices.ContainsFunc(c.Before.Passages, cites) || slices.ContainsFunc(c.After.Passages, cites) ||
		slices.ContainsFunc(c.Because, func(one Change) bool { return has(one.Object) })
}

// DropDocuments takes documents out of what the report lists, and returns how many entries it dropped.
func (r *Report) DropDocuments(has func(document string) bool) int64 {
	all := len(r.Problems)
	r.Problems = slices.DeleteFunc(r.Problems, func(problem Problem) bool { return has(problem.Object) })
	dropped := all - len(r.Problems)
	if r.Watched != nil {
		listed := r.Watched.Listed
		r.Watched.Listed = slices.DeleteFunc(slices.Clone(listed), func(c WatchedChange) bool { return c.Names(has) })
		dropped += len(listed) - len(r.Watched.Listed)
	}
	return int64(dropped)
}
