package document

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	uni "unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"

	"github.com/unweaver/unweaver/internal/fault"
)

// sniff is how much of a text decides its encoding.
const sniff = 64 << 10

// Gunzip unpacks a stream where asked to. Where more comes out than limits.Ratio allows, reading it is fault.TooLarge.
func Gunzip(reader io.Reader, gz bool, object string, limits Limits) (io.Reader, error) {
	limits = limits.WithDefaults()
	if !gz {
		return reader, nil
	}
	packed := &counting{reader: reader}
	z, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fault.Unreadable.At("unpack", object).Because(err).Advise("replace it with a valid gzip file")
	}
	return limits.BoundRatio(z, func() int64 { return packed.bytes }, object), nil
}

// Decode returns a text as valid UTF-8 without a byte order mark and control characters, line ends as \n. It decides by
// the first 64 KiB: a byte order mark, else zero bytes in the pattern of UTF-16, else valid UTF-8, else what
// guessCharset finds. Invalid bytes that come later in a UTF-8 text become U+FFFD; in one that began as ASCII they are
// Windows-1252. Binary content is fault.BinaryContent.
func Decode(r io.Reader, object string) (io.Reader, error) {
	text, _, err := decodeText(r, object, false)
	return text, err
}

// DecodeTable returns the text of a CSV as Decode does. What a row holds takes nothing from the others: codes of
// terminals stay, which csvRows takes out of fields, as they could cover quotes and delimiters; and of a table whose
// rows have labels, ISO-2022-JP, which can do so too, is what the first line has, not what a row has. It returns the
// encoding where it was a guess.
func DecodeTable(r io.Reader, object string, labelled bool) (text io.Reader, guess string, err error) {
	br := bufio.NewReaderSize(r, sniff)
	head, _ := br.Peek(sniff) // an error comes again
	if !labelled && IsASCII(head) && shifted.Match(head) {
		return newCleaner(decodeLines(br, CharsetOf(sevenBits)), nil, true), sevenBits, nil
	}
	return decodeText(br, object, true)
}

// decodeText decodes a text as Decode or DecodeTable does, and returns the encoding where it was a guess.
func decodeText(r io.Reader, object string, table bool) (text io.Reader, guess string, err error) {
	br := bufio.NewReaderSize(r, sniff)
	head, err := br.Peek(sniff)
	// A short source that breaks gives what lies before the break first, as a long one does.
	if err != nil && len(head) == 0 && !errors.Is(err, io.EOF) {
		return nil, "", WrapUnreadable("read", object, err)
	}
	if wide := wideEncoding(head); wide != nil {
		return newCleaner(transform.NewReader(br, wide.NewDecoder()), nil, table), "", nil
	}
	if isBinary(head) {
		return nil, "", fault.BinaryContent.At("read", object).
			Because("it is binary, not text").
			Advise("remove the file, or rename it with the extension of its type")
	}
	marked := head // with what says ISO-2022-JP
	if table {
		marked = head[:max(0, bytes.IndexAny(head, "\r\n"))]
	}
	switch {
	case bytes.HasPrefix(head, []byte(ByteOrderMark)):
		_, _ = br.Discard(len(ByteOrderMark)) // peeked above
	case shifted.Match(marked):
		return newCleaner(decodeLines(br, CharsetOf(sevenBits)), nil, table), sevenBits, nil
	case !validPrefix(head):
		guess = guessCharset(head)
		return newCleaner(decodeLines(br, CharsetOf(guess)), nil, table), guess, nil
	case IsASCII(head):
		return newCleaner(br, charmap.Windows1252, table), "", nil
	}
	return newCleaner(br, nil, table), "", nil
}

// ByteOrderMark is the byte order mark of UTF-8.
const ByteOrderMark = "\xef\xbb\xbf"

// IsASCII reports whether all bytes are of ASCII.
func IsASCII(raw []byte) bool {
	return !slices.ContainsFunc(raw, func(c byte) bool { return c >= utf8.RuneSelf })
}

// wideEncoding returns the encoding of a text in UTF-16 or UTF-32, nil for another: by its mark, else by its zeros.
func wideEncoding(head []byte) encoding.Encoding {
	switch {
	case bytes.HasPrefix(head, []byte{0xff, 0xfe, 0, 0}):
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)
	case bytes.HasPrefix(head, []byte{0, 0, 0xfe, 0xff}):
		return utf32.UTF32(utf32.BigEndian, utf32.UseBOM)
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), utf16Like(head, 1):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	case bytes.HasPrefix(head, []byte{0xfe, 0xff}), utf16Like(head, 0):
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	return nil
}

