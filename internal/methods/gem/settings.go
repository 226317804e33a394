package gem

// Name is how queries name the method, and indexes.*.enrich the enrichment that it reads.
const Name = "gem"

// Settings shape the enrichment.
type Settings struct {
	Questions  int `json:"questions"`  // that a chunk is asked for; 0: chunks are compared by their texts
	Themes     int `json:"themes"`     // the most
	Neighbours int `json:"neighbours"` // that each chunk brings into the similarity graph
}

// DefaultSettings is what an index has that says nothing else.
var DefaultSettings = Settings{Questions: 5, Themes: 12, Neighbours: 20}
