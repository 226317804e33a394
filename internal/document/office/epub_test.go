package office_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/readers"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// bookOf returns a book with a package that says so, and chapters by name.
func bookOf(manifest, spine string, chapters map[string]string) map[string]string {
	files := map[string]string{
		"META-INF/container.xml": `<container><rootfiles><rootfile full-path="OPS/b.opf"/></rootfiles></container>`,
		"OPS/b.opf": `<package><metadata><dc:title xmlns:dc="d">Book</dc:title></metadata><manifest>` + manifest +
			`</manifest><spine>` + spine + `</spine></package>`,
	}
	for name, content := range chapters {
		files[name] = content
	}
	return files
}

const page = "application/xhtml+xml"

func item(id, href, kind string) string {
	return `<item id="` + id + `" href="` + href + `" media-type="` + kind + `"/>`
}

func TestChaptersOfBooksAreFound(t *testing.T) {
	both := `<itemref idref="a"/><itemref idref="b"/>`
	for name, c := range map[string]struct {
		files         map[string]string
		text, missing string
	}{
		"in other case": {
			bookOf(item("a", "Text/One.XHTML", page)+item("b", "two.html", page), both,
				map[string]string{"OPS/text/one.xhtml": "<p>One", "ops/Two.html": "<p>Two"}), "One\n\nTwo", "",
		},
		"with escapes": {
			bookOf(item("a", "a%20b.xhtml", page)+item("b", "%c3%a9.xhtml#x", page), both,
				map[string]string{"OPS/a b.xhtml": "<p>One", "OPS/e\u0301.xhtml": "<p>Two"}), "One\n\nTwo", "",
		},
		"with escapes in the archive": {
			bookOf(item("a", "a b.xhtml", page), `<itemref idref="a"/>`, map[string]string{"OPS/a%20b.xhtml": "<p>One"}), "One", "",
		},
		"of types of EPUB 2": {
			bookOf(item("a", "a.html", "text/x-oeb1-document")+item("b", "b.xml", "application/x-dtbook+xml"), both,
				map[string]string{
					"OPS/a.html": "<p>Loose<br>no end &nbsp; &eacute;<p>Next", "OPS/b.xml": "<dtbook><book><level1><p>Two</p></level1></book></dtbook>",
				}), "Loose\nno end \u00a0 é\n\nNext\n\nTwo", "",
		},
		"of a type by its name": {
			bookOf(item("a", "a.xhtml", "application/octet-stream"), `<itemref idref="a"/>`, map[string]string{"OPS/a.xhtml": "<p>One"}),
			"One", "",
		},
		"by a fallback": {
			bookOf(`<item id="a" href="a.pdf" media-type="application/pdf" fallback="b"/>`+item("b", "b.xhtml", page),
				`<itemref idref="a"/>`, map[string]string{"OPS/b.xhtml": "<p>Two"}), "Two", "",
		},
		"in windows-1251": {
			bookOf(item("a", "a.xhtml", page), `<itemref idref="a"/>`, map[string]string{
				"OPS/a.xhtml": "<?xml version='1.0' encoding='windows-1251'?><html><p>\xca\xe0\xef\xe8\xf2\xe0\xed</p></html>",
			}), "Капитан", "",
		},
		"with a title that is closed at once": {
			bookOf(item("a", "a.xhtml", page), `<itemref idref="a"/>`, map[string]string{
				"OPS/a.xhtml": "<?xml version='1.0'?><html><head><title/></head><body><p>One</p></body></html>",
			}), "One", "",
		},
		"once, and no contents": {
			bookOf(`<item id="n" href="n.xhtml" media-type="`+page+`" properties="nav"/>`+item("a", "a.xhtml", page)+
				item("b", "a.xhtml", page), `<itemref idref="n"/>`+both, map[string]string{
				"OPS/n.xhtml": "<nav>One</nav>", "OPS/a.xhtml": "<h1>One</h1>",
			}), "# One", "",
		},
		"one is not there": {
			bookOf(item("a", "a.xhtml", page)+item("b", "gone.xhtml", page), both, map[string]string{"OPS/a.xhtml": "<p>One"}),
			"One", "gone.xhtml could not be read: it is not there",
		},
		"one is not listed": {bookOf(item("a", "a.xhtml", page), both, map[string]string{"OPS/a.xhtml": "<p>One"}), "One",
			"chapter b"},
		"one is no page": {
			bookOf(item("a", "a.xhtml", page)+item("b", "b.pdf", "application/pdf"), both, map[string]string{
				"OPS/a.xhtml": "<p>One", "OPS/b.pdf": "x",
			}), "One", "b.pdf could not be read: it is of the type application/pdf",
		},
		"one is damaged": {
			bookOf(item("a", "a.xhtml", page)+item("b", "b.xhtml", page), both, map[string]string{
				"OPS/a.xhtml": "\x7fELF\x00\x00\x00", "OPS/b.xhtml": "<p>Two",
			}), "Two", "a.xhtml could not be read",
		},
		"without a container": {
			map[string]string{
				"b.opf":  "<package><manifest>" + item("a", "a.html", page) + "</manifest><spine><itemref idref='a'/></spine></package>",
				"a.html": "<p>One",
			}, "One", "",
		},
		"with a sealed font": {
			bookOf(item("a", "a.xhtml", page), `<itemref idref="a"/>`, map[string]string{"OPS/a.xhtml": "<p>One",
				"META-INF/encryption.xml": `<e><EncryptedData><CipherData><CipherReference URI="OPS/f.otf"/></CipherData></EncryptedData></e>`}),
			"One", "",
		},
		"without a spine": {
			bookOf(item("b", "b.xhtml", page)+item("s", "s.css", "text/css")+item("a", "a.xhtml", page), "",
				map[string]string{"OPS/a.xhtml": "<p>One", "OPS/b.xhtml": "<p>Two", "OPS/s.css": "x"}), "Two\n\nOne", "",
		},
	} {
		doc, text, err := documenttest.ReadWhole(documenttest.ZipOf(c.files), document.EPUB, "dir/b.epub", document.DefaultLimits())
		assert.True(t, err == nil && text == c.text && strings.Contains(doc.Missing, c.missing) &&
			(c.missing != "" || doc.Missing == ""), "%s: %q, missing %q, %v", name, text, doc.Missing, err)
	}
}

func TestBooksThatCannotBeReadSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		code  fault.Code
		why   string
	}{
		"protected": {map[string]string{"META-INF/license.lcpl": "{}"}, fault.Encrypted, "protection"},
		"a sealed chapter": {
			bookOf(item("a", "a.xhtml", page), `<itemref idref="a"/>`, map[string]string{"OPS/a.xhtml": "\x8f\x01",
				"META-INF/encryption.xml": `<e><EncryptedData><CipherData><CipherReference URI="OPS/A.xhtml"/></CipherData></EncryptedData></e>`}),
			fault.Encrypted, "protection",
		},
		"without any chapter": {bookOf(item("a", "gone.xhtml", page), `<itemref idref="a"/>`, nil), fault.Unreadable,
			"gone.xhtml"},
		"without a package": {map[string]string{"a.html": "<p>One"}, fault.Unreadable, "no chapter"},
	} {
		book := strings.NewReader(documenttest.ZipOf(c.files))
		_, err := readers.Parse(book, document.EPUB, "dir/b.epub", document.DefaultLimits())
		assert.True(t, fault.Is(err, c.code) && strings.Contains(err.Error(), c.why), "%s: %v", name, err)
	}
}

func TestPartsThatUnpackToTooMuchTogetherAreRefused(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Bytes = 3000
	parts := []documenttest.Part{{Name: "META-INF/container.xml", Content: `<c><rootfile full-path="b.opf"/></c>`}}
	manifest, spine := "", ""
	for i := range 4 {
		manifest += fmt.Sprintf(`<item id="%d" href="%d.html" media-type="text/html"/>`, i, i)
		spine += fmt.Sprintf(`<itemref idref="%d"/>`, i)
		parts = append(parts, documenttest.Part{Name: fmt.Sprintf("%d.html", i), Content: fmt.Sprintf("<p>%01000d", i)})
	}
	parts = append(parts, documenttest.Part{Name: "b.opf", Content: "<p>" + manifest + spine + "</p>"})
	_, _, err := documenttest.ReadWhole(documenttest.Zip(parts...), document.EPUB, "dir/x", limits)
	assert.True(t, fault.Is(err, fault.TooLarge), "%v", err)
}
