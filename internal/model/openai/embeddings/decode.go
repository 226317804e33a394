// Package embeddings reads answers of POST /embeddings.
package embeddings

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Problem is what is wrong with an answer that is JSON of the right form: a contract that is broken, and no page of a
// proxy. Any other error of Decode is about the form.
type Problem string

// Error implements error.
func (p Problem) Error() string { return string(p) }

// Answer of a server. Vectors are in the order of the texts, whatever order they came in.
type Answer struct {
	Vectors [][]float32
	Usage   jsontext.Value // nil where the server sends none
}

// Decode reads an answer for so many texts; no name may come twice. A vector without an index belongs to the text at
// its own place. NaN, infinity, and the length of vectors are not checked. Usage is returned beside a Problem too.
func Decode(body []byte, texts int) (Answer, error) {
	var read struct {
		Data  items          `json:"data"`
		Usage jsontext.Value `json:"usage"`
	}
	read.Data.most = texts
	if err := json.Unmarshal(body, &read, jsontext.AllowInvalidUTF8(true)); err != nil {
		return Answer{}, err
	}
	answer := Answer{Usage: read.Usage}
	if read.Data.count != texts {
		return answer, Problem(fmt.Sprintf("%d vectors came back for %d texts", read.Data.count, texts))
	}
	ordered := make([][]float32, texts)
	for i, item := range read.Data.kept {
		place := i
		if item.Index != nil {
			place = *item.Index
		}
		switch {
		case item.Embedding.wrong != nil:
			return answer, Problem(fmt.Sprintf("vector %d: %v", i, item.Embedding.wrong))
		case item.Embedding.numbers == nil:
			return answer, Problem(fmt.Sprintf("vector %d: there is none", i))
		case place < 0 || place >= texts || ordered[place] != nil:
			return answer, Problem(fmt.Sprintf("vector %d: index %d is out of range or comes twice", i, place))
		}
		ordered[place] = item.Embedding.numbers
	}
	answer.Vectors = ordered
	return answer, nil
}

// item is a vector and the place of its text.
type item struct {
	Index     *int   `json:"index"`
	Embedding vector `json:"embedding"`
}

// items keeps as many as were asked for and counts the others: an empty one takes far more memory than bytes.
type items struct {
	kept        []item
	count, most int
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *items) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '[' {
		return json.UnmarshalDecode(from, &l.kept)
	}
	if _, err := from.ReadToken(); err != nil {
		return err
	}
	for ; from.PeekKind() != ']'; l.count++ {
		if l.count >= l.most {
			if err := from.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var one item
		if err := json.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		l.kept = append(l.kept, one)
	}
	_, err := from.ReadToken()
	return err
}

// vector is base64 of little-endian float32, or a list of numbers.
type vector struct {
	numbers []float32
	wrong   error // why it is no vector
}

// UnmarshalJSON implements json.Unmarshaler. It returns no error, as the rest of the answer is read all the same.
func (v *vector) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case '"':
		v.numbers, v.wrong = readBase64(raw)
	case '[':
		v.numbers, v.wrong = readNumbers(raw)
	case 'n':
		*v = vector{}
	default:
		v.wrong = errors.New("it is neither text nor a list of numbers")
	}
	return nil
}

func readBase64(raw []byte) ([]float32, error) {
	encoded := raw[1 : len(raw)-1]
	if bytes.IndexByte(encoded, '\\') >= 0 { // such as some servers write a slash
		var plain string
		if err := json.Unmarshal(raw, &plain); err != nil {
			return nil, err
		}
		encoded = []byte(plain)
	}
	decoded := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(decoded, encoded)
	if err != nil {
		return nil, err
	}
	if n%4 != 0 {
		return nil, errors.New("base64 of a length that is no multiple of 4")
	}
	numbers := make([]float32, n/4)
	for i := range numbers {
		numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(decoded[4*i:]))
	}
	return numbers, nil
}

// readNumbers reads a list of numbers. A null within it is NaN, which no caller takes.
func readNumbers(raw []byte) ([]float32, error) {
	raw = bytes.TrimSpace(raw[1 : len(raw)-1])
	numbers := make([]float32, 0, bytes.Count(raw, []byte(","))+1)
	for len(raw) > 0 {
		var word []byte
		word, raw, _ = bytes.Cut(raw, []byte(","))
		word = bytes.TrimSpace(word)
		if string(word) == "null" {
			word = []byte("NaN")
		}
		number, err := strconv.ParseFloat(string(word), 32)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return nil, errors.New("it holds a number that is too large")
		case err != nil:
			return nil, errors.New("it holds what is no number")
		}
		numbers = append(numbers, float32(number))
	}
	return numbers, nil
}
