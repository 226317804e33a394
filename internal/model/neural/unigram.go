package neural

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokenizer gives the ids of a text, cut to what the model takes, with those of begin and end.
type tokenizer interface{ tokensOf(text string) []int32 }

type piece struct {
	id    int32
	score float64
}

// unigram is the tokenizer of XLM-RoBERTa: words are cut into the pieces whose scores are the largest together.
type unigram struct {
	begin, end, unknown int32
	unknownScore        float64
	longest             int // bytes of a piece
	limit               int // tokens of a text, with begin and end
	pieces              map[string]piece
	written             map[rune]string // what a character is written as
}

// tokensOf implements tokenizer.
func (u *unigram) tokensOf(text string) []int32 {
	out := []int32{u.begin}
	for len(text) > 0 && len(out) < u.limit {
		// What names a special token is that token.
		plain, special, rest := u.cutSpecial(text)
		for word := range strings.FieldsFuncSeq(u.normaliseText(plain), unicode.IsSpace) {
			if out = u.addWord(out, "▁"+strings.ReplaceAll(word, " ", "▁")); len(out) >= u.limit {
				break
			}
		}
		if special >= 0 {
			out = append(out, special)
		}
		text = rest
	}
	return append(out[:min(len(out), u.limit-1)], u.end)
}

var specials = []string{"<s>", "<pad>", "</s>", "<unk>", "<mask>"}

// cutSpecial cuts a text at the first name of a special token; its id is -1 where there is none.
func (u *unigram) cutSpecial(text string) (plain string, id int32, rest string) {
	for at := 0; ; {
		next := strings.IndexByte(text[at:], '<')
		if next < 0 {
			return text, -1, ""
		}
		at += next
		for _, name := range specials {
			if found, ok := u.pieces[name]; ok && strings.HasPrefix(text[at:], name) {
				return text[:at], found.id, text[at+len(name):]
			}
		}
		at++
	}
}

// normaliseText writes characters as the model knows them: compatibility forms, without control characters. A character
// with a mark is taken as one where both together have less than six bytes, as the reference implementation does.
func (u *unigram) normaliseText(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		char, size := utf8.DecodeRuneInString(text)
		if size == 1 && char < utf8.RuneSelf && char >= ' ' && char < 127 && (len(text) == 1 || text[1] < utf8.RuneSelf) {
			out.WriteByte(byte(char))
			text = text[1:]
			continue
		}
		end := size
		if !unicode.IsControl(char) {
			for end < len(text) {
				mark, more := utf8.DecodeRuneInString(text[end:])
				if !unicode.Is(unicode.M, mark) && mark != 0x200c && mark != 0x200d {
					break
				}
				end += more
			}
		}
		to, known := u.written[char]
		switch {
		case end > size && end < 6 && known:
			out.WriteString(to)
		case end > size && end < 6 && composeMark(text[:end]) != "":
			out.WriteString(composeMark(text[:end]))
		default:
			for _, char := range text[:end] {
				if to, known := u.written[char]; known {
					out.WriteString(to)
				} else {
					out.WriteRune(char)
				}
			}
		}
		text = text[end:]
	}
	return out.String()
}

// composeMark returns the one character that a character is with its first mark; empty where there is none.
func composeMark(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	mark, more := utf8.DecodeRuneInString(text[size:])
	one := norm.NFKC.String(string([]rune{first, mark}))
	if more > 0 && utf8.RuneCountInString(one) == 1 {
		return one
	}
	return ""
}

// addWord adds the pieces of a word.
func (u *unigram) addWord(out []int32, word string) []int32 {
	type node struct {
		score float64
		from  int
		id    int32
		seen  bool
	}
	best := make([]node, len(word)+1)
	best[0].seen = true
	for at := 0; at < len(word); {
		_, size := utf8.DecodeRuneInString(word[at:])
		here, single := best[at].score, false
		for end := at + 1; end <= len(word) && end-at <= u.longest; end++ {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			found, ok := u.pieces[word[at:end]]
			if !ok {
				continue
			}
			if score := found.score + here; !best[end].seen || score > best[end].score {
				best[end] = node{score, at, found.id, true}
			}
			single = single || end-at == size
		}
		if score := u.unknownScore + here; !single && (!best[at+size].seen || score > best[at+size].score) {
			best[at+size] = node{score, at, u.unknown, true}
		}
		at += size
	}
	start := len(out)
	for end := len(word); end > 0; end = best[end].from {
		if id := best[end].id; id != u.unknown || len(out) == start || out[len(out)-1] != id {
			out = append(out, id) // neighbours that are unknown are one
		}
	}
	slices.Reverse(out[start:])
	return out
}
