package document

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	md "github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/ledongthuc/pdf"
	"golang.org/x/net/html"

	"github.com/unweaver/unweaver/internal/fault"
)

// Doc is a parsed document. Text streams; nothing may be read from it after its source is closed.
type Doc struct {
	Title string // empty: taken from the text by TitleOf
	Meta  map[string]string
	Text  io.Reader
}

// maxWhole bounds the types that must be read whole, in bytes; a variable so that a test reaches it.
var maxWhole int64 = 256 << 20

// Parse reads one object of a type without rows.
func Parse(reader io.Reader, kind Kind, object string, limits Limits) (Doc, error) {
	if kind == Text || kind == Markdown {
		t, err := Decode(reader, object)
		return Doc{Text: t}, err
	}
	raw, err := io.ReadAll(io.LimitReader(reader, maxWhole+1))
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).Because(err)
	}
	if int64(len(raw)) > maxWhole {
		return Doc{}, fault.TooLarge.At("read", object).
			Because(fmt.Sprintf("a %s may have at most %d MiB", kind, maxWhole>>20)).
			Advise("split it, or convert it to text, which is streamed")
	}
	switch kind {
	case PDF:
		return parsePDF(raw, object)
	case DOCX:
		return parseDOCX(raw, object)
	}
	t, err := Decode(bytes.NewReader(raw), object)
	if err != nil {
		return Doc{}, err
	}
	s, err := io.ReadAll(t)
	if err != nil {
		return Doc{}, fault.Unreadable.At("decode", object).Because(err)
	}
	if kind == HTML {
		return parseHTML(s, object)
	}
	return parseJSON(s, object)
}

func parseJSON(b []byte, object string) (Doc, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err := d.Decode(&v)
	if err == nil {
		err = ended(d)
	}
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).
			Because(err).
			Advise("the file is not one JSON value; one on each line is a .jsonl")
	}
	if m, ok := v.(map[string]any); ok {
		title, text, meta := fields(m)
		if text != "" {
			return Doc{Title: title, Meta: meta, Text: strings.NewReader(text)}, nil
		}
	}
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).Because(err)
	}
	return Doc{Text: bytes.NewReader(raw)}, nil
}

var converter = md.NewConverter(
	md.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()),
)

func parseHTML(raw []byte, object string) (Doc, error) {
	out, err := converter.ConvertReader(bytes.NewReader(raw))
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).Because(err).Advise("the file is no readable HTML")
	}
	return Doc{Title: htmlTitle(raw), Text: bytes.NewReader(out)}, nil
}

func htmlTitle(b []byte) string {
	tokenizer := html.NewTokenizer(bytes.NewReader(b))
	for {
		switch tokenizer.Next() {
		case html.ErrorToken:
			return ""
		case html.StartTagToken:
			if n, _ := tokenizer.TagName(); string(n) == "title" && tokenizer.Next() == html.TextToken {
				return strings.Join(strings.Fields(string(tokenizer.Text())), " ")
			}
		}
	}
}

func parsePDF(raw []byte, object string) (d Doc, err error) {
	defer func() {
		if p := recover(); p != nil { // the reader panics on some damaged files
			err = fault.Unreadable.At("read", object).
				Because(fmt.Sprint(p)).
				Advise("the PDF is damaged: save it anew")
		}
	}()
	reader, err := pdf.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		if errors.Is(err, pdf.ErrInvalidPassword) || strings.Contains(err.Error(), "password") ||
			strings.Contains(err.Error(), "encrypt") {
			return Doc{}, fault.Encrypted.At("read", object).
				Because("the PDF is protected by a password").
				Advise("save it without one")
		}
		return Doc{}, fault.Unreadable.At("read", object).Because(err).Advise("the PDF is damaged: save it anew")
	}
	var out strings.Builder
	for i := 1; i <= reader.NumPage(); i++ {
		page := reader.Page(i)
		if page.V.IsNull() {
			continue
		}
		t, err := page.GetPlainText(nil)
		if err != nil {
			return Doc{}, fault.Unreadable.At(fmt.Sprintf("read page %d of", i), object).
				Because(err).
				Advise("the PDF is damaged: save it anew")
		}
		out.WriteString(tidyPDF(t))
		out.WriteString("\n\n")
	}
	t := strings.ToValidUTF8(out.String(), "\uFFFD")
	if strings.TrimSpace(t) == "" {
		return Doc{}, fault.EmptyDocument.At("read", object).
			Because("the PDF holds no text, perhaps scanned pages").
			Advise("run text recognition on it first")
	}
	return Doc{Text: strings.NewReader(t)}, nil
}

