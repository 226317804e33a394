package config

import (
	"time"

	"github.com/unweaver/unweaver/internal/document"
)

// Limits of a process, whatever is asked of it.
type Limits struct {
	Document DocumentLimits `yaml:"document"`
}

// DocumentLimits bound what reading one document of a corpus may cost.
type DocumentLimits struct {
	Bytes   int64 `yaml:"bytes"`
	Ratio   int64 `yaml:"ratio"`
	Text    int64 `yaml:"text"`
	Title   int   `yaml:"title"`   // runes
	Row     int64 `yaml:"row"`     // bytes
	Spans   int   `yaml:"spans"`   // cells
	Nesting int   `yaml:"nesting"` // levels
	Pages   int   `yaml:"pages"`
	Seconds int   `yaml:"seconds"`
	Memory  int64 `yaml:"memory"` // bytes
}

// DocumentLimits returns the configured limits as parsers take them.
func (c *Config) DocumentLimits() document.Limits {
	l := c.Limits.Document
	return document.Limits{
		Bytes: l.Bytes, Ratio: l.Ratio, Text: l.Text, Title: l.Title, Row: l.Row, Spans: l.Spans,
		Nesting: l.Nesting, Pages: l.Pages, Time: time.Duration(l.Seconds) * time.Second, Memory: l.Memory,
	}
}

func defaultLimits() Limits {
	l := document.DefaultLimits()
	return Limits{Document: DocumentLimits{
		Bytes: l.Bytes, Ratio: l.Ratio, Text: l.Text, Title: l.Title, Row: l.Row, Spans: l.Spans,
		Nesting: l.Nesting, Pages: l.Pages, Seconds: int(l.Time / time.Second), Memory: l.Memory,
	}}
}

// limitKeys describe the limits. What is above one is left out of the build and named, but for a title, which is cut.
var limitKeys = []key{
	{
		path: "limits.document.bytes",
		meaning: "an HTML, JSON, PDF, Word, PowerPoint, Excel, EPUB or mail file, and each part of one, unpacked; other " +
			"types are streamed",
		unit: "bytes", example: "67108864", rule: requireRange(1<<10, 4<<30),
	},
	{
		path:    "limits.document.ratio",
		meaning: "unpacked to packed bytes of gzip, PDF, Office files and EPUB, once more than a mebibyte came out",
		unit:    "bytes a byte", example: "100", rule: requireRange(2, 1e6),
	},
	{
		path: "limits.document.text", meaning: "text of one document", unit: "bytes", example: "33554432",
		rule: requireRange(1<<10, 4<<30),
	},
	{
		path: "limits.document.title", meaning: "length of a title; a longer one is cut", unit: "characters",
		example: "200", rule: requireRange(1, 10_000),
	},
	{
		path:    "limits.document.row",
		meaning: "one row of a .jsonl or .csv, and what stands between two tags of a .docx",
		unit:    "bytes", example: "1048576", rule: requireRange(1<<10, 1<<30),
	},
	{
		path: "limits.document.spans", meaning: "cells that colspan and rowspan add to the tables of one HTML file",
		unit: "cells", example: "100000", rule: requireRange(1, 1e8),
	},
	{
		path:    "limits.document.nesting",
		meaning: "depth of elements in elements, values in values, objects in objects; of HTML 512 at most",
		unit:    "levels", example: "200", rule: requireRange(1, 10_000),
	},
	{
		path: "limits.document.pages", meaning: "pages of one PDF", unit: "pages", example: "5000",
		rule: requireRange(1, million),
	},
	{
		path: "limits.document.seconds", meaning: "reading one document, by the clock and of a processor; " +
			"of types that are parsed whole (streamed ones end by text)",
		unit: "seconds", example: "20", rule: requireRange(1, 600),
	},
	{
		path: "limits.document.memory", meaning: "memory that reading one document may take, of types that are " +
			"parsed whole", unit: "bytes",
		example: "268435456", rule: requireRange(64<<20, 64<<30),
	},
}
