package document

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"

	"golang.org/x/net/html/charset"

	"github.com/unweaver/unweaver/internal/fault"
)

// parseEML reads a message: who wrote it to whom and when, and its text, of several forms the plain one. What is
// attached is named; it is no text of the message.
func parseEML(raw []byte, object string, limits Limits) (Doc, error) {
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Doc{}, fault.Unreadable.At("read", object).Because(err).Advise("the file is no message: save it anew")
	}
	letter := letterReader{object: object, limits: limits}
	header := func(name string) string {
		return cutTitle(decodedHeader(message.Header.Get(name)), maxHeader)
	}
	meta := map[string]string{}
	var out strings.Builder
	for _, name := range []string{"From", "To", "Cc"} {
		if value := header(name); value != "" {
			meta[strings.ToLower(name)] = value
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	if date, err := message.Header.Date(); err == nil {
		meta["date"] = date.UTC().Format(time.RFC3339)
		fmt.Fprintf(&out, "Date: %s\n", date.Format("2006-01-02 15:04 -0700"))
	}
	body, err := letter.part(message.Header.Get("Content-Type"), message.Header.Get("Content-Transfer-Encoding"),
		"", message.Body, 0)
	if err != nil {
		return Doc{}, err
	}
	if strings.TrimSpace(body) == "" && len(letter.attached) == 0 && header("Subject") == "" {
		return Doc{}, fault.Unreadable.At("read", object).Because(errors.New("it has neither a subject nor text")).
			Advise("the file is no message: save it anew")
	}
	out.WriteString("\n" + strings.TrimSpace(body) + "\n")
	if len(letter.attached) > 0 {
		fmt.Fprintf(&out, "\nAttachments: %s\n", strings.Join(letter.attached, ", "))
	}
	if int64(out.Len()) > limits.Text {
		return Doc{}, limits.overText(object)
	}
	return Doc{
		Title: cutTitle(header("Subject"), limits.Title), Meta: meta,
		Text: strings.NewReader(strings.TrimSpace(out.String())),
	}, nil
}

// Bounds of a message: runes of a header's value, parts, and names of attachments.
const (
	maxHeader   = 2000
	maxLetters  = 1000
	maxAttached = 100
	letterDepth = 20
)

// longestHeader is how much of a header is decoded, in bytes: to look for the end of each encoded word that has none
// takes its square.
const longestHeader = 32 * maxHeader

func decodedHeader(value string) string {
	value = value[:min(len(value), longestHeader)]
	words := mime.WordDecoder{CharsetReader: func(name string, input io.Reader) (io.Reader, error) {
		return charset.NewReaderLabel(name, input)
	}}
	if decoded, err := words.DecodeHeader(value); err == nil {
		value = decoded
	}
	return strings.TrimSpace(strings.ToValidUTF8(value, "\uFFFD"))
}

// letterReader reads the parts of a message.
type letterReader struct {
	object   string
	limits   Limits
	parts    int
	attached []string
}

// part gives the text of a part; of one that is attached, or no text, nothing.
func (l *letterReader) part(contentType, encoding, disposition string, body io.Reader, depth int) (string, error) {
	if l.parts++; l.parts > maxLetters || depth > letterDepth {
		return "", over(l.object, "nesting", l.limits.Nesting, "it has too many parts")
	}
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind = "text/plain"
	}
	if place, named, err := mime.ParseMediaType(disposition); err == nil &&
		(place == "attachment" || named["filename"] != "") {
		l.attach(named["filename"])
		return "", nil
	}
	switch {
	case strings.HasPrefix(kind, "multipart/"):
		return l.several(kind, multipart.NewReader(body, parameters["boundary"]), depth)
	case kind == "message/rfc822":
		return l.forwarded(body, encoding, depth)
	case kind != "text/plain" && kind != "text/html":
		l.attach(parameters["name"])
		return "", nil
	}
	raw, err := io.ReadAll(&bounded{unencoded(body, encoding), l.limits.Bytes,
		over(l.object, "bytes", l.limits.Bytes, "a part of it has more bytes")})
	if err != nil && fault.As(err) != nil {
		return "", err
	}
	// What is left of a part that breaks off is text all the same.
	text, err := textIn(raw, parameters["charset"], l.object)
	if err != nil || kind == "text/plain" {
		return text, err
	}
	doc, err := parseHTML([]byte(text), l.object, l.limits)
	if err != nil {
		return "", err
	}
	made, err := io.ReadAll(doc.Text)
	return string(made), err
}

func (l *letterReader) attach(name string) {
	if name = cutTitle(decodedHeader(name), maxHeadingText); name != "" && len(l.attached) < maxAttached {
		l.attached = append(l.attached, name)
	}
}

// several reads the parts of a part: of alternatives the first that has text, as the plainest comes first.
func (l *letterReader) several(kind string, parts *multipart.Reader, depth int) (string, error) {
	var texts []string
	for {
		part, err := parts.NextRawPart()
		if err != nil { // its end, or where it breaks off
			return strings.Join(texts, "\n\n"), nil
		}
		text, err := l.part(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"),
			part.Header.Get("Content-Disposition"), part, depth+1)
		if err != nil {
			return "", err
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if kind != "multipart/alternative" || len(texts) == 0 {
			texts = append(texts, text)
		}
	}
}

// forwarded reads a message in a message.
func (l *letterReader) forwarded(body io.Reader, encoding string, depth int) (string, error) {
	message, err := mail.ReadMessage(unencoded(body, encoding))
	if err != nil {
		return "", nil
	}
	text, err := l.part(message.Header.Get("Content-Type"), message.Header.Get("Content-Transfer-Encoding"), "",
		message.Body, depth+1)
	head := ""
	for _, name := range []string{"From", "Date", "Subject"} {
		if value := cutTitle(decodedHeader(message.Header.Get(name)), maxHeader); value != "" {
			head += name + ": " + value + "\n"
		}
	}
	return head + "\n" + text, err
}

func unencoded(body io.Reader, encoding string) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, &onlyBase64{body})
	}
	return body
}

// onlyBase64 leaves out what is no letter of base64: some programs indent it.
type onlyBase64 struct{ reader io.Reader }

func (o *onlyBase64) Read(raw []byte) (int, error) {
	for {
		n, err := o.reader.Read(raw)
		kept := 0
		for _, c := range raw[:n] {
			if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '+' || c == '/' || c == '=' {
				raw[kept] = c
				kept++
			}
		}
		if kept > 0 || err != nil || len(raw) == 0 {
			return kept, err
		}
	}
}

// textIn decodes text of a named set of characters; what names none, or one that nobody knows, is looked at.
func textIn(raw []byte, name, object string) (string, error) {
	var reader io.Reader
	if known, _ := charset.Lookup(name); name != "" && known != nil {
		reader = clean(known.NewDecoder().Reader(bytes.NewReader(raw)))
	} else {
		var err error
		if reader, err = Decode(bytes.NewReader(raw), object); err != nil {
			return "", err
		}
	}
	text, err := io.ReadAll(reader)
	return strings.ToValidUTF8(string(text), "\uFFFD"), err
}
