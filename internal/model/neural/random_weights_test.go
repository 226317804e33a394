package neural

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// tiny is the shape of models that tests make.
var tiny = shape{hidden: 64, layers: 2, heads: 2, inner: 96, vocabulary: 0, positions: 24}

// dense are the weights of a model as plain numbers, by the names of tensors of BERT.
type dense map[string][]float64

// plain embeds ids by the definition of the model, in float64 and without any of the program's own arithmetic.
func (d dense) plain(s shape, epsilon float64, ids []int32) []float64 {
	h, size := s.hidden, s.hidden/s.heads
	norm := func(x []float64, name string) {
		mean, variance := 0.0, 0.0
		for _, v := range x {
			mean += v / float64(h)
		}
		for _, v := range x {
			variance += (v - mean) * (v - mean) / float64(h)
		}
		for i, v := range x {
			x[i] = (v-mean)/math.Sqrt(variance+epsilon)*d[name+".weight"][i] + d[name+".bias"][i]
		}
	}
	apply := func(x []float64, name string) []float64 {
		out := slices.Clone(d[name+".bias"])
		for r := range out {
			for c, v := range x {
				out[r] += d[name+".weight"][r*len(x)+c] * v
			}
		}
		return out
	}
	rows := make([][]float64, len(ids))
	for t, id := range ids {
		rows[t] = make([]float64, h)
		for i := range h {
			rows[t][i] = d["word"][int(id)*h+i] + d["position"][t*h+i] + d["kind"][i]
		}
		norm(rows[t], "first")
	}
	for l := range s.layers {
		at := fmt.Sprintf("%d.", l)
		var query, key, value [][]float64
		for _, x := range rows {
			query = append(query, apply(x, at+"query"))
			key = append(key, apply(x, at+"key"))
			value = append(value, apply(x, at+"value"))
		}
		for t, x := range rows {
			met := make([]float64, h)
			for head := range s.heads {
				var chances []float64
				total := 0.0
				for other := range rows {
					dot := 0.0
					for i := head * size; i < (head+1)*size; i++ {
						dot += query[t][i] * key[other][i]
					}
					chance := math.Exp(dot / math.Sqrt(float64(size)))
					chances, total = append(chances, chance), total+chance
				}
				for other, chance := range chances {
					for i := head * size; i < (head+1)*size; i++ {
						met[i] += chance / total * value[other][i]
					}
				}
			}
			joined := apply(met, at+"join")
			for i := range joined {
				joined[i] += x[i]
			}
			norm(joined, at+"afterJoin")
			mid := apply(joined, at+"up")
			for i, v := range mid {
				mid[i] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
			}
			out := apply(mid, at+"down")
			for i := range out {
				out[i] += joined[i]
			}
			norm(out, at+"afterDown")
			rows[t] = out
		}
	}
	out, square := make([]float64, h), 0.0
	for i := range out {
		for _, x := range rows {
			out[i] += x[i]
		}
		square += out[i] * out[i]
	}
	for i := range out {
		out[i] /= math.Sqrt(square)
	}
	return out
}

// maker makes a random model: a file of weights, and what they are.
type maker struct {
	random *rand.Rand
	weight dense
}

func newMaker(seed uint64) maker { return maker{rand.New(rand.NewPCG(seed, 7)), dense{}} }

func (m maker) floats(name string, n int, about, width float64) []byte {
	var out bytes.Buffer
	for range n {
		v := float32(about + width*m.random.NormFloat64())
		m.weight[name] = append(m.weight[name], float64(v))
		_ = binary.Write(&out, binary.LittleEndian, v)
	}
	return out.Bytes()
}

func (m maker) blocks(name string, n int) []byte {
	var out bytes.Buffer
	for range n / blockWeights {
		const bits = 0x2c00 // 1/16 in 16 bits
		_ = binary.Write(&out, binary.LittleEndian, uint16(bits))
		var packed [16]byte
		var values [blockWeights]float64
		for i := range 16 {
			packed[i] = byte(m.random.IntN(256))
			values[i] = (float64(packed[i]&15) - 8) / 16
			values[i+16] = (float64(packed[i]>>4) - 8) / 16
		}
		m.weight[name] = append(m.weight[name], values[:]...)
		out.Write(packed[:])
	}
	return out.Bytes()
}

