package readers

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/mail"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// parseEML reads a message: who wrote it to whom and when, and its text. What is attached is named.
func parseEML(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	header, content := letterHeader(bytes.TrimLeft(bytes.TrimPrefix(raw, []byte(document.ByteOrderMark)), "\r\n"))
	letter := letterReader{object: object, limits: limits, attached: document.Attachments{Object: object, Limits: limits}}
	if len(header) == 0 {
		return document.Doc{}, fault.Unreadable.At("read", object).Because(errors.New("it has no header")).
			Advise("the file is no message: save it again")
	}
	meta := map[string]string{}
	var out strings.Builder
	for _, name := range []string{"From", "To", "Cc"} {
		if value := document.CutTitle(decodedHeader(header.Get(name)), maxHeader); value != "" {
			meta[strings.ToLower(name)] = value
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	if date, err := mail.Header(header).Date(); err == nil {
		meta["date"] = date.UTC().Format(time.RFC3339)
		fmt.Fprintf(&out, "Date: %s\n", date.Format("2006-01-02 15:04 -0700"))
	}
	body, err := letter.decodePart(header, content, "text/plain", 0)
	if err != nil {
		return document.Doc{}, err
	}
	if limits.SkipsText() {
		return chooseDocument(&letter.attached)
	}
	subject := decodedHeader(header.Get("Subject"))
	if body = strings.TrimSpace(body); body == "" && len(letter.attached.Names) == 0 && subject == "" {
		return document.Doc{}, fault.Unreadable.At("read", object).Because(errors.New("it has neither a subject nor text")).
			Advise("the file is no message: save it again")
	}
	out.WriteString("\n" + body + "\n")
	if names := letter.attached.Names; len(names) > 0 {
		meta["attachments"] = strings.Join(names, ", ")
		fmt.Fprintf(&out, "\nAttachments: %s\n", meta["attachments"])
	}
	if int64(out.Len()) > limits.Text {
		return document.Doc{}, limits.OverText(object)
	}
	doc := document.Doc{
		Title: document.CutTitle(subject, limits.Title), Meta: meta, Text: strings.NewReader(strings.TrimSpace(out.String())),
		Missing: strings.Join(append(slices.Compact(letter.missing), letter.attached.ListMissing()...), "; "),
	}
	return doc.NoteEncoding(letter.guess), nil
}

// Bounds of a message: runes of a header's value, parts, and headers.
const (
	maxHeader   = 2000
	maxLetters  = 1000
	letterDepth = 20
	maxHeaders  = 10_000
)

var headerLine = regexp.MustCompile(`^[!-9;-~]+[ \t]*:`)

// knownHeader begins with a name that mail programs write. Where no empty line ends the header, another ends it.
var knownHeader = regexp.MustCompile(`(?i)^(?:from|to|cc|bcc|subject|date|sender|received|return-path|reply-to|` +
	`in-reply-to|references|message-id|mime-version|delivered-to|user-agent|importance|priority|sensitivity|` +
	`organization|precedence|auto-submitted|authentication-results|keywords|comments|status|lines|errors-to|` +
	`(?:x|content|list|resent|dkim|arc|thread|disposition|original|feedback)-[!-9;-~]+)[ \t]*:`)

// letterHeader splits a message where its header ends: at an empty line, or at one that no header has.
func letterHeader(raw []byte) (header textproto.MIMEHeader, body []byte) {
	header, body, ended := splitHeader(raw, headerLine)
	if !ended {
		header, body, _ = splitHeader(raw, knownHeader)
	}
	return header, body
}

// splitHeader takes lines of a header until an empty one, which has ended it, or another that is none.
func splitHeader(raw []byte, headerLine *regexp.Regexp) (header textproto.MIMEHeader, body []byte, ended bool) {
	header, name := textproto.MIMEHeader{}, ""
	for count := 0; len(raw) > 0; count++ {
		line, rest, _ := bytes.Cut(raw, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		switch {
		case len(bytes.TrimSpace(line)) == 0:
			return header, rest, true
		case name != "" && (line[0] == ' ' || line[0] == '\t'):
			values := header[name]
			if last := len(values) - 1; len(values[last]) < longestHeader {
				values[last] += " " + string(bytes.TrimSpace(line))
			}
		case headerLine.Match(line):
			key, value, _ := bytes.Cut(line, []byte(":"))
			if name = textproto.CanonicalMIMEHeaderKey(string(bytes.TrimSpace(key))); count < maxHeaders {
				header[name] = append(header[name], string(bytes.TrimSpace(value)))
			}
		case count == 0 && (bytes.HasPrefix(line, []byte("From ")) || bytes.HasPrefix(line, []byte(">From "))):
			// the first line of a message in a mailbox
		default:
			return header, raw, false
		}
		raw = rest
	}
	return header, nil, false
}

// longestHeader is how much of a header is decoded, in bytes.
const longestHeader = 32 * maxHeader

var encodedWords = regexp.MustCompile(`=\?([^?*\s]+)(?:\*[^?\s]*)?\?([bBqQ])\?([^?]*)\?=(\s+=\?)?`)

// decodedHeader returns a value with its encoded words decoded. Those that follow one another are decoded together:
// some programs cut characters between them.
func decodedHeader(value string) string {
	value = value[:min(len(value), longestHeader)]
	if !document.IsASCII([]byte(value)) {
		plain, _, err := document.DecodeLabelled([]byte(value), "", "")
		if err != nil {
			return ""
		}
		value = string(plain)
	}
	var out strings.Builder
	var held []byte
	set := ""
	flush := func() {
		text, _, err := document.DecodeLabelled(held, document.StatedCharset(set), "")
		if err == nil {
			out.Write(text)
		}
		held = nil
	}
	for {
		at := encodedWords.FindStringSubmatchIndex(value)
		if at == nil {
			break
		}
		between, charset, word := value[:at[0]], value[at[2]:at[3]], value[at[6]:at[7]]
		if between != "" || !strings.EqualFold(charset, set) {
			flush()
		}
		out.WriteString(between)
		set = charset
		if strings.EqualFold(value[at[4]:at[5]], "b") {
			held = append(held, unBase64([]byte(word))...)
		} else {
			held = append(held, decodeQuoted([]byte(strings.ReplaceAll(word, "_", " ")))...)
		}
		if value = value[at[7]+len("?="):]; at[8] >= 0 { // blanks between two words are none
			value = strings.TrimLeft(value, " \t\r\n")
		}
	}
	flush()
	out.WriteString(value)
	return strings.TrimSpace(strings.ToValidUTF8(out.String(), "\uFFFD"))
}

// letterReader reads the parts of a message.
type letterReader struct {
	object   string
	limits   document.Limits
	parts    int
	attached document.Attachments
	missing  []string // sentences about parts that could not be read
	guess    string   // the encoding of the first part whose header has no valid one
}

var (
	parameterOf = regexp.MustCompile(`(?i);\s*(charset|boundary|name|filename|smime-type)\s*=\s*(?:"([^"]*)"|([^\s;"]+))`)
	unreadable7 = regexp.MustCompile(`(?i)^(x-)?(utf-7|unicode-1-1-utf-7|iso-2022-(kr|cn).*)$`)
)

// mediaType parses a media type as mime.ParseMediaType does, and reads what it can of a malformed one.
func mediaType(value string) (kind string, parameters map[string]string) {
	kind, parameters, err := mime.ParseMediaType(value)
	if err == nil {
		return kind, parameters
	}
	kind, _, _ = strings.Cut(value, ";")
	parameters = map[string]string{}
	for _, found := range parameterOf.FindAllStringSubmatch(value, 100) {
		parameters[strings.ToLower(found[1])] = found[2] + found[3]
	}
	return strings.ToLower(strings.TrimSpace(kind)), parameters
}

// decodePart returns the text of a part; of one that is attached, or no text, nothing.
func (l *letterReader) decodePart(header textproto.MIMEHeader, body []byte, usual string, depth int) (string, error) {
	if l.parts++; l.parts > maxLetters || depth > letterDepth {
		return "", document.OverMax(l.object, "nesting", l.limits.Nesting, "it has too many parts")
	}
	kind, parameters := mediaType(header.Get("Content-Type"))
	if !strings.Contains(kind, "/") {
		kind = usual
	}
	place, named := mediaType(header.Get("Content-Disposition"))
	name := named["filename"]
	if name == "" {
		name = parameters["name"]
	}
	multiple := strings.HasPrefix(kind, "multipart/")
	if !multiple {
		body = decodeTransfer(body, header.Get("Content-Transfer-Encoding"))
	}
	switch {
	case kind == "multipart/encrypted", kind == "application/pkcs7-mime" || kind == "application/x-pkcs7-mime":
		l.missing = append(l.missing, "a part of it is encrypted or sealed ("+kind+"): it was left out")
		return "", nil
	case multiple:
		return l.decodeParts(kind, parameters["boundary"], body, depth)
	case kind == "message/rfc822", kind == "message/global":
		return l.decodeForwarded(body, depth)
	case place == "attachment", name != "" && place != "inline":
		l.attachPart(header, name, kind, parameters["charset"], body)
		return "", nil
	case kind == "text/html":
		return l.decodePage(body, parameters["charset"])
	case kind != "text/plain" && kind != "text/markdown" && kind != "message/delivery-status":
		l.attachPart(header, name, kind, parameters["charset"], body)
		return "", nil
	}
	return l.decodePlain(body, parameters["charset"])
}

func (l *letterReader) decodePlain(body []byte, charset string) (string, error) {
	if unreadable7.MatchString(charset) {
		l.missing = append(l.missing, "a part of it is written in "+document.CutTitle(charset, 50)+", which is not read")
		return "", nil
	}
	text, guess, err := document.DecodeLabelled(body, document.StatedCharset(charset), l.object)
	l.noteGuess(guess)
	return string(text), err
}

// decodePage returns the text of a part in HTML.
func (l *letterReader) decodePage(body []byte, charset string) (string, error) {
	text, guess, err := document.DecodeLabelled(body, charset, l.object)
	if charset = document.StatedCharset(charset); charset == "" || document.CharsetOf(charset) == nil {
		text, guess, err = document.DecodeMarkup(body, l.object)
	}
	if err != nil {
		return "", err
	}
	l.noteGuess(guess)
	doc, err := parseHTML(text, l.object, l.limits)
	if err != nil {
		return "", err
	}
	made, err := io.ReadAll(doc.Text)
	return headingMarks.ReplaceAllString(string(made), ""), err // mail has no headings
}

var headingMarks = regexp.MustCompile(`(?m)^#{1,6} `)

func (l *letterReader) noteGuess(guess string) {
	if l.guess == "" {
		l.guess = guess
	}
}

// attachPart takes a part that is no text of the message. Signatures, and pictures that the text shows, are named
// alone.
func (l *letterReader) attachPart(header textproto.MIMEHeader, name, kind, charset string, body []byte) {
	shown := header.Get("Content-Id") != "" || strings.HasPrefix(header.Get("Content-Disposition"), "inline")
	content := func() []byte {
		if kind != "text/html" && strings.HasPrefix(kind, "text/") && charset != "" {
			if text, _, err := document.DecodeLabelled(body, document.StatedCharset(charset), l.object); err == nil {
				return text
			}
		}
		return body
	}
	if strings.HasSuffix(kind, "-signature") || shown && strings.HasPrefix(kind, "image/") {
		content = nil
	}
	l.attached.Add(decodedHeader(name), kind, content)
}

// firstBoundary finds a line that looks like the mark between parts, where the header names none that is there.
var firstBoundary = regexp.MustCompile(`(?m)^--([!-~]{6,70}?)(?:--)?[ \t]*\r?$`)

// decodeParts reads the parts of a part: of alternatives the first that has text, as the plainest comes first, unless
// one behind it says far more, or something else: some programs write into the plain one that there is another.
func (l *letterReader) decodeParts(kind, boundary string, body []byte, depth int) (string, error) {
	if boundary == "" || len(splitParts(body, boundary)) == 0 {
		found := firstBoundary.FindSubmatch(body)
		if found == nil {
			return l.decodePlain(body, "")
		}
		boundary = string(found[1])
	}
	usual := "text/plain"
	if kind == "multipart/digest" {
		usual = "message/rfc822"
	}
	var texts []string
	for _, part := range splitParts(body, boundary) {
		header, content := letterHeader(part)
		text, err := l.decodePart(header, content, usual, depth+1)
		if err != nil {
			return "", err
		}
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		switch {
		case kind != "multipart/alternative" || len(texts) == 0:
			texts = append(texts, text)
		case saysMore(text, texts[0]):
			texts[0] = text
		}
	}
	return strings.Join(texts, "\n\n"), nil
}

// saysMore reports whether a form of a message has more than twice the words of a plainer one, or half of them at least
// and hardly any that the plainer one has.
func saysMore(text, plainer string) bool {
	has, shared := map[string]bool{}, 0
	words, plain := strings.Fields(strings.ToLower(text)), strings.Fields(strings.ToLower(plainer))
	for _, word := range words {
		has[word] = true
	}
	for _, word := range plain {
		if has[word] {
			shared++
		}
	}
	return len(words) > 2*len(plain) || 2*len(words) >= len(plain) && 3*shared < len(plain)
}

// splitParts returns what stands between the marks of a boundary; a last part without a mark behind it ends with the
// message.
func splitParts(body []byte, boundary string) (parts [][]byte) {
	mark, final, start := []byte("--"+boundary), []byte("--"+boundary+"--"), -1
	for at := 0; at < len(body) && len(parts) <= maxLetters; {
		line, rest, _ := bytes.Cut(body[at:], []byte("\n"))
		next := len(body) - len(rest)
		line = bytes.TrimRight(line, " \t\r")
		last := bytes.Equal(line, final)
		if last || bytes.Equal(line, mark) {
			if start >= 0 {
				parts = append(parts, body[start:at])
			}
			if start = next; last {
				return parts
			}
		}
		at = next
	}
	if start >= 0 {
		parts = append(parts, body[start:])
	}
	return parts
}

// decodeForwarded reads a message in a message.
func (l *letterReader) decodeForwarded(body []byte, depth int) (string, error) {
	header, content := letterHeader(bytes.TrimLeft(body, "\r\n"))
	text, err := l.decodePart(header, content, "text/plain", depth+1)
	head := ""
	for _, name := range []string{"From", "Date", "Subject"} {
		if value := document.CutTitle(decodedHeader(header.Get(name)), maxHeader); value != "" {
			head += name + ": " + value + "\n"
		}
	}
	return head + "\n" + text, err
}

// decodeTransfer returns the bytes of a part.
func decodeTransfer(body []byte, encoding string) []byte {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		return decodeQuoted(body)
	case "base64":
		if sentence.Match(body) {
			return body // it says so and is none
		}
		return unBase64(body)
	}
	return body
}

var sentence = regexp.MustCompile(`[A-Za-z]+ [A-Za-z]+ [A-Za-z]+`)

var quotedBytes = regexp.MustCompile(`=(?:[ \t]*\r?\n|([0-9A-Fa-f]{2}))|[ \t]+(\r?\n)`)

// decodeQuoted decodes quoted-printable. What is none stays as it is.
func decodeQuoted(raw []byte) []byte {
	return quotedBytes.ReplaceAllFunc(raw, func(found []byte) []byte {
		if found[0] != '=' {
			return []byte("\n")
		}
		number, err := strconv.ParseUint(string(found[1:]), 16, 8)
		if err != nil {
			return nil
		}
		return []byte{byte(number)}
	})
}

// unBase64 decodes base64 as far as it goes, without what is no letter of it: some programs indent it, and some write
// several pieces one behind the other.
func unBase64(raw []byte) []byte {
	var out []byte
	var held []byte
	flush := func() {
		decoded, _ := base64.RawStdEncoding.DecodeString(string(held)) // as far as it goes
		out, held = append(out, decoded...), held[:0]
	}
	for _, c := range raw {
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '+', c == '/':
			held = append(held, c)
		case c == '=' && len(held) > 0:
			flush()
		}
	}
	flush()
	return out
}
