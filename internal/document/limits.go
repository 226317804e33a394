package document

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/unweaver/unweaver/internal/fault"
)

// Limits bound what one document may cost, whatever it says of itself. They are the worker's (configuration,
// limits.document), never a caller's; zero is that of DefaultLimits. What is above them is fault.TooLarge, whose cause
// names the key, but for titles, which are cut.
type Limits struct {
	Bytes   int64         // of an object that must be read whole, and of each part of it, unpacked
	Ratio   int64         // unpacked bytes to packed ones, once more than a mebibyte came out
	Text    int64         // bytes of text that come out of one document
	Title   int           // runes of a title
	Row     int64         // bytes of one row of a .jsonl or .csv, and of a .docx between two tags
	Spans   int           // cells that the tables of a document span
	Nesting int           // depth of elements, values, or objects in one another
	Pages   int           // of a PDF
	Time    time.Duration // of parsing one document, on the clock and of the processor
	Memory  int64         // bytes that parsing one document may take

	Reading // no limit: what is read, see WithReading
}

// DefaultLimits returns the limits that are used where nothing is configured.
func DefaultLimits() Limits {
	return Limits{
		Bytes: 256 << 20, Ratio: 200, Text: 256 << 20, Title: 1000, Row: 16 << 20, Spans: 1_000_000,
		Nesting: 1000, Pages: 20_000, Time: time.Minute, Memory: 512 << 20,
	}
}

// Key distinguishes limits: it is the same for limits that refuse the same.
func (l Limits) Key() string {
	bounds, _, _ := strings.Cut(fmt.Sprintf("%+v", l.WithDefaults()), " Reading:")
	return bounds + "}"
}

// WithDefaults gives limits in which what is zero is that of DefaultLimits.
func (l Limits) WithDefaults() Limits {
	usual := DefaultLimits()
	return Limits{
		Bytes: cmp.Or(l.Bytes, usual.Bytes), Ratio: cmp.Or(l.Ratio, usual.Ratio), Text: cmp.Or(l.Text, usual.Text),
		Title: cmp.Or(l.Title, usual.Title), Row: cmp.Or(l.Row, usual.Row), Spans: cmp.Or(l.Spans, usual.Spans),
		Nesting: cmp.Or(l.Nesting, usual.Nesting), Pages: cmp.Or(l.Pages, usual.Pages), Time: cmp.Or(l.Time, usual.Time),
		Memory: cmp.Or(l.Memory, usual.Memory), Reading: l.Reading,
	}
}

// OverMax returns the error of a document above a limit: what it has too much of, and the key that bounds it.
func OverMax(object, key string, bound any, what string) *fault.Error {
	return fault.TooLarge.At("read", object).
		Because(fmt.Sprintf("%s, above limits.document.%s: %v", what, key, bound)).
		Advise("split or repair the document, or raise limits.document." + key)
}

// WrapUnreadable returns the error of a source that breaks; one that is named already stays what it is.
func WrapUnreadable(op, object string, err error) error {
	if fault.As(err) != nil {
		return err
	}
	return fault.Unreadable.At(op, object).Because(err)
}

// bounded reads at most left bytes; where there are more, it gives above.
type bounded struct {
	reader io.Reader
	left   int64
	above  error
}

func (b *bounded) Read(raw []byte) (int, error) {
	if b.left <= 0 {
		var probe [1]byte
		n, err := b.reader.Read(probe[:])
		if n > 0 {
			return 0, b.above
		}
		return 0, err
	}
	if int64(len(raw)) > b.left {
		raw = raw[:b.left]
	}
	n, err := b.reader.Read(raw)
	b.left -= int64(n)
	return n, err
}

// BoundReader returns a reader of at most left bytes; where there are more, reading gives above.
func BoundReader(reader io.Reader, left int64, above error) io.Reader {
	return &bounded{reader, left, above}
}

// ofText bounds the text of a document.
func (l Limits) ofText(reader io.Reader, object string) io.Reader {
	return &bounded{reader, l.Text, l.OverText(object)}
}

// CheckSize refuses an object that is not packed by its size alone: one that is read whole, and a text that is too long
// in every encoding (UTF-16 takes two bytes for what UTF-8 has one for). Rows are bounded one by one.
func (l Limits) CheckSize(kind Kind, object string, size int64) error {
	l = l.WithDefaults()
	switch {
	case kind.IsStreamed() && !kind.HasRows() && size/2 > l.Text:
		return l.OverText(object)
	case !kind.IsStreamed() && size > l.Bytes:
		return l.OverBytes(object)
	}
	return nil
}

// OverBytes returns the error of an object that has more bytes than it may have.
func (l Limits) OverBytes(object string) error {
	return OverMax(object, "bytes", l.Bytes, "it has more bytes")
}

// OverText returns the error of a document that has more text than it may have.
func (l Limits) OverText(object string) error {
	return OverMax(object, "text", l.Text, "its text has more bytes")
}

// ratioFrom is how many unpacked bytes no ratio is asked of: a small file of zeros does no harm.
const ratioFrom = 1 << 20

// unpacked refuses what comes out of a packed stream when it is too much for what went in.
type unpacked struct {
	reader io.Reader
	packed func() int64 // bytes that went in
	limits Limits
	object string
	out    int64
}

// BoundRatio returns a reader of what comes out of a packed stream, of which packed counts what went in.
func (l Limits) BoundRatio(reader io.Reader, packed func() int64, object string) io.Reader {
	return &unpacked{reader: reader, packed: packed, limits: l, object: object}
}

func (u *unpacked) Read(raw []byte) (int, error) {
	n, err := u.reader.Read(raw)
	u.out += int64(n)
	if u.out > ratioFrom && u.out/u.limits.Ratio > u.packed() {
		return 0, OverMax(u.object, "ratio", u.limits.Ratio, fmt.Sprintf("%d packed bytes became %d", u.packed(), u.out))
	}
	return n, err
}

// counting counts what is read.
type counting struct {
	reader io.Reader
	bytes  int64
}

func (c *counting) Read(raw []byte) (int, error) {
	n, err := c.reader.Read(raw)
	c.bytes += int64(n)
	return n, err
}

// CutTitle gives a title as one line of at most so many runes: what is white space or cannot be seen becomes one space.
// It reads no more of it than it needs.
func CutTitle(title string, runes int) string {
	var out strings.Builder
	gap, written := false, 0
	for _, r := range escapes.ReplaceAllString(title, "") {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			gap = written > 0
			continue
		}
		if written >= runes {
			break
		}
		if gap && written+1 < runes {
			out.WriteByte(' ')
			written++
		}
		gap = false
		out.WriteRune(r)
		written++
	}
	return strings.TrimSpace(out.String())
}

// TitleBytes returns more bytes than a title has before it is cut, white space around it included.
func TitleBytes(limits Limits) int { return 64<<10 + 4*limits.Title }
