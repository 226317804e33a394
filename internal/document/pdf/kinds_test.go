package pdf_test

import (
	"bytes"
	"compress/zlib"
	"encoding/ascii85"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// inFont returns a PDF whose pages show texts in another font, with more objects from number 100 on.
func inFont(font string, objects []string, pages ...string) string {
	content := strings.ReplaceAll(documenttest.SmallPDF(pages...),
		"/Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding", "/Type /Font "+font)
	more := ""
	for i, object := range objects {
		more += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", 100+i, object)
	}
	content = strings.Replace(content, "trailer", more+"trailer", 1)
	return strings.Replace(content, "startxref", "startxref 0", 1) // the table is made again
}

// packed returns the object of a stream.
func packed(more, content string) string {
	var out bytes.Buffer
	writer := zlib.NewWriter(&out)
	_, _ = writer.Write([]byte(content)) // to memory
	_ = writer.Close()
	return fmt.Sprintf("<< /Length %d /Filter /FlateDecode %s >>\nstream\n%s\nendstream", out.Len(), more, out.String())
}

// shown returns what shows letters on a page by their codes, in hexadecimal.
func shown(codes string) string { return ") Tj <" + codes + "> Tj (" }

// wantText fails unless a PDF gives the lines, but for blank ones and headings.
func wantText(t *testing.T, name, content, missing string, lines ...string) {
	t.Helper()
	doc, text := readPDF(t, content)
	text = strings.NewReplacer("# ", "", "\f", "", "\u200e", "").Replace(text)
	var got []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			got = append(got, line)
		}
	}
	assert.True(t, strings.Join(got, "|") == strings.Join(lines, "|") && doc.Missing == missing,
		"%s: %q, %q; want %q, %q", name, got, doc.Missing, lines, missing)
}

const noLetters = " letters that are left out: its fonts do not say which letters they show"

func TestPagesThatDifferInANumberKeepTheirLines(t *testing.T) {
	var rooms, same, numbered, want []string
	for i, name := range []string{"Ann", "Bob", "Cid", "Dee"} {
		room, owner := fmt.Sprintf("Room %d", i+1), "Owner "+name
		rooms = append(rooms, ") Tj "+at(20, 280, 10, room)+at(20, 266, 10, owner)+at(20, 252, 10, "Rate 5")+"(")
		want = append(want, room, owner, "Rate 5")
		same = append(same, ") Tj "+at(20, 280, 10, "The same")+"(")
		numbered = append(numbered, ") Tj "+at(20, 285, 10, "The report")+at(20, 200, 10, "Text of "+name)+
			at(20, 186, 10, "More of "+name)+at(20, 10, 10, fmt.Sprintf("Seite %d von 4", i+1))+"(")
	}
	wantText(t, "near-equal pages", documenttest.SmallPDF(rooms...), "", want...)
	wantText(t, "equal pages", documenttest.SmallPDF(same...), "", "The same", "The same", "The same", "The same")
	wantText(t, "numbered pages", documenttest.SmallPDF(numbered...), "", "The report", "Text of Ann", "More of Ann", "Text of Bob",
		"More of Bob", "Text of Cid", "More of Cid", "Text of Dee", "More of Dee")
	wantText(t, "one page", documenttest.SmallPDF(") Tj "+at(20, 200, 10, "Text")+at(20, 10, 10, "Page 1 of 1")+"("), "", "Text", "Page 1 of 1")
}

// mapped shows glyphs from left to right, each of which a font says the letters of.
func mapped(glyphs ...string) string {
	codes, table := "", ""
	for i, letters := range glyphs {
		codes += fmt.Sprintf("%02x", 33+i)
		table += fmt.Sprintf("<%02x> <%s>\n", 33+i, wide(letters))
	}
	cmap := fmt.Sprintf("/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <00> <ff> "+
		"endcodespacerange %d beginbfchar\n%sendbfchar endcmap", len(glyphs), table)
	widths := ""
	for _, letters := range glyphs {
		if letters == " " {
			letters = "100 " // less room than a blank has otherwise
		} else {
			letters = "600 "
		}
		widths += letters
	}
	return inFont(fmt.Sprintf("/Subtype /Type1 /BaseFont /Other /ToUnicode 100 0 R /FirstChar 33 /LastChar %d /Widths [%s]",
		32+len(glyphs), widths), []string{packed("", cmap)}, shown(codes))
}

