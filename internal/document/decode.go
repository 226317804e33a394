package document

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/unweaver/unweaver/internal/fault"
)

// sniff is how much of a text decides its encoding.
const sniff = 64 << 10

// Gunzip unpacks a stream where asked to. Where more comes out than limits.Ratio allows, reading it is fault.TooLarge.
func Gunzip(reader io.Reader, gz bool, object string, limits Limits) (io.Reader, error) {
	limits = limits.Whole()
	if !gz {
		return reader, nil
	}
	packed := &counting{reader: reader}
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fault.Unreadable.At("unpack", object).Because(err).Advise("the file is no valid gzip")
	}
	return &unpacked{reader: z, packed: func() int64 { return packed.bytes }, limits: limits, object: object}, nil
}

// Decode gives r as valid UTF-8 without a byte order mark, line ends as \n. It decides by the first 64 KiB: a byte
// order mark, else zero bytes in the pattern of UTF-16, else valid UTF-8, else Latin-1 (Windows-1252). Invalid bytes
// that come later in a UTF-8 text become U+FFFD. Binary content is fault.BinaryContent.
func Decode(r io.Reader, object string) (io.Reader, error) {
	br := bufio.NewReaderSize(r, sniff)
	head, err := br.Peek(sniff)
	// A short source that breaks gives what lies before the break first, as a long one does.
	if err != nil && len(head) == 0 && !errors.Is(err, io.EOF) {
		return nil, unreadable("read", object, err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0xef, 0xbb, 0xbf}):
		_, _ = br.Discard(3) // peeked above
		return clean(br), nil
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), utf16Like(head, 1):
		return clean(transform.NewReader(br, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder())), nil
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}), utf16Like(head, 0):
		return clean(transform.NewReader(br, unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewDecoder())), nil
	}
	if rubbish(head) {
		return nil, fault.BinaryContent.At("read", object).
			Because("it is binary, not text").
			Advise("remove it, or give it the extension of its type")
	}
	if !validPrefix(head) {
		return clean(transform.NewReader(br, charmap.Windows1252.NewDecoder())), nil
	}
	return clean(br), nil
}

// utf16Like tells text in UTF-16 without a mark: nearly every second byte is zero.
func utf16Like(raw []byte, zeroAt int) bool {
	if len(raw) < 8 {
		return false
	}
	zero, other := 0, 0
	for i := 0; i+1 < len(raw); i += 2 {
		if raw[i+zeroAt] == 0 {
			zero++
		}
		if raw[i+1-zeroAt] == 0 {
			other++
		}
	}
	n := len(raw) / 2
	return zero > n*7/10 && other <= n/20
}

// rubbish tells binary content: zero bytes, or more than one control byte in fifty.
func rubbish(raw []byte) bool {
	bad := 0
	for _, c := range raw {
		if c == 0 {
			return true
		}
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			bad++
		}
	}
	return bad*50 > len(raw)
}

// validPrefix tolerates a rune that the prefix cuts, and stray invalid bytes (fewer than one in a thousand).
func validPrefix(raw []byte) bool {
	bad := 0
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 && len(raw)-i >= utf8.UTFMax {
			bad++
		}
		i += n
	}
	return bad == 0 || (bad*1000 < len(raw) && multibyte(raw))
}

// multibyte tells whether most bytes above ASCII form valid runes.
func multibyte(b []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if n > 1 {
			good++
		} else if r == utf8.RuneError {
			bad++
		}
		i += n
	}
	return good > bad
}

// clean replaces invalid bytes, and \r\n and \r by \n; zero bytes go.
func clean(r io.Reader) io.Reader { return &cleaner{r: bufio.NewReaderSize(r, 64<<10)} }

type cleaner struct {
	r    *bufio.Reader
	cr   bool
	rest []byte // of a rune that did not fit
}

func (c *cleaner) Read(raw []byte) (int, error) {
	n := copy(raw, c.rest)
	c.rest = c.rest[n:]
	for n < len(raw) {
		if n > 0 && c.r.Buffered() == 0 {
			break
		}
		r, _, err := c.r.ReadRune()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		was := c.cr
		c.cr = r == '\r'
		switch {
		case r == 0, r == '\n' && was:
			continue
		case r == '\r':
			r = '\n'
		}
		var enc [utf8.UTFMax]byte
		b := enc[:utf8.EncodeRune(enc[:], r)]
		k := copy(raw[n:], b)
		n += k
		if k < len(b) {
			c.rest = append(c.rest[:0], b[k:]...)
		}
	}
	return n, nil
}
