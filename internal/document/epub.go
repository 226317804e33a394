package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/unweaver/unweaver/internal/fault"
)

// parseEPUB reads the chapters of a book in the order in which they are read, each as HTML.
func parseEPUB(raw []byte, object string, limits Limits) (Doc, error) {
	parts, err := openParts(raw, EPUB, object, limits)
	if err != nil {
		return Doc{}, err
	}
	if parts.files["META-INF/rights.xml"] != nil {
		return Doc{}, fault.Encrypted.At("read", object).
			Because("the book is protected against reading by other programs").
			Advise("use a copy without protection")
	}
	book, err := readPackage(parts)
	if err != nil {
		return Doc{}, parts.bad(err)
	}
	var out strings.Builder
	for _, chapter := range book.chapters {
		text, err := readChapter(parts, chapter)
		if err != nil {
			return Doc{}, parts.bad(err)
		}
		if text = strings.TrimSpace(text); text != "" {
			out.WriteString(text + "\n\n")
		}
		if err := parts.tooLong(out.Len()); err != nil {
			return Doc{}, err
		}
	}
	if out.Len() == 0 {
		return Doc{}, parts.bad(errors.New("it has no chapter with text"))
	}
	return Doc{
		Title: cutTitle(book.title, limits.Title), Meta: book.meta, Text: strings.NewReader(strings.TrimSpace(out.String())),
	}, nil
}

func readChapter(parts *parts, name string) (string, error) {
	file := parts.files[name]
	if file == nil {
		return "", nil
	}
	part, err := parts.open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = part.Close() }()
	decoded, err := Decode(part, parts.object)
	if err != nil {
		return "", err
	}
	raw, err := io.ReadAll(decoded)
	if err != nil {
		return "", err
	}
	// An XML declaration and a document type are no text.
	doc, err := parseHTML(bytes.TrimSpace(raw), parts.object, parts.limits)
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
}

func readPackage(parts *parts) (epubPackage, error) {
	name := ""
	err := parts.tokens("META-INF/container.xml", func(token xml.Token, _ int) error {
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rootfile" && name == "" {
			name = attribute(start, "full-path")
		}
		return nil
	})
	if err != nil {
		return epubPackage{}, err
	}
	book := packageReader{parts: parts, dir: path.Dir(name), hrefs: map[string]string{}, values: map[string]string{}}
	if err := parts.tokens(name, book.token); err != nil {
		return epubPackage{}, err
	}
	out := epubPackage{title: strings.TrimSpace(book.values["title"]), meta: map[string]string{}}
	for from, to := range map[string]string{"creator": "author", "language": "language", "date": "date"} {
		if value := cutTitle(book.values[from], parts.limits.Title); value != "" {
			out.meta[to] = value
		}
	}
	seen := map[string]bool{}
	for _, id := range book.spine {
		if part := book.hrefs[id]; part != "" && !seen[part] {
			seen[part] = true
			out.chapters = append(out.chapters, part)
		}
	}
	return out, nil
}

// packageReader reads the part of a book that lists its other parts.
type packageReader struct {
	parts  *parts
	dir    string
	hrefs  map[string]string // of chapters, by id
	spine  []string
	values map[string]string // the first of each kind of metadata
	in     string
}

func (p *packageReader) token(token xml.Token, depth int) error {
	switch x := token.(type) {
	case xml.StartElement:
		switch x.Name.Local {
		case "item":
			kind := attribute(x, "media-type")
			if kind != "application/xhtml+xml" && kind != "text/html" {
				return nil
			}
			href, err := url.PathUnescape(attribute(x, "href"))
			if err == nil {
				p.hrefs[attribute(x, "id")] = path.Join(p.dir, href)
			}
		case "itemref":
			p.spine = append(p.spine, attribute(x, "idref"))
		case "title", "creator", "language", "date":
			if p.in = ""; depth == 3 && p.values[x.Name.Local] == "" {
				p.in = x.Name.Local
			}
		}
		if len(p.hrefs) > maxRelations || len(p.spine) > maxRelations {
			return over(p.parts.object, "memory", p.parts.limits.Memory, "it names too many parts")
		}
	case xml.EndElement:
		p.in = ""
	case xml.CharData:
		if p.in != "" && len(p.values[p.in]) <= titleBytes(p.parts.limits) {
			p.values[p.in] += strings.ToValidUTF8(string(x[:min(len(x), titleBytes(p.parts.limits))]), "")
		}
	}
	return nil
}