// wide returns a text in hexadecimal UTF-16.
func wide(text string) string {
	out := ""
	for _, unit := range utf16.Encode([]rune(text)) {
		out += fmt.Sprintf("%04x", unit)
	}
	return out
}

func TestScriptsFromRightToLeftAreReadInTheirOrder(t *testing.T) {
	for name, c := range map[string]struct {
		glyphs []string
		want   string
	}{
		"Hebrew":                  {[]string{"ם", "ל", "ו", "ע", " ", "ם", "ו", "ל", "ש"}, "שלום עולם"},
		"Arabic":                  {[]string{"ب", "ا", "ت", "ك", " ", "ا", "ذ", "ه"}, "هذا كتاب"},
		"a number":                {[]string{"1", "9", "4", "8", " ", "ת", "נ", "ש", "ב"}, "בשנת 1948"},
		"presentation forms":      {[]string{"\ufee1", "\ufefc", "\ufeb3"}, "سلام"},
		"a ligature of two":       {[]string{"م", "لا", "س"}, "سلام"},
		"a ligature of more":      {[]string{"محمد"}, "محمد"},
		"letters with their mark": {[]string{"ב", "א\u05b8"}, "א\u05b8ב"},
	} {
		wantText(t, name, mapped(c.glyphs...), "", c.want)
	}
}

// collected returns a page in a font of a collection that the file does not have.
func collected(cmap, ordering, page string) string {
	return inFont("/Subtype /Type0 /BaseFont /Song /Encoding /"+cmap+" /DescendantFonts [100 0 R]", []string{
		"<< /Type /Font /Subtype /CIDFontType0 /BaseFont /Song /CIDSystemInfo << /Registry (Adobe) /Ordering (" + ordering +
			") /Supplement 2 >> /FontDescriptor 101 0 R /DW 1000 >>",
		"<< /Type /FontDescriptor /FontName /Song /Flags 4 /FontBBox [0 -120 1000 880] /ItalicAngle 0 /Ascent 880 " +
			"/Descent -120 /CapHeight 700 /StemV 80 >>",
	}, page)
}

func TestFontsOfEastAsianCollectionsAreRead(t *testing.T) {
	for cmap, c := range map[string]struct{ ordering, codes, want string }{
		"UniGB-UCS2-H":   {"GB1", wide("全世界无产者"), "全世界无产者"},
		"GBK-EUC-H":      {"GB1", "c8abcac0bde7", "全世界"},
		"UniCNS-UTF16-H": {"CNS1", wide("關於紅軍"), "關於紅軍"},
		"ETen-B5-H":      {"CNS1", "c3f6a9f3", "關於"},
		"KSCms-UHC-H":    {"Korea1", "b4ebc7d1", "대한"},
		"90ms-RKSJ-H":    {"Japan1", "8d6082cc", "港の"},
		"UniJIS-UCS2-V":  {"Japan1", wide("わたくし"), "わたくし"},
	} {
		wantText(t, cmap, collected(cmap, c.ordering, shown(c.codes)), "", c.want)
	}
	columns := ") Tj 1 0 0 1 100 200 Tm (" + shown(wide("わたくしといふ")) +
		fmt.Sprintf(") Tj 1 0 0 1 76 200 Tm <%s> Tj (", wide("仮定された。"))
	wantText(t, "columns", collected("UniJIS-UCS2-V", "Japan1", columns), "", "わたくしといふ", "仮定された。")
}

