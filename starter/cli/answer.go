package cli

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/answer/prompt"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// reasons say why an answer has no passage.
var reasons = map[string]string{
	retrieve.NoMatch:    "no passage matches the question: rephrase it",
	retrieve.NoDocument: "the filter excludes every document: check its fields and values",
	retrieve.EmptyIndex: "the index is empty: index a folder, then ask again",
}

// ShowAnswer prints a response for people.
func ShowAnswer(writer io.Writer, answer Answer) {
	showText(writer, answer)
	switch {
	case answer.Reason != "" && answer.Answer == nil && answer.ReasonText != "": // else it is the answer's text
		fmt.Fprintln(writer, answer.ReasonText)
	case answer.Reason != "":
		fmt.Fprintln(writer, cmp.Or(reasons[answer.Reason], "no passage: "+answer.Reason))
	}
	bold := findTerminal(writer)
	for _, chunk := range answer.Chunks {
		showChunk(writer, answer, chunk, bold)
	}
	if answer.FilterText != "" {
		fmt.Fprintln(writer, answer.FilterText)
	}
	showExplain(writer, answer)
	for _, part := range answer.Indexes {
		if part.Code != "" {
			fmt.Fprintf(writer, "index %s did not answer: %s\n", part.Index, part.Code)
		}
		if len(part.Explain) > 0 {
			fmt.Fprintf(writer, "\nindex %s\n", part.Index)
			own := answer
			own.Explain, own.Method = part.Explain, part.Method
			showExplain(writer, own)
		}
	}
	fmt.Fprintf(
		writer,
		"\n%s, generation %s, method %s, %s, %.0f ms%s\n",
		answer.Index,
		cmp.Or(answer.Generation, "current"),
		cmp.Or(answer.Method, "of each"),
		answer.Models,
		answer.Timings.Total,
		describeConfidence(answer),
	)
}

func describeConfidence(answer Answer) string {
	if answer.Confidence == nil {
		if answer.Method == retrieve.Hybrid && answer.Reason == "" {
			return ", confidence ? (no passage has most of the question's words)"
		}
		return "" // shown for hybrid alone
	}
	chance, what := *answer.Confidence, "passages"
	if answer.Answer != nil && answer.Answer.Confidence != nil {
		chance, what = *answer.Answer.Confidence, "quotation"
	}
	if chance >= 0.4 && answer.Answer != nil && answer.Answer.Kind == prompt.NoAnswer {
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
func drawStrength(answer Answer, chunk AnswerChunk) string {
	best, share := 0.0, 0.0
	for _, other := range answer.Chunks {
		best = max(best, other.Score)
	}
	if best > 0 && !chunk.Filled {
		share = max(0, chunk.Score) / best
	}
	if answer.Confidence != nil {
		share *= *answer.Confidence
	}
	full := int(math.Ceil(5 * share))
	return strings.Repeat("▰", full) + strings.Repeat("▱", 5-full)
}

// shownEntities is how many entities of a passage are printed.
const shownEntities = 4

// nameEntities names the entities of a passage that are nearest to the question.
func nameEntities(answer Answer, chunk AnswerChunk) string {
	rank := map[string]int{}
	for _, entity := range answer.Entities {
		rank[entity.ID] = entity.Rank
	}
	entities := slices.Clone(chunk.Entities)
	slices.SortStableFunc(entities, func(a, b entityName) int {
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
func showText(writer io.Writer, answer Answer) {
	if answer.Answer == nil {
		return
	}
	if answer.Answer.Reason != "" && answer.Answer.Kind == prompt.BestSentence {
		fmt.Fprintln(writer, answer.Answer.Reason)
	}
	switch {
	case answer.Reason != "":
		return
	case answer.Answer.Kind == prompt.BestSentence:
		fmt.Fprint(writer, "quoted: ")
	}
	fmt.Fprint(writer, answer.Answer.Text)
	for _, cited := range answer.Answer.Citations {
		for _, chunk := range answer.Chunks {
			mark := fmt.Sprintf("[%d]", chunk.Rank)
			if chunk.ID == cited && !strings.Contains(answer.Answer.Text, mark) { // models mark what they cite
				fmt.Fprint(writer, " "+mark)
			}
		}
	}
	fmt.Fprint(writer, "\n\n")
}

// showChunk prints one result: where it stands, what of it matched, and what led to it. bold is the terminal to which
// matches are written in bold; nil for none.
func showChunk(writer io.Writer, answer Answer, chunk AnswerChunk, bold io.Writer) {
	mark := ""
	if chunk.Filled {
		mark = " filled up"
	}
	if chunk.Stale {
		mark += " stale"
	}
	if len(chunk.Newer) > 0 {
		mark += " superseded by " + strings.Join(chunk.Newer, ", ")
	}
	document := shortenKey(chunk.Document)
	if chunk.Index != "" && chunk.Index != answer.Index {
		document = chunk.Index + ": " + document
	}
	where := fmt.Sprintf("%s, %d–%d", document, chunk.Start, chunk.End)
	switch {
	case chunk.Page > 0 && chunk.PageEnd > chunk.Page:
		where = fmt.Sprintf("%s, pages %d–%d", document, chunk.Page, chunk.PageEnd)
	case chunk.Page > 0:
		where = fmt.Sprintf("%s, page %d", document, chunk.Page)
	}
	fmt.Fprintf(writer, "[%d] %s  (%s)  %s%s\n", chunk.Rank, chunk.Title, where, drawStrength(answer, chunk), mark)
	if len(chunk.Heading) > 0 {
		fmt.Fprintf(writer, "    %s\n", strings.Join(chunk.Heading, " › "))
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
		fmt.Fprintf(writer, "    through: %s\n", nameEntities(answer, chunk))
	}
}

// findTerminal returns the terminal behind a writer; nil where there is none, or where its user asks for no colours.
func findTerminal(writer io.Writer) io.Writer {
	if wrapped, ok := writer.(*cleaned); ok { // it lets no control characters through, and these are ours
		writer = wrapped.to
	}
	file, ok := writer.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return file
}

// part of a passage as it is printed.
type part struct {
	text    string
	matched bool
}

// splitPassage returns what of a chunk is printed: its snippet in one line, parted at what matched; of a server that
// gives none, the beginning of the text.
func splitPassage(chunk AnswerChunk) []part {
	runes := []rune(chunk.Text)
	if chunk.Snippet == nil || chunk.Snippet.Start < 0 || chunk.Snippet.Start > chunk.Snippet.End ||
		chunk.Snippet.End > len(runes) {
		return []part{{shortenText(chunk.Text, 240), false}}
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

// shortenText shortens a text to at most n code points in one line.
func shortenText(text string, n int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}
