package pdf

import (
	"bytes"
	_ "embed" // of cids.txt
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// cidLetters are the letters above U+FFFF of Adobe's character collections, by CID. PDFium's tables have 16 bits.
// They are made by cids.py of Adobe's cmap-resources, whose licence is in infra/licences-cmaps.txt.
//
//go:embed cids.txt
var cidLetters string

var (
	pdfOrdering = regexp.MustCompile(`/Ordering\s*\((CNS1|GB1|Japan1|KR)\)`)
	pdfSystem   = regexp.MustCompile(`/CIDSystemInfo\s+([0-9]+) 0 R`)
	pdfEncoded  = regexp.MustCompile(`/Encoding\s*(/(?:Identity|HKscs-B5)-[HV]\b|[0-9]+ 0 R)`)
	pdfTrailer  = regexp.MustCompile(`(?s)(/Root\s+[0-9]+ 0 R).*startxref\s+([0-9]+)`)
)

// orderingOf returns the collection that a font's characters are of; empty: another, or none.
func (p *pdfInside) orderingOf(descendant []byte) string {
	if at := pdfSystem.FindSubmatch(descendant); at != nil {
		descendant = p.objects[string(at[1])].dictionary
	}
	if found := pdfOrdering.FindSubmatch(descendant); found != nil {
		return string(found[1])
	}
	return ""
}

// rareLetters returns what codes of an encoding show that PDFium reads as other letters: those of Hong Kong, or CIDs.
func (p *pdfInside) rareLetters(ordering, encoding string) map[int]string {
	letters := map[int]string{}
	if strings.HasPrefix(encoding, "/HKscs-B5-") {
		for code := 0x8140; code <= math.MaxUint16; code++ {
			text, _ := traditionalchinese.Big5.NewDecoder().Bytes([]byte{byte(code >> 8), byte(code)}) // U+FFFD for none
			if utf8.RuneCount(text) == 1 && !bytes.ContainsRune(text, utf8.RuneError) {
				letters[code] = string(text)
			}
		}
		return letters
	}
	byCID := map[int]string{}
	_, runs, _ := strings.Cut(cidLetters, ordering+" ")
	runs, _, _ = strings.Cut(runs, "\n")
	for run := range strings.FieldsSeq(runs) {
		following := strings.TrimLeft(run, "0123456789")
		cid, _ := strconv.Atoi(strings.TrimSuffix(run, following)) // digits
		for n, letter := range []rune(following) {
			byCID[cid+n] = string(letter)
		}
	}
	if strings.HasPrefix(encoding, "/Identity-") {
		return byCID
	}
	number, _, _ := strings.Cut(encoding, " ")
	for code, cid := range collectionOf(p.objects[number].unpackStream()) {
		if byCID[cid] != "" {
			letters[code] = byCID[cid]
		}
	}
	return letters
}

// withRareLetters returns a document, as PDFium writes it, whose fonts map such codes to letters; nil: none has any.
func (p *pdfInside) withRareLetters(raw []byte) []byte {
	end := pdfTrailer.FindSubmatch(raw[max(0, len(raw)-headerWithin):])
	if end == nil {
		return nil
	}
	out, table, next := bytes.NewBuffer(slices.Clip(raw)), "xref\n", 0
	for number := range p.objects {
		n, _ := strconv.Atoi(number) // digits
		next = max(next, n+1)
	}
	first := next
	add := func(number any, object string) {
		table += fmt.Sprintf("%v 1\n%010d 00000 n\r\n", number, out.Len()+1)
		fmt.Fprintf(out, "\n%v 0 obj\n%s\nendobj", number, object)
	}
	maps := map[string]int{} // by collection and encoding
	for number, object := range p.objects {
		ordering, encoding := p.orderingOf(p.findDescendant(object.dictionary)), pdfEncoded.FindSubmatch(object.dictionary)
		if ordering == "" || encoding == nil || !bytes.Contains(object.dictionary, []byte("/Type0")) ||
			pdfToUnicode.Match(object.dictionary) || out.Len() > 2*maxInside {
			continue
		}
		key := ordering + string(encoding[1])
		if _, known := maps[key]; !known {
			var cmap strings.Builder
			for code, letter := range p.rareLetters(ordering, string(encoding[1])) {
				wide, _ := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewEncoder().String(letter) // it is a letter
				fmt.Fprintf(&cmap, "1 beginbfchar <%04x> <%x> endbfchar\n", code, wide)
			}
			if maps[key] = 0; cmap.Len() > 0 {
				maps[key] = next
				add(next, fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", cmap.Len(), cmap.String()))
				next++
			}
		}
		if maps[key] == 0 {
			continue
		}
		at := bytes.LastIndex(object.dictionary, []byte(">>"))
		add(number, fmt.Sprintf("%s /ToUnicode %d 0 R >>", object.dictionary[:max(at, 0)], maps[key]))
	}
	if next == first {
		return nil
	}
	start := out.Len() + 1
	fmt.Fprintf(out, "\n%strailer\n<< /Size %d %s /Prev %s >>\nstartxref\n%d\n%%%%EOF\n",
		table, next, end[1], end[2], start)
	return out.Bytes()
}

// pageAgain reads a page, and those behind it, from the document whose fonts name rare letters.
func (r *pdfReader) pageAgain(index int) (*pdfPage, error) {
	raw := r.lettered
	r.lettered = nil
	if err := r.reopenFile(raw); err != nil {
		return nil, err
	}
	return r.loadPage(index)
}