// utf16Like detects text in UTF-16 without a mark: nearly every second byte is zero, of the first ones too, which the
// author of a row of a table does not write.
func utf16Like(raw []byte, zeroAt int) bool {
	return len(raw) >= 8 && hasZeros(raw[:8], zeroAt) && hasZeros(raw, zeroAt)
}

// hasZeros reports whether nearly every second byte, and nearly no other, is zero.
func hasZeros(raw []byte, zeroAt int) bool {
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

// signatures begin files of some types that are no text.
var signatures = []string{
	"\x7fELF", "\x89PNG", "PK\x03\x04", "GIF8", "\x1f\x8b", "\xd0\xcf\x11\xe0", "\xff\xd8\xff", "7z\xbc\xaf",
}

func isSigned(raw []byte) bool {
	return slices.ContainsFunc(signatures, func(begins string) bool { return bytes.HasPrefix(raw, []byte(begins)) })
}

// isBinary reports whether content is binary: a file of a known type, or more than two control bytes, and more than one
// byte in twenty, or more than one in a hundred that is zero.
func isBinary(raw []byte) bool {
	if isSigned(raw) {
		return true
	}
	bad, zero := 0, 0
	for _, c := range raw {
		switch {
		case c == 0:
			zero++
			bad++
		case c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\v' && c != '\f' && c != 0x1b:
			bad++
		}
	}
	return bad > 2 && (bad*20 > len(raw) || zero*100 > len(raw))
}

// DecodeLabelled returns a text that says what it is written in as UTF-8. The label counts unless the bytes speak
// against it: many programs write UTF-8, or what they always write, under whatever label. guess is the encoding where
// it was guessed.
func DecodeLabelled(raw []byte, label, object string) (text []byte, guess string, err error) {
	known := CharsetOf(label)
	if _, name := charset.Lookup(label); strings.HasPrefix(name, "utf-16") && bytes.IndexByte(raw, 0) < 0 {
		known = nil // not one letter of ASCII: it says so and is none
	}
	if label == "" || known == nil || wideEncoding(raw[:min(len(raw), sniff)]) != nil ||
		bytes.HasPrefix(raw, []byte(ByteOrderMark)) || isBinary(raw[:min(len(raw), sniff)]) {
		known = nil
	} else if sequences, valid := runesBeyond(raw); valid && sequences > 0 {
		// Some other text is valid UTF-8 by chance, Latin text never is.
		if sequences >= 5 || probeRune(known) == 'é' {
			known = nil
		}
	} else if !valid && probeRune(known) == 'é' &&
		(shifted.Match(raw) || !uni.Is(uni.Latin, probeRune(CharsetOf(guessCharset(raw))))) {
		known = nil // a Western label is what programs write that know no other
	}
	if known != nil {
		text, err := io.ReadAll(newCleaner(decodeLines(bytes.NewReader(raw), known), nil, false))
		if err == nil && bytes.Count(text, []byte("\uFFFD"))*100 <= len(raw) {
			return text, "", nil
		}
	}
	reader, guess, err := decodeText(bytes.NewReader(raw), object, false)
	if err != nil {
		return nil, "", err
	}
	text, err = io.ReadAll(reader)
	if err != nil {
		return nil, "", WrapUnreadable("decode", object, err)
	}
	return text, guess, nil
}

// probeRune returns what a byte means by which sets of characters can be distinguished: é to most of the Latin ones.
func probeRune(by encoding.Encoding) rune {
	text, _ := by.NewDecoder().Bytes([]byte("\xe9")) // an error is a character that is no letter
	r, _ := utf8.DecodeRune(text)
	return r
}

// runesBeyond counts the characters beyond ASCII of a text that is valid UTF-8.
func runesBeyond(raw []byte) (count int, valid bool) {
	return utf8.RuneCount(raw) - countASCII(raw), utf8.Valid(raw)
}

func countASCII(raw []byte) (count int) {
	for _, c := range raw {
		if c < utf8.RuneSelf {
			count++
		}
	}
	return count
}

var (
	commentOf = regexp.MustCompile(`(?s)<!--.*?-->`)
	saysXML   = regexp.MustCompile(`(?i)^\s*<\?xml[^>]*\sencoding\s*=\s*["']([^"']+)["']`)
	saysMeta  = regexp.MustCompile(`(?i)<meta\s[^>]*charset\s*=\s*["']?\s*([a-z0-9_:.+-]+)`)
)

// DecodeMarkup returns a page of HTML or XHTML as UTF-8: by its mark, else by what it says of itself, else by its
// bytes.
func DecodeMarkup(raw []byte, object string) (text []byte, guess string, err error) {
	head, label := commentOf.ReplaceAll(raw[:min(len(raw), 16<<10)], nil), ""
	for _, says := range []*regexp.Regexp{saysXML, saysMeta} {
		if found := says.FindSubmatch(head); found != nil {
			label = string(found[1])
			break
		}
	}
	return DecodeLabelled(raw, StatedCharset(label), object)
}

// validPrefix reports whether a text is UTF-8, but for a rune that the prefix cuts and for stray bytes: fewer than half
// as many as it has runes beyond ASCII, or fewer than these and than one byte in a thousand. In no other charset do so
// many letters look like UTF-8.
func validPrefix(raw []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		switch {
		case n > 1:
			good++
		case r == utf8.RuneError && len(raw)-i >= utf8.UTFMax:
			bad++
		}
		i += n
	}
	return bad == 0 || good >= 2*bad || bad*1000 < len(raw) && good > bad
}

