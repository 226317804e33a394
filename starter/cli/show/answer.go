// Package show prints what commands found: answers, explanations, reports, progress, tables.
package show

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// Answer prints a response for people.
func Answer(writer io.Writer, got answer.Response) {
	showText(writer, got)
	switch {
	case got.Reason == nil:
	case *got.Reason == retrieve.NoMatch:
		fmt.Fprintln(writer, "no passage matches the question: rephrase it")
	default:
		fmt.Fprintln(writer, cmp.Or(got.ReasonText, "no passage: "+*got.Reason))
	}
	bold := FindTerminal(writer)
	for _, chunk := range got.Chunks {
		Passage(writer, got, chunk, bold)
	}
	if got.FilterText != "" {
		fmt.Fprintln(writer, got.FilterText)
	}
	showExplain(writer, got)
	for _, part := range got.Indexes {
		if part.Code != "" {
			fmt.Fprintf(writer, "index %s did not answer: %s\n", part.Index, part.Code)
		}
		if part.Explain != nil {
			fmt.Fprintf(writer, "\nindex %s\n", part.Index)
			own := got
			own.Explain, own.Method = part.Explain, part.Method
			showExplain(writer, own)
		}
	}
	fmt.Fprintf(writer, "\n%s, generation %s, method %s, %s, %.0f ms%s\n", got.Index, cmp.Or(got.Generation, "current"),
		cmp.Or(got.Method, "of each"), got.Models, got.Timings.Total, describeConfidence(got))
}

func describeConfidence(got answer.Response) string {
	if got.Confidence == nil {
		if got.Method == retrieve.Hybrid && got.Reason == nil {
			return ", confidence ? (no passage has most of the question's words)"
		}
		return "" // shown for hybrid alone
	}
	chance, what := *got.Confidence, "passages"
	if got.Answer != nil && got.Answer.Confidence != nil {
		chance, what = *got.Answer.Confidence, "quotation"
	}
	if chance >= 0.4 && got.Answer != nil && got.Answer.Kind == prompt.NoAnswer {
		return fmt.Sprintf(", the passages fit the question (%.0f %%), no sentence in them answers it", 100*chance)
	}
	word := "low: this may not be an answer"
	switch {
	case chance >= 0.7:
		word = "high"
	case chance >= 0.4:
		word = "moderate: check the passages"
	}
	return fmt.Sprintf(", confidence in the %s %.0f %% (%s)", what, 100*chance, word)
}

// drawStrength draws how a passage compares with the best one, five cells for a best one that is sure: scores are of
// one response and one method, and say nothing to a reader.
func drawStrength(got answer.Response, chunk answer.Chunk) string {
	best, share := 0.0, 0.0
	for _, other := range got.Chunks {
		best = max(best, other.Score)
	}
	if best > 0 && !chunk.Filled {
		share = max(0, chunk.Score) / best
	}
	if got.Confidence != nil {
		share *= *got.Confidence
	}
	full := int(math.Ceil(5 * share))
	return strings.Repeat("▰", full) + strings.Repeat("▱", 5-full)
}

// shownEntities is how many entities of a passage are printed.
const shownEntities = 4

