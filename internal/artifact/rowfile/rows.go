package rowfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/unweaver/unweaver/internal/fault"
)

// FrameBytes is the size of a frame before compression (docs/reference/formats.md, Artifacts).
const FrameBytes = 64 << 10

// MaxFrame is the largest frame before compression that is read: one row, where the row is larger than FrameBytes.
const MaxFrame = 512 << 20

// footerRatio is more than any footer is compressed: it holds checksums and offsets.
const footerRatio = 64

const (
	header     = "UWROWS1\n"
	tail       = "UWROWEND"
	trailerLen = 8 + 4 + 4 + 8 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The coders are made when the program starts, one for every processor, and shared: a frame waits for one only where
// more frames are at work than processors. What they wait on must not be made within a test's bubble of time, which it
// would outlive: hence no pools that make their coders when first asked.
var (
	encoder = newEncoder()
	decoder = newDecoder()
)

func newEncoder() *zstd.Encoder {
	e, err := zstd.NewWriter(
		nil,
		zstd.WithEncoderConcurrency(0),
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(FrameBytes),
	)
	if err != nil {
		panic("rowfile: zstd options: " + err.Error()) // constant options
	}
	e.EncodeAll(nil, nil) // makes what is otherwise made by the first frame
	return e
}

func newDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderMaxMemory(MaxFrame),
		zstd.WithDecoderMaxWindow(64<<20), // ours is FrameBytes
		zstd.WithDecodeAllCapLimit(true),
	)
	if err != nil {
		panic("rowfile: zstd options: " + err.Error()) // constant options
	}
	return d
}

// Compress appends one zstd frame of b to dst.
func Compress(dst, b []byte) []byte {
	return encoder.EncodeAll(b, dst)
}

// decompressTo undoes Compress into dst, for a frame whose size the caller can judge: a few bytes can become gigabytes.
// A frame that does not tell its size has at most FrameBytes: the encoder leaves it out where it is small.
func decompressTo(dst, b []byte, fits func(size uint64) bool) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(b); err != nil {
		return nil, err
	}
	size := uint64(FrameBytes)
	if head.HasFCS {
		if size = head.FrameContentSize; size > MaxFrame || !fits(size) {
			return nil, fmt.Errorf("its size is given as %d bytes", size)
		}
	}
	if uint64(cap(dst)) < size {
		dst = make([]byte, 0, size)
	}
	raw, err := decoder.DecodeAll(b, dst[:0:size])
	if err == nil && !fits(uint64(len(raw))) {
		err = fmt.Errorf("it has %d bytes", len(raw))
	}
	return raw, err
}

// Frame is one entry of the footer.
type Frame struct {
	Offset int64
	Size   int
	Raw    int
	Rows   int64
	CRC    uint32
	First  string // key of the first row
}

// Writer appends rows to a stream. It is not safe for concurrent use.
type Writer struct {
	w      io.Writer
	buf    []byte
	out    []byte
	frames []Frame
	off    int64
	rows   int64
	inBuf  int64
	first  string
	err    error
}

// NewWriter starts a file.
func NewWriter(w io.Writer) *Writer {
	x := &Writer{w: w, buf: make([]byte, 0, FrameBytes+4096)}
	x.writeRaw([]byte(header))
	return x
}

func (x *Writer) writeRaw(raw []byte) {
	if x.err != nil {
		return
	}
	_, x.err = x.w.Write(raw)
	x.off += int64(len(raw))
}

// Append adds a row and says in which frame it lies. Errors are kept for Close.
func (x *Writer) Append(key string, value []byte) (frame int) {
	if x.inBuf > 0 && len(x.buf)+len(key)+len(value)+10 > FrameBytes {
		x.flushFrame()
	}
	if x.inBuf == 0 {
		x.first = key
	}
	x.buf = binary.AppendUvarint(x.buf, uint64(len(key)))
	x.buf = append(x.buf, key...)
	x.buf = binary.AppendUvarint(x.buf, uint64(len(value)))
	x.buf = append(x.buf, value...)
	x.inBuf++
	x.rows++
	return len(x.frames)
}

// Rows returns the number of rows appended so far.
func (x *Writer) Rows() int64 { return x.rows }

// Cut ends the frame, so that the next row starts a new one.
func (x *Writer) Cut() { x.flushFrame() }

func (x *Writer) flushFrame() {
	if x.inBuf == 0 {
		return
	}
	x.out = Compress(x.out[:0], x.buf)
	x.frames = append(x.frames, Frame{
		Offset: x.off, Size: len(x.out), Raw: len(x.buf), Rows: x.inBuf,
		CRC: crc32.Checksum(x.out, castagnoli), First: x.first,
	})
	x.writeRaw(x.out)
	if cap(x.buf) > 8*FrameBytes {
		x.buf = make([]byte, 0, FrameBytes+4096)
	}
	x.buf, x.inBuf = x.buf[:0], 0
}

// Close writes the footer; it does not close the stream.
func (x *Writer) Close() error {
	x.flushFrame()
	var enc Enc
	enc.U(uint64(len(x.frames)))
	for _, frame := range x.frames {
		enc.U(uint64(frame.Offset))
		enc.U(uint64(frame.Size))
		enc.U(uint64(frame.Raw))
		enc.U(uint64(frame.Rows))
		enc.U(uint64(frame.CRC))
		enc.S(frame.First)
	}
	foot := Compress(nil, enc.B)
	at := x.off
	x.writeRaw(foot)
	raw := make([]byte, 0, trailerLen)
	raw = binary.LittleEndian.AppendUint64(raw, uint64(at))
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(foot)))
	raw = binary.LittleEndian.AppendUint32(raw, crc32.Checksum(foot, castagnoli))
	raw = binary.LittleEndian.AppendUint64(raw, uint64(x.rows))
	x.writeRaw(append(raw, tail...))
	return x.err
}

