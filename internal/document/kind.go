// Package document reads the file types of a corpus: plain text, Markdown, reStructuredText, HTML, PDF, Word, slides,
// sheets, books of EPUB, mail, JSON, and rows of JSON Lines and CSV, each also gzipped. Text is decoded from UTF-8,
// UTF-16 or Latin-1; binary rubbish is refused.
package document

import (
	"maps"
	"path"
	"slices"
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
const ParserVersion = "parse/5"

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
	".pptx":     PPTX,
	".xlsx":     XLSX,
	".epub":     EPUB,
	".eml":      EML,
	".rst":      RST,
}

// Kinds lists every type that is read, by name.
func Kinds() []Kind { return slices.Compact(slices.Sorted(maps.Values(byExt))) }

// Extensions that are read, for error texts.
const Extensions = ".txt .md .rst .html .pdf .docx .pptx .xlsx .epub .eml .json .jsonl .csv, each also with .gz"

// KindOf tells the type of an object by its key; ok is false for a type that is not read. Hidden files (a part of the
// path starts with a dot) are no documents: hidden is true.
func KindOf(key string) (kind Kind, gz, hidden, ok bool) {
	for _, p := range strings.Split(key, "/") {
		if strings.HasPrefix(p, ".") {
			return "", false, true, false
		}
	}
	kind, gz, ok = TypeOf(key)
	return kind, gz, false, ok
}

// TypeOf is KindOf for a key that may be hidden.
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