var manyBlank = regexp.MustCompile(`\n[ \t]*\n(?:[ \t]*\n)+`)

// tidyPDF drops trailing blanks and runs of empty lines.
func tidyPDF(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	return strings.TrimSpace(manyBlank.ReplaceAllString(strings.Join(lines, "\n"), "\n\n"))
}

func parseDOCX(raw []byte, object string) (Doc, error) {
	bad := func(err error) error {
		return fault.Unreadable.At("read", object).Because(err).Advise("the file is no readable .docx: save it anew")
	}
	if bytes.HasPrefix(raw, []byte{0xd0, 0xcf, 0x11, 0xe0}) { // a compound file: an encrypted .docx, or an old .doc
		return Doc{}, fault.Encrypted.At("read", object).
			Because("the document is protected by a password or of the old .doc type").
			Advise("save it as plain .docx")
	}
	reader, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return Doc{}, bad(err)
	}
	doc := Doc{Meta: map[string]string{}}
	body := ""
	for _, file := range reader.File {
		switch file.Name {
		case "word/document.xml":
			body, err = xmlText(file)
		case "docProps/core.xml":
			doc.Title, err = coreTitle(file)
		}
		if err != nil {
			return Doc{}, bad(err)
		}
	}
	if body == "" {
		return Doc{}, bad(errors.New("it has no word/document.xml with text"))
	}
	doc.Text = strings.NewReader(body)
	return doc, nil
}

// xmlText reads the runs of a WordprocessingML part; a paragraph ends with an empty line, a cell with a tab.
func xmlText(f *zip.File) (string, error) {
	body, err := f.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	var out strings.Builder
	dec := xml.NewDecoder(io.LimitReader(body, maxWhole))
	in := false
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(manyBlank.ReplaceAllString(out.String(), "\n\n")), nil
		}
		if err != nil {
			return "", err
		}
		switch x := token.(type) {
		case xml.StartElement:
			switch x.Name.Local {
			case "t":
				in = true
			case "tab":
				out.WriteByte('\t')
			case "br":
				out.WriteByte('\n')
			}
		case xml.EndElement:
			switch x.Name.Local {
			case "t":
				in = false
			case "p":
				out.WriteString("\n\n")
			case "tc":
				out.WriteByte('\t')
			}
		case xml.CharData:
			if in {
				out.Write(x)
			}
		}
	}
}

func coreTitle(f *zip.File) (string, error) {
	body, err := f.Open()
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	var c struct {
		Title string `xml:"title"`
	}
	err = xml.NewDecoder(body).Decode(&c)
	return strings.TrimSpace(c.Title), err
}

// pageMark is what a page prints of itself; it names no document.
var pageMark = regexp.MustCompile(`(?i)^(page )?[0-9]+( of [0-9]+)?$`)

// maxTitleLine is the longest first line that counts as a title (docs/contract.md, Class text and titles).
const maxTitleLine = 150

// TitleOf gives a document its title: the given one, else the first heading of Markdown, else the first non-empty line
// if it is short, else the file's name. head is the start of the decoded text.
func TitleOf(given, head string, kind Kind, object string) string {
	if given != "" {
		return given
	}
	first := ""
	for _, l := range strings.Split(head, "\n") {
		l = strings.TrimSpace(l)
		if l == "" || pageMark.MatchString(l) {
			continue
		}
		if h := strings.TrimLeft(l, "#"); h != l && strings.HasPrefix(h, " ") && (kind == Markdown || kind == HTML) {
			return strings.TrimSpace(h)
		}
		if first == "" {
			first = l
			if kind != Markdown && kind != HTML {
				break
			}
		}
	}
	if first != "" && utf8.RuneCountInString(first) <= maxTitleLine {
		return strings.TrimSpace(strings.TrimLeft(first, "# "))
	}
	return path.Base(object)
}
