package neural

import (
	"errors"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// wordPiece is the tokenizer of BERT without case: words are cut from the left into the longest pieces.
type wordPiece struct {
	begin, end, unknown int32
	limit               int // tokens of a text, with begin and end
	ids                 map[string]int32
	longest             int // bytes of a piece
}

// longestWord is how many characters a word has at most that is not unknown as a whole.
const longestWord = 100

// readWordPiece reads a vocabulary, a piece a line.
func readWordPiece(data []byte, limit int) (*wordPiece, error) {
	w := &wordPiece{limit: limit, ids: map[string]int32{}}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		w.ids[line] = int32(i)
		w.longest = max(w.longest, len(line))
	}
	var ok [3]bool
	w.begin, ok[0] = w.ids["[CLS]"]
	w.end, ok[1] = w.ids["[SEP]"]
	w.unknown, ok[2] = w.ids["[UNK]"]
	if ok != [3]bool{true, true, true} {
		return nil, errors.New("the vocabulary lacks [CLS], [SEP] or [UNK]")
	}
	return w, nil
}

var bracketed = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}

// tokensOf implements tokenizer.
func (w *wordPiece) tokensOf(text string) []int32 {
	out := []int32{w.begin}
	for len(text) > 0 && len(out) < w.limit {
		plain, special, rest := w.cutSpecial(text)
		out = w.addPlain(out, plain)
		if special >= 0 {
			out = append(out, special)
		}
		text = rest
	}
	return append(out[:min(len(out), w.limit-1)], w.end)
}

func (w *wordPiece) cutSpecial(text string) (plain string, id int32, rest string) {
	for at := 0; ; {
		next := strings.IndexByte(text[at:], '[')
		if next < 0 {
			return text, -1, ""
		}
		at += next
		for _, name := range bracketed {
			if id, ok := w.ids[name]; ok && strings.HasPrefix(text[at:], name) {
				return text[:at], id, text[at+len(name):]
			}
		}
		at++
	}
}

// addPlain adds the pieces of a text without special tokens, until there are enough.
func (w *wordPiece) addPlain(out []int32, text string) []int32 {
	for word := range splitWords(text) {
		if out = w.addWord(out, word); len(out) >= w.limit {
			break
		}
	}
	return out
}

// splitWords gives the words of a text, as they are after cleaning.
func splitWords(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.FieldsFuncSeq(cleanText(text), unicode.IsSpace) {
			for len(word) > 0 {
				end := strings.IndexFunc(word, standsAlone)
				if end == 0 {
					_, end = utf8.DecodeRuneInString(word)
				} else if end < 0 {
					end = len(word)
				}
				if !yield(word[:end]) {
					return
				}
				word = word[end:]
			}
		}
	}
}

// cleanText drops control characters and accents and takes lower case.
func cleanText(text string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\r':
			return ' '
		case r == 0, r == utf8.RuneError, isDropped(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, text)
	// Of all characters that are written as several, this one is too young for the reference implementation.
	plain := strings.ReplaceAll(norm.NFD.String(kept), "\U00011935\U00011930", "\U00011938")
	return strings.Map(func(r rune) rune {
		if isAccent(r) {
			return -1
		}
		return lowerRune(r)
	}, plain)
}

func isIdeograph(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// addWord adds the pieces of a word, or the unknown one.
func (w *wordPiece) addWord(out []int32, word string) []int32 {
	if utf8.RuneCountInString(word) > longestWord {
		return append(out, w.unknown)
	}
	start, from := len(out), ""
	for len(word) > 0 {
		end := len(word)
		id, ok := w.ids[from+word]
		for !ok && end > 0 {
			_, size := utf8.DecodeLastRuneInString(word[:end])
			if end -= size; end > 0 {
				id, ok = w.ids[from+word[:end]]
			}
		}
		if !ok {
			return append(out[:start], w.unknown)
		}
		out = append(out, id)
		word, from = word[end:], "##"
	}
	return out
}