// Footer is the index of a file.
type Footer struct {
	Frames []Frame
	Rows   int64
}

func damageFault(what string) error {
	return fault.SegmentDamage.At("read segment", "").
		Because(what).
		Advise("restore the generation, or remove the file so that it is rebuilt")
}

// ReadFooter reads the index from a file of the given size. Everything that it says is checked against the rest: frames
// follow each other from the header to the footer, and their rows add up.
func ReadFooter(at io.ReaderAt, size int64) (*Footer, error) {
	if size < int64(len(header)+trailerLen) {
		return nil, damageFault(fmt.Sprintf("%d bytes are too few for a row file", size))
	}
	trailer := make([]byte, trailerLen)
	if _, err := at.ReadAt(trailer, size-trailerLen); err != nil {
		return nil, err
	}
	if string(trailer[24:]) != tail {
		return nil, damageFault("no end mark: the file is cut or is not a row file")
	}
	offset, length := int64(binary.LittleEndian.Uint64(trailer)), int64(binary.LittleEndian.Uint32(trailer[8:]))
	if offset < int64(len(header)) || offset+length+trailerLen != size {
		return nil, damageFault("footer does not lie before the trailer")
	}
	packed := make([]byte, length)
	if _, err := at.ReadAt(packed, offset); err != nil {
		return nil, err
	}
	if crc32.Checksum(packed, castagnoli) != binary.LittleEndian.Uint32(trailer[12:]) {
		return nil, damageFault("checksum of the footer")
	}
	raw, err := decompressTo(nil, packed, func(size uint64) bool {
		return size <= footerRatio*uint64(length)+FrameBytes
	})
	if err != nil {
		return nil, damageFault("footer: " + err.Error())
	}
	footer := &Footer{Rows: int64(binary.LittleEndian.Uint64(trailer[16:]))}
	if err := footer.decodeFrames(raw, offset); err != nil {
		return nil, err
	}
	return footer, nil
}

// decodeFrames reads the frames; they must fill the file up to end and hold as many rows as the trailer says.
func (f *Footer) decodeFrames(raw []byte, end int64) error {
	dec := Dec{B: raw}
	next, rows := int64(len(header)), int64(0)
	for range dec.U() {
		frame := Frame{int64(dec.U()), int(dec.U()), int(dec.U()), int64(dec.U()), uint32(dec.U()), dec.S()}
		if dec.Err != nil {
			return dec.Err
		}
		if frame.Offset != next || frame.Size < 0 || int64(frame.Size) > end-next || frame.Raw < 0 || frame.Rows <= 0 {
			return damageFault(fmt.Sprintf("frame %d does not follow the one before", len(f.Frames)))
		}
		next, rows = next+int64(frame.Size), rows+frame.Rows
		f.Frames = append(f.Frames, frame)
	}
	if dec.Err != nil {
		return dec.Err
	}
	if next != end || rows != f.Rows || len(dec.B) > 0 {
		return damageFault(fmt.Sprintf("the frames hold %d rows up to byte %d, the trailer says %d up to %d",
			rows, next, f.Rows, end))
	}
	return nil
}

// FrameRange returns the range of frames that may hold keys in [from, to), where an empty to means the end.
func (f *Footer) FrameRange(from, to string) (first, end int) {
	first = max(0, f.Find(from))
	for first > 0 && f.Frames[first].First >= from { // equal keys may begin in the frame before
		first--
	}
	for end = first; end < len(f.Frames) && (to == "" || f.Frames[end].First < to); {
		end++
	}
	return first, end
}

// Find returns the number of the frame in which a key of a sorted file must lie, or -1.
func (f *Footer) Find(key string) int {
	return sort.Search(len(f.Frames), func(i int) bool { return f.Frames[i].First > key }) - 1
}

// Unpack checks and decompresses a frame. The frame that it gives splits into exactly the rows that the footer counts,
// so that a loop over NextRow needs no check of its own.
func (f Frame) Unpack(dst, b []byte) ([]byte, error) {
	if len(b) != f.Size || crc32.Checksum(b, castagnoli) != f.CRC {
		return nil, damageFault(fmt.Sprintf("checksum of the frame at %d", f.Offset))
	}
	raw, err := decompressTo(dst[:0], b, func(size uint64) bool { return size == uint64(f.Raw) })
	if err != nil {
		return nil, damageFault("frame: " + err.Error())
	}
	dec := Dec{B: raw}
	rows := int64(0)
	for ; len(dec.B) > 0; rows++ {
		dec.Bytes()
		dec.Bytes()
	}
	if dec.Err != nil || rows != f.Rows || len(raw) != f.Raw {
		return nil, damageFault(fmt.Sprintf("the frame at %d holds %d rows in %d bytes, the footer says %d in %d",
			f.Offset, rows, len(raw), f.Rows, f.Raw))
	}
	return raw, nil
}

// FindRow returns the value of a key in the raw frame of a sorted file, without a copy; nil: it is not there.
func FindRow(raw []byte, key string) []byte {
	for {
		have, value, rest, ok := NextRow(raw)
		if !ok || string(have) > key {
			return nil
		}
		if string(have) == key {
			return value
		}
		raw = rest
	}
}

// NextRow splits the first row off a raw frame; ok is false at its end.
func NextRow(raw []byte) (key, value, rest []byte, ok bool) {
	if len(raw) == 0 {
		return nil, nil, nil, false
	}
	dec := Dec{B: raw}
	key = dec.Bytes()
	value = dec.Bytes()
	if dec.Err != nil {
		return nil, nil, nil, false
	}
	return key, value, dec.B, true
}
