package office

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// ParseEPUB reads the chapters of a book in the order in which they are read, each as HTML by parse. A chapter that
// cannot be read costs that chapter.
func ParseEPUB(raw []byte, object string, limits document.Limits, parse ParseFunc) (document.Doc, error) {
	parts, err := openParts(raw, document.EPUB, object, limits)
	if err != nil {
		return document.Doc{}, err
	}
	book, broken := readPackage(parts)
	sealed, err := sealedParts(parts)
	isSealed := func(name string) bool { return sealed[foldName(name)] }
	if parts.findFile("META-INF/rights.xml") != nil || parts.findFile("META-INF/license.lcpl") != nil ||
		parts.findFile("META-INF/sinf.xml") != nil || slices.ContainsFunc(book.chapters, isSealed) {
		return document.Doc{}, fault.Encrypted.At("read", object).
			Because("the book has DRM protection").
			Advise("use a copy without DRM")
	}
	if err := errors.Join(broken, err); err != nil {
		return document.Doc{}, parts.wrapFault(err)
	}
	var out strings.Builder
	for _, name := range book.chapters {
		text, err := readChapter(parts, parts.findFile(name), parse)
		if fault.Is(err, fault.TooLarge) {
			return document.Doc{}, err
		}
		if err != nil {
			book.noteMissing(name, err.Error())
		}
		if text = strings.TrimSpace(text); text != "" {
			out.WriteString(text + "\n\n")
		}
		if err := parts.tooLong(out.Len()); err != nil {
			return document.Doc{}, err
		}
	}
	if out.Len() == 0 {
		why := "it has no chapter with text"
		if len(book.missing) > 0 {
			why += ": " + strings.Join(book.missing, "; ")
		}
		return document.Doc{}, parts.wrapFault(errors.New(why))
	}
	return document.Doc{
		Title: document.CutTitle(book.title, limits.Title), Meta: book.meta,
		Text: strings.NewReader(strings.TrimSpace(out.String())), Missing: strings.Join(book.missing, "; "),
	}, nil
}

// sealedParts returns the folded names of the parts of a book that are encrypted.
func sealedParts(parts *parts) (map[string]bool, error) {
	sealed := map[string]bool{}
	return sealed, parts.walkTokens("META-INF/encryption.xml", func(token xml.Token, _ int) error {
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "CipherReference" {
			sealed[foldName(attrOf(start, "URI"))] = true
		}
		return nil
	})
}

func readChapter(parts *parts, file *zip.File, parse ParseFunc) (string, error) {
	if file == nil {
		return "", errors.New("it is not there")
	}
	part, err := parts.openPart(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = part.Close() }()
	doc, err := parse(part, document.HTML, parts.object, parts.limits)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(doc.Text)
	return string(text), err
}

// epubPackage is what a book says of itself.
type epubPackage struct {
	title    string
	meta     map[string]string
	chapters []string // parts, in order
	missing  []string // sentences about chapters that are left out
}

// maxMissing parts of a book are named.
const maxMissing = 5

func (e *epubPackage) noteMissing(name, why string) {
	switch {
	case len(e.missing) < maxMissing:
		name = document.CutTitle(name, document.MaxHeadingText)
		e.missing = append(e.missing, fmt.Sprintf("its chapter %s could not be read: %s", name, why))
	case len(e.missing) == maxMissing:
		e.missing = append(e.missing, "and others")
	}
}

