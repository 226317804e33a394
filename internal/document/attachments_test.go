package document_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func readSo(t *testing.T, content string, kind document.Kind, reading document.Reading) (document.Doc, string, error) {
	t.Helper()
	limits := document.DefaultLimits()
	limits.Reading = reading
	doc, err := document.Parse(strings.NewReader(content), kind, "dir/x", limits)
	if err != nil {
		return doc, "", err
	}
	text, err := io.ReadAll(doc.Text)
	return doc, string(text), err
}

// What is attached is listed, under a name of its own each, and read as a file of its name is.
func TestAttachmentsAreListedAndReadByThemselves(t *testing.T) {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	_, _ = zipped.Write([]byte("packed notes")) // to memory
	_ = zipped.Close()
	files := []documenttest.Part{
		{Name: "plan.txt", Content: "first plan"}, {Name: "logo.png", Content: "png"}, {Name: "plan.txt", Content: "second plan"},
		{Name: "rows.csv", Content: "id,text\n1,a row\n"}, {Name: "a.txt.gz", Content: packed.String()},
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
			if got[name] != text {
				t.Errorf("%s: %s is %q, want %q", kind, name, got[name], text)
			}
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
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	_, _ = packed.Write(make([]byte, 8<<20)) // to memory
	_ = packed.Close()
	content := documenttest.MailWith("s", documenttest.Part{Name: "bomb.html.gz", Content: bomb.String()})
	_, _, err := readSo(t, content, document.EML,
		document.Reading{Attached: true, Part: document.Attachment{Name: "bomb.html.gz"}})
	assert.True(t, fault.Is(err, fault.TooLarge), "a bomb: %v", err)
}
