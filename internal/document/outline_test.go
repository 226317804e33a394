package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
)

// outlineOf gives the outline of a text that comes in pieces of so many bytes: "start-end:level:text", and pages.
func outlineOf(kind document.Kind, text string, size int) (string, []int) {
	outline := document.NewOutline(kind)
	for text != "" {
		n := min(size, len(text))
		for n < len(text) && text[n]&0xc0 == 0x80 {
			n++
		}
		outline.Add(text[:n])
		text = text[n:]
	}
	headings, pages := outline.End()
	var out []string
	for _, h := range headings {
		out = append(out, fmt.Sprintf("%d-%d:%d:%s", h.Start, h.End, h.Level, h.Text))
	}
	return strings.Join(out, " "), pages
}

// Promises: 98.
func TestHeadingsOfATextHoweverItIsCut(t *testing.T) {
	for name, c := range map[string]struct {
		kind       document.Kind
		text, want string
	}{
		"marks":         {document.Markdown, "# Öne\n\ntext\n## Two ##\n#no\n    # code\n", "0-7:1:Öne 12-22:2:Two"},
		"lines below":   {document.Markdown, "a\n\nThe title\n=====\n\nSub\n---\ntext", "3-20:1:The title 20-28:2:Sub"},
		"code":          {document.Markdown, "```sh\n# no\n```\n~~~\n# no\n```\n~~~\n# yes", "32-37:1:yes"},
		"a rule":        {document.Markdown, "one\ntwo\n---\n\n---\n- item\n---\n", ""},
		"links, marks":  {document.Markdown, "# [A **b**](u) `c` {#id}\nx", "0-25:1:A b c"},
		"html":          {document.Markdown, "<h1 align=\"center\">Title <b>x</b></h1>\n", "0-39:1:Title x"},
		"of plain text": {document.Text, "# Head\n", ""},
		"restructured": {document.RST, "====\nDoc\n====\n\nPart\n----\ntext\n\nOther\n-----\n",
			"0-15:1:Doc 15-25:2:Part 31-43:2:Other"},
		"headings at ends": {document.Markdown, "# One\n## Two", "0-6:1:One 6-12:2:Two"},
		"a long line":      {document.Markdown, "# " + strings.Repeat("x", 5000) + "\n# a\n", "5003-5007:1:a"},
	} {
		for _, size := range []int{1, 3, 1 << 20} {
			got, _ := outlineOf(c.kind, c.text, size)
			assert.True(t, got == c.want, "%s, pieces of %d bytes:\ngot  %s\nwant %s", name, size, got, c.want)
		}
	}
}

// Promises: 98.
func TestPagesOfAText(t *testing.T) {
	for name, c := range map[string]struct {
		kind document.Kind
		text string
		want string
	}{
		"two":            {document.PDF, "one\n\f\ntwo\n\f\n", "[0 6]"},
		"an empty one":   {document.PDF, "\n\f\n\n\f\ntwo\n\f\n", "[0 3 6]"},
		"one":            {document.PDF, "one\n\f\n", "[0]"},
		"old pages":      {document.PDF, "one\n\ntwo\n\n", "[]"}, // what an earlier version kept has no pages
		"of plain text":  {document.Text, "one\n\f\ntwo\n\f\n", "[]"},
		"with a heading": {document.PPTX, "# a\n\n\f\n# b\n\f\n", "[0 7]"},
	} {
		for _, size := range []int{1, 1 << 20} {
			_, pages := outlineOf(c.kind, c.text, size)
			assert.True(t, fmt.Sprint(pages) == c.want, "%s: %v, want %s", name, pages, c.want)
		}
	}
}
