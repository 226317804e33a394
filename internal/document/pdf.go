package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"

	"github.com/unweaver/unweaver/internal/fault"
)

// parsePDF reads the text of a PDF. The library believes what a file says of itself: it allocates what it is told to,
// follows circles and recurses without end. What can be checked outside of it is checked: its tables of objects before
// it is opened (pdfxref.go), its pages and streams before they are read, and every read of the file keeps to the time
// and to a depth of calls. What remains is for the process around it to survive.
func parsePDF(raw []byte, object string, limits Limits) (d Doc, err error) {
	file := &guarded{
		reader: bytes.NewReader(raw), end: time.Now().Add(limits.Time), object: object, limits: limits,
	}
	damaged := func(op string, cause any) error {
		if file.err != nil {
			return file.err
		}
		if err, ok := cause.(error); ok && fault.As(err) != nil {
			return err
		}
		return fault.Unreadable.At(op, object).Because(cause).Advise("the PDF is damaged: save it anew")
	}
	p := pages{object: object, limits: limits, file: file, packed: int64(len(raw)),
		checked: map[string]bool{}, sizes: map[string]int64{}, fonts: map[string]*pdfFont{}}
	defer func() {
		if cause := recover(); cause != nil { // the library panics on some damaged files
			d, err = Doc{}, damaged(p.doing(), cause)
		}
	}()
	if err := checkXref(raw, object); err != nil {
		return Doc{}, err
	}
	reader, err := pdf.NewReader(file, int64(len(raw)))
	if err != nil {
		if errors.Is(err, pdf.ErrInvalidPassword) || strings.Contains(err.Error(), "password") ||
			strings.Contains(err.Error(), "encrypt") {
			return Doc{}, fault.Encrypted.At("read", object).
				Because("the PDF is protected by a password").
				Advise("save it without one")
		}
		return Doc{}, damaged("read", err)
	}
	root := reader.Trailer().Key("Root").Key("Pages")
	if count := root.Key("Count").Int64(); count > int64(limits.Pages) {
		return Doc{}, p.tooMany()
	}
	if err := p.walk(root, inherited{}, root.Key("Count").Int64(), 0); err != nil {
		return Doc{}, damaged(p.doing(), err)
	}
	text := pdfTextOf(p.read)
	if int64(len(text)) > limits.Text {
		return Doc{}, limits.overText(object)
	}
	if strings.TrimSpace(text) == "" {
		return Doc{}, fault.EmptyDocument.At("read", object).
			Because("the PDF holds no text, perhaps scanned pages").
			Advise("run text recognition on it first")
	}
	title := cutTitle(strings.ToValidUTF8(reader.Trailer().Key("Info").Key("Title").Text(), ""), limits.Title)
	return Doc{Title: ownTitle(title), Text: strings.NewReader(text)}, nil
}

// guarded is the file as the library reads it.
type guarded struct {
	reader *bytes.Reader
	end    time.Time
	object string
	limits Limits
	reads  int
	err    error // why reading was stopped
}

// maxCalls is a depth of calls that no sound file needs: the library reads values nested 1,000 deep at most.
const maxCalls = 10_000

// ReadAt implements io.ReaderAt. Above a limit it panics, as the library takes any error for the end of a file.
func (g *guarded) ReadAt(raw []byte, offset int64) (int, error) {
	if g.reads++; g.reads%64 == 0 {
		var caller [1]uintptr
		if runtime.Callers(maxCalls, caller[:]) > 0 {
			g.stop(over(g.object, "nesting", g.limits.Nesting, "its objects are nested in themselves"))
		}
	}
	if time.Now().After(g.end) {
		g.stop(over(g.object, "seconds", g.limits.Time.Seconds(), "reading it took longer"))
	}
	return g.reader.ReadAt(raw, offset)
}

func (g *guarded) stop(err error) {
	g.err = err
	panic(err)
}

// pages walks the tree of pages in order, as the library's Page does by number, but each page once.
type pages struct {
	object  string
	limits  Limits
	file    *guarded
	packed  int64               // bytes of the file
	read    [][]pdfLine         // lines of each page
	bytes   int64               // of their text
	number  int                 // of the page that is read
	nodes   int                 // of the tree that were seen
	checked map[string]bool     // streams, by what they are and where
	sizes   map[string]int64    // bytes of those that were unpacked
	fonts   map[string]*pdfFont // by what they say
}

// doing says what is being read.
func (p *pages) doing() string {
	if p.number == 0 {
		return "read"
	}
	return fmt.Sprintf("read page %d of", p.number)
}

