package mcp

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

// defaultTokens of a result's text.
const defaultTokens = 6000

// notesTokens are kept for what a result says about itself.
const notesTokens = 100

// fitPassages gives the best passages that fit into a number of tokens, whole ones alone, and says which were left out:
// the first that does not fit, and all behind it. head is what stands before them.
func fitPassages(head string, passages []Passage, most int) (text string, kept []Passage, cut *Cut) {
	var out strings.Builder
	out.WriteString(head)
	spent := tokens.Count(head) + notesTokens
	left := &Cut{MaxTokens: most, Of: len(passages), Chunks: []string{}}
	kept = []Passage{}
	for _, passage := range passages {
		block := passage.renderText()
		size := tokens.Count(block)
		if len(left.Chunks) > 0 || spent+size > most {
			left.Chunks = append(left.Chunks, passage.Chunk)
			continue
		}
		spent += size
		kept = append(kept, passage)
		out.WriteString(block)
	}
	if len(left.Chunks) == 0 {
		return strings.TrimSpace(out.String()), kept, nil
	}
	fmt.Fprintf(&out, "Left out to stay within max_tokens %d: %d of %d passages. Read them with get_chunk (%s)",
		most, len(left.Chunks), len(passages), strings.Join(left.Chunks[:min(len(left.Chunks), 3)], ", "))
	if more := len(left.Chunks) - 3; more > 0 {
		fmt.Fprintf(&out, " and %d more", more)
	}
	out.WriteString(", or ask with a larger max_tokens.")
	return strings.TrimSpace(out.String()), kept, left
}

// mostTokens of a result's text: counting takes time.
const mostTokens = 131_072

// longestOf checks the max_tokens of a call.
func longestOf(given *int) (int, error) {
	if given == nil {
		return defaultTokens, nil
	}
	if *given < 1 || *given > mostTokens {
		return 0, fmt.Errorf("max_tokens: want 1 to %d, got %d", mostTokens, *given)
	}
	return *given, nil
}

// countedRunes are counted at once while a text is cut.
const countedRunes = 2_000

// shortenText gives the beginning of a text that fits into a number of tokens, cut between words where there are any,
// and its length in code points. It counts no more of the text than it gives, piece by piece, and ends with ctx.
func shortenText(ctx context.Context, text string, most int) (string, int) {
	most = max(1, most-notesTokens)
	if len(text) <= most { // a token has a byte at least
		return text, utf8.RuneCountInString(text)
	}
	runes, fits := []rune(text), 0
	for left := most; fits < len(runes) && ctx.Err() == nil; {
		piece := runes[fits:min(len(runes), fits+countedRunes)]
		count := tokens.Count(string(piece))
		if count > left {
			fits += sort.Search(len(piece), func(size int) bool { return tokens.Count(string(piece[:size+1])) > left })
			break
		}
		fits, left = fits+len(piece), left-count
	}
	if fits == len(runes) {
		return text, fits
	}
	for back := fits; back > fits*9/10; back-- {
		if runes[back-1] == ' ' || runes[back-1] == '\n' {
			fits = back
			break
		}
	}
	return string(runes[:fits]), fits
}
