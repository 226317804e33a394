package aliases

// Enrichment is how indexes.*.enrich names that by which a model decides pairs of names.
const Enrichment = "aliases"

// Settings shape the enrichment.
type Settings struct {
	Ask     int     `json:"ask"`     // pairs that a model is asked for, the likeliest first
	Classes int     `json:"classes"` // that are compared, those with the most mentions
	Cosine  float64 `json:"cosine"`  // the least of a pair that is spelled differently
}

// DefaultSettings is what an index has that says nothing else.
var DefaultSettings = Settings{Ask: 500, Classes: 20_000, Cosine: 0.93}