func (p *pages) tooMany() error { return over(p.object, "pages", p.limits.Pages, "it has more pages") }

// inherited is what a node of the tree of pages gives to what is below it and does not say it itself (ISO 32000-1,
// 7.7.3.4). It is handed down: to climb from each page reads its node, with the list of all its pages, once a page.
type inherited struct{ resources, rotate pdf.Value }

// of is what holds at a node.
func (above inherited) of(node pdf.Value) inherited {
	if own := node.Key("Resources"); !own.IsNull() {
		above.resources = own
	}
	if own := node.Key("Rotate"); !own.IsNull() {
		above.rotate = own
	}
	return above
}

// walk reads the first count pages below a node. A node takes as many numbers as it says, whatever it has.
func (p *pages) walk(node pdf.Value, above inherited, count int64, depth int) error {
	if node.Key("Type").Name() != "Pages" {
		return nil
	}
	if depth > p.limits.Nesting {
		return over(p.object, "nesting", p.limits.Nesting, "its tree of pages is nested more deeply")
	}
	kids, above := node.Key("Kids"), above.of(node)
	for i := 0; i < kids.Len() && count > 0; i++ {
		if p.nodes++; p.nodes > 2*p.limits.Pages {
			return p.tooMany()
		}
		kid := kids.Index(i)
		switch kid.Key("Type").Name() {
		case "Pages":
			below := kid.Key("Count").Int64()
			if err := p.walk(kid, above, min(below, count), depth+1); err != nil {
				return err
			}
			count -= max(below, 0)
		case "Page":
			count--
			p.number++
			lines, err := p.lines(kid, above.of(kid))
			if err != nil {
				return err
			}
			for _, line := range lines {
				p.bytes += int64(len(line.text))
			}
			if p.bytes > p.limits.Text {
				return p.limits.overText(p.object)
			}
			p.read = append(p.read, lines)
		}
	}
	return nil
}

// lines are those of one page.
func (p *pages) lines(page pdf.Value, has inherited) ([]pdfLine, error) {
	contents := page.Key("Contents")
	if contents.Kind() == pdf.Array {
		for i := range contents.Len() {
			if err := p.check(contents.Index(i), false); err != nil {
				return nil, err
			}
		}
	} else if err := p.check(contents, false); err != nil {
		return nil, err
	}
	spans, err := p.spansOf(page, has)
	if err != nil {
		return nil, err
	}
	return linesOf(spans), nil
}

// rangeOf is the start of a range of characters in a character map, and how many there are.
var rangeOf = regexp.MustCompile(`([0-9]+)\s*begin(?:codespacerange|bfchar|bfrange)`)

// maxColumns of a predictor are allocated at once.
const maxColumns = 1 << 20

// check unpacks a stream to nowhere before the library reads it. A map of characters is also asked how many it means to
// have: the library makes as many, whether they are there or not.
func (p *pages) check(stream pdf.Value, characters bool) error {
	if stream.Kind() != pdf.Stream {
		return nil
	}
	says := stream.String()
	if p.checked[says] {
		return nil
	}
	p.checked[says] = true
	parameters := stream.Key("DecodeParms")
	for _, columns := range []pdf.Value{parameters, parameters.Index(0), parameters.Index(1)} {
		if count := columns.Key("Columns").Int64(); count < 0 || count > maxColumns {
			return fmt.Errorf("a stream of %d columns", count)
		}
	}
	packed := min(max(stream.Key("Length").Int64(), 0), p.packed)
	body := stream.Reader()
	defer func() { _ = body.Close() }()
	reader := io.Reader(&unpacked{
		reader: body, packed: func() int64 { return packed }, limits: p.limits, object: p.object,
	})
	reader = &bounded{reader, p.limits.Bytes, over(p.object, "bytes", p.limits.Bytes, "a stream of it has more bytes")}
	if !characters {
		size, err := io.Copy(io.Discard, reader)
		p.sizes[says] = size
		return p.above(err)
	}
	raw, err := io.ReadAll(&bounded{reader, p.limits.Row, over(p.object, "row", p.limits.Row,
		"one of its maps of characters has more bytes")})
	for _, found := range rangeOf.FindAllSubmatch(raw, -1) {
		if count, err := strconv.Atoi(string(found[1])); err != nil || count > len(raw) {
			return fmt.Errorf("a map of characters with %q entries in %d bytes", found[1], len(raw))
		}
	}
	return p.above(err)
}

// above is an error that tells of a limit; another is for the library to meet, or not to.
func (p *pages) above(err error) error {
	if fault.As(err) != nil {
		return err
	}
	return nil
}
