package neural

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withWeights gives the models whose weights are here: in the folder of caches of the user.
func withWeights(t testing.TB, name string) Embedder {
	t.Helper()
	m, _ := Find(name)
	if _, err := os.Stat(filepath.Join(Directory(), name, m.Files[0].Name)); err != nil {
		t.Skipf("NOT TESTED: the weights of %s are not in %s; `make models` fetches them", name, Directory())
	}
	embedder, err := Open(name, Directory())
	require.NoError(t, err)
	return embedder
}

func lines(t testing.TB, name string) []json.RawMessage {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer file.Close()
	var out []json.RawMessage
	scan := bufio.NewScanner(file)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		out = append(out, slices.Clone(scan.Bytes()))
	}
	return out
}

func decode[T any](t testing.TB, raw json.RawMessage) T {
	t.Helper()
	var out T
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

// Tokens are those of the reference implementation (testdata/SOURCE.md).
// Promises: 130.
func TestTokensAreThoseOfTheReference(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			words := withWeights(t, name).loaded.words
			for _, line := range lines(t, "tokens.jsonl") {
				row := decode[map[string]json.RawMessage](t, line)
				text, want := decode[string](t, row["text"]), decode[[]int32](t, row[name])
				assert.Equal(t, want, words.tokensOf(text), "%q", text)
			}
		})
	}
}

// Promises: 130.
func TestVectorsAreNearThoseOfTheReference(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			e := withWeights(t, name)
			for _, line := range lines(t, "vectors.jsonl") {
				row := decode[map[string]json.RawMessage](t, line)
				text := decode[string](t, row["text"])
				for kind, embedder := range map[string]interface{ vector(string) []float32 }{
					" passage": one{t, e}, " query": one{t, e.Questions().(Embedder)},
				} {
					want, got := decode[[]float32](t, row[name+kind]), embedder.vector(text)
					dot := 0.0
					for i := range want {
						dot += float64(want[i]) * float64(got[i])
					}
					assert.Greater(t, dot, 0.98, "%s%s of %q", name, kind, text)
				}
			}
		})
	}
}

type one struct {
	testing.TB
	e Embedder
}

func (o one) vector(text string) []float32 {
	vectors, _, err := o.e.Embed(o.Context(), []string{text})
	require.NoError(o, err)
	return vectors[0]
}

func BenchmarkEmbed(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			e := withWeights(b, name)
			memory := &space{}
			ids := e.loaded.words.tokensOf(strings.Repeat("The committee of the northern river towns met in spring. ", 30))[:128]
			for b.Loop() {
				e.loaded.encoder.encodeTexts(memory, [][]int32{ids})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "texts/s")
		})
	}
}

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
