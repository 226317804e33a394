package eval

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/text"
)

// shortest answers are those that a text can be expected to hold word by word: at most as many words.
const shortest = 8

// Held is how often what is shown holds the gold answer, of the questions whose first one is short.
type Held struct {
	N       int `json:"n"`
	Extract int `json:"extract"`       // quoted by the built-in models
	Snippet int `json:"first_snippet"` // of the first passage
	None    int `json:"none"`          // nothing was quoted
}

// countResponse adds a response to a question.
func (h *Held) countResponse(question Question, got response) {
	if len(question.Answers) == 0 || got.Answer == nil || len(strings.Fields(question.Answers[0])) > shortest {
		return
	}
	h.N++
	switch {
	case got.Answer.Kind == "none":
		h.None++
	case holdsAnswer(got.Answer.Text, question.Answers):
		h.Extract++
	}
	if len(got.Chunks) > 0 && holdsAnswer(got.Chunks[0].Snippet.Text, question.Answers) {
		h.Snippet++
	}
}

// holdsAnswer reports whether a text has the words of one of the answers, in their order.
func holdsAnswer(shown string, answers []string) bool {
	in := normalizeText(shown)
	return slices.ContainsFunc(answers, func(answer string) bool {
		words := normalizeText(answer)
		return words != "  " && strings.Contains(in, words)
	})
}

// normalizeText returns a text as words in lower case, without articles.
func normalizeText(s string) string {
	words := slices.DeleteFunc(text.Words(strings.ToLower(s)), func(word string) bool {
		return word == "a" || word == "an" || word == "the"
	})
	return " " + strings.Join(words, " ") + " "
}

// writeExtracts writes what the quoted answers hold.
func (r *Report) writeExtracts(out *strings.Builder) {
	first := true
	for _, row := range r.Rows {
		if row.Held == nil || row.Held.N == 0 {
			continue
		}
		if first {
			fmt.Fprintf(out, "\nGold answers of at most %d words, and who holds them:\n\n"+
				"| method | questions | the extract | the first snippet | nothing quoted |\n|---|---|---|---|---|\n", shortest)
			first = false
		}
		share := func(n int) float64 { return 100 * float64(n) / float64(row.Held.N) }
		fmt.Fprintf(out, "| %s | %d | %.1f | %.1f | %.1f |\n", row.Name, row.Held.N, share(row.Held.Extract),
			share(row.Held.Snippet), share(row.Held.None))
	}
}
