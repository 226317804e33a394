package modeltest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
)

// item is one embedding of an answer.
type item struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"`
}

func (s *Server) embed(w http.ResponseWriter, request *http.Request, call call) {
	var asked struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}
	if err := json.NewDecoder(request.Body).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "bad_request", err.Error(), 0)
		return
	}
	seen := Seen{N: call.number, Task: "embed"}
	if len(asked.Input) > 0 {
		seen.Text = asked.Input[0]
	}
	injection := call.options.inject(seen)
	if !s.admit(w, request, injection) {
		return
	}
	items := make([]item, 0, len(asked.Input))
	tokens := int64(0)
	for i, text := range asked.Input {
		tokens += int64(len(text) / 4)
		items = append(items, item{"embedding", i, call.options.embedding(i, text, asked.Format)})
	}
	if call.options.Shuffle {
		rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	}
	items = items[:max(0, len(items)-call.options.Drop)]
	s.book.embed(asked.Input, Cost{Prompt: tokens})
	respond(w, request, injection, map[string]any{
		"object": "list", "model": asked.Model, "data": items,
		"usage": map[string]int64{"prompt_tokens": tokens, "total_tokens": tokens},
	})
}

// embedding returns the embedding of the text at place i of a request, in the form that was asked for.
func (o Options) embedding(i int, text, format string) any {
	vector := Vector(text, o.Dimension)
	if i == 0 && o.NaN {
		vector[0] = float32(math.NaN())
	}
	if i == 0 && o.Zero {
		clear(vector)
	}
	if format != "base64" || o.Float {
		return vector
	}
	return pack(vector)
}

// pack returns base64 of little-endian numbers.
func pack(vector []float32) string {
	packed := make([]byte, 0, 4*len(vector))
	for _, x := range vector {
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(packed)
}

// EncodeEmbeddings returns the body of an answer with vectors, as numbers or packed.
func EncodeEmbeddings(vectors [][]float32, packed bool) []byte {
	items := make([]map[string]any, len(vectors))
	for i, vector := range vectors {
		items[i] = map[string]any{"object": "embedding", "index": i, "embedding": vector}
		if packed {
			items[i]["embedding"] = pack(vector)
		}
	}
	raw, _ := json.Marshal(map[string]any{ // plain values always marshal
		"object": "list", "data": items, "model": "m", "usage": map[string]int{"prompt_tokens": 9, "total_tokens": 9},
	})
	return raw
}

// Vector returns the server's embedding: signed hashing of words.
func Vector(text string, dimension int) []float32 {
	vector := make([]float32, dimension)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		hash := sha256.Sum256([]byte(strings.Trim(word, ".,;:!?()\"'")))
		slot := binary.LittleEndian.Uint64(hash[:])
		if slot>>63 == 1 {
			vector[slot%uint64(dimension)]--
		} else {
			vector[slot%uint64(dimension)]++
		}
	}
	vector[0] += 0.01 // no text has length zero
	return vector
}
