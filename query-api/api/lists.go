package api

import (
	"time"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/retrieve/snippet"
	"github.com/unweaver/unweaver/query-api/served"
)

// Indexes is a page of what is published, by name.
type Indexes struct {
	Items      []served.IndexInfo `json:"items"`
	NextCursor string             `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// Generations is a page of the generations of an index, the one that is served first, then the newest first.
type Generations struct {
	Index      string                `json:"index"`
	Items      []artifact.Generation `json:"items"`
	NextCursor string                `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// Source says which generation an answer comes from.
type Source struct {
	Index      string `json:"index"`
	Generation string `json:"generation"`
}

func sourceOf(generation *retrieve.Generation) Source {
	return Source{generation.Manifest.Index, generation.Manifest.Generation}
}

// Entities is a page of entities by name.
type Entities struct {
	Source
	Items      []EntitySummary `json:"items"`
	NextCursor string          `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// EntitySummary is one entity of a list.
type EntitySummary struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Type       string `json:"type,omitempty" doc:"that most of its mentions have; absent: none has one"`
	ChunkTotal int64  `json:"chunk_total"`
}

// EntityDetail is one entity.
type EntityDetail struct {
	Source
	EntitySummary
	Description string `json:"description"`
	Mentions    int64  `json:"mentions"`
}

// EntityChunks is a page of the chunks that mention an entity.
type EntityChunks struct {
	Source
	Items      []answer.Passage `json:"items"`
	NextCursor string           `json:"next_cursor" doc:"of the next page; empty: this is the last"`
	ChunkTotal int64            `json:"chunk_total"`
}

// ChunkDetail is one chunk with what was extracted from it.
type ChunkDetail struct {
	Source
	Chunk    answer.Passage   `json:"chunk"`
	Mentions []answer.Mention `json:"mentions"`
	Fallback bool             `json:"fallback" doc:"nothing was extracted: the title is used as the mention"`
}

// Documents is a page of the documents of a generation, in the byte order of their keys.
type Documents struct {
	Source
	Items      []DocumentSummary `json:"items"`
	NextCursor string            `json:"next_cursor" doc:"of the next page; empty: this is the last"`
}

// DocumentSummary is one document of a list.
type DocumentSummary struct {
	Document string            `json:"document" doc:"its key: the path in the corpus, or object#id of a row"`
	Version  string            `json:"version" doc:"SHA-256 of the content that is served"`
	Stale    bool              `json:"stale,omitempty" doc:"of an earlier version: the document cannot be read now"`
	Title    string            `json:"title"`
	Type     string            `json:"type" doc:"type as which it was read"`
	Metadata map[string]string `json:"metadata"`
	Modified *time.Time        `json:"modified,omitempty" doc:"time of modification according to the corpus"`
	Length   int               `json:"length" doc:"of the decoded text, in code points"`
	Chunks   int               `json:"chunks"`
	Problem  string            `json:"problem,omitempty" doc:"error code, if its newest content is not served"`
}

// DocumentDetail is one document.
type DocumentDetail struct {
	Source
	DocumentSummary
	Object string `json:"object" doc:"the object of the corpus that contains it"`
	Bytes  int64  `json:"bytes"`
	Found  string `json:"found_version,omitempty" doc:"if stale: SHA-256 of the newer content, which is not served"`
}

// DocumentText is a part of a document's decoded text, in code points.
type DocumentText struct {
	Source
	Document string            `json:"document"`
	Version  string            `json:"version"`
	Stale    bool              `json:"stale,omitempty" doc:"of an earlier version: the document cannot be read now"`
	Title    string            `json:"title"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Start    int               `json:"start"`
	End      int               `json:"end"`
	Length   int               `json:"length"`
	Text     string            `json:"text"`

	Markup []snippet.Span `json:"markup,omitempty" doc:"code points of text that are marks or tags, the first 20,000"`
}
