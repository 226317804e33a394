package neural

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// safetensors is the directory of a file of that format, and the file behind it.
type safetensors struct {
	entries map[string]safetensor
	body    []byte
}

type safetensor struct {
	Kind    string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

func readSafetensors(data []byte) (*safetensors, error) {
	c := &cursor{data: data}
	size := c.u64()
	if size > uint64(len(data)) {
		return nil, errShort
	}
	header := c.takeBytes(int(size))
	if c.err != nil {
		return nil, c.err
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return nil, fmt.Errorf("its header is damaged: %w", err)
	}
	delete(raw, "__metadata__")
	s := &safetensors{entries: map[string]safetensor{}, body: data[c.at:]}
	for name, value := range raw {
		var found safetensor
		if err := json.Unmarshal(value, &found); err != nil {
			return nil, fmt.Errorf("its header is damaged: %w", err)
		}
		s.entries[name] = found
	}
	return s, nil
}

func (s *safetensors) findTensor(name string, elements int) ([]byte, error) {
	e, ok := s.entries[name]
	if !ok || e.Kind != "F32" || e.Offsets[0] < 0 || e.Offsets[1] > len(s.body) ||
		e.Offsets[1]-e.Offsets[0] != 4*elements {
		return nil, fmt.Errorf("tensor %s is missing or of another size", name)
	}
	return s.body[e.Offsets[0]:e.Offsets[1]], nil
}

// dimensionOf returns dimension i of a tensor; 0 where it has none.
func (s *safetensors) dimensionOf(name string, i int) int {
	if e := s.entries[name]; i < len(e.Shape) {
		return e.Shape[i]
	}
	return 0
}

const (
	wordTensor  = "embeddings.word_embeddings.weight"
	placeTensor = "embeddings.position_embeddings.weight"
)

func (s *safetensors) readShape() shape {
	out := shape{
		hidden: s.dimensionOf(wordTensor, 1), vocabulary: s.dimensionOf(wordTensor, 0),
		positions: s.dimensionOf(placeTensor, 0), inner: s.dimensionOf("encoder.layer.0.intermediate.dense.weight", 0),
	}
	out.heads = out.hidden / headSize
	for out.layers < 99 && s.dimensionOf(fmt.Sprintf("encoder.layer.%d.output.dense.weight", out.layers), 0) > 0 {
		out.layers++
	}
	return out
}

// readBERT reads all-MiniLM-L6-v2, or a model of its kind, from safetensors.
func readBERT(data []byte, words *wordPiece) (*encoder, error) {
	file, err := readSafetensors(data)
	if err != nil {
		return nil, err
	}
	s := file.readShape()
	if err := s.checkShape(); err != nil {
		return nil, err
	}
	if len(words.ids) > s.vocabulary || words.limit > s.positions {
		return nil, errors.New("its vocabulary is of another model")
	}
	t := &tensors{find: file.findTensor}
	h := s.hidden
	rows := func(name string, in, out int) func(int) []float32 {
		all := t.floats(name, in*out)
		return func(r int) []float32 { return all[r*in : (r+1)*in] }
	}
	wb := [2]string{".weight", ".bias"}
	table := bytes.Clone(t.readBytes(wordTensor, s.vocabulary*h)) // the rest of the file is not needed
	e := &encoder{
		hidden: h, heads: s.heads, positions: s.positions, epsilon: 1e-12,
		word: func(out []float32, id int32) { copy(out, toFloats(table[int(id)*4*h:int(id+1)*4*h])) },
		position: addTypeEmbedding(t.floats(placeTensor, s.positions*h),
			t.floats("embeddings.token_type_embeddings.weight", 2*h)[:h]),
		first: t.readScaling("embeddings.LayerNorm", wb, h),
	}
	for i := range s.layers {
		at := fmt.Sprintf("encoder.layer.%d.", i)
		self, join, up, down := at+"attention.self.", at+"attention.output.", at+"intermediate.dense", at+"output."
		biases := [3][]float32{t.floats(self+"query.bias", h), t.floats(self+"key.bias", h), t.floats(self+"value.bias", h)}
		e.layers = append(e.layers, layer{
			qkv: joinLinears(h, biases, [3]func(int) []float32{
				rows(self+"query.weight", h, h), rows(self+"key.weight", h, h), rows(self+"value.weight", h, h),
			}),
			join:      newLinear(h, h, t.floats(join+"dense.bias", h), rows(join+"dense.weight", h, h)),
			afterJoin: t.readScaling(join+"LayerNorm", wb, h),
			up:        newLinear(h, s.inner, t.floats(up+".bias", s.inner), rows(up+".weight", h, s.inner)),
			down:      newLinear(s.inner, h, t.floats(down+"dense.bias", h), rows(down+"dense.weight", s.inner, h)),
			afterDown: t.readScaling(down+"LayerNorm", wb, h),
		})
	}
	return e, t.err
}