func TestBlanksWithoutRoomStandNotBetweenIdeographs(t *testing.T) {
	page := ""
	for i, letter := range []string{"红", "军", "作", "战"} {
		page += fmt.Sprintf(") Tj 1 0 0 1 %d 200 Tm <%s0020> Tj (", 20+12*i, wide(letter))
	}
	wantText(t, "no room", collected("UniGB-UCS2-H", "GB1", page), "", "红军作战")
	alone, below := "", ""
	for i, letter := range []string{"红", "军", "作", "战"} {
		alone += fmt.Sprintf(") Tj 1 0 0 1 %d 200 Tm <%s> Tj (", 20+12*i, wide(letter))
		below += fmt.Sprintf(") Tj 1 0 0 1 20 %d Tm <%s> Tj (", 200-12*i, wide(letter))
	}
	wantText(t, "a text for each letter", collected("UniGB-UCS2-H", "GB1", alone), "", "红军作战")
	wantText(t, "a text for each letter, downwards", collected("UniGB-UCS2-V", "GB1", below), "", "红军作战")
	wantText(t, "a blank", collected("UniGB-UCS2-H", "GB1", shown(wide("红军 作战"))), "", "红军 作战")
}

// goFont shows a text in an embedded font that does not say which letters its codes show, by numbers of glyphs, and by
// a map to them if it is given.
func goFont(t *testing.T, text string, code func(glyph int) int, glyphs string) string {
	t.Helper()
	font, err := sfnt.Parse(goregular.TTF)
	require.NoError(t, err)
	codes := ""
	for _, char := range text {
		glyph, err := font.GlyphIndex(nil, char)
		require.True(t, err == nil && glyph != 0, "%v %v %v", char, glyph, err)
		codes += fmt.Sprintf("%04x", code(int(glyph)))
	}
	of := "/Identity"
	if glyphs != "" {
		of = "103 0 R"
	}
	return inFont("/Subtype /Type0 /BaseFont /Own /Encoding /Identity-H /DescendantFonts [100 0 R]", []string{
		"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Own /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) " +
			"/Supplement 0 >> /FontDescriptor 101 0 R /DW 600 /CIDToGIDMap " + of + " >>",
		"<< /Type /FontDescriptor /FontName /Own /Flags 4 /FontBBox [0 -120 1000 880] /ItalicAngle 0 /Ascent 880 " +
			"/Descent -120 /CapHeight 700 /StemV 80 /FontFile2 102 0 R >>",
		packed("", string(goregular.TTF)), packed("", glyphs),
	}, shown(codes))
}

func TestLettersThatAFontItselfKnowsAreRead(t *testing.T) {
	const text = "Bożena Sułek"
	same := func(glyph int) int { return glyph }
	wantText(t, "numbers of glyphs", goFont(t, text, same, ""), "", text)
	moved := strings.Repeat("\x00\x00", 700)
	for glyph := range 700 {
		moved += string([]byte{byte(glyph >> 8), byte(glyph)})
	}
	wantText(t, "characters of a collection", goFont(t, text, func(glyph int) int { return glyph + 700 }, moved), "", text)
	mapped := strings.Replace(goFont(t, text, same, ""), "/Encoding /Identity-H", "/Encoding 103 0 R", 1)
	_, err := readers.Parse(strings.NewReader(mapped), document.PDF, "a.pdf", document.DefaultLimits())
	assert.ErrorContains(t, err, "its fonts do not say which letters they show", "a map of codes within")
}

func TestLettersThatNoFontNamesAreToldOf(t *testing.T) {
	moved := ""
	for _, char := range "word for word" { // numbers of glyphs that look like letters, as they do in many fonts
		moved += fmt.Sprintf("%04x", char-29)
	}
	for _, codes := range []string{"0005000700010012000b", moved} {
		mute := collected("Identity-H", "Identity", shown(codes))
		_, err := readers.Parse(strings.NewReader(mute), document.PDF, "a.pdf", document.DefaultLimits())
		assert.True(t, err != nil && strings.Contains(err.Error(), "its fonts do not say which letters they show"),
			"%s: %v", codes, err)
	}
	some := inFont("/Subtype /Type1 /BaseFont /Other /Encoding 100 0 R",
		[]string{"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [1 /g1 /g2] >>"}, shown("01"+"6f"+"0263"), "fine")
	wantText(t, "some letters", some, "page 1 has"+noLetters, "oc", "fine")
}

