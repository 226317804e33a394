package tokens_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

func TestCountsOfKnownTexts(t *testing.T) {
	for text, want := range map[string]int{"": 0, "hello world": 2, " hello": 1, "hello\n\nworld": 3, "こんにちは": 1} {
		assert.Equal(t, want, tokens.Count(text), "%q", text)
	}
}

var texts = map[string]string{
	"words": strings.Repeat("the quick brown fox ", 2000), "one unbroken word": strings.Repeat("x", 40<<10),
	"runes of 3 bytes": strings.Repeat("語", 9000), "runes of 4 bytes": strings.Repeat("𝛼", 5000),
	"invalid UTF-8":     strings.Repeat("\xff\xfe", 6000),
	"a rune cut in two": strings.Repeat("a", 8<<10-1) + "é" + strings.Repeat("b", 100),
	"spaces":            strings.Repeat(" ", 20<<10),
}

func TestPiecesCoverATextWithoutCuttingARune(t *testing.T) {
	for name, text := range texts {
		valid, covered := utf8.ValidString(text), 0
		for rest := text; rest != ""; {
			piece := tokens.FirstPiece(rest)
			require.True(t, piece != "" && len(piece) <= 8<<10 && strings.HasPrefix(rest, piece),
				"%s: a piece of %d bytes at %d", name, len(piece), covered)
			require.True(t, !valid || utf8.ValidString(piece), "%s: a rune is cut at %d", name, covered)
			rest, covered = rest[len(piece):], covered+len(piece)
		}
		assert.Equal(t, len(text), covered, name)
	}
}

func TestSplitGivesTheTokensThatCountCounts(t *testing.T) {
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			begin, lengths, sum := time.Now(), tokens.Split(text), 0
			for _, length := range lengths {
				require.True(t, length > 0, "an empty token")
				sum += length
			}
			assert.Equal(t, len(text), sum, "the tokens have")
			assert.True(t, !utf8.ValidString(text) || tokens.Count(text) == len(lengths), "%d tokens", len(lengths))
			took := time.Since(begin)
			assert.True(t, took <= 5*time.Minute, "it took %s: the codec is quadratic in one unbroken word", took)
		})
	}
}
