package document_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func TestWhatOfficeDocumentsGive(t *testing.T) {
	for name, c := range map[string]struct {
		kind              document.Kind
		content           string
		title, text, meta string
	}{
		"docx with styles, a list and a table": {
			document.DOCX, documenttest.WordWithStyles(), "The report",
			"# The report\n\n# Part\n\n    # of flights: 7\n\n## Section\n\n- one\n  - two\n\nafter\n\n| Year | Flights |\n" +
				"| 1990 | 12 |\n\nonce", "map[]",
		},
		"pptx in the order of the deck": {document.PPTX, documenttest.Slides(), "",
			"# The start\n\nFirst point\n  - below it\n\nNotes: Say hello\n\f\n# The end\n\n| Year | Flights |\n\f\n", "map[]"},
		"xlsx with dates and gaps": {document.XLSX, documenttest.Workbook(), "",
			"# Flights\n\n| Airport | Date |  | Open |\n| Oslo | 2007-11-29 | 0.1 | TRUE |\n\n# Notes\n\n| 7 |", "map[]"},
		"epub in the order of reading": {document.EPUB, documenttest.Book(), "A book",
			"# Chapter one\n\nOne.\n\n## Later\n\nTwo.", "map[author:A. Writer]"},
		"eml, the plain form": {
			document.EML, documenttest.Mail(), "News €",
			"From: Zoë <zoe@a.example>\nTo: b@a.example\nDate: 2026-11-20 10:00 +0100\n\nZürich is open.\n\n" +
				"Attachments: plan.pdf",
			"map[attachments:plan.pdf date:2026-11-20T09:00:00Z from:Zoë <zoe@a.example> to:b@a.example]",
		},
	} {
		title, text, meta, err := parse(c.content, c.kind)
		assert.True(t, err == nil && title == c.title && text == c.text && fmt.Sprint(meta) == c.meta,
			"%s: title %q, text %q, meta %v, %v", name, title, text, meta, err)
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
	_, _, _, err := parseWithin(documenttest.Zip(parts...), document.EPUB, limits)
	assert.True(t, fault.Is(err, fault.TooLarge), "%v", err)
}

func TestFrontMatterBecomesTitleAndMetadata(t *testing.T) {
	for name, c := range map[string]struct{ content, title, text, meta string }{
		"yaml": {"---\ntitle: A page\ndate: 2026-11-20\ntags: [a, b]\nnested: {x: 1}\ndraft: true\n---\n# Head\n", "A page",
			"# Head\n", "map[date:2026-11-20 draft:true tags:a, b]"},
		"toml": {"+++\ntitle = \"T\"\ndate = 2026-11-20\ntags = [\"x\"]\n+++\ntext", "T", "text",
			"map[date:2026-11-20 tags:x]"},
		"json":                       {"---json\n{\n\t\"title\": \"T\",\n\t\"n\": 1\n}\n---\ntext", "T", "text", "map[n:1]"},
		"a rule, no front matter":    {"---\n\nSome text\n\n---\nmore", "", "---\n\nSome text\n\n---\nmore", "map[]"},
		"no end":                     {"---\ntitle: x\n", "", "---\ntitle: x\n", "map[]"},
		"no YAML":                    {"---\na: [\n---\ntext", "", "---\na: [\n---\ntext", "map[]"},
		"anchors":                    {"---\na: &x 1\nb: *x\n---\ntext", "", "---\na: &x 1\nb: *x\n---\ntext", "map[]"},
		"only in the first line":     {"\n---\ntitle: x\n---\n", "", "\n---\ntitle: x\n---\n", "map[]"},
		"front matter and no text":   {"---\ntitle: x\n---\n", "x", "", "map[]"},
		"lines that end in a return": {"---\r\ntitle: x\r\n---\r\ntext", "x", "text", "map[]"},
	} {
		title, text, meta, err := parse(c.content, document.Markdown)
		assert.True(t, err == nil && title == c.title && text == c.text && fmt.Sprint(meta) == c.meta,
			"%s: title %q, text %q, meta %v, %v", name, title, text, meta, err)
	}
	title, text, _, _ := parse("---\ntitle: x\n---\n", document.Text)
	assert.True(t, title == "" && text != "", "plain text has no front matter: %q %q", title, text)
}

func TestThePageOfAHTMLSaysWhoWroteItWhen(t *testing.T) {
	title, _, meta, err := parse(`<head><meta property="og:title" content="Shown">`+
		`<meta name="author" content="A. Writer">`+
		`<meta name="keywords" content="a, b"><meta property="article:published_time" content="2026-11-20"></head>`+
		`<body><meta name="author" content="no">x`, document.HTML)
	if err != nil || title != "Shown" || fmt.Sprint(meta) != "map[author:A. Writer date:2026-11-20 keywords:a, b]" {
		t.Errorf("%q %v %v", title, meta, err)
	}
}
