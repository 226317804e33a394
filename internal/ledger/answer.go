package ledger

import (
	"encoding/binary"
	"math"

	"github.com/unweaver/unweaver/internal/core"
)

// answer is what one embedding request was paid for: the texts of a stored object, in its order. Its vectors are not
// held.
type answer struct {
	object core.Digest
	texts  []core.Digest
	fresh  bool // the index of texts does not hold it yet; a mark beside the index names it
	own    bool // this process stored it
}

// answerKey names the object of a request by the digests of its texts.
func answerKey(texts []core.Digest) core.Digest {
	names := make([]string, 1, len(texts)+1)
	names[0] = "embed/1"
	for _, text := range texts {
		names = append(names, text.String())
	}
	return core.Sum(names...)
}

// An object starts with two numbers and the digests of its texts.
const (
	headBytes   = 8
	digestBytes = len(core.Digest{})
)

// infinite is set in the bits of infinity and of NaN.
const infinite = 0x7f800000

// encodeAnswer returns the content of a request's object: u32 count, u32 dimension, digests, float32 rows, little
// endian.
func encodeAnswer(texts []core.Digest, vectors [][]float32) []byte {
	dimension := len(vectors[0])
	out := make([]byte, 0, headBytes+len(texts)*(digestBytes+4*dimension))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(texts)))
	out = binary.LittleEndian.AppendUint32(out, uint32(dimension))
	for _, text := range texts {
		out = append(out, text[:]...)
	}
	for _, vector := range vectors {
		for _, x := range vector {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	}
	return out
}

// decodeHead reads the digests of an object from its start. It requires more where the start is too short for them, and
// gives none where the object is not one, or not the one of its name.
func decodeHead(raw []byte, object core.Digest) (texts []core.Digest, want int) {
	if len(raw) < headBytes {
		return nil, 0
	}
	count := int(binary.LittleEndian.Uint32(raw))
	end := headBytes + count*digestBytes
	if count == 0 || count > 1<<20 {
		return nil, 0
	}
	if len(raw) < end {
		return nil, end
	}
	texts = make([]core.Digest, count)
	for i := range texts {
		texts[i] = core.Digest(raw[headBytes+i*digestBytes:])
	}
	if answerKey(texts) != object {
		return nil, 0
	}
	return texts, 0
}

// decodeAnswer reads a whole object; nil where it is not what was stored under its name, or a number is not finite.
func decodeAnswer(raw []byte, object core.Digest) (texts []core.Digest, vectors [][]float32) {
	raw, ok := openEntry(looseKey(Embed, object), raw)
	if texts, _ = decodeHead(raw, object); !ok || texts == nil {
		return nil, nil
	}
	dimension := int(binary.LittleEndian.Uint32(raw[4:]))
	if dimension == 0 || len(raw) != headBytes+len(texts)*(digestBytes+4*dimension) {
		return nil, nil
	}
	flat := make([]float32, len(texts)*dimension)
	rows := raw[headBytes+len(texts)*digestBytes:]
	for i := range flat {
		bits := binary.LittleEndian.Uint32(rows[4*i:])
		if bits&infinite == infinite {
			return nil, nil
		}
		flat[i] = math.Float32frombits(bits)
	}
	vectors = make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = flat[i*dimension : (i+1)*dimension]
	}
	return texts, vectors
}
