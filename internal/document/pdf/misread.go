package pdf

import (
	"bytes"
	"regexp"
	"strconv"
	"unicode"

	"github.com/klippa-app/go-pdfium/requests"
	"golang.org/x/text/encoding/charmap"
)

var (
	pdfWindows    = regexp.MustCompile(`/Encoding\s*/WinAnsiEncoding\b`)
	pdfDescriptor = regexp.MustCompile(`/FontDescriptor\s+([0-9]+) 0 R`)
	pdfFlags      = regexp.MustCompile(`/Flags\s+([0-9]+)`)
	pdfToUnicode  = regexp.MustCompile(`/ToUnicode\s+([0-9]+) 0 R`)
)

// isOfSigns reports whether a font has the codes of Windows and is one of signs: PDFium may take them for those of the
// Macintosh.
func (p *pdfInside) isOfSigns(font []byte) bool {
	at := pdfDescriptor.FindSubmatch(font)
	if at == nil || !pdfWindows.Match(font) || pdfToUnicode.Match(font) || !bytes.Contains(font, []byte("/TrueType")) {
		return false
	}
	flags := pdfFlags.FindSubmatch(p.objects[string(at[1])].dictionary)
	if flags == nil {
		return false
	}
	set, _ := strconv.Atoi(string(flags[1])) // digits
	return set&4 != 0
}

// isNumbered reports whether the codes of a composite font are numbers of glyphs, and its map of letters names none:
// PDFium takes them for characters of a collection.
func (p *pdfInside) isNumbered(font, descendant []byte) bool {
	at := pdfToUnicode.FindSubmatch(font)
	return at != nil && pdfIdentity.Match(font) && bytes.Contains(descendant, []byte("/CIDFontType2")) &&
		!pdfGlyphs.Match(descendant) && !bytes.Contains(p.objects[string(at[1])].unpackStream(), []byte("beginbf"))
}

// asWindows returns a letter that was taken for one of the Macintosh; 0: it was not.
func asWindows(char rune) rune {
	if code, known := charmap.Macintosh.EncodeRune(char); known && char > unicode.MaxASCII {
		return charmap.Windows1252.DecodeByte(code)
	}
	return 0
}

// correctLetters finds what letters show that PDFium misreads. Signs of the Macintosh give words like DurÈe; those of
// fonts of numbered glyphs, ideographs as a rule, are left out. Fonts of East Asian letters may have some that PDFium
// does not know: the document is looked into.
func (w *pdfWords) correctLetters(chars []rune, found map[int]string) (map[int]string, error) {
	eastern, mac := false, false
	for i, char := range chars {
		eastern = eastern || char >= 0x2e80
		other := asWindows(char)
		mac = mac || i > 0 && unicode.IsLower(chars[i-1]) && unicode.IsUpper(char) && other >= 'à' && other <= 'ÿ'
	}
	if !eastern && !mac {
		return found, nil
	}
	inside, err := w.inspectObjects()
	if inside.listFonts(); err != nil || len(inside.numbered) == 0 && len(inside.ofSigns) == 0 {
		return found, err
	}
	if found == nil {
		found = map[int]string{}
	}
	for i, char := range chars {
		info, err := w.FPDFText_GetFontInfo(&requests.FPDFText_GetFontInfo{TextPage: w.text, Index: i})
		switch {
		case isTrap(err):
			return nil, err
		case err != nil:
		case inside.numbered[info.FontName]:
			found[i], w.lost = "", true
		case mac && inside.ofSigns[info.FontName] && asWindows(char) > 0:
			found[i] = pdfText(string(asWindows(char)))
		}
	}
	return found, nil
}
