package pdf

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/klippa-app/go-pdfium/requests"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/text/encoding/charmap"

	"github.com/unweaver/unweaver/internal/document"
)

// decodeUnmapped returns what letters show that PDFium knows no character for, by their index: what the names of their
// glyphs say; else their codes, where those of a font's letters on the page look like text; else nothing.
func (w *pdfWords) decodeUnmapped(chars []rune) (map[int]string, error) {
	var found map[int]string
	fonts := map[string][]int{}
	for i, char := range chars {
		if err := w.checkClock(i); err != nil {
			return nil, err
		}
		is, err := w.FPDFText_HasUnicodeMapError(&requests.FPDFText_HasUnicodeMapError{TextPage: w.text, Index: i})
		if err != nil && isTrap(err) {
			return nil, err
		}
		private := document.IsPrivateUse(char)
		if private || err == nil && is.HasUnicodeMapError {
			if found == nil {
				found = map[int]string{}
			}
			font := ""
			info, err := w.FPDFText_GetFontInfo(&requests.FPDFText_GetFontInfo{TextPage: w.text, Index: i})
			if err == nil {
				font = info.FontName
			} else if isTrap(err) {
				return nil, err
			}
			if private {
				font += "\x00"
			}
			fonts[font] = append(fonts[font], i)
		}
	}
	for font, indexes := range fonts {
		if err := w.decodeFont(font, indexes, chars, found); err != nil {
			return nil, err
		}
	}
	for i, text := range found {
		beside := func(at int) bool { // a private character beside a word is a bullet
			_, also := found[at]
			return also || at >= 0 && at < len(chars) && chars[at] > ' ' && chars[at] != '\u00a0' &&
				!document.IsPrivateUse(chars[i])
		}
		w.lost = w.lost || text == "" && (beside(i-1) || beside(i+1))
	}
	return w.correctLetters(chars, found)
}

// decodeFont finds what letters of a font show.
func (w *pdfWords) decodeFont(font string, indexes []int, chars []rune, found map[int]string) error {
	inside, err := w.inspectObjects()
	if err != nil {
		return err
	}
	fonts := inside.listFonts()
	var codes []int
	for _, i := range indexes {
		if found[i] = glyphText(fonts[font].names[int(chars[i])]); found[i] == "" {
			codes = append(codes, i)
		}
	}
	own, err := w.ownCharacters(fonts[font], codes, chars)
	if err != nil {
		return err
	}
	odd, likely := 0, 0
	for _, i := range codes {
		switch char := chars[i]; {
		case isGlyphNumber(char):
			odd++
		case unicode.In(char, unicode.L, unicode.N, unicode.Zs):
			likely++
		}
	}
	isText := odd*mostOdd <= len(codes) && likely*2 > len(codes) && !fonts[font].composite
	for n, i := range codes {
		if own != nil {
			found[i] = pdfText(own[n])
		} else if isText && !isGlyphNumber(chars[i]) {
			found[i] = pdfText(string(chars[i]))
		}
	}
	return nil
}

// mostOdd is how many codes there must be for one of them to be odd, where codes are characters.
const mostOdd = 10

// isGlyphNumber reports whether a code is hardly a character of a text, but the number of a glyph.
func isGlyphNumber(char rune) bool {
	switch {
	case char == 0x218 || char == 0x219 || char == 0x21a || char == 0x21b: // of Romanian
		return false
	case char >= 0x180 && char < 0x370, char >= 0x3cf && char < 0x400: // rare letters, and marks alone
		return true
	}
	return !unicode.IsPrint(char) && char != '\u00a0' && char != '\u3000'
}

// ownCharacters returns the characters of letters of a page as their font itself knows them; nil where it does not know
// most.
func (w *pdfWords) ownCharacters(of pdfFont, indexes []int, chars []rune) ([]string, error) {
	if !of.numbered || len(indexes) == 0 {
		return nil, nil
	}
	object, err := w.FPDFText_GetTextObject(&requests.FPDFText_GetTextObject{TextPage: w.text, Index: indexes[0]})
	if err != nil {
		return nil, trapOf(err)
	}
	font, err := w.FPDFTextObj_GetFont(&requests.FPDFTextObj_GetFont{PageObject: object.TextObject})
	if err != nil {
		return nil, trapOf(err)
	}
	embedded, err := w.FPDFFont_GetIsEmbedded(&requests.FPDFFont_GetIsEmbedded{Font: font.Font})
	if err != nil || !embedded.IsEmbedded {
		return nil, trapOf(err)
	}
	data, err := w.FPDFFont_GetFontData(&requests.FPDFFont_GetFontData{Font: font.Font})
	if err != nil {
		return nil, trapOf(err)
	}
	parsed, err := sfnt.Parse(data.FontData)
	if err != nil {
		return nil, nil //nolint:nilerr // a font of another type
	}
	var buffer sfnt.Buffer
	characters := map[uint16]string{}
	for char := rune(' '); char < 1<<16; char++ {
		glyph, err := parsed.GlyphIndex(&buffer, char)
		if err == nil && glyph != 0 && characters[uint16(glyph)] == "" {
			characters[uint16(glyph)] = string(char)
		}
	}
	own, known := make([]string, len(indexes)), 0
	for n, i := range indexes {
		if glyph, there := of.glyphOf(int(chars[i])); there && characters[glyph] != "" {
			own[n] = characters[glyph]
			known++
		}
	}
	if known*2 <= len(indexes) {
		return nil, nil
	}
	return own, nil
}

// glyphText returns what a glyph shows whose name PDFium does not know: the parts of a ligature.
func glyphText(name string) string {
	name, _, _ = strings.Cut(name, ".")
	var text strings.Builder
	for part := range strings.SplitSeq(name, "_") {
		hex, isHex := strings.CutPrefix(part, "uni")
		_, err := strconv.ParseUint(hex, 16, 64)
		switch {
		case isHex && err == nil && len(hex)%4 == 0:
			for ; len(hex) > 0; hex = hex[4:] {
				code, _ := strconv.ParseUint(hex[:4], 16, 32) // it is hexadecimal
				text.WriteRune(rune(code))
			}
		case len(part) == 1 || part == "ff" || part == "fi" || part == "fl" || part == "ffi" || part == "ffl":
			text.WriteString(part)
		default:
			return ""
		}
	}
	return pdfText(text.String())
}

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
// fonts of numbered glyphs, ideographs as a rule, are left out.
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
