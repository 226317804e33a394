package pdf

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/klippa-app/go-pdfium/requests"
)

// pdfInside is what PDFium does not say of a document, read from a copy that it writes: without encryption, and each
// object in the open. It is looked at where letters or a whole page are missing.
type pdfInside struct {
	objects map[string]pdfObject // by number
	named   map[string]pdfFont   // fonts, by name; nil: not read yet
	leaves  []string             // numbers of pages, in order; nil: not read yet

	numbered, ofSigns map[string]bool // names of fonts that PDFium misreads
}

// pdfObject is the dictionary of an object, and what begins with its stream.
type pdfObject struct{ dictionary, stream []byte }

// pdfFont is what a font says of the glyphs of its codes: their names; or, where it is composite, their numbers.
type pdfFont struct {
	names     map[int]string
	composite bool   // its codes are no characters
	numbered  bool   // but numbers of glyphs, or lead to them
	glyphs    []byte // those, by codes, two bytes each; nil: they are the same
}

// glyphOf returns the number of the glyph of a code.
func (f pdfFont) glyphOf(code int) (uint16, bool) {
	switch {
	case f.glyphs == nil:
		return uint16(code), code < 1<<16 //nolint:gosec // it is checked
	case 2*code+1 < len(f.glyphs):
		return binary.BigEndian.Uint16(f.glyphs[2*code:]), true
	}
	return 0, false
}

var (
	pdfObjects    = regexp.MustCompile(`(?s)(?:^|[\r\n])([0-9]+) 0 obj\b(.*?)(?:endobj|stream\r?\n)`)
	pdfFontName   = regexp.MustCompile(`/BaseFont\s*/([^\s/<>\[\]()]+)`)
	pdfEncoding   = regexp.MustCompile(`/Encoding\s+([0-9]+) 0 R`)
	pdfDifference = regexp.MustCompile(`(?s)/Differences\s*\[([^\]]*)\]`)
	pdfToken      = regexp.MustCompile(`[0-9]+|/[^\s/\[\]]*`)
	pdfPages      = regexp.MustCompile(`/Type\s*/Catalog\b`)
	pdfTree       = regexp.MustCompile(`/Pages\s+([0-9]+) 0 R`)
	pdfKids       = regexp.MustCompile(`/Kids\s*\[([^\]]*)\]`)
	pdfContents   = regexp.MustCompile(`/Contents\s*(?:([0-9]+) 0 R|\[([^\]]*)\])`)
	pdfReference  = regexp.MustCompile(`([0-9]+) 0 R`)
	pdfIdentity   = regexp.MustCompile(`/Encoding\s*/Identity-[HV]\b`)
	pdfDescendant = regexp.MustCompile(`/DescendantFonts\s*\[?\s*([0-9]+) 0 R`)
	pdfListed     = regexp.MustCompile(`^\s*\[\s*([0-9]+) 0 R`)
	pdfGlyphs     = regexp.MustCompile(`/CIDToGIDMap\s+([0-9]+) 0 R`)
	pdfFlate      = regexp.MustCompile(`/Filter\s*\[?\s*/FlateDecode\b`)
)

// maxInside is how many bytes a document may have that is looked into.
const maxInside = 32 << 20

// inspectObjects looks into the document, once.
func (r *pdfReader) inspectObjects() (*pdfInside, error) {
	if r.inside != nil {
		return r.inside, nil
	}
	r.inside = &pdfInside{objects: map[string]pdfObject{}}
	var out limited
	_, err := r.FPDF_SaveAsCopy(&requests.FPDF_SaveAsCopy{
		Document: r.file, Flags: requests.SaveFlagRemoveSecurity, FileWriter: &out,
	})
	if err != nil || out.over {
		return r.inside, trapOf(err)
	}
	raw := out.Bytes()
	for _, at := range pdfObjects.FindAllSubmatchIndex(raw, -1) {
		r.inside.objects[string(raw[at[2]:at[3]])] = pdfObject{raw[at[4]:at[5]], raw[at[1]:]}
	}
	return r.inside, nil
}

