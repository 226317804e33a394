// Package document reads the file types of a corpus: plain text, Markdown, reStructuredText, HTML, PDF, Word, slides,
// sheets, books of EPUB, mail, JSON, and rows of JSON Lines and CSV, each also gzipped. Text is decoded from
// what its bytes say or look like; binary rubbish is refused.
package document

import (
	"path"
	"strings"
)

// Kind is a file type.
type Kind string

// Kinds.
const (
	Text     Kind = "text"
	Markdown Kind = "markdown"
	HTML     Kind = "html"
	PDF      Kind = "pdf"
	DOCX     Kind = "docx"
	JSON     Kind = "json"
	JSONL    Kind = "jsonl"
	CSV      Kind = "csv"
	PPTX     Kind = "pptx"
	XLSX     Kind = "xlsx"
	EPUB     Kind = "epub"
	EML      Kind = "eml"
	RST      Kind = "rst"
)

// ParserVersion is raised when a parser's output changes; the chunks of a document version are keyed by it.
const ParserVersion = "parse/7"

var byExt = map[string]Kind{
	".txt":      Text,
	".text":     Text,
	".md":       Markdown,
	".markdown": Markdown,
	".html":     HTML,
	".htm":      HTML,
	".xhtml":    HTML,
	".pdf":      PDF,
	".docx":     DOCX,
	".json":     JSON,
	".jsonl":    JSONL,
	".ndjson":   JSONL,
	".csv":      CSV,
	".tsv":      CSV,
	".pptx":     PPTX,
	".xlsx":     XLSX,
	".epub":     EPUB,
	".eml":      EML,
	".rst":      RST,
}

// Extensions that are read, for error texts.
const Extensions = ".txt .md .rst .html .pdf .docx .pptx .xlsx .epub .eml .json .jsonl .csv .tsv, each also with .gz"

// TypeOf tells the type of an object by its key; ok is false for a type that is not read.
func TypeOf(key string) (kind Kind, gz, ok bool) {
	low := strings.ToLower(key)
	if s, cut := strings.CutSuffix(low, ".gz"); cut {
		low, gz = s, true
	}
	kind, ok = byExt[path.Ext(low)]
	return kind, gz, ok
}

// HasRows tells whether each row of the object is a document.
func (k Kind) HasRows() bool { return k == JSONL || k == CSV }
