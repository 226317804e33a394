package document_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// multi returns a body of several parts, each with its header.
func multi(kind string, parts ...string) string {
	return "Content-Type: multipart/" + kind + "; boundary=\"b 1\"\r\n\r\nPreamble\r\n--b 1\r\n" +
		strings.Join(parts, "\r\n--b 1\r\n") + "\r\n--b 1--\r\nEpilogue\r\n"
}

// Mail is read as mail programs show it, also where it breaks the rules that they do not keep.
func TestMailIsReadAsItIsShown(t *testing.T) {
	in := func(charset, text string) string {
		out, err := encodingOf(t, charset).NewEncoder().String(text)
		require.NoError(t, err)
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
		doc, err := document.Parse(strings.NewReader(c.content), document.EML, "dir/x.eml", document.DefaultLimits())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		raw, err := io.ReadAll(doc.Text)
		title := document.TitleOf(doc.Title, string(raw), document.EML, "dir/x.eml", document.DefaultLimits())
		assert.True(t, err == nil && title == c.title && string(raw) == c.text && doc.Missing == "",
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
		doc, err := document.Parse(strings.NewReader(content), document.EML, "dir/x.eml", document.DefaultLimits())
		assert.True(t, err == nil && strings.Contains(doc.Missing, want), "%.60q: %q, %v", content, doc.Missing, err)
	}
	for _, content := range []string{"", "\n\n", "no header at all\n", "Received: x\n\n"} {
		_, err := document.Parse(strings.NewReader(content), document.EML, "dir/x.eml", document.DefaultLimits())
		assert.True(t, fault.Is(err, fault.Unreadable) && strings.Contains(fmt.Sprint(err), "dir/x.eml"),
			"%q: %v", content, err)
	}
}
