package neural

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// What the reference implementation makes of each character between two letters, in the order of code points
// (testdata/SOURCE.md).
const everyCharacter = "5f97a30c77af756b3654f805488658f75c07899a404c40a2a78f464b04a77c3f"

// Promises: 130.
func TestEveryCharacterIsReadAsByTheReference(t *testing.T) {
	sum := sha256.New()
	for r := range utf8.MaxRune + 1 {
		if !utf8.ValidRune(r) {
			continue
		}
		var words []string
		for word := range splitWords("a" + string(r) + "b") {
			words = append(words, word)
		}
		fmt.Fprintf(sum, "%x %s\n", r, strings.Join(words, "|"))
	}
	assert.Equal(t, everyCharacter, hex.EncodeToString(sum.Sum(nil)), "the words of some characters have changed")
}

// Some whose category the reference implementation takes from Unicode 8, and some of every kind.
func TestWordsOfRareCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"a\u05fab":            "a\u05fab",         // not assigned
		"a\u2e55b":            "a\u2e55b",         // a bracket since Unicode 14
		"a\u3008b":            "a|\u3008|b",       // a bracket of always
		"a\u166db":            "a|\u166d|b",       // punctuation once, a symbol now
		"e\u0301\u1734":       "e",                // accents
		"a\u08e2b":            "a\u08e2b",         // a format character since Unicode 9
		"a\u200db\x0bc\u0085": "abc",              // dropped
		"東京 İX":               "東|京|ix",           // ideographs, lower case
		"\ua7dc\U00011938":    "\u019b\U00011938", // lower case since Unicode 16; not taken apart
		"don't":               "don|'|t",
		"":                    "",
	} {
		var words []string
		for word := range splitWords(text) {
			words = append(words, word)
		}
		assert.Equal(t, want, strings.Join(words, "|"), "%q", text)
	}
}