// A font of signs with codes of Windows, and a map of the Macintosh alone, is read by what it says; one whose map of
// letters is empty does not say which its numbers of glyphs show, though it names a collection.
func TestLettersThatPDFiumMisreadsAreReadOrToldOf(t *testing.T) {
	const descriptor = "<< /Type /FontDescriptor /FontName /Own /Flags 4 /FontBBox [0 -120 1000 880] /ItalicAngle 0 " +
		"/Ascent 880 /Descent -120 /CapHeight 700 /StemV 80 /FontFile2 101 0 R >>"
	mac := strings.Replace(string(goregular.TTF), "\x00\x03\x00\x01\x00\x00\x00\x1c", "\x00\x09\x00\x01\x00\x00\x00\x1c", 1)
	mac = strings.Replace(mac, "\x00\x00\x00\x03\x00\x00\x00\x1c", "\x00\x08\x00\x03\x00\x00\x00\x1c", 1)
	for name, c := range map[string]struct{ file, text, want string }{
		"a map of the Macintosh": {mac, `Dur\351e fran\347aise`, "Durée française"},
		"one of Windows":         {string(goregular.TTF), `caf\351\311cole`, "caféÉcole"},
	} {
		wantText(t, name, inFont("/Subtype /TrueType /BaseFont /Own /Encoding /WinAnsiEncoding /FontDescriptor 100 0 R",
			[]string{descriptor, packed("", c.file)}, c.text), "", c.want)
	}
	const named = "1 beginbfrange <0000> <ffff> <62e1> endbfrange"
	for name, empty := range map[string]bool{"a map": false, "an empty map": true} {
		letters := "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange "
		if !empty {
			letters += named
		}
		content := inFont("/Subtype /Type0 /BaseFont /Own /Encoding /Identity-H /DescendantFonts [102 0 R] /ToUnicode 103 0 R",
			[]string{descriptor, packed("", string(goregular.TTF)),
				"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Own /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) " +
					"/Supplement 0 >> /FontDescriptor 100 0 R /DW 600 >>", packed("", letters+" endcmap end")}, shown("05a605b0"))
		doc, err := readers.Parse(strings.NewReader(content), document.PDF, "a.pdf", document.DefaultLimits())
		reported := fault.Is(err, fault.EmptyDocument)
		assert.True(t, reported == empty && (reported || err == nil), "%s: %+v, %v", name, doc, err)
	}
}

func TestLettersAreReadByTheNamesOfTheirGlyphs(t *testing.T) {
	for name, c := range map[string]struct{ names, codes, want string }{
		"ligatures":  {"1 /f_f_i /T_h /c_t /f_i.alt", "6f0163650a0265" + "20" + "61032004", "officeThe act fi"},
		"characters": {"1 /uni00E9 /uni00480069 /u00E8 /Euro /afii10017", "0174200220032004" + "2005", "ét Hi è € А"},
		"variants":   {"1 /one.oldstyle /a.sc /ff", "0120" + "0220" + "03", "1 a ff"},
	} {
		c.codes = strings.ReplaceAll(c.codes, "0a", "")
		content := inFont("/Subtype /Type1 /BaseFont /Other /Encoding 100 0 R",
			[]string{"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [" + c.names + "] >>"}, shown(c.codes))
		wantText(t, name, content, "", c.want)
	}
}

func TestSlantedLinesAreReadInTheirOrder(t *testing.T) {
	for _, angle := range []float64{5, 10, 20, 45, 80, 100, 135, 200, 260, 315, 350} {
		sin, cos := math.Sincos(angle * math.Pi / 180)
		page := ") Tj ET\n"
		for i, line := range [][]string{{"Approved", "copy", "for"}, {"the", "north", "wing"}} {
			page += fmt.Sprintf("q %.4f %.4f %.4f %.4f %.1f %.1f cm BT /F1 10 Tf ", cos, sin, -sin, cos,
				150+sin*15*float64(i), 150-cos*15*float64(i))
			for n, word := range line {
				page += fmt.Sprintf("1 0 0 1 %d 0 Tm (%s) Tj ", 50*n, word)
			}
			page += "ET Q\n"
		}
		_, text := readPDF(t, documenttest.SmallPDF(page+"BT /F1 10 Tf ("))
		got := strings.Join(strings.Fields(text), " ")
		assert.True(t, got == "Approved copy for the north wing", "%.0f: %q", angle, text)
	}
	over := ") Tj /F1 -10 Tf 1 0 0 1 150 100 Tm (turned over) Tj 1 0 0 1 150 112 Tm (twice) Tj /F1 10 Tf ("
	wantText(t, "a size below zero", documenttest.SmallPDF(over), "", "turned over", "twice")
}

