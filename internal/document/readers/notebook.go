package readers

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

// notebook is what is read of a file of Jupyter (nbformat 4).
type notebook struct {
	Format   int `json:"nbformat"`
	Metadata struct {
		Title   string `json:"title"`
		Authors []struct {
			Name string `json:"name"`
		} `json:"authors"`
		Kernel struct {
			Name     string `json:"display_name"`
			Language string `json:"language"`
		} `json:"kernelspec"`
		Language struct {
			Name string `json:"name"`
		} `json:"language_info"`
	} `json:"metadata"`
	Cells []struct {
		Type    string   `json:"cell_type"`
		Source  cellText `json:"source"`
		Outputs []struct {
			Text  cellText                  `json:"text"`
			Data  map[string]jsontext.Value `json:"data"`
			Name  string                    `json:"ename"`
			Value string                    `json:"evalue"`
		} `json:"outputs"`
	} `json:"cells"`
}

// cellText is a text, or a list of its lines.
type cellText string

// UnmarshalJSON takes either form.
func (c *cellText) UnmarshalJSON(raw []byte) error {
	var lines []string
	if jsontext.Value(raw).Kind() == '[' {
		if err := json.Unmarshal(raw, &lines, document.Lenient); err != nil {
			return err
		}
	} else {
		lines = []string{""}
		if err := json.Unmarshal(raw, &lines[0], document.Lenient); err != nil {
			return err
		}
	}
	*c = cellText(document.ShownText(strings.ReplaceAll(strings.Join(lines, ""), "\r\n", "\n")))
	return nil
}

// Bounds of what is read of one output of a cell: what is longer repeats what a program printed.
const (
	outputLines = 20
	outputRunes = 1_500
)

// dataOf is a file written into an address.
var dataOf = regexp.MustCompile(`data:[\w.+-]+/[\w.+-]+(?:;[\w=.-]+)*;base64,[A-Za-z0-9+/=]*`)

// parseNotebook reads a notebook as Markdown: its text, its code in fences, and behind each cell the texts that it put
// out, shortened. Pictures and pages that it put out without a text are counted.
func parseNotebook(raw []byte, object string, limits document.Limits) (document.Doc, error) {
	const advice = "save it again with Jupyter, or convert it: jupyter nbconvert --to notebook"
	if err := document.CheckJSON(raw, object, "the notebook is not one JSON value: "+advice, limits); err != nil {
		return document.Doc{}, err
	}
	var book notebook
	err := json.Unmarshal(raw, &book, document.Lenient)
	if err == nil && (book.Format < 4 || book.Cells == nil) {
		err = fmt.Errorf("it is not a notebook of format 4 (nbformat is %d)", book.Format)
	}
	if err != nil {
		return document.Doc{}, fault.Unreadable.At("read", object).Because(err).Advise(advice)
	}
	language := cmp.Or(book.Metadata.Language.Name, book.Metadata.Kernel.Language)
	var out notebookText
	for _, cell := range book.Cells {
		source := out.withoutData(string(cell.Source))
		if cell.Type == "code" {
			out.writeFence(language, source)
		} else {
			out.writeBlock(source)
		}
		for _, one := range cell.Outputs {
			switch plain, kind := textOf(one.Data); {
			case one.Name != "":
				out.writeFence("", document.ShownText(one.Name+": "+one.Value))
			case one.Text != "":
				out.writeFence("", out.shortenOutput(string(one.Text)))
			case kind == "text/markdown":
				out.writeBlock(out.shortenOutput(plain))
			case !nameOfObject.MatchString(plain):
				out.writeFence("", out.shortenOutput(plain))
			}
			out.countOutputs(one.Data)
		}
		if int64(out.Len()) > limits.Text {
			return document.Doc{}, limits.OverText(object)
		}
	}
	meta := map[string]string{}
	for key, value := range map[string]string{"language": language, "kernel": book.Metadata.Kernel.Name} {
		if value = document.ShownText(value); value != "" {
			meta[key] = document.CutTitle(value, limits.Title)
		}
	}
	var authors []string
	for _, author := range book.Metadata.Authors {
		authors = append(authors, document.ShownText(author.Name))
	}
	if len(authors) > 0 {
		meta["author"] = document.CutTitle(strings.Join(authors, ", "), limits.Title)
	}
	return document.Doc{
		Title: document.CutTitle(document.ShownText(book.Metadata.Title), limits.Title), Meta: meta,
		Text: strings.NewReader(out.String()), Missing: out.describeMissing(),
	}, nil
}

// nameOfObject is what stands for an object that has no text: <Figure size 640x480 with 1 Axes>.
var nameOfObject = regexp.MustCompile(`^\s*(?:<[^<>]*>)?\s*$`)

// textOf returns the text of an output that has several forms, and its type.
func textOf(data map[string]jsontext.Value) (shown, kind string) {
	for _, kind = range []string{"text/markdown", "text/plain"} {
		var text cellText
		if err := text.UnmarshalJSON(data[kind]); err == nil && text != "" {
			return string(text), kind
		}
	}
	return "", ""
}

// notebookText writes the text of a notebook and counts what is left out.
type notebookText struct {
	strings.Builder
	pictures, pages int
}

func (n *notebookText) writeBlock(text string) {
	if text = strings.TrimSpace(text); text != "" {
		n.WriteString(text + "\n\n")
	}
}

// writeFence writes code or what it put out. The fence is longer than any within.
func (n *notebookText) writeFence(language, text string) {
	if text = strings.Trim(text, "\n"); strings.TrimSpace(text) == "" {
		return
	}
	marks := "```"
	for strings.Contains(text, marks) {
		marks += "`"
	}
	n.writeBlock(marks + language + "\n" + text + "\n" + marks)
}

// withoutData takes files out of a text that are written into it.
func (n *notebookText) withoutData(text string) string {
	n.pictures += len(dataOf.FindAllString(text, -1))
	return dataOf.ReplaceAllString(text, "")
}

// shortenOutput returns the beginning of an output.
func (n *notebookText) shortenOutput(text string) string {
	text = strings.TrimRight(n.withoutData(text), "\n ")
	lines := strings.SplitAfterN(text, "\n", outputLines+1)
	shown := []rune(strings.Join(lines[:min(len(lines), outputLines)], ""))
	if len(lines) > outputLines || len(shown) > outputRunes {
		return strings.TrimRight(string(shown[:min(len(shown), outputRunes)]), "\n") + "\n…"
	}
	return text
}

// countOutputs notes a picture, and a page that has no form as a text.
func (n *notebookText) countOutputs(data map[string]jsontext.Value) {
	text, _ := textOf(data)
	picture := false
	for kind := range data {
		picture = picture || strings.HasPrefix(kind, "image/")
	}
	if picture {
		n.pictures++
	} else if data["text/html"] != nil && nameOfObject.MatchString(text) {
		n.pages++
	}
}

// describeMissing says what is left out; empty: nothing is.
func (n *notebookText) describeMissing() string {
	var out []string
	for _, left := range []struct {
		count int
		what  string
	}{{n.pictures, "pictures"}, {n.pages, "outputs of HTML without a text"}} {
		if left.count > 0 {
			out = append(out, fmt.Sprintf("%s: %d", left.what, left.count))
		}
	}
	if out == nil {
		return ""
	}
	return "left out: " + strings.Join(out, ", ")
}