// newCleaner replaces invalid bytes, and \r\n and \r by \n, and control characters by blanks. Where invalid is given,
// it decodes bytes that are no UTF-8. Codes of terminals are left out, but for those of a table.
func newCleaner(r io.Reader, invalid *charmap.Charmap, table bool) io.Reader {
	return &cleaner{r: bufio.NewReaderSize(r, 64<<10), invalid: invalid, table: table}
}

// shownRune returns a character of a text, a blank for one that controls a device.
func shownRune(r rune) rune {
	if uni.IsControl(r) && r != '\n' && r != '\t' && r != '\f' {
		return ' '
	}
	return r
}

// escapes are codes by which a program colours a terminal, names its window or moves in it.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]*[0-~])`)

// escapeHere is such a code at the start of a text.
var escapeHere = regexp.MustCompile(`\A(?:` + escapes.String() + `)`)

// ShownText returns a text without codes of terminals and without characters that control a device.
func ShownText(s string) string { return strings.Map(shownRune, escapes.ReplaceAllString(s, "")) }

type cleaner struct {
	r       *bufio.Reader
	invalid *charmap.Charmap
	table   bool
	cr      bool
	rest    []byte // of a rune that did not fit
}

func (c *cleaner) Read(raw []byte) (int, error) {
	n := copy(raw, c.rest)
	c.rest = c.rest[n:]
	for n < len(raw) {
		if n > 0 && c.r.Buffered() == 0 {
			break
		}
		if plain := c.peekPlain(len(raw) - n); len(plain) > 0 {
			n += copy(raw[n:], plain)
			c.cr = false
			_, _ = c.r.Discard(len(plain)) // they are buffered
			continue
		}
		r, size, err := c.r.ReadRune()
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		if r == utf8.RuneError && size == 1 && c.invalid != nil {
			_ = c.r.UnreadRune() // read above
			one, _ := c.r.ReadByte()
			r = c.invalid.DecodeByte(one)
		}
		was := c.cr
		c.cr = r == '\r'
		switch {
		case r == '\x1b' && c.table:
		case r == '\x1b' && c.skipEscape():
			continue
		case r == '\n' && was:
			continue
		case r == '\r':
			r = '\n'
		default:
			r = shownRune(r)
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

// peekPlain returns buffered bytes that stay as they are: of ASCII, without control characters. They are most of what
// is read, and are copied at once.
func (c *cleaner) peekPlain(most int) []byte {
	buffered, _ := c.r.Peek(min(most, c.r.Buffered()))
	other := func(b byte) bool { return b < ' ' || b >= 0x7f }
	if end := slices.IndexFunc(buffered, other); end >= 0 {
		return buffered[:end]
	}
	return buffered
}

// longestEscape is how much of a code is looked at.
const longestEscape = 256

// skipEscape skips the rest of a code of a terminal, and reports whether it was one.
func (c *cleaner) skipEscape() bool {
	_ = c.r.UnreadRune() // the escape character, read before
	if next, _ := c.r.Peek(2); len(next) < 2 || next[1] < ' ' || next[1] > '~' {
		_, _ = c.r.Discard(1)
		return false
	}
	next, _ := c.r.Peek(longestEscape)
	place := escapeHere.FindIndex(next)
	if place == nil {
		_, _ = c.r.Discard(1)
		return false
	}
	_, _ = c.r.Discard(place[1])
	return true
}

// StatedCharset returns the name of a set of characters, nothing for those names that programs write without knowing.
func StatedCharset(name string) string {
	switch low := strings.ToLower(strings.TrimSpace(name)); low {
	case "us-ascii", "ascii", "ansi_x3.4-1968", "unknown-8bit", "x-unknown", "default", "binary", "utf8":
		return ""
	}
	return name
}
