package postings

import (
	"encoding/binary"
	"math/bits"
)

// slack is how many bytes lie behind the packed lists of a side: values are read eight at a time, in words.
const slack = 64

// bitWidth returns how many bits the largest of the values takes.
func bitWidth(values []uint32) int {
	all := uint32(0)
	for _, value := range values {
		all |= value
	}
	return bits.Len32(all)
}

// packedSize returns how many bytes so many values of a width take.
func packedSize(values, width int) int { return (values*width + 7) / 8 }

// packValues appends values of a width, one behind the other from the least bit on.
func packValues(out []byte, values []uint32, width int) []byte {
	word, filled := uint64(0), 0
	for _, value := range values {
		word |= uint64(value) << filled
		for filled += width; filled >= 8; filled -= 8 {
			out = append(out, byte(word))
			word >>= 8
		}
	}
	if filled > 0 {
		out = append(out, byte(word))
	}
	return out
}

// unpackRising turns n packed differences, each less one, into the documents that follow one. It writes and reads up to
// the next multiple of eight, and words of eight bytes: raw goes on for slack behind them.
func unpackRising(docs *[BlockSize]uint32, raw []byte, n, width int, before uint32) {
	step, mask := uint(width)&63, uint64(1)<<(uint(width)&63)-1
	doc := before
	switch {
	case width == 0:
		for i := range n {
			doc++
			docs[i] = doc
		}
	case width <= 8: // eight values are in one word
		for at, i := 0, 0; i < n; at, i = at+width, i+8 {
			word, out := binary.LittleEndian.Uint64(raw[at:]), (*[8]uint32)(docs[i:i+8])
			for j := range out {
				doc += 1 + uint32(word&mask)
				word >>= step
				out[j] = doc
			}
		}
	case width <= 28: // two
		for at, i := 0, 0; i < n; at, i = at+width, i+8 {
			out := (*[8]uint32)(docs[i : i+8])
			for j := 0; j < 8; j += 2 {
				bit := uint(j * width)
				word := binary.LittleEndian.Uint64(raw[at+int(bit>>3):]) >> (bit & 7)
				doc += 1 + uint32(word&mask)
				out[j] = doc
				doc += 1 + uint32(word>>step&mask)
				out[j+1] = doc
			}
		}
	default:
		for i := range n {
			bit := uint(i * width)
			doc += 1 + uint32(binary.LittleEndian.Uint64(raw[bit>>3:])>>(bit&7)&mask)
			docs[i] = doc
		}
	}
}

// unpackCounts does the same for counts, each less one and of eight bits at most.
func unpackCounts(counts *[BlockSize]uint8, raw []byte, n, width int) {
	step, mask := uint(width)&63, uint64(1)<<(uint(width)&63)-1
	for at, i := 0, 0; i < n; at, i = at+width, i+8 {
		word, out := binary.LittleEndian.Uint64(raw[at:]), (*[8]uint8)(counts[i:i+8])
		for j := range out {
			out[j] = uint8(word&mask) + 1
			word >>= step
		}
	}
}
