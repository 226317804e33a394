package stage

import (
	"encoding/binary"
	"errors"
	"io"
)

// thriftNode is a value of Thrift's compact protocol, in which Parquet describes a file: a number, of a struct its
// fields by their numbers, of a list its elements by their places. Bytes are left out.
type thriftNode struct {
	number int64
	parts  []thriftPart
}

type thriftPart struct {
	id int64
	thriftNode
}

// at returns a part of a part; an empty one where there is none.
func (n thriftNode) at(path ...int64) thriftNode {
	for _, id := range path {
		var next thriftNode
		for _, part := range n.parts {
			if part.id == id {
				next = part.thriftNode
				break
			}
		}
		n = next
	}
	return n
}

// int returns the number of a part; 0 where there is none.
func (n thriftNode) int(path ...int64) int64 { return n.at(path...).number }

// thriftReader reads values. What it makes of bytes is bounded by how many there are, whatever they say: the library's
// reader believes how long a list is.
type thriftReader struct {
	raw []byte // what is left
	err error
}

// deepest is how deep structs may lie in others; those of Parquet lie five deep.
const deepest = 16

// readStruct reads a struct, and returns how many bytes it has.
func readStruct(raw []byte) (out thriftNode, length int, err error) {
	r := thriftReader{raw: raw}
	out = r.readValue(12, 0)
	return out, len(raw) - len(r.raw), r.err
}

func (r *thriftReader) readValue(kind byte, depth int) (out thriftNode) {
	if depth > deepest {
		r.err = errors.New("its description is nested too deep")
		return out
	}
	switch kind {
	case 1, 2: // a field that is true, or false
		out.number = int64(2 - kind)
	case 3:
		out.number = int64(int8(r.take(1)[0]))
	case 4, 5, 6:
		out.number = r.readInt()
	case 7:
		r.take(8)
	case 8:
		r.take(r.readUint())
	case 9, 10:
		head := r.take(1)[0]
		size := uint64(head >> 4)
		if size == 15 {
			size = r.readUint()
		}
		if head &= 15; head <= 2 { // a truth is a byte here
			head = 3
		}
		for i := int64(0); i < int64(min(size, 1<<32)) && r.err == nil; i++ {
			out.parts = append(out.parts, thriftPart{i, r.readValue(head, depth+1)})
		}
	case 12:
		for id := int64(0); r.err == nil; {
			head := r.take(1)[0]
			if head == 0 {
				break
			}
			if id += int64(head >> 4); head < 16 {
				id = r.readInt()
			}
			out.parts = append(out.parts, thriftPart{id, r.readValue(head&15, depth+1)})
		}
	default:
		r.err = errors.New("its description has a value of an unknown type")
	}
	return out
}

// take takes bytes off. Of too few it makes an error, and returns one that is zero.
func (r *thriftReader) take(n uint64) []byte {
	if n > uint64(len(r.raw)) {
		r.err = io.ErrUnexpectedEOF
	}
	if r.err != nil {
		return []byte{0}
	}
	out := r.raw[:n]
	r.raw = r.raw[n:]
	return out
}

func (r *thriftReader) readUint() uint64 {
	value, n := binary.Uvarint(r.raw)
	if n <= 0 {
		r.err = io.ErrUnexpectedEOF
		return 0
	}
	r.take(uint64(n))
	return value
}

// readInt reads a number in zigzag.
func (r *thriftReader) readInt() int64 {
	value := r.readUint()
	return int64(value>>1) ^ -int64(value&1)
}