// noted returns a PDF with annotations, objects from number 100 on, on its page.
func noted(text, more string, notes ...string) string {
	at := ""
	for i := range notes {
		at += fmt.Sprintf("%d 0 R ", 100+i)
	}
	content := inFont("/Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding", notes, text)
	content = strings.Replace(content, "/Type /Page ", "/Type /Page /Annots ["+at+"] ", 1)
	return strings.Replace(content, "/Type /Catalog", "/Type /Catalog /AcroForm << /Fields ["+at+"] /DA (/Helv 12 Tf 0 g) "+
		"/DR << /Font << /Helv 3 0 R >> >> "+more+" >>", 1)
}

func TestValuesOfFieldsStandBehindTheirLabels(t *testing.T) {
	field := func(what string) string {
		return "<< /Type /Annot /Subtype /Widget /T (f) /DA (/Helv 12 Tf 0 g) /Rect [80 195 280 215] " + what + " >>"
	}
	look := "<< /Length 43 /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /Z << /Type /Font " +
		"/Subtype /Type1 /BaseFont /ZapfDingbats >> >> >> >>\nstream\nq BT /Z 12 Tf 2 2 Td (4) Tj ET Q            \nendstream"
	for name, c := range map[string]struct {
		notes []string
		want  string
	}{
		"a text":            {[]string{field("/FT /Tx /V (Rosalind Thorne)")}, "Name: Rosalind Thorne"},
		"letters of others": {[]string{field("/FT /Tx /V <feff" + wide("Łódź") + ">")}, "Name: Łódź"},
		"Cyrillic":          {[]string{field("/FT /Tx /V <feff" + wide("Иван Громов") + ">")}, "Name: Иван Громов"},
		"a choice":          {[]string{field("/FT /Ch /Ff 131072 /V (EE) /Opt [[(EE) (Estonia)] [(LV) (Latvia)]]")}, "Name: Estonia"},
		"more than has room": {
			[]string{field("/FT /Tx /Ff 4096 /V (" + strings.Repeat("one two three four five ", 9) + "end)")},
			"Name: " + strings.Repeat("one two three four five ", 9) + "end",
		},
		"of a parent": {
			[]string{field("/Parent 101 0 R"), "<< /FT /Tx /V (Above) /T (p) /DA (/Helv 12 Tf 0 g) /Kids [100 0 R] >>"}, "Name: Above",
		},
		"a check": {[]string{field("/FT /Btn /V /Yes /AS /Yes /AP << /N << /Yes 101 0 R >> >>"), look}, "Name: ✔"},
		"none":    {[]string{field("/FT /Btn /V /Off /AS /Off /AP << /N << /Yes 101 0 R >> >>"), look}, "Name:"},
		"a high field": {[]string{strings.Replace(field("/FT /Tx /V (Rosalind Thorne)"), "195 280 215", "182 280 242", 1)},
			"Name: Rosalind Thorne"},
		"a high field of others": {
			[]string{strings.Replace(field("/FT /Tx /V <feff"+wide("Иван Громов")+">"), "195 280 215", "182 280 242", 1)},
			"Name: Иван Громов",
		},
		"hidden":            {[]string{field("/FT /Tx /F 2 /V (unseen)")}, "Name:"},
		"secret, of others": {[]string{field("/FT /Tx /Ff 8192 /V <feff" + wide("сезам") + ">")}, "Name: *****"},
		"secret":            {[]string{field("/FT /Tx /Ff 8192 /V (opensesame)")}, "Name: **********"},
	} {
		wantText(t, name, noted("Name:", "", c.notes...), "", c.want)
		if name == "a check" {
			continue // one that PDFium draws is no letter
		}
		wantText(t, name+", to be drawn", noted("Name:", "/NeedAppearances true", c.notes...), "", c.want)
	}
}

