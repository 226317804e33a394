package document

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"strconv"

	"github.com/unweaver/unweaver/internal/fault"
)

// maxObjects of a PDF; the format's own bound (ISO 32000-1, Annex C).
const maxObjects = 8_388_607

// checkXref follows the tables of objects of a PDF as the library does, before it does. It refuses those that it would
// allocate or loop for without end, and objects stored in each other. What it does not understand it leaves to the
// library.
func checkXref(raw []byte, object string) error {
	x := xrefs{raw: raw, most: min(maxObjects, 100_000+int64(len(raw))), holders: map[int64]int64{}}
	tail := raw[max(0, len(raw)-100):]
	at := bytes.LastIndex(tail, []byte("startxref"))
	if at < 0 {
		return nil
	}
	start, _ := x.number(int64(len(raw)-len(tail)+at) + int64(len("startxref")))
	seen := map[int64]bool{}
	for next := start; next > 0 && next < int64(len(raw)) && x.err == nil; {
		if seen[next] {
			x.err = fmt.Errorf("its tables of objects form a circle")
			break
		}
		seen[next] = true
		next = x.section(next)
	}
	if x.err == nil {
		x.err = x.contained()
	}
	if x.err != nil {
		return fault.Unreadable.At("read", object).Because(x.err).Advise("the PDF is damaged: save it anew")
	}
	return nil
}

type xrefs struct {
	raw     []byte
	most    int64           // objects
	holders map[int64]int64 // of objects in streams: the stream's object; 0: it stands for itself
	err     error
}

// section checks one table and gives the place of the one before, 0 for none.
func (x *xrefs) section(at int64) int64 {
	word, after := x.word(at)
	if word != "xref" {
		return x.stream(at)
	}
	for {
		word, next := x.word(after)
		if word == "trailer" {
			says := x.dict(next)
			x.bound("Size", first(says["Size"]))
			return first(says["Prev"])
		}
		start, err := strconv.ParseInt(word, 10, 64)
		count, next := x.number(next)
		if err != nil || !x.bound("an object's number", start+min(count, maxObjects+1)) || start < 0 {
			return 0
		}
		for range count {
			for range 3 {
				if word, next = x.word(next); word == "" {
					return 0
				}
			}
		}
		after = next
	}
}

func (x *xrefs) bound(what string, count int64) bool {
	if count < 0 || count > x.most {
		x.err = fmt.Errorf("%s is %d, in a file of %d bytes", what, count, len(x.raw))
	}
	return x.err == nil
}

// stream checks a table that is a stream.
func (x *xrefs) stream(at int64) int64 {
	open := bytes.Index(x.raw[at:min(at+100, int64(len(x.raw)))], []byte("<<"))
	if open < 0 {
		return 0
	}
	says := x.dict(at + int64(open))
	widths, index := says["W"], says["Index"]
	if index == nil {
		index = []int64{0, first(says["Size"])}
	}
	if !x.bound("Size", first(says["Size"])) || len(widths) < 3 || len(index)%2 != 0 {
		return 0
	}
	row := int64(0)
	for _, width := range widths {
		if width < 0 || width > 16 {
			x.err = fmt.Errorf("a table of objects with a field of %d bytes", width)
			return 0
		}
		row += width
	}
	if columns := first(says["/Columns"]); row == 0 || columns < 0 || columns > maxColumns {
		x.err = fmt.Errorf("a table of objects with rows of %d bytes", row)
		return 0
	}
	body := x.body(says)
	entry := make([]byte, row)
	for i := 0; i < len(index); i += 2 {
		if index[i] < 0 || index[i+1] < 0 || !x.bound("an object's number", index[i]+min(index[i+1], maxObjects+1)) {
			x.bound("an object's number", -1)
			return 0
		}
		for number := index[i]; number < index[i]+index[i+1]; number++ {
			if _, err := io.ReadFull(body, entry); err != nil {
				return first(says["Prev"]) // the library ends here
			}
			x.enter(number, entry, widths)
		}
	}
	return first(says["Prev"])
}

// enter notes where an object is; the newest table is read first, and wins.
func (x *xrefs) enter(number int64, entry []byte, widths []int64) {
	if _, known := x.holders[number]; known {
		return
	}
	kind := int64(1)
	if widths[0] > 0 {
		kind = bigEndian(entry[:widths[0]])
	}
	switch kind {
	case 1:
		x.holders[number] = 0
	case 2:
		x.holders[number] = bigEndian(entry[widths[0] : widths[0]+widths[1]])
	}
}

