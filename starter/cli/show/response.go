package show

import (
	"encoding/json"
)

// Response is what the command line reads of a query's response.
type Response struct {
	Index      string `json:"index"`
	Generation string `json:"generation"`
	Method     string `json:"method"`
	Rule       string `json:"rule"`
	Models     string `json:"models"`
	Reason     string `json:"reason"`
	ReasonText string `json:"reason_text"`
	FilterText string `json:"filter_text"`
	// Confidence that one of the first five chunks says it; nil where it is not known.
	Confidence *float64 `json:"confidence"`
	Chunks     []Chunk  `json:"chunks"`
	Entities   []struct {
		ID         string  `json:"id"`
		Name       string  `json:"name"`
		Type       string  `json:"type"`
		Similarity float64 `json:"similarity"`
		Rank       int     `json:"rank"`
		ChunkTotal int64   `json:"chunk_total"`
	} `json:"entities"`
	Answer *struct {
		Kind       string   `json:"kind"`
		Confidence *float64 `json:"confidence"` // in what is quoted
		Text       string   `json:"text"`
		Citations  []string `json:"citations"`
		Reason     string   `json:"reason"`
	} `json:"answer"`
	Explain json.RawMessage `json:"explain"`
	Indexes []struct {
		Index   string          `json:"index"`
		Code    string          `json:"code"`
		Method  string          `json:"method"`
		Explain json.RawMessage `json:"explain"`
	} `json:"indexes"`
	Timings struct {
		Total float64 `json:"total"`
	} `json:"timings_ms"`
}

// Chunk is a chunk of a response.
type Chunk struct {
	Index    string   `json:"index"` // empty: one index was asked
	ID       string   `json:"id"`
	Document string   `json:"document"`
	Title    string   `json:"title"`
	Heading  []string `json:"heading"`
	Page     int      `json:"page"` // 0: the document has none
	PageEnd  int      `json:"page_end"`
	Start    int      `json:"start"`
	End      int      `json:"end"`
	Text     string   `json:"text"`
	Snippet  *struct {
		Start int `json:"start"` // code points of Text
		End   int `json:"end"`
	} `json:"snippet"`
	Highlights []struct {
		Start int `json:"start"`
		End   int `json:"end"`
	} `json:"highlights"`
	Markup []struct {
		Start int `json:"start"`
		End   int `json:"end"`
	} `json:"markup"`
	Score    float64      `json:"score"`
	Rank     int          `json:"rank"`
	Filled   bool         `json:"filled"`
	Stale    bool         `json:"stale"`
	Newer    []string     `json:"superseded_by"`
	Entities []entityName `json:"entities"`
}

type entityName struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}