// A page may have its fonts from the tree of pages.
func TestFieldsLeaveTheTextOfTheirPageAlone(t *testing.T) {
	content := noted("The text", "", "<< /Type /Annot /Subtype /Widget /FT /Tx /T (f) /V (value) /DA (/Helv 12 Tf 0 g) "+
		"/Rect [80 195 280 215] >>")
	fonts := "/Resources << /Font << /F1 3 0 R >> >>"
	content = strings.Replace(strings.Replace(content, fonts, "", 1), "/Type /Pages", "/Type /Pages "+fonts, 1)
	wantText(t, "inherited fonts", content, "", "The text value")
	over := noted("The text", "", "<< /Type /Annot /Subtype /Widget /FT /Tx /T (f) /DA (/Helv 12 Tf 0 g) "+
		"/Rect [50 195 280 215] /AP << /N 101 0 R >> >>",
		"<< /Length 4 /Type /XObject /Subtype /Form /BBox [0 0 270 20] >>\nstream\nq Q \nendstream")
	wantText(t, "a field over text", over, "", "The text")
}

func TestTypedNotesAreRead(t *testing.T) {
	note := func(kind, text string) string {
		return "<< /Type /Annot /Subtype /" + kind + " /Contents (" + text + ") /DA (/Helv 12 Tf 0 g) /Rect [20 95 280 115] " +
			"/QuadPoints [20 115 280 115 20 95 280 95] >>"
	}
	for kind, want := range map[string][]string{
		"FreeText": {"A contract", "Why so?"}, "Text": {"A contract", "Why so?"}, "Highlight": {"A contract", "Why so?"},
		"Link": {"A contract"}, "Popup": {"A contract"},
	} {
		wantText(t, kind, noted("A contract", "", note(kind, "Why so?")), "", want...)
	}
	wantText(t, "what is marked", noted("A contract", "", note("Highlight", "A contract")), "", "A contract")
	wantText(t, "no text but a note", noted("", "", note("FreeText", "Why so?")), "", "Why so?")
}

func TestStandardFiltersAreUnpacked(t *testing.T) {
	const content = "BT /F1 12 Tf 20 200 Td (Unpacked) Tj ET"
	var a85 bytes.Buffer
	encoder := ascii85.NewEncoder(&a85)
	_, _ = encoder.Write([]byte(content)) // to memory
	_ = encoder.Close()
	plain := fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len("BT /F1 12 Tf 20 200 Td (x) Tj ET"),
		"BT /F1 12 Tf 20 200 Td (x) Tj ET")
	for filter, data := range map[string]string{
		"/ASCIIHexDecode": hex.EncodeToString([]byte(content)) + ">", "/ASCII85Decode": a85.String() + "~>",
		"/RunLengthDecode":  string(rune(len(content)-1)) + content + "\x80",
		"[/AHx /RL]":        hex.EncodeToString([]byte(string(rune(len(content)-1))+content+"\x80")) + ">",
		"[/ASCIIHexDecode]": strings.ToUpper(hex.EncodeToString([]byte(content))) + ">",
	} {
		object := fmt.Sprintf("<< /Length %d /Filter %s >>\nstream\n%s\nendstream", len(data), filter, data)
		whole := strings.Replace(documenttest.SmallPDF("x"), plain, object, 1)
		wantText(t, filter, strings.Replace(whole, "startxref", "startxref 0", 1), "", "Unpacked")
	}
}

func TestADamagedPageCostsThatPageAlone(t *testing.T) {
	whole := documenttest.SmallPDF("first", "second", "third")
	page := "7 0 obj\n<< /Length 37 >>\nstream\nBT /F1 12 Tf 20 200 Td (second) Tj ET\nendstream"
	broken := "7 0 obj\n<< /Length 9 /Filter /FlateDecode >>\nstream\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\nendstream"
	for name, content := range map[string]string{
		"its content":   strings.Replace(whole, page, broken, 1),
		"a lost object": strings.Replace(whole, page, "7 0 obx", 1),
		"the page":      strings.Replace(whole, "6 0 obj", "6 0 obx", 1),
	} {
		wantText(t, name, strings.Replace(content, "startxref", "startxref 0", 1),
			"page 2 is damaged and cannot be read", "first", "third")
	}
	empty := strings.Replace(whole, page, "7 0 obj\n<< /Length 0 >>\nstream\n\nendstream", 1)
	wantText(t, "an empty page", strings.Replace(empty, "startxref", "startxref 0", 1), "", "first", "third")
}