// readPackage finds the part that lists the others, and reads it.
func readPackage(parts *parts) (epubPackage, error) {
	name := ""
	err := parts.walkTokens("META-INF/container.xml", func(token xml.Token, _ int) error {
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rootfile" && name == "" {
			name = attrOf(start, "full-path")
		}
		return nil
	})
	if err != nil {
		return epubPackage{}, err
	}
	if name = strings.ReplaceAll(name, `\`, "/"); parts.findFile(name) == nil {
		for _, other := range slices.Sorted(maps.Keys(parts.files)) {
			if strings.HasSuffix(other, ".opf") {
				name = other
			}
		}
	}
	book := packageReader{
		parts: parts, dir: path.Dir(name), items: map[string]epubItem{}, values: map[string]string{},
	}
	if err := parts.walkTokens(name, book.takeToken); err != nil {
		return epubPackage{}, err
	}
	out := epubPackage{title: strings.TrimSpace(book.values["title"]), meta: map[string]string{}}
	for from, to := range map[string]string{"creator": "author", "language": "language", "date": "date"} {
		if value := document.CutTitle(book.values[from], parts.limits.Title); value != "" {
			out.meta[to] = value
		}
	}
	book.orderChapters(&out)
	return out, nil
}

// epubItem is a part that a book lists.
type epubItem struct {
	part, kind, fallback string
	nav                  bool // a table of contents, which repeats headings
}

// isChapter reports whether the item is read as a page.
func (i epubItem) isChapter() bool {
	switch i.kind {
	case "application/xhtml+xml", "text/html", "text/x-oeb1-document", "text/x-oeb-document", "application/x-dtbook+xml",
		"application/html+xml", "image/svg+xml", "application/xml", "text/xml":
		return true
	}
	return i.kind == "" || slices.Contains([]string{".html", ".htm", ".xhtml"}, strings.ToLower(path.Ext(i.part)))
}

// orderChapters finds the chapters in the order of the spine, without one in that of the list.
func (p *packageReader) orderChapters(out *epubPackage) {
	spine := p.spine
	if len(spine) == 0 {
		spine = slices.DeleteFunc(p.listed, func(id string) bool { return !p.items[id].isChapter() })
	}
	seen := map[string]bool{}
	for _, id := range spine {
		item, known := p.items[id]
		for range maxFallbacks {
			if next, found := p.items[item.fallback]; found && !item.isChapter() {
				item = next
			}
		}
		switch {
		case item.nav || seen[item.part]:
		case !known:
			out.noteMissing(id, "the book does not list it")
		case item.isChapter():
			out.chapters = append(out.chapters, item.part)
		case !strings.HasPrefix(item.kind, "image/"):
			out.noteMissing(item.part, "it is of the type "+document.CutTitle(item.kind, document.MaxHeadingText))
		}
		seen[item.part] = known
	}
}

// maxFallbacks of a part are looked at, one behind the other.
const maxFallbacks = 5

// packageReader reads the part of a book that lists its other parts.
type packageReader struct {
	parts  *parts
	dir    string
	items  map[string]epubItem // by id
	listed []string            // ids of items, in order
	spine  []string
	values map[string]string // the first of each kind of metadata
	in     string
}

func (p *packageReader) takeToken(token xml.Token, depth int) error {
	switch x := token.(type) {
	case xml.StartElement:
		switch x.Name.Local {
		case "item":
			href, id := attrOf(x, "href"), attrOf(x, "id")
			href, _, _ = strings.Cut(href, "#")
			p.items[id] = epubItem{
				part: path.Join(p.dir, href), kind: strings.ToLower(strings.TrimSpace(attrOf(x, "media-type"))),
				fallback: attrOf(x, "fallback"), nav: slices.Contains(strings.Fields(attrOf(x, "properties")), "nav"),
			}
			p.listed = append(p.listed, id)
		case "itemref":
			p.spine = append(p.spine, attrOf(x, "idref"))
		case "title", "creator", "language", "date", "Title", "Creator", "Language", "Date":
			if p.in = ""; (depth == 3 || depth == 4) && p.values[strings.ToLower(x.Name.Local)] == "" {
				p.in = strings.ToLower(x.Name.Local)
			}
		}
		if len(p.listed) > maxRelations || len(p.spine) > maxRelations {
			return document.OverMax(p.parts.object, "memory", p.parts.limits.Memory, "it names too many parts")
		}
	case xml.EndElement:
		p.in = ""
	case xml.CharData:
		if p.in != "" && len(p.values[p.in]) <= document.TitleBytes(p.parts.limits) {
			p.values[p.in] += strings.ToValidUTF8(string(x[:min(len(x), document.TitleBytes(p.parts.limits))]), "")
		}
	}
	return nil
}
