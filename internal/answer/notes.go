package answer

import (
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/model/tokens"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Note is what the chat model reads beside passages.
type Note struct {
	Kind    string     `json:"kind" enum:"facts,summary"`
	Text    string     `json:"text"`
	Sources [][]string `json:"sources" doc:"ids of the passages that support each statement of the text, in order"`
}

// addNotes enters the notes that fit a budget of tokens, from the first on, and returns them as the chat model reads
// them: each with the marks of the passages that it rests on, by which an answer cites.
func (r *Response) addNotes(found []retrieve.Note, budget int, at time.Time) (text string, marked bool) {
	places := r.indexPassages()
	var out strings.Builder
	for _, one := range found {
		note := Note{Kind: one.Kind, Text: one.Text, Sources: make([][]string, len(one.Sources))}
		cited, marks := make([]string, len(one.Sources)), false
		for i, sources := range one.Sources {
			note.Sources[i] = []string{}
			for _, id := range sources {
				if place, shown := places[id.String()]; shown { // a reranker may have left it out
					note.Sources[i] = append(note.Sources[i], id.String())
					mark := r.describeVersion(&r.Chunks[place], at)
					cited[i] += cite(place, mark)
					marks = marks || mark != ""
				}
			}
		}
		if strings.Join(cited, "") == "" {
			r.addDegraded(retrieve.NotesPassages)
			continue
		}
		block := headOf[one.Kind] + strings.Join(cited, "; ") + "\n" + note.Text + "\n\n"
		if count := tokens.Count(block); count > budget {
			r.addDegraded(retrieve.NotesBudget)
		} else {
			budget -= count
			r.Usage.NoteTokens += int64(count)
			r.Notes = append(r.Notes, note)
			out.WriteString(block)
			marked = marked || marks
		}
	}
	return out.String(), marked
}

// addDegraded enters what the response is without, once.
func (r *Response) addDegraded(what string) {
	if !slices.Contains(r.Degraded, what) {
		r.Degraded = append(r.Degraded, what)
	}
}

// headOf is what stands before the marks of a note.
var headOf = map[string]string{
	retrieve.NoteFacts:   "Facts, and the passages that say each, in the order of the facts: ",
	retrieve.NoteSummary: "Summary of what these and other passages have in common: ",
}

// indexPassages returns the places of the response's passages, from 0, by their ids.
func (r *Response) indexPassages() map[string]int {
	out := make(map[string]int, len(r.Chunks))
	for i, chunk := range r.Chunks {
		out[chunk.ID] = i
	}
	return out
}

// markCited reports which passages of the response its notes rest on.
func (r *Response) markCited() []bool {
	places := r.indexPassages()
	out := make([]bool, len(r.Chunks))
	for _, note := range r.Notes {
		for _, sources := range note.Sources {
			for _, id := range sources {
				out[places[id]] = true
			}
		}
	}
	return out
}

// quotedNotes returns the summaries of a response as an answer quotes them, with the marks of their passages.
func (r *Response) quotedNotes(at time.Time) string {
	places := r.indexPassages()
	var out []string
	for _, note := range r.Notes {
		if note.Kind == retrieve.NoteSummary {
			line := note.Text
			for _, id := range note.Sources[0] {
				line += " " + cite(places[id], r.describeForce(&r.Chunks[places[id]], at))
			}
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
