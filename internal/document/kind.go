// Package document names the file types of a corpus, and says what a reader of one takes and gives: limits, texts,
// titles, headings, places on pages, errors. It reads itself what streams: plain text, Markdown, reStructuredText, and
// rows of JSON Lines, CSV and JSON, each also gzipped. Text is decoded from what its bytes say or look like; binary
// rubbish is refused. Package readers reads all types.
package document

import (
	"bytes"
	"compress/gzip"
	"io"
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
	Notebook Kind = "ipynb"
)

// Kinds are all of them.
var Kinds = []Kind{Text, Markdown, HTML, PDF, DOCX, JSON, JSONL, CSV, PPTX, XLSX, EPUB, EML, RST, Notebook}

// ParserVersion is raised when a parser's output changes; the chunks of a document version are keyed by it.
const ParserVersion = "parse/16"

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
	".ipynb":    Notebook,
}

// Extensions that are read, for error texts.
var Extensions = strings.Join(slices.Sorted(maps.Keys(byExt)), " ") + ", each also with .gz"

// TypeOf returns the type of an object by its key; ok is false for a type that is not read.
func TypeOf(key string) (kind Kind, gz, ok bool) {
	low := strings.ToLower(key)
	if s, cut := strings.CutSuffix(low, ".gz"); cut {
		low, gz = s, true
	}
	kind, ok = byExt[path.Ext(low)]
	return kind, gz, ok
}

// IsNoText reports whether the name of an object says that it is a picture, sound, film, archive, program or font.
func IsNoText(key string) bool { return noText[path.Ext(strings.ToLower(key))] }

var noText = setOf("" +
	".png .jpg .jpeg .gif .bmp .webp .tif .tiff .ico .icns .heic .heif .avif .psd .ai .eps .svg .svgz .raw .cr2 " +
	".nef .dng .mp3 .wav .flac .ogg .oga .m4a .aac .wma .opus .mid .mp4 .m4v .mov .avi .mkv .webm .wmv .flv .mpg " +
	".mpeg .zip .tar .tgz .tbz .txz .bz2 .xz .zst .lz4 .7z .rar .jar .war .whl .apk .deb .rpm .dmg .iso .img .cab " +
	".msi .exe .dll .so .dylib .a .o .obj .lib .class .pyc .pyo .wasm .bin .dat .db .sqlite .sqlite3 .mdb " +
	".parquet .arrow .avro .orc .npy .npz .pkl .h5 .pt .onnx .safetensors .gguf .ttf .otf .woff .woff2 .eot .doc " +
	".xls .ppt .dot .xlsb .odt .ods .odp .rtf .pages .numbers .key .mobi .azw3 .djvu .ps .msg .pst .mbox .p12 " +
	".pfx .jks .der .pem .crt .cer .swp .lock .map")

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.Fields(words) {
		out[word] = true
	}
	return out
}

// IsText reports whether an object of no known type holds text, by its first bytes. An empty one does not.
func IsText(head io.Reader, gz bool) bool {
	if gz {
		unpacked, err := gzip.NewReader(head)
		if err != nil {
			return false
		}
		head = unpacked
	}
	raw, _ := io.ReadAll(io.LimitReader(head, sniff)) // a part of a packed object ends too soon
	return len(bytes.TrimSpace(raw)) > 0 && (wideEncoding(raw) != nil || !isBinary(raw))
}

// HasRows reports whether each row of the object is a document.
func (k Kind) HasRows() bool { return k == JSONL || k == CSV }
