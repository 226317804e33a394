package api

import (
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// Indexes is the list of what is published.
type Indexes struct {
	Indexes []IndexInfo `json:"indexes"`
}

// IndexInfo is one index of the list.
type IndexInfo struct {
	Index       string              `json:"index"`
	State       string              `json:"state" enum:"published,damaged" doc:"damaged: it cannot be read"`
	Generation  string              `json:"generation"`
	Release     int64               `json:"release"`
	Documents   int64               `json:"documents"`
	Chunks      int64               `json:"chunks"`
	Classes     int64               `json:"classes"`
	ContentHash string              `json:"content_hash"`
	Models      corpus.ModelSummary `json:"models"`
}

// Generations of an index, the newest first.
type Generations struct {
	Index       string                `json:"index"`
	Generations []artifact.Generation `json:"generations"`
}

// Source says which generation an answer comes from.
type Source struct {
	Index      string `json:"index"`
	Generation string `json:"generation"`
}

func sourceOf(generation *retrieve.Generation) Source {
	return Source{generation.Manifest.Index, generation.Manifest.Generation}
}

// Entities is a list of entities by name.
type Entities struct {
	Source
	Entities []EntitySummary `json:"entities"`
}

// EntitySummary is one entity of a list.
type EntitySummary struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	ChunkTotal int64  `json:"chunk_total"`
}

// EntityDetail is one entity.
type EntityDetail struct {
	Source
	EntitySummary
	Description string `json:"description"`
	Mentions    int64  `json:"mentions"`
}

// EntityChunks is a page of the chunks that mention an entity; an empty cursor is the end.
type EntityChunks struct {
	Source
	Chunks     []Chunk `json:"chunks"`
	Cursor     string  `json:"cursor"`
	ChunkTotal int64   `json:"chunk_total"`
}

// ChunkDetail is one chunk with what was extracted from it.
type ChunkDetail struct {
	Source
	Chunk    Chunk     `json:"chunk"`
	Mentions []Mention `json:"mentions"`
	Fallback bool      `json:"fallback" doc:"nothing was extracted: the mention is the title's"`
}

// DocumentText is a part of a document's decoded text, in code points.
type DocumentText struct {
	Source
	Document string `json:"document"`
	Version  string `json:"version"`
	Stale    bool   `json:"stale,omitempty" doc:"of an earlier version: the document cannot be read now"`
	Title    string `json:"title"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	Length   int    `json:"length"`
	Text     string `json:"text"`
}
