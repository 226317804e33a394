package document

import (
	"bytes"
	"fmt"
	"image/jpeg"
	"iter"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Picture is a page of a PDF as a JPEG.
type Picture struct {
	Page int    `json:"page"` // from 1
	JPEG []byte `json:"jpeg"`
}

const (
	// PicturesAtOnce is how many pages one Reading renders at most.
	PicturesAtOnce = 6
	// mostPixels is the longer side of a picture at most, whatever the size of its page.
	mostPixels = 2000
	// pixelsOfPoint is how many pixels a point of a small page gets at most: 300 an inch.
	pixelsOfPoint = 300.0 / 72
	// MaxPicture bounds a picture in bytes.
	MaxPicture = 1536 << 10
)

// isScan reports whether a page is among those that are transcribed: all, or those that show something, and have no
// text but headers and footers.
func (l Limits) isScan(page *pdfPage) bool {
	return l.Scans == core.PagesAll && !page.broken || l.Scans != "" && page.isTextless()
}

// isTextless reports whether a page shows something, and has no text but headers and footers.
func (p *pdfPage) isTextless() bool {
	return !p.broken && (len(p.lines) == 0 && p.shows || !p.says && p.pictured)
}

// renderPictures renders the pages that are asked for; those that cannot be rendered, or not in time, are left out.
func (r *pdfReader) renderPictures() (Doc, error) {
	doc, begun := Doc{Text: strings.NewReader("")}, time.Now()
	for i, page := range r.limits.Pictures[:min(len(r.limits.Pictures), PicturesAtOnce)] {
		if i > 0 && time.Since(begun) > r.limits.Time/4 {
			break // the next request goes on here
		}
		raw, err := r.renderPage(page - 1)
		if err != nil {
			return Doc{}, r.wrapDamage(err)
		}
		if raw != nil {
			doc.Pictures = append(doc.Pictures, Picture{page, raw})
		}
	}
	return doc, nil
}

// renderPage renders a page; nil where PDFium refuses to, or had not the memory for what stands on it.
func (r *pdfReader) renderPage(index int) ([]byte, error) {
	r.number = index + 1
	size, err := r.FPDF_GetPageSizeByIndex(&requests.FPDF_GetPageSizeByIndex{Document: r.file, Index: index})
	if err != nil {
		return nil, trapOf(err)
	}
	width, height := boundNumber(size.Width), boundNumber(size.Height)
	scale := min(mostPixels/max(width, height), pixelsOfPoint)
	if width <= 0 || height <= 0 {
		return nil, nil
	}
	before := refused.Load()
	rendered, err := r.RenderPageInPixels(&requests.RenderPageInPixels{
		Page:        requests.Page{ByIndex: &requests.PageByIndex{Document: r.file, Index: index}},
		Width:       max(1, int(math.Round(width*scale))),
		Height:      max(1, int(math.Round(height*scale))),
		RenderFlags: enums.FPDF_RENDER_FLAG_ANNOT,
	})
	if err != nil {
		return nil, trapOf(err)
	}
	defer rendered.Cleanup()
	if refused.Load() > before { // what stands on it is not all there
		return nil, nil
	}
	for quality := 85; quality > 0; quality -= 20 {
		var out bytes.Buffer
		if err := jpeg.Encode(&out, rendered.Result.RenderedImage, &jpeg.Options{Quality: quality}); err != nil {
			return nil, err
		}
		if out.Len() <= MaxPicture {
			return out.Bytes(), nil
		}
	}
	return nil, nil
}

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
	pages := strings.Split(string(text), "\n"+pageBreak+"\n")
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
			page += "\n" + pageBreak + "\n"
		}
		end := from + utf8.RuneCountInString(page)
		instead, transcribed := said[i+1]
		if transcribed && last {
			break
		}
		if transcribed {
			delete(said, i+1)
			page = instead + "\n" + pageBreak + "\n"
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