var tinyPieces = []string{
	"<s>", "<pad>", "</s>", "<unk>", "▁", "▁the", "▁riv", "er", "▁river", "s", "a", "b", "c", "ab", "abc", "▁a", "e", "r",
	"t", "h", "i", "v", "o", "ö", "n", "▁query", "▁passage", ":", "q", "u", "y", "p", "g",
}

func (m maker) e5(s shape) []byte {
	var out bytes.Buffer
	write := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&out, binary.LittleEndian, v)
		}
	}
	s.vocabulary = len(tinyPieces)
	out.WriteString("E5S1")
	for _, v := range []int{1, s.hidden, s.layers, s.heads, s.inner, s.vocabulary, s.positions, 1} {
		write(int32(v))
	}
	write(float32(1e-5), int32(blockWeights))
	write(int32(len(tinyPieces)), int32(0), int32(2), int32(1), int32(3))
	text := strings.Join(tinyPieces, "")
	write(uint64(len(text)))
	at := 0
	for _, piece := range tinyPieces {
		write(uint32(at))
		at += len(piece)
	}
	write(uint32(at))
	for i := range tinyPieces {
		write(float32(-1 - m.random.Float64()*float64(i)))
	}
	out.WriteString(text)
	// U+FB01 is written as two letters, a control character as a blank.
	written := []any{uint32(0xfb01), uint8(2), uint32('f'), uint32('i'), uint32(1), uint8(1), uint32(' ')}
	write(int32(2), int32(4+1+8+4+1+4))
	write(written...)

	type tensor struct {
		name string
		kind uint8
		n    int
		raw  []byte
	}
	var all []tensor
	plain := func(name, as string, n int, about, width float64) {
		all = append(all, tensor{name, 0, n, m.floats(as, n, about, width)})
	}
	packed := func(name, as string, n int) { all = append(all, tensor{name, 1, n, m.blocks(as, n)}) }
	h := s.hidden
	packed("emb.word", "word", s.vocabulary*h)
	plain("emb.pos", "position", s.positions*h, 0, 0.1)
	plain("emb.type", "kind", h, 0, 0.1)
	plain("emb.ln.w", "first.weight", h, 1, 0.1)
	plain("emb.ln.b", "first.bias", h, 0, 0.1)
	for l := range s.layers {
		for _, t := range []struct {
			name, as string
			out, in  int
		}{
			{"q", "query", h, h}, {"k", "key", h, h}, {"v", "value", h, h}, {"ao", "join", h, h},
			{"fi", "up", s.inner, h}, {"fo", "down", h, s.inner},
		} {
			packed(fmt.Sprintf("l%d.%s.w", l, t.name), fmt.Sprintf("%d.%s.weight", l, t.as), t.out*t.in)
			plain(fmt.Sprintf("l%d.%s.b", l, t.name), fmt.Sprintf("%d.%s.bias", l, t.as), t.out, 0, 0.1)
		}
		for _, t := range [][2]string{{"aln", "afterJoin"}, {"oln", "afterDown"}} {
			plain(fmt.Sprintf("l%d.%s.w", l, t[0]), fmt.Sprintf("%d.%s.weight", l, t[1]), h, 1, 0.1)
			plain(fmt.Sprintf("l%d.%s.b", l, t[0]), fmt.Sprintf("%d.%s.bias", l, t[1]), h, 0, 0.1)
		}
	}
	start := out.Len() + 4
	for _, t := range all {
		start += 2 + len(t.name) + 1 + 4 + 8 + 8
	}
	write(int32(len(all)))
	for _, t := range all {
		write(uint16(len(t.name)))
		out.WriteString(t.name)
		write(t.kind, int32(t.n), uint64(start), uint64(len(t.raw)))
		start += len(t.raw)
	}
	for _, t := range all {
		out.Write(t.raw)
	}
	return out.Bytes()
}

var tinyVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nri\n##ver\nriver\n##s\na\n##b\n##a\nq\n!\n,\n東\n"