func TestAPDFIsFoundInWhatIsAroundIt(t *testing.T) {
	whole := documenttest.SmallPDF("text")
	start := strings.Index(whole, "startxref")
	for name, content := range map[string]string{
		"bytes before":      "HTTP/1.1 200 OK\r\n\r\n" + whole,
		"bytes behind":      whole + strings.Repeat("\x00", 5000),
		"a page behind":     whole + strings.Repeat("<p>junk</p>\n", 500),
		"no startxref":      whole[:start],
		"a wrong startxref": whole[:start] + "startxref\n5\n%%EOF\n",
		"startxref far off": whole[:start] + "startxref\n99999999\n%%EOF\n",
		"version 2.0":       strings.Replace(whole, "%PDF-1.4", "%PDF-2.0", 1),
		"no version":        strings.Replace(whole, "%PDF-1.4", "%PDF-x.y", 1),
	} {
		wantText(t, name, content, "", "text")
	}
}

func TestTheDateOfAPDFIsMetadata(t *testing.T) {
	for written, want := range map[string]string{
		"D:20210506": "2021-05-06", "D:20210506181500Z00'00'": "2021-05-06T18:15:00Z", "D:202105061815": "2021-05-06T18:15:00Z",
		"D:20210506181500+02'00'": "2021-05-06T16:15:00Z", "20210506181500-05": "2021-05-06T23:15:00Z", "May 2021": "",
	} {
		content := inFont("/Subtype /Type1 /BaseFont /Helvetica", []string{"<< /CreationDate (" + written + ") >>"}, "x")
		doc, _ := readPDF(t, strings.Replace(content, "/Root", "/Info 100 0 R /Root", 1))
		assert.Equal(t, want, doc.Meta["created"], written)
	}
}

func TestFilesThatAPDFHoldsAreNamed(t *testing.T) {
	content := strings.Replace(documenttest.SmallPDF("Contract"), "/Type /Catalog",
		"/Type /Catalog /Names << /EmbeddedFiles << /Names [(a) 100 0 R (b) 101 0 R] >> >>", 1)
	more := ""
	for i, name := range []string{"prices.xlsx", "notes of May.txt"} {
		more += fmt.Sprintf("%d 0 obj\n<< /Type /Filespec /F (%s) /UF (%s) /EF << /F 102 0 R >> >>\nendobj\n", 100+i, name, name)
	}
	more += "102 0 obj\n<< /Type /EmbeddedFile /Length 2 >>\nstream\nhi\nendstream\nendobj\n"
	content = strings.Replace(strings.Replace(content, "trailer", more+"trailer", 1), "startxref", "startxref 0", 1)
	pinned := noted("Contract", "", "<< /Type /Annot /Subtype /FileAttachment /Rect [10 10 20 20] /FS << /Type /Filespec "+
		"/F (pinned.txt) /UF (pinned.txt) /EF << /F 101 0 R >> >> >>", packed("/Type /EmbeddedFile", "pinned words"))
	wantText(t, "a file pinned to the page", pinned, "", "Contract", "Attachments: pinned.txt")
	limits := document.DefaultLimits()
	limits.Attached, limits.Part.Name = true, "pinned.txt"
	_, text, err := documenttest.ReadWhole(pinned, document.PDF, "dir/x", limits)
	assert.True(t, err == nil && strings.TrimSpace(text) == "pinned words", "what is pinned: %q, %v", text, err)
	wantText(t, "attachments", content, "", "Contract", "Attachments: prices.xlsx, notes of May.txt")
	doc, _ := readPDF(t, content)
	assert.True(t, doc.Meta["attachments"] == "prices.xlsx, notes of May.txt", "metadata %q", doc.Meta)
}
