package document

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

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
