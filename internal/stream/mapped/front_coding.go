package mapped

import "encoding/binary"

// frontGroup is how many strings of a front-coded table lie behind one that is written whole.
const frontGroup = 16

// FrontWriter writes strings of which many begin as the one before does, in groups of 16: of each but the first of a
// group a varint of the bytes that both begin with; a varint of the bytes that follow, and these bytes.
type FrontWriter struct {
	bytes, groups Column
	before        []byte
	end           uint64
	count         int
	out           []byte
}

// Add appends a string.
func (w *FrontWriter) Add(s []byte) error {
	shared := 0
	w.out = w.out[:0]
	if w.count%frontGroup == 0 {
		if err := PutRecord(&w.groups, w.end); err != nil {
			return err
		}
	} else {
		for most := min(len(s), len(w.before)); shared < most && s[shared] == w.before[shared]; {
			shared++
		}
		w.out = binary.AppendUvarint(w.out, uint64(shared))
	}
	w.out = append(binary.AppendUvarint(w.out, uint64(len(s)-shared)), s[shared:]...)
	w.before = append(w.before[:shared], s[shared:]...)
	w.end += uint64(len(w.out))
	w.count++
	return w.bytes.Put(w.out)
}

// Write writes two sections: the strings, and u64 where each group begins in them.
func (w *FrontWriter) Write(to *Writer, bytes, groups string) error {
	to.BeginSection(bytes)
	if err := w.bytes.CopyTo(to); err != nil {
		return err
	}
	to.BeginSection(groups)
	return w.groups.CopyTo(to)
}

// Close removes temporary files.
func (w *FrontWriter) Close() {
	w.bytes.Close()
	w.groups.Close()
}

// Front is a table of front-coded strings.
type Front struct {
	bytes  []byte
	groups []uint64
}

// FrontOf views two sections as a table.
func FrontOf(f *File, bytes, groups string) Front {
	return Front{f.Bytes(bytes), ViewSection[uint64](f, groups)}
}

// Append appends the i-th to a buffer.
func (t Front) Append(buf []byte, i int) []byte {
	start, at := len(buf), int(t.groups[i/frontGroup])
	for n := range i%frontGroup + 1 {
		shared := 0
		if n > 0 {
			shared, at = t.readVarint(at)
		}
		length, from := t.readVarint(at)
		at = from + length
		buf = append(buf[:start+shared], t.bytes[from:at]...)
	}
	return buf
}

// readVarint reads a varint, and says where the next byte lies; behind the bytes where there is none.
func (t Front) readVarint(at int) (value, next int) {
	if t.bytes[at] < 0x80 {
		return int(t.bytes[at]), at + 1
	}
	long, size := binary.Uvarint(t.bytes[at:])
	if size <= 0 || long > uint64(len(t.bytes)) {
		return 0, len(t.bytes) + 1
	}
	return int(long), at + size
}
