package readers_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/ianaindex"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// multi returns a body of several parts, each with its header.
func multi(kind string, parts ...string) string {
	return "Content-Type: multipart/" + kind + "; boundary=\"b 1\"\r\n\r\nPreamble\r\n--b 1\r\n" +
		strings.Join(parts, "\r\n--b 1\r\n") + "\r\n--b 1--\r\nEpilogue\r\n"
}

// Mail is read as mail programs show it, also where it breaks the rules that they do not keep.
func TestMailIsReadAsItIsShown(t *testing.T) {
	in := func(charset, text string) string {
		out := musttest.Get(musttest.Get(ianaindex.IANA.Encoding(charset))(t).NewEncoder().String(text))(t)
		return out
	}
	word := func(charset, text string) string {
		return "=?" + charset + "?B?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	const russian = "Капитан корабля Фёдор Громов"
	for name, c := range map[string]struct{ content, title, text string }{
		"UTF-8 as us-ascii": {"Subject: a\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nGösta Åkesson", "a",
			"Gösta Åkesson"},
		"UTF-8 as Latin-1":  {"Subject: a\nContent-Type: text/plain; charset=iso-8859-1\n\nRené", "a", "René"},
		"Latin-1 as UTF-8":  {"Subject: a\nContent-Type: text/plain; charset=utf-8\n\nRen\xe9 in Z\xfcrich", "a", "René in Zürich"},
		"an unknown set":    {"Subject: a\nContent-Type: text/plain; charset=x-what\n\n" + in("koi8-r", russian), "a", russian},
		"a set that counts": {"Subject: a\nContent-Type: text/plain; charset=\"koi8-r\"\n\n" + in("koi8-r", "Ёж"), "a", "Ёж"},
		"no set":            {"Subject: a\n\n" + in("windows-1251", russian), "a", russian},
		"seven bits": {"Subject: a\nContent-Type: text/plain; charset=iso-2022-jp\n\n" + in("iso-2022-jp", "山田太郎です"), "a",
			"山田太郎です"},
		"a page that says its set": {"Subject: a\nContent-Type: text/html\n\n<meta charset=koi8-r><p>" + in("koi8-r", "Ёж"),
			"a", "Ёж"},
		"a page with a heading":      {"Subject: a\nContent-Type: text/html\n\n<h1>Tide</h1><p># x", "a", "Tide\n\n    # x"},
		"raw Latin-1 in the header":  {"Subject: Gr\xfc\xdfe aus K\xf6ln\n\nx", "Grüße aus Köln", "x"},
		"raw UTF-8 in the header":    {"Subject: Łódź\n\nx", "Łódź", "x"},
		"raw Cyrillic in the header": {"Subject: " + in("windows-1251", russian) + "\n\nx", russian, "x"},
		"a character between words": {"Subject: " + word("utf-8", "Мария"[:5]) + "\n " + word("UTF-8", "Мария"[5:]) + "\n\nx",
			"Мария", "x"},
		"words in quotes, a blank in one": {"Subject: \"=?iso-8859-1*de?Q?J=FCrgen M=FCller?=\" r\n\nx", `"Jürgen Müller" r`, "x"},
		"a set of two bytes":              {"Subject: " + word("gb2312", in("gb18030", "朱镕基")) + "\n\nx", "朱镕基", "x"},
		"no empty line": {
			"Subject: No blank\r\nFrom: a@b.example\r\nContent-Type: text/plain\r\nThis follows at once.\r\nMore.\r\n",
			"No blank", "From: a@b.example\n\nThis follows at once.\nMore.",
		},
		"no empty line, a word and a colon": {"Subject: No blank\r\nX-Mailer: m\r\nNote: bring the keys.\r\nMore.\r\n",
			"No blank", "Note: bring the keys.\nMore."},
		"an odd header, an empty line": {"Subject: a\r\nNote: b\r\n\r\nBody", "a", "Body"},
		"a line of a blank":            {"Subject: a\r\n\t\r\nBody", "a", "Body"},
		"a folded subject":             {"Subject: a\r\n b\r\nX-Empty:\r\nFrom : a@b.example\r\n\r\nx", "a b", "From: a@b.example\n\nx"},
		"a mailbox":                    {"From a@b.example Thu Nov 20 10:00:00 2026\nSubject: a\n\nx", "a", "x"},
		"a mark":                       {"\xef\xbb\xbfSubject: a\n\nx", "a", "x"},
		"words as base64":              {"Subject: a\nContent-Transfer-Encoding: base64\n\nThis is plain text.", "a", "This is plain text."},
		"base64 in pieces":             {"Subject: a\nContent-Transfer-Encoding: base64\n\n SGVs\n bG8=\n V29y\n bGQ=", "a", "HelloWorld"},
		"no quoted-printable": {
			"Subject: a\nContent-Transfer-Encoding: quoted-printable\n\na=b 50 =% caf=C3=A9 =\njoined =ZZ end", "a",
			"a=b 50 =% café joined =ZZ end",
		},
		"a plain form that says nothing": {
			"Subject: a\n" + multi("alternative", "\r\nUse HTML.",
				"Content-Type: text/html\r\n\r\n<p>What was meant stands here and nowhere else."),
			"a", "What was meant stands here and nowhere else.",
		},
		"a plain form that says something else": {
			"Subject: a\n" + multi("alternative", "\r\nYour mail program does not show HTML: open this letter in another one.",
				"Content-Type: text/html\r\n\r\n<p>The tide turns at nine, said the old pilot."),
			"a", "The tide turns at nine, said the old pilot.",
		},
		"a picture of what the plain form says": {
			"Subject: a\n" + multi("alternative", "\r\nThe tide turns at nine, said the old pilot.",
				"Content-Type: text/html\r\n\r\n<p>Open in browser"),
			"a", "The tide turns at nine, said the old pilot.",
		},
		"a plain form that says it all": {
			"Subject: a\n" + multi("alternative", "\r\nThe plain form.", "Content-Type: text/html\r\n\r\n<p>The <b>plain</b> form."),
			"a", "The plain form.",
		},
		"no boundary":      {"Subject: a\nContent-Type: multipart/mixed\n\n--xyz123\n\nInside\n--xyz123--", "a", "Inside"},
		"another boundary": {"Subject: a\nContent-Type: multipart/mixed; boundary=other\n\nWords", "a", "Words"},
		"no last boundary": {"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nOne\n--b\n\nTwo", "a", "One\n\nTwo"},
		"a boundary that is no text": {
			"Subject: a\nContent-Type: multipart/mixed; boundary=\"\xff(\"\n\n--\xff(\n\nOne\n--\xff(--\n", "a", "One",
		},
		"a part's bad header": {
			"Subject: a\n" + multi("mixed", "Content-Type: text/plain\r\nNo colon\r\n\r\nFirst", "\r\nNote: second"), "a",
			"No colon\n\nFirst\n\nNote: second",
		},
		"text in line": {
			"Subject: a\n" + multi("mixed", "\r\nHello", "Content-Type: text/plain; name=a.txt\r\n"+
				"Content-Disposition: inline; filename=a.txt\r\n\r\nIn line"), "a", "Hello\n\nIn line",
		},
		"attachments": {
			"Subject: a\n" + multi("mixed", "\r\nSee", "Content-Type: application/pdf; name=\"=?utf-8?Q?b=C3=A5t.pdf?=\"\r\n"+
				"Content-Disposition: attachment\r\n\r\nx", "Content-Disposition: attachment; filename*0*=utf-8''na%C3%AFve; "+
				"filename*1*=.txt\r\n\r\nno", "Content-Type: image/png\r\n\r\nx",
				"Content-Type: application/zip; name=odd name; x\r\n\r\nx"),
			"a", "See\n\nAttachments: båt.pdf, naïve.txt, image/png, odd",
		},
		"a forwarded one": {
			"Subject: a\n" + multi("mixed", "\r\nSee", "Content-Type: message/rfc822\r\nContent-Disposition: attachment\r\n\r\n"+
				"From: Max <m@a.example>\r\nSubject: Inner\r\n\r\nInside"), "a", "See\n\nFrom: Max <m@a.example>\nSubject: Inner\n\nInside",
		},
		"a digest": {"Subject: a\n" + multi("digest", "\r\nSubject: One\r\n\r\nFirst", "\r\nSubject: Two\r\n\r\nSecond"), "a",
			"Subject: One\n\nFirst\n\nSubject: Two\n\nSecond"},
		"no subject": {"From: a@b.example\nDate: Fri, 20 Nov 2026 10:00:00 +0100\n\nHarbour notes\n\nText.", "Harbour notes",
			"From: a@b.example\nDate: 2026-11-20 10:00 +0100\n\nHarbour notes\n\nText."},
	} {
		doc, raw, err := documenttest.ReadWhole(c.content, document.EML, "dir/x.eml", document.DefaultLimits())
		title := document.TitleOf(doc.Title, raw, document.EML, "dir/x.eml", document.DefaultLimits())
		assert.True(t, err == nil && title == c.title && raw == c.text && doc.Missing == "",
			"%s: title %q, text %q, missing %q, %v", name, title, raw, doc.Missing, err)
	}
}

func TestWhatIsLeftOutOfMailIsNamed(t *testing.T) {
	for content, want := range map[string]string{
		"Subject: a\n" + multi("encrypted", "\r\nVersion: 1"):                                              "encrypted",
		"Subject: a\nContent-Type: application/pkcs7-mime; name=smime.p7m\n\nx":                            "pkcs7-mime",
		"Subject: a\nContent-Type: text/plain; charset=utf-7\n\nHi +Jjo-":                                  "utf-7",
		"Subject: a\n" + multi("mixed", "\r\nx", "Content-Type: text/plain; charset=iso-2022-kr\r\n\r\ny"): "iso-2022-kr",
	} {
		doc, err := readers.Parse(strings.NewReader(content), document.EML, "dir/x.eml", document.DefaultLimits())
		assert.True(t, err == nil && strings.Contains(doc.Missing, want), "%.60q: %q, %v", content, doc.Missing, err)
	}
	for _, content := range []string{"", "\n\n", "no header at all\n", "Received: x\n\n"} {
		_, err := readers.Parse(strings.NewReader(content), document.EML, "dir/x.eml", document.DefaultLimits())
		assert.True(t, fault.Is(err, fault.Unreadable) && strings.Contains(fmt.Sprint(err), "dir/x.eml"),
			"%q: %v", content, err)
	}
}

func readSo(t *testing.T, content string, kind document.Kind, reading document.Reading) (document.Doc, string, error) {
	t.Helper()
	limits := document.DefaultLimits()
	limits.Reading = reading
	return documenttest.ReadWhole(content, kind, "dir/x", limits)
}

// What is attached is listed, under a name of its own each, and read as a file of its name is.
func TestAttachmentsAreListedAndReadByThemselves(t *testing.T) {
	files := []documenttest.Part{
		{Name: "plan.txt", Content: "first plan"}, {Name: "logo.png", Content: "png"}, {Name: "plan.txt", Content: "second plan"},
		{Name: "rows.csv", Content: "id,text\n1,a row\n"}, {Name: "a.txt.gz", Content: documenttest.Gzip("packed notes")},
		{Name: "in.eml", Content: documenttest.MailWith("inner", documenttest.Part{Name: "deep.txt", Content: "deep"})},
		{Name: "p.pdf", Content: documenttest.PDFWith("pages", documenttest.Part{Name: "deep.txt", Content: "deep"})},
		{Name: "none.txt"},
	}
	for kind, content := range map[document.Kind]string{
		document.EML: documenttest.MailWith("s", files...), document.PDF: documenttest.PDFWith("t", files...),
	} {
		own, text, err := readSo(t, content, kind, document.Reading{Attached: true})
		if want := "attachments: logo.png is of a type that is not read, none.txt is empty, damaged or too large"; err != nil ||
			own.Missing != want || !strings.Contains(text, "Attachments: plan.txt, logo.png, plan.txt, rows.csv") {
			t.Errorf("%s: %q, missing %q, %v", kind, text, own.Missing, err)
		}
		if plain, same, err := readSo(t, content, kind, document.Reading{}); err != nil || plain.Missing != "" || same != text {
			t.Errorf("%s, not asked for: %q, missing %q, %v", kind, same, plain.Missing, err)
		}
		list, _, err := readSo(t, content, kind, document.Reading{Attached: true, List: true})
		require.NoError(t, err)
		got := map[string]string{}
		for _, one := range list.Attached {
			doc, text, err := readSo(t, content, kind, document.Reading{Attached: true, Part: one})
			assert.True(t, err == nil && len(doc.Attached) == 1 && doc.Attached[0] == one,
				"%s: %+v gives %+v, %v", kind, one, doc.Attached, err)
			got[one.Name] = strings.Join(strings.Fields(doc.Title+" "+text), " ")
		}
		want := map[string]string{
			"plan.txt": "first plan", "plan.txt#2": "second plan", "rows.csv": "id,text 1,a row", "a.txt.gz": "packed notes",
			"in.eml": "inner See what is attached. Attachments: deep.txt", "p.pdf": "pages Attachments: deep.txt",
		}
		for name, text := range want {
			assert.True(t, got[name] == text, "%s: %s is %q, want %q", kind, name, got[name], text)
		}
		assert.True(t, len(got) == len(want), "%s: %q", kind, got)
		other := list.Attached[0]
		other.Version[0]++
		for _, one := range []document.Attachment{other, {Name: "gone"}} {
			_, _, err := readSo(t, content, kind, document.Reading{Attached: true, Part: one})
			assert.True(t, fault.Is(err, fault.DocumentChanged), "%s: %+v gives %v", kind, one, err)
		}
	}
}

// Types count where names say none, characters are those of the header, and what the text shows is not missing.
func TestAttachmentsOfMailAreWhatTheirHeadersSay(t *testing.T) {
	content := "Subject: a\n" + multi("mixed", "\r\nSee",
		"Content-Type: text/plain; charset=koi8-r; name=note\r\n\r\n\xeb\xcf\xd2\xc1\xc2\xcc\xd8",
		"Content-Type: image/png; name=in.png\r\nContent-ID: <a>\r\n\r\nx",
		"Content-Type: application/pkcs7-signature; name=smime.p7s\r\n\r\nx",
		"Content-Type: application/zip; name=all.zip\r\n\r\nx")
	list, _, err := readSo(t, content, document.EML, document.Reading{Attached: true, List: true})
	require.True(t, err == nil && len(list.Attached) == 1 && list.Attached[0].Name == "note",
		"%+v, %v", list.Attached, err)
	_, text, err := readSo(t, content, document.EML, document.Reading{Attached: true, Part: list.Attached[0]})
	assert.True(t, err == nil && strings.TrimSpace(text) == "Корабль", "%q, %v", text, err)
	own, _, err := readSo(t, content, document.EML, document.Reading{Attached: true})
	want := "attachments: all.zip is of a type that is not read"
	assert.True(t, err == nil && own.Missing == want, "missing %q, %v", own.Missing, err)
}

// What attachments may cost is bounded: their number, and each as a file of its own is.
func TestAttachmentsAreBounded(t *testing.T) {
	var many []documenttest.Part
	for range 150 {
		many = append(many, documenttest.Part{Name: "a.txt", Content: "a"})
	}
	for kind, content := range map[document.Kind]string{
		document.EML: documenttest.MailWith("s", many...), document.PDF: documenttest.PDFWith("t", many...),
	} {
		own, _, err := readSo(t, content, kind, document.Reading{Attached: true})
		list, _, listed := readSo(t, content, kind, document.Reading{Attached: true, List: true})
		if want := "50 attachments behind the first 100 are left out"; err != nil || listed != nil || own.Missing != want ||
			len(list.Attached) != 100 || list.Attached[99].Name != "a.txt#100" {
			t.Errorf("%s: missing %q, %d attachments, %v, %v", kind, own.Missing, len(list.Attached), err, listed)
		}
	}
	bomb := documenttest.Gzip(strings.Repeat("\x00", 8<<20))
	content := documenttest.MailWith("s", documenttest.Part{Name: "bomb.html.gz", Content: bomb})
	_, _, err := readSo(t, content, document.EML,
		document.Reading{Attached: true, Part: document.Attachment{Name: "bomb.html.gz"}})
	assert.True(t, fault.Is(err, fault.TooLarge), "a bomb: %v", err)
}

func TestANotebookIsReadAsMarkdown(t *testing.T) {
	cells := func(cells string) string {
		return `{"nbformat":4,"metadata":{"kernelspec":{"display_name":"Python 3","language":"python"},` +
			`"authors":[{"name":"Ada"}]},"cells":[` + cells + `]}`
	}
	long := strings.Repeat(`"row\n",`, 30) + `"end"`
	for name, c := range map[string]struct{ content, text, missing string }{
		"cells": {
			cells(`{"cell_type":"markdown","source":["# Tides\n","![h](data:image/png;base64,iVBORw0KGgo=) high"]},` +
				`{"cell_type":"code","source":"print(1)","outputs":[{"output_type":"stream","text":["\u001b[31m1\u001b[0m\n"]},` +
				`{"data":{"image/png":"iVBO","text/plain":"<Figure size 1x1>"}},{"data":{"text/html":"<table>"}},` +
				`{"data":{"text/markdown":["**b**"]}},{"ename":"E","evalue":"no","traceback":["x"]}]}`),
			"# Tides\n![h]() high\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\n**b**\n\n```\nE: no\n```\n\n",
			"left out: pictures: 2, outputs of HTML without a text: 1",
		},
		"long output": {cells(`{"cell_type":"code","source":"~` + "```" + `~","outputs":[{"text":[` + long + `]}]}`),
			"````python\n~```~\n````\n\n```\n" + strings.Repeat("row\n", 20) + "…\n```\n\n", ""},
	} {
		doc, text, err := documenttest.ReadWhole(c.content, document.Notebook, "a.ipynb", document.Limits{})
		assert.True(t, err == nil && text == c.text && doc.Missing == c.missing && doc.Meta["language"] == "python" &&
			doc.Meta["author"] == "Ada", "%s: %q, %q, %v, %v", name, text, doc.Missing, doc.Meta, err)
	}
	for _, broken := range []string{`{"nbformat":3,"worksheets":[]}`, `{"cells":]`, `{"nbformat":4,"cells":[{"source":7}]}`} {
		_, err := readers.Parse(strings.NewReader(broken), document.Notebook, "a.ipynb", document.Limits{})
		assert.True(t, fault.Is(err, fault.Unreadable) && strings.Contains(err.Error(), "nbconvert"), "%s: %v", broken, err)
	}
}