func (m maker) bert(s shape) []byte {
	s.vocabulary = strings.Count(tinyVocabulary, "\n")
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var body bytes.Buffer
	tensor := func(name, as string, about, width float64, dimensions ...int) {
		n := 1
		for _, d := range dimensions {
			n *= d
		}
		raw := m.floats(as, n, about, width)
		header[name] = safetensor{"F32", dimensions, [2]int{body.Len(), body.Len() + len(raw)}}
		body.Write(raw)
	}
	h := s.hidden
	tensor(wordTensor, "word", 0, 0.5, s.vocabulary, h)
	tensor(placeTensor, "position", 0, 0.1, s.positions, h)
	tensor("embeddings.token_type_embeddings.weight", "kind", 0, 0.1, 2, h)
	tensor("embeddings.LayerNorm.weight", "first.weight", 1, 0.1, h)
	tensor("embeddings.LayerNorm.bias", "first.bias", 0, 0.1, h)
	for l := range s.layers {
		at, as := fmt.Sprintf("encoder.layer.%d.", l), fmt.Sprintf("%d.", l)
		for _, t := range []struct {
			name, as string
			out, in  int
		}{
			{"attention.self.query", "query", h, h}, {"attention.self.key", "key", h, h},
			{"attention.self.value", "value", h, h}, {"attention.output.dense", "join", h, h},
			{"intermediate.dense", "up", s.inner, h}, {"output.dense", "down", h, s.inner},
		} {
			tensor(at+t.name+".weight", as+t.as+".weight", 0, 0.2, t.out, t.in)
			tensor(at+t.name+".bias", as+t.as+".bias", 0, 0.1, t.out)
		}
		for _, t := range [][2]string{{"attention.output.LayerNorm", "afterJoin"}, {"output.LayerNorm", "afterDown"}} {
			tensor(at+t[0]+".weight", as+t[1]+".weight", 1, 0.1, h)
			tensor(at+t[0]+".bias", as+t[1]+".bias", 0, 0.1, h)
		}
	}
	raw, _ := json.Marshal(header)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(raw)))
	return append(append(out, raw...), body.Bytes()...)
}

type made struct {
	name    string
	files   [][]byte
	weight  dense
	epsilon float64
}

func randomModels() []made {
	e5, bert := newMaker(1), newMaker(2)
	return []made{
		{"e5", [][]byte{e5.e5(tiny)}, e5.weight, float64(float32(1e-5))},
		{"minilm", [][]byte{bert.bert(tiny), []byte(tinyVocabulary)}, bert.weight, 1e-12},
	}
}

func (m made) model() Model {
	found, _ := Find(m.name)
	found.Dimension, found.limit = tiny.hidden, tiny.positions
	return found
}

func (m made) open(t testing.TB) Embedder {
	model := m.model()
	loaded := musttest.Get(model.readFiles(m.files))(t)
	return Embedder{model: model, prefix: model.passage, loaded: loaded}
}

var tinyTexts = []string{
	"", "the river", "abc the rivers, a b", "öööö never seen 東京!", strings.Repeat("the rivers abc ", 40), "a",
	"river q, the the the!", "ab", "\x00 \t", strings.Repeat("x", 300),
}

// Promises: 130.
func TestVectorsAreThoseOfPlainArithmetic(t *testing.T) {
	for _, m := range randomModels() {
		e := m.open(t)
		vectors, _, err := e.Embed(t.Context(), tinyTexts)
		require.NoError(t, err, m.name)
		worst := 1.0
		for i, text := range tinyTexts {
			ids := e.loaded.words.tokensOf(e.prefix + text)
			require.True(t, len(ids) <= tiny.positions, "%s: %d tokens of %q", m.name, len(ids), text)
			want, cosine := m.weight.plain(tiny, m.epsilon, ids), 0.0
			for k := range want {
				cosine += want[k] * float64(vectors[i][k])
			}
			worst = min(worst, cosine)
		}
		assert.Greater(t, worst, 0.99, "%s: inputs of layers have eight bits, weights seven", m.name)
	}
}

