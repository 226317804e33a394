package document

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Places are where the lines of a text stand on pages, packed: some eight bytes a line. They may come from a process
// that is not trusted: what is no Places is one without lines.
type Places []byte

// PlacedLine is a line of a text: where it begins, in code points, and the part of a page that it takes.
type PlacedLine struct {
	Start int
	Rect  core.Rect
}

// Placer packs the places of a text that is written page by page.
type Placer struct {
	sheets []core.Sheet
	lines  placeWriter
	page   int
	height float64
}

// BeginPage begins the next page, of a size in points.
func (p *Placer) BeginPage(width, height float64) {
	p.page++
	p.height = height
	sheet := core.Sheet{Page: p.page, Width: roundPoints(width), Height: roundPoints(height)}
	if n := len(p.sheets); n == 0 || p.sheets[n-1].Width != sheet.Width || p.sheets[n-1].Height != sheet.Height {
		p.sheets = append(p.sheets, sheet)
	}
}

// roundPoints returns a number of points as it is kept.
func roundPoints(points float64) int { return int(math.Round(min(max(points, 0), 1e5))) }

// Add notes the place of a line that begins at a code point.
func (p *Placer) Add(start int, left, low, right, high float64) {
	sheet := p.sheets[len(p.sheets)-1]
	p.lines.add(PlacedLine{start, core.Rect{
		Page: p.page,
		Left: min(roundPoints(left), sheet.Width), Top: min(roundPoints(p.height-high), sheet.Height),
		Right: min(roundPoints(right), sheet.Width), Bottom: min(roundPoints(p.height-low), sheet.Height),
	}})
}

// placeWriter packs lines one after the other.
type placeWriter struct {
	packed []byte
	last   PlacedLine
}

func (w *placeWriter) add(line PlacedLine) {
	at := line.Rect
	for _, number := range []int{
		line.Start - w.last.Start, at.Page - w.last.Rect.Page, at.Left, at.Top,
		max(at.Right-at.Left, 0), max(at.Bottom-at.Top, 0),
	} {
		w.packed = binary.AppendUvarint(w.packed, uint64(number))
	}
	w.last = line
}

// PackPlaces returns the places of the lines.
func (p *Placer) PackPlaces() Places {
	out := binary.AppendUvarint(nil, uint64(len(p.sheets)))
	for _, sheet := range p.sheets {
		for _, number := range []int{sheet.Page, sheet.Width, sheet.Height} {
			out = binary.AppendUvarint(out, uint64(number))
		}
	}
	return append(out, p.lines.packed...)
}

// Sheets returns the sizes of the pages: each holds from its page to that of the next one.
func (p Places) Sheets() []core.Sheet {
	sheets, _ := p.splitSheets()
	return sheets
}

// splitSheets gives the sheets, and the bytes of the lines.
func (p Places) splitSheets() ([]core.Sheet, Places) {
	var sheets []core.Sheet
	var count [1]int
	if !p.takeNumbers(count[:]) {
		return nil, nil
	}
	for range count[0] {
		var number [3]int
		if !p.takeNumbers(number[:]) {
			return nil, nil
		}
		sheets = append(sheets, core.Sheet{Page: number[0], Width: number[1], Height: number[2]})
	}
	return sheets, p
}

// mostCounted is above every number that places hold.
const mostCounted = 1 << 40

// takeNumbers takes the next numbers from the beginning; false where they are not there, or beyond sense.
func (p *Places) takeNumbers(numbers []int) bool {
	for i := range numbers {
		number, size := binary.Uvarint(*p)
		if size <= 0 || number > mostCounted {
			return false
		}
		numbers[i], *p = int(number), (*p)[size:]
	}
	return true
}

// Lines yields the lines in the order of the text.
func (p Places) Lines() iter.Seq[PlacedLine] {
	return func(yield func(PlacedLine) bool) {
		_, rest := p.splitSheets()
		var line PlacedLine
		for {
			var number [6]int
			if !rest.takeNumbers(number[:]) {
				return
			}
			line.Start, line.Rect.Page = line.Start+number[0], line.Rect.Page+number[1]
			line.Rect.Left, line.Rect.Top = number[2], number[3]
			line.Rect.Right, line.Rect.Bottom = number[2]+number[4], number[3]+number[5]
			if !yield(line) {
				return
			}
		}
	}
}

// Picture is a page of a PDF as a JPEG.
type Picture struct {
	Page int    `json:"page"` // from 1
	JPEG []byte `json:"jpeg"`
}

const (
	// PicturesAtOnce is how many pages one Reading renders at most.
	PicturesAtOnce = 6
	// MaxPicture bounds a picture in bytes.
	MaxPicture = 1536 << 10
)

// CleanTranscript returns what a model wrote of a page as text of a document: lines, without marks that end pages.
func CleanTranscript(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	return strings.TrimSpace(text)
}

// PutTranscripts puts texts in the place of what pages have, by their number from 1. The text is one that pages end in;
// a number that it has no page for is an error.
func PutTranscripts(text []byte, places Places, said map[int]string) ([]byte, Places, error) {
	pages := strings.Split(string(text), "\n"+PageBreak+"\n")
	sheets, lines := places.splitSheets()
	out := placeWriter{packed: append([]byte(nil), places[:len(places)-len(lines)]...)}
	next, stop := iter.Pull(places.Lines())
	defer stop()
	line, more := next()
	var made strings.Builder
	from, to := 0, 0 // where the page begins: in the text as it was, and as it becomes
	for i, page := range pages {
		last := i == len(pages)-1
		if !last {
			page += "\n" + PageBreak + "\n"
		}
		end := from + utf8.RuneCountInString(page)
		instead, transcribed := said[i+1]
		if transcribed && last {
			break
		}
		if transcribed {
			delete(said, i+1)
			page = instead + "\n" + PageBreak + "\n"
			if sheet, ok := sheetOf(sheets, i+1); ok {
				out.add(PlacedLine{to, core.Rect{Page: i + 1, Right: sheet.Width, Bottom: sheet.Height}})
			}
		}
		for ; more && (line.Start < end || last); line, more = next() {
			if !transcribed {
				line.Start += to - from
				out.add(line)
			}
		}
		made.WriteString(page)
		from, to = end, to+utf8.RuneCountInString(page)
	}
	if len(said) > 0 {
		return nil, nil, fault.ParseCrashed.At("place transcriptions in", "").
			Because(fmt.Sprintf("the text has %d pages, and not those that were transcribed", len(pages)-1))
	}
	if len(sheets) == 0 {
		return []byte(made.String()), places, nil
	}
	return []byte(made.String()), out.packed, nil
}

// sheetOf returns the size of a page.
func sheetOf(sheets []core.Sheet, page int) (found core.Sheet, ok bool) {
	for _, sheet := range sheets {
		if sheet.Page > page {
			break
		}
		found, ok = sheet, true
	}
	return found, ok
}
