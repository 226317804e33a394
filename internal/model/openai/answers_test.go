package openai_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// answer returns the answer of a server of embeddings.
func answer(vectors [][]float32, packed bool) []byte {
	type item struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	items := make([]item, len(vectors))
	for i, vector := range vectors {
		items[i] = item{"embedding", i, vector}
		if packed {
			var raw []byte
			for _, x := range vector {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			items[i].Embedding = base64.StdEncoding.EncodeToString(raw)
		}
	}
	body, _ := json.Marshal(map[string]any{ // plain values always marshal
		"object": "list", "data": items, "model": "m", "usage": map[string]int{"prompt_tokens": 9000, "total_tokens": 9000},
	})
	return body
}