// listFonts returns the fonts of the document by name. Fonts of one name that differ say nothing.
func (p *pdfInside) listFonts() map[string]pdfFont {
	if p.named != nil {
		return p.named
	}
	p.named, p.numbered, p.ofSigns = map[string]pdfFont{}, map[string]bool{}, map[string]bool{}
	for _, object := range p.objects {
		name := pdfFontName.FindSubmatch(object.dictionary)
		if name == nil {
			continue
		}
		font := p.named[string(name[1])]
		if bytes.Contains(object.dictionary, []byte("/Type0")) {
			font.composite, font.numbered = true, pdfIdentity.Match(object.dictionary)
			below := p.findDescendant(object.dictionary)
			if at := pdfGlyphs.FindSubmatch(below); at != nil {
				font.glyphs = p.objects[string(at[1])].unpackStream()
			}
			if its := pdfFontName.FindSubmatch(below); its != nil && p.isNumbered(object.dictionary, below) {
				p.numbered[string(its[1])] = true
			}
		} else if p.isOfSigns(object.dictionary) {
			p.ofSigns[string(name[1])] = true
		}
		encoding := object.dictionary
		if at := pdfEncoding.FindSubmatch(encoding); at != nil {
			encoding = p.objects[string(at[1])].dictionary
		}
		if found := pdfDifference.FindSubmatch(encoding); found != nil {
			font.readNames(found[1])
		}
		p.named[string(name[1])] = font
	}
	return p.named
}

// findDescendant returns the font that a composite one shows; it may be inside.
func (p *pdfInside) findDescendant(dictionary []byte) []byte {
	for _, at := range []*regexp.Regexp{pdfDescendant, pdfListed} { // a list may stand between
		if found := at.FindSubmatch(dictionary); found != nil {
			dictionary = p.objects[string(found[1])].dictionary
		}
	}
	return dictionary
}

// readNames adds the names of a list of differences.
func (f *pdfFont) readNames(differences []byte) {
	if f.names == nil {
		f.names = map[int]string{}
	}
	code := 0
	for _, token := range pdfToken.FindAll(differences, -1) {
		name, isName := strings.CutPrefix(string(token), "/")
		if !isName {
			code, _ = strconv.Atoi(name) // digits
			continue
		}
		if other, twice := f.names[code]; twice && other != name {
			name = ""
		}
		f.names[code] = name
		code++
	}
}

// maxUnpacked is how many bytes are unpacked of one stream.
const maxUnpacked = 1 << 20

// unpackStream returns the beginning of a stream; nil: it is damaged.
func (o pdfObject) unpackStream() []byte {
	data, _, _ := bytes.Cut(o.stream, []byte("endstream"))
	if len(bytes.TrimSpace(data)) == 0 || !pdfFlate.Match(o.dictionary) {
		return append([]byte{}, data[:min(len(data), maxUnpacked)]...)
	}
	reader, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(io.LimitReader(reader, maxUnpacked))
	if len(out) == 0 && err != nil {
		return nil
	}
	return out
}

// listPages returns the numbers of the objects of pages, in order.
func (p *pdfInside) listPages() []string {
	if p.leaves != nil {
		return p.leaves
	}
	p.leaves = []string{}
	seen := map[string]bool{}
	var walk func(number string)
	walk = func(number string) {
		if seen[number] {
			return
		}
		seen[number] = true
		kids := pdfKids.FindSubmatch(p.objects[number].dictionary)
		if kids == nil {
			p.leaves = append(p.leaves, number)
			return
		}
		for _, kid := range pdfReference.FindAllSubmatch(kids[1], -1) {
			walk(string(kid[1]))
		}
	}
	for _, object := range p.objects {
		if root := pdfTree.FindSubmatch(object.dictionary); root != nil && pdfPages.Match(object.dictionary) {
			walk(string(root[1]))
			break
		}
	}
	return p.leaves
}

// isDamaged reports whether what a page shows is not there, or cannot be unpacked, of a document with so many pages.
func (p *pdfInside) isDamaged(index, count int) bool {
	pages := p.listPages()
	if len(pages) != count {
		return false
	}
	contents := pdfContents.FindSubmatch(p.objects[pages[index]].dictionary)
	if contents == nil {
		return false
	}
	for _, at := range pdfReference.FindAllSubmatch(contents[0], -1) {
		object, there := p.objects[string(at[1])]
		if !there {
			return true
		}
		if object.unpackStream() == nil {
			return true
		}
	}
	return false
}

// limited keeps so much of what is written as is looked into.
type limited struct {
	bytes.Buffer
	over bool
}

// Write implements io.Writer.
func (l *limited) Write(raw []byte) (int, error) {
	if l.over = l.over || l.Len()+len(raw) > maxInside; l.over {
		return len(raw), nil
	}
	return l.Buffer.Write(raw)
}