// nameEntities names the entities of a passage that are nearest to the question.
func nameEntities(got answer.Response, chunk answer.Chunk) string {
	rank := map[string]int{}
	for _, entity := range got.Entities {
		rank[entity.ID] = entity.Rank
	}
	entities := slices.Clone(chunk.Entities)
	slices.SortStableFunc(entities, func(a, b answer.EntityRef) int {
		return cmp.Compare(cmp.Or(rank[a.ID], math.MaxInt), cmp.Or(rank[b.ID], math.MaxInt))
	})
	var names []string
	for _, entity := range entities[:min(len(entities), shownEntities)] {
		names = append(names, entity.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(entities) - shownEntities; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// showText prints what a model wrote, or the sentence that was quoted, called what it is.
func showText(writer io.Writer, got answer.Response) {
	if got.Answer == nil {
		return
	}
	if got.Answer.Reason != "" && got.Answer.Kind == prompt.BestSentence {
		fmt.Fprintln(writer, got.Answer.Reason)
	}
	switch {
	case got.Reason != nil:
		return
	case got.Answer.Kind == prompt.BestSentence:
		fmt.Fprint(writer, "quoted: ")
	}
	fmt.Fprint(writer, got.Answer.Text)
	for _, cited := range got.Answer.Citations {
		for _, chunk := range got.Chunks {
			mark := fmt.Sprintf("[%d]", chunk.Rank)
			if chunk.ID == cited && !strings.Contains(got.Answer.Text, mark) { // models mark what they cite
				fmt.Fprint(writer, " "+mark)
			}
		}
	}
	fmt.Fprint(writer, "\n\n")
}

// Passage prints one result: where it stands, what of it matched, and what led to it. bold is the terminal to which
// matches are written in bold; nil for none.
func Passage(writer io.Writer, got answer.Response, chunk answer.Chunk, bold io.Writer) {
	mark := ""
	if chunk.Filled {
		mark = " filled up"
	}
	if chunk.Stale {
		mark += " stale"
	}
	if len(chunk.SupersededBy) > 0 {
		mark += " superseded by " + strings.Join(chunk.SupersededBy, ", ")
	}
	document := Key(chunk.Document)
	if chunk.Index != "" && chunk.Index != got.Index {
		document = chunk.Index + ": " + document
	}
	where := fmt.Sprintf("%s, %d–%d", document, chunk.Start, chunk.End)
	switch {
	case chunk.Page > 0 && chunk.PageEnd > chunk.Page:
		where = fmt.Sprintf("%s, pages %d–%d", document, chunk.Page, chunk.PageEnd)
	case chunk.Page > 0:
		where = fmt.Sprintf("%s, page %d", document, chunk.Page)
	}
	fmt.Fprintf(writer, "[%d] %s  (%s)  %s%s\n", chunk.Rank, OneLine(chunk.Title), where, drawStrength(got, chunk), mark)
	if len(chunk.Heading) > 0 {
		fmt.Fprintf(writer, "    %s\n", OneLine(strings.Join(chunk.Heading, " › ")))
	}
	fmt.Fprint(writer, "    ")
	for _, part := range splitPassage(chunk) {
		if part.matched && bold != nil {
			fmt.Fprint(bold, "\x1b[1m")
		}
		fmt.Fprint(writer, part.text)
		if part.matched && bold != nil {
			fmt.Fprint(bold, "\x1b[22m")
		}
	}
	fmt.Fprintln(writer)
	if len(chunk.Entities) > 0 {
		fmt.Fprintf(writer, "    through: %s\n", nameEntities(got, chunk))
	}
}

// FindTerminal returns the terminal behind a writer; nil where there is none, or where its user asks for no colours.
func FindTerminal(writer io.Writer) io.Writer {
	out, terminal := unwrap(writer)
	if !terminal || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return out
}

// part of a passage as it is printed.
type part struct {
	text    string
	matched bool
}

// splitPassage returns what of a chunk is printed: its snippet in one line, parted at what matched; of a server that
// gives none, the beginning of the text.
func splitPassage(chunk answer.Chunk) []part {
	runes := []rune(chunk.Text)
	if chunk.Snippet == nil || chunk.Snippet.Start < 0 || chunk.Snippet.Start > chunk.Snippet.End ||
		chunk.Snippet.End > len(runes) {
		return []part{{Shorten(chunk.Text, 240), false}}
	}
	var out []part
	add := func(char rune, matched bool) {
		if len(out) == 0 || out[len(out)-1].matched != matched {
			out = append(out, part{matched: matched})
		}
		out[len(out)-1].text += string(char)
	}
	if chunk.Snippet.Start > 0 {
		add('…', false)
		add(' ', false)
	}
	next, hidden, space := 0, 0, false
	for at := chunk.Snippet.Start; at < chunk.Snippet.End; at++ {
		for hidden < len(chunk.Markup) && chunk.Markup[hidden].End <= at {
			hidden++
		}
		if hidden < len(chunk.Markup) && chunk.Markup[hidden].Start <= at {
			if runes[at] != '|' || chunk.Markup[hidden].End-chunk.Markup[hidden].Start > 1 {
				continue
			}
			runes[at] = '·' // between two cells of a table
		}
		for next < len(chunk.Highlights) && chunk.Highlights[next].End <= at {
			next++
		}
		matched := next < len(chunk.Highlights) && chunk.Highlights[next].Start <= at
		if unicode.IsSpace(runes[at]) {
			if !space {
				add(' ', matched)
			}
			space = true
			continue
		}
		space = false
		add(runes[at], matched)
	}
	if chunk.Snippet.End < len(runes) && strings.TrimSpace(string(runes[chunk.Snippet.End:])) != "" {
		add(' ', false)
		add('…', false)
	}
	return out
}

// Shorten shortens a text to at most n code points in one line.
func Shorten(text string, n int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}