func bigEndian(raw []byte) int64 {
	number := int64(0)
	for _, c := range raw {
		number = number<<8 | int64(c)
	}
	return number
}

// contained refuses streams of objects that are themselves in a stream: the format forbids them, and the library would
// open one for the other until its stack is full.
func (x *xrefs) contained() error {
	for number, holder := range x.holders {
		if holder != 0 && x.holders[holder] != 0 {
			return fmt.Errorf("object %d is stored in object %d, which is stored in another", number, holder)
		}
	}
	return nil
}

// body is what a stream holds; where it cannot be read, nothing.
func (x *xrefs) body(says map[string][]int64) io.Reader {
	nothing := bytes.NewReader(nil)
	at, length := first(says["stream"]), first(says["Length"])
	if at <= 0 || length <= 0 || at >= int64(len(x.raw)) {
		return nothing
	}
	packed := x.raw[at:]
	packed = packed[:min(length, int64(len(packed)))]
	if _, deflated := says["FlateDecode"]; !deflated {
		return bytes.NewReader(packed)
	}
	reader, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nothing
	}
	if predictor, given := says["/Predictor"]; given && first(predictor) == 12 {
		columns := first(says["/Columns"])
		return &upReader{reader: reader, row: make([]byte, columns+1), before: make([]byte, columns+1)}
	}
	return reader
}

// upReader undoes the PNG predictor "up".
type upReader struct {
	reader      io.Reader
	row, before []byte
	rest        []byte
}

func (u *upReader) Read(raw []byte) (int, error) {
	if len(u.rest) == 0 {
		if _, err := io.ReadFull(u.reader, u.row); err != nil {
			return 0, err
		}
		for i := range u.row {
			u.before[i] += u.row[i]
		}
		u.rest = u.before[1:]
	}
	n := copy(raw, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

func first(numbers []int64) int64 {
	if len(numbers) == 0 {
		return 0
	}
	return numbers[0]
}

// dict reads the numbers of a dictionary by key: those of a dictionary within it with a slash before. A name that
// stands alone, as a filter's, is a key too. Behind a dictionary of a stream, "stream" is where its content starts.
func (x *xrefs) dict(at int64) map[string][]int64 {
	says, key, depth := map[string][]int64{}, "", 0
	for {
		word, next := x.word(at)
		switch {
		case word == "":
			return says
		case word == "<<":
			depth++
		case word == ">>":
			if depth--; depth <= 0 {
				if word, next = x.word(next); word == "stream" {
					says["stream"] = []int64{x.lineEnd(next)}
				}
				return says
			}
		case word[0] == '/':
			if key = word[1:]; depth > 1 {
				key = word
			}
			says[key] = nil
		default:
			if number, err := strconv.ParseInt(word, 10, 64); err == nil && key != "" {
				says[key] = append(says[key], number)
			}
		}
		at = next
	}
}

func (x *xrefs) lineEnd(at int64) int64 {
	for _, end := range []byte("\r\n") {
		if at < int64(len(x.raw)) && x.raw[at] == end {
			at++
		}
	}
	return at
}

func (x *xrefs) number(at int64) (int64, int64) {
	word, next := x.word(at)
	number, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return -1, next
	}
	return number, next
}

// word is the next word from at, and where it ends: a bracket, a name with its slash, or what stands between spaces.
// Strings come in pieces, which nothing here asks for. It is empty at the end.
func (x *xrefs) word(at int64) (string, int64) {
	raw := x.raw
	for at < int64(len(raw)) && blank(raw[at]) {
		at++
	}
	if at >= int64(len(raw)) {
		return "", at
	}
	end := at + 1
	switch c := raw[at]; {
	case (c == '<' || c == '>') && end < int64(len(raw)) && raw[end] == c:
		return string(raw[at : end+1]), end + 1
	case delimits(c) && c != '/':
		return string(raw[at:end]), end
	}
	for end < int64(len(raw)) && !blank(raw[end]) && !delimits(raw[end]) {
		end++
	}
	return string(raw[at:end]), end
}

func blank(c byte) bool {
	return c == 0 || c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == ' '
}

func delimits(c byte) bool { return bytes.IndexByte([]byte("<>()[]{}/%"), c) >= 0 }