// The same bits in whatever company, order and number of requests at once.
// Promises: 129.
func TestATextHasOneVector(t *testing.T) {
	for _, m := range randomModels() {
		e := m.open(t)
		var many []string
		for range 40 {
			many = append(many, tinyTexts...)
		}
		random := rand.New(rand.NewPCG(5, 6))
		random.Shuffle(len(many), func(i, j int) { many[i], many[j] = many[j], many[i] })
		vectors, _, err := e.Embed(t.Context(), many)
		require.NoError(t, err, m.name)
		alone := map[string][]float32{}
		for _, text := range tinyTexts {
			one, _, err := e.Embed(t.Context(), []string{text})
			require.NoError(t, err, m.name)
			alone[text] = one[0]
		}
		for i, text := range many {
			require.True(t, slices.Equal(vectors[i], alone[text]), "%s: %q has another vector among others", m.name, text)
		}
	}
}

// The best way to cut a word is the best of all ways.
func TestPiecesAreTheBestOfAllWays(t *testing.T) {
	u := &unigram{unknown: 3, unknownScore: -30, pieces: map[string]piece{}, longest: 9}
	random := rand.New(rand.NewPCG(8, 9))
	for i, text := range tinyPieces {
		u.pieces[text] = piece{int32(i), -10 * random.Float64()}
	}
	var best func(word string) (score float64, ids []int32)
	best = func(word string) (float64, []int32) {
		if word == "" {
			return 0, nil
		}
		score, ids := math.Inf(-1), []int32(nil)
		letters := []rune(word)
		for n := range letters {
			first := string(letters[:n+1])
			found, ok := u.pieces[first]
			if !ok {
				if n > 0 {
					continue
				}
				found = piece{u.unknown, u.unknownScore}
			}
			if rest, more := best(word[len(first):]); found.score+rest > score {
				score, ids = found.score+rest, append([]int32{found.id}, more...)
			}
		}
		return score, ids
	}
	alphabet := []rune("▁therivsabcxz")
	for range 500 {
		var word strings.Builder
		for range 1 + random.IntN(9) {
			word.WriteRune(alphabet[random.IntN(len(alphabet))])
		}
		_, want := best(word.String())
		want = slices.CompactFunc(want, func(a, b int32) bool { return a == b && a == u.unknown })
		require.Equal(t, want, u.addWord(nil, word.String()), "%q", word.String())
	}
}

// A file that ends anywhere, or has other bytes in its directory, is refused or read; nothing panics.
func TestDamagedWeightsAreRefusedOrRead(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 11))
	for _, m := range randomModels() {
		whole, model := m.files[0], m.model()
		directory := min(6000, len(whole)) // what comes behind is numbers, whatever they are
		ends := []int{len(whole) - 1}
		for range 60 {
			ends = append(ends, random.IntN(directory))
		}
		sort.Ints(ends)
		for _, end := range ends {
			_, err := model.readFiles(append([][]byte{whole[:end]}, m.files[1:]...))
			require.Error(t, err, "%s: of %d bytes %d are enough", m.name, len(whole), end)
		}
		for range 150 {
			damaged := slices.Clone(whole)
			damaged[random.IntN(directory)] ^= 1 << random.IntN(8)
			_, _ = model.readFiles(append([][]byte{damaged}, m.files[1:]...))
		}
	}
}

// withWeights gives the models whose weights are here: in the folder of caches of the user.
func withWeights(t testing.TB, name string) Embedder {
	t.Helper()
	m, _ := Find(name)
	if _, err := os.Stat(filepath.Join(Directory(), name, m.Files[0].Name)); err != nil {
		t.Skipf("NOT TESTED: the weights of %s are not in %s; `make models` fetches them", name, Directory())
	}
	return musttest.Get(Open(name, Directory()))(t)
}

func lines(t testing.TB, name string) []json.RawMessage {
	file := musttest.Get(os.Open(filepath.Join("testdata", name)))(t)
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
	vectors, _ := musttest.Get2(o.e.Embed(o.Context(), []string{text}))(o)
	return vectors[0]
}

func BenchmarkEmbed(b *testing.B) {
	for _, name := range Names() {
		b.Run(name, func(b *testing.B) {
			e, memory := withWeights(b, name), &space{}
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
