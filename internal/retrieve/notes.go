package retrieve

import "github.com/unweaver/unweaver/internal/core"

// Kinds of notes.
const (
	NoteFacts   = "facts"   // triples in an encoding of AutoPrunedRetriever (docs/explain/methods.md)
	NoteSummary = "summary" // what a model or a rule wrote of a theme (docs/explain/methods.md)
)

// What stands in Result.Degraded where notes were left out, by why.
const (
	NotesFilter   = "notes_filter"   // a filter leaves out a passage of the theme
	NotesPassages = "notes_passages" // no passage of the result says what the note does
	NotesBudget   = "notes_budget"   // the note is longer than the context
)

// Note is what a method puts into the context beside passages. It rests on passages of the result alone, so that an
// answer can cite them.
type Note struct {
	Kind    string
	Text    string
	Sources [][]core.ID // chunks that say each statement of the text, in its order
}

// ListIDs returns the ids of the chunks of the result.
func (r *Result) ListIDs() map[core.ID]bool {
	out := make(map[core.ID]bool, len(r.Chunks))
	for _, chunk := range r.Chunks {
		out[chunk.Live.ID] = true
	}
	return out
}
