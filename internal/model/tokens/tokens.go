// Package tokens counts o200k tokens with an embedded vocabulary.
package tokens

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer"
)

var codec = sync.OnceValue(func() tokenizer.Codec {
	c, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		panic("tokens: embedded vocabulary: " + err.Error()) // it is compiled in
	}
	return c
})

// piece bounds what is tokenised at once: the codec is quadratic in the length of one unbroken word.
const piece = 8 << 10

// Count returns the number of o200k tokens of s; long texts are counted in pieces cut at spaces.
func Count(s string) int {
	n := 0
	for s != "" {
		p := FirstPiece(s)
		s = s[len(p):]
		k, err := codec().Count(p)
		if err != nil { // only invalid UTF-8 could do this; a byte is at most a token
			k = len(p)
		}
		n += k
	}
	return n
}

// FirstPiece returns the first part of s that is tokenised by itself: at most 8 KiB, cut before a space where there is
// one.
func FirstPiece(s string) string {
	if len(s) <= piece {
		return s
	}
	if i := strings.LastIndexByte(s[:piece], ' '); i > 0 {
		return s[:i]
	}
	i := piece
	for i > piece-utf8.UTFMax && !utf8.RuneStart(s[i]) {
		i--
	}
	return s[:i]
}

// Split gives the tokens of s as byte lengths that sum to len(s).
func Split(s string) []int {
	var out []int
	for s != "" {
		p := FirstPiece(s)
		s = s[len(p):]
		_, toks, err := codec().Encode(p)
		sum := 0
		for _, t := range toks {
			sum += len(t)
		}
		if err != nil || sum != len(p) {
			for range len(p) {
				out = append(out, 1)
			}
			continue
		}
		for _, t := range toks {
			out = append(out, len(t))
		}
	}
	return out
}
