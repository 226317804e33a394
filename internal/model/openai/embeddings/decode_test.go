package embeddings_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/openai/embeddings"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// random gives vectors whose numbers are as long as those of models.
func random(count, dimension int) [][]float32 {
	source := rand.New(rand.NewPCG(1, 2))
	vectors := make([][]float32, count)
	for i := range vectors {
		vectors[i] = make([]float32, dimension)
		for j := range vectors[i] {
			vectors[i][j] = float32(source.NormFloat64() / 40)
		}
	}
	return vectors
}

func same(a, b [][]float32) bool {
	return slices.EqualFunc(a, b, func(a, b []float32) bool {
		return slices.EqualFunc(a, b, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
	})
}

// Every number comes back as it was, whichever form it came in.
func TestNumbersComeBackBitByBit(t *testing.T) {
	for _, dimension := range []int{1, 2, 3, 767, 768, 769, 1536, 3072} {
		vectors := random(5, dimension)
		vectors[0][0], vectors[1][0] = math.SmallestNonzeroFloat32, math.MaxFloat32
		vectors[2][0] = float32(math.Copysign(0, -1))
		for _, asBase64 := range []bool{true, false} {
			got, err := embeddings.Decode(modeltest.EncodeEmbeddings(vectors, asBase64), len(vectors))
			assert.True(t, err == nil && same(got.Vectors, vectors) && string(got.Usage) == `{"prompt_tokens":9,"total_tokens":9}`,
				"dimension %d, base64 %v: %v, %s", dimension, asBase64, err, got.Usage)
		}
	}
}

func TestWhatIsNotAVectorForEachTextIsAProblem(t *testing.T) {
	item := func(index int, embedding string) string {
		return fmt.Sprintf(`{"index":%d,"embedding":%s}`, index, embedding)
	}
	for name, c := range map[string]struct {
		data []string
		says string
	}{
		"one is missing":           {[]string{item(0, "[1]")}, "1 vectors came back for 2 texts"},
		"one too many":             {[]string{item(0, "[1]"), item(1, "[1]"), item(2, "[1]")}, "3 vectors came back for 2"},
		"an index above":           {[]string{item(0, "[1]"), item(2, "[1]")}, "index 2 is out of range or comes twice"},
		"an index below":           {[]string{item(-1, "[1]"), item(1, "[1]")}, "index -1 is out of range"},
		"an index twice":           {[]string{item(1, "[1]"), item(1, "[1]")}, "index 1 is out of range or comes twice"},
		"an empty one twice":       {[]string{item(1, "[]"), item(1, "[]")}, "index 1 is out of range or comes twice"},
		"none":                     {[]string{item(0, "[1]"), `{"index":1}`}, "vector 1: there is none"},
		"null":                     {[]string{item(0, "[1]"), item(1, "null")}, "vector 1: there is none"},
		"no object":                {[]string{"null", item(1, "[1]")}, "vector 0: there is none"},
		"a number":                 {[]string{item(0, "[1]"), item(1, "5")}, "vector 1: it is neither text nor"},
		"a list of lists":          {[]string{item(0, "[1]"), item(1, "[1,[2]]")}, "vector 1: it holds what is no number"},
		"too large":                {[]string{item(0, "[1e39]"), item(1, "[1]")}, "vector 0: it holds a number that is too"},
		"no base64":                {[]string{item(0, `"AA*="`), item(1, "[1]")}, "vector 0: illegal base64 data"},
		"an end within":            {[]string{item(0, `"AA==AAAA"`), item(1, "[1]")}, "vector 0: illegal base64 data"},
		"half a group":             {[]string{item(0, `"AAAAA"`), item(1, "[1]")}, "vector 0: illegal base64 data"},
		"half a number":            {[]string{item(0, `"AAAAAAA="`), item(1, "[1]")}, "vector 0: base64 of a length"},
		"half a number, escaped":   {[]string{item(0, "[1]"), item(1, `"AAAA\/AA="`)}, "vector 1: base64 of a length"},
		"an end at that of a part": {[]string{item(0, `"`+strings.Repeat("A", 4095)+`=AAAA"`), item(1, "[1]")}, "vector 0: "},
	} {
		got, err := embeddings.Decode([]byte(`{"usage":{"prompt_tokens":3},"data":[`+strings.Join(c.data, ",")+`]}`), 2)
		var problem embeddings.Problem
		assert.True(t, errors.As(err, &problem) && strings.Contains(err.Error(), c.says) && got.Usage != nil,
			"%s: %v, %s; want %q", name, err, got.Usage, c.says)
	}
}

// Some servers escape slashes.
func TestBase64WithEscapesIsRead(t *testing.T) {
	got, err := embeddings.Decode([]byte(`{"data":[{"embedding":"AAAA\/wAAgD8\u003d"}]}`), 1)
	want := []float32{math.Float32frombits(0xff000000), 1}
	assert.True(t, err == nil && same(got.Vectors, [][]float32{want}), "%v %v", got.Vectors, err)
}

// A page of a proxy, half a body, an object of another kind.
func TestWhatIsNotAnAnswerIsNoProblemOfItsVectors(t *testing.T) {
	good := string(modeltest.EncodeEmbeddings(random(3, 5), true))
	answers := []string{
		"", " ", "<html>", "[]", `"data"`, `{"data":{}}`, `{"data":[1]}`, `{"data":[[]]}`, `{"data":[{"index":"0"}]}`,
		`{"data":[{"index":0.5}]}`, `{"data":[{"index":99999999999999999999}]}`, `{"data":[],"data":[]}`, good + "x",
		`{"data":[{"embedding":"AA` + "\n" + `AA"}]}`, `{"data":[{"embedding":"A*` + "\x01" + `"}]}`,
		`{"data":[{"embedding":["`, `{"data":[{"embedding":[NaN]}]}`, `{"data":[{"embedding":[01]}]}`,
		`{"data":[{"embedding":[1,]}]}`, `{"usage":` + strings.Repeat("[", 20_000),
		`{"usage":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	}
	for end := range len(good) {
		answers = append(answers, good[:end])
	}
	for _, answer := range answers {
		_, err := embeddings.Decode([]byte(answer), 1)
		var problem embeddings.Problem
		assert.True(t, err != nil && !errors.As(err, &problem), "%.60q: %v", answer, err)
	}
}

func TestANullWithinAVectorIsNaN(t *testing.T) {
	got, err := embeddings.Decode([]byte(`{"data":[{"embedding":[1, null ,3]}]}`), 1)
	assert.True(t, err == nil && len(got.Vectors[0]) == 3 && math.IsNaN(float64(got.Vectors[0][1])), "%v %v", got, err)
}

// Whatever a server sends, there is a vector for each text or an error.
// Promises: 72.
func FuzzEmbeddings(f *testing.F) {
	f.Add(modeltest.EncodeEmbeddings(random(2, 3), true), 2)
	f.Add(modeltest.EncodeEmbeddings(random(2, 3), false), 2)
	f.Add([]byte(`{"data":[{"index":null,"embedding":[1,-0.5e-3,null]}],"usage":{}}`), 1)
	f.Add([]byte(` { "data" : [ null , {"x":[{"y":["\u12aB\/",true,false,null,-0]}]} ] } `), 2)
	f.Add([]byte(`{"data":[{"embedding":"AACAPw\u003d\u003d"}]}`), 1)
	f.Add([]byte("null"), 0)
	f.Fuzz(func(t *testing.T, raw []byte, texts int) {
		if texts < 0 || texts > 64 {
			return
		}
		got, err := embeddings.Decode(raw, texts)
		require.True(t, (err != nil || len(got.Vectors) == texts && !slices.ContainsFunc(got.Vectors, func(v []float32) bool {
			return v == nil
		})), "%v of %d texts", got.Vectors, texts)
		require.True(t, err == nil || got.Vectors == nil, "%v beside %v", got.Vectors, err)
	})
}
