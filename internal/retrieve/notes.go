package retrieve

import (
	"slices"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model/tokens"
)

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

// What ParamContext takes.
const (
	ParamContext    = "context"
	ContextPassages = "passages"
	ContextFacts    = "facts"
	ContextBoth     = "both"
)

// noteFacts adds the facts that are found for the question, those that a passage of the result says, in the encoding of
// the fewest tokens. Without passages in the context the result is the passages that say these facts.
func (r *Request) noteFacts(index *apr.Index, reported []uint32) {
	if len(reported) == 0 {
		return
	}
	alone := r.Query.Params.Text(ParamContext) == ContextFacts
	if alone {
		says := map[core.ID]bool{}
		for _, chunk := range r.citedBy(index, reported...) {
			says[chunk.ID] = true
		}
		r.Result.Chunks = slices.DeleteFunc(r.Result.Chunks, func(chunk Chunk) bool { return !says[chunk.Live.ID] })
		r.Query.Params["fill"] = false // what fills up says none of the facts
	}
	r.Result.Chunks = r.Result.Chunks[:min(len(r.Result.Chunks), r.Query.TopChunks)]
	shown := r.collectShown()
	note := Note{Kind: NoteFacts}
	var words []apr.Word
	for _, edge := range reported {
		var sources []core.ID
		for _, chunk := range r.citedBy(index, edge) {
			if shown[chunk.ID] {
				sources = append(sources, chunk.ID)
			}
		}
		if sources != nil {
			head, relation, tail := index.Words(edge)
			words = append(words, apr.Word{Head: head, Relation: relation, Tail: tail})
			note.Sources = append(note.Sources, sources)
		}
	}
	if words == nil {
		r.Result.Degraded = append(r.Result.Degraded, NotesPassages)
	} else {
		r.Result.NotesAlone = alone
		_, note.Text, _ = apr.ChooseEncoding(words, tokens.Count)
		r.Result.Notes = append(r.Result.Notes, note)
	}
}

// collectShown returns the ids of the chunks of the result.
func (r *Request) collectShown() map[core.ID]bool {
	out := make(map[core.ID]bool, len(r.Result.Chunks))
	for _, chunk := range r.Result.Chunks {
		out[chunk.Live.ID] = true
	}
	return out
}

// isFiltered reports whether a filter leaves out a passage of a theme, which the result then says.
func (m *memory) isFiltered(r *Request, node int) bool {
	out := slices.ContainsFunc(m.members[node], func(member int) bool { return !r.allowed.allowsNumber(uint32(member)) })
	if out && !slices.Contains(r.Result.Degraded, NotesFilter) {
		r.Result.Degraded = append(r.Result.Degraded, NotesFilter)
	}
	return out
}

// noteSummaries adds the summaries of themes that brought a passage of the result, but of none with a passage that a
// filter leaves out.
func (m *memory) noteSummaries(r *Request, brought []int) {
	shown := r.collectShown()
	for _, node := range brought {
		if m.isFiltered(r, node) {
			continue
		}
		var sources []core.ID
		for _, member := range m.members[node] {
			if id := r.Generation.Live.ByNumber(member).ID; shown[id] {
				sources = append(sources, id)
			}
		}
		text := m.themes.Themes[node-m.chunks].Summary
		r.Result.Notes = append(r.Result.Notes, Note{Kind: NoteSummary, Text: text, Sources: [][]core.ID{sources}})
	}
}
