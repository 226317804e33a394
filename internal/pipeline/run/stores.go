package run

// Proven is stores.json of an index: which identity each store had when everything that the current generation names
// was last known to be in it. A store with another identity lost its memory, or is another one.
type Proven struct {
	Manifest string `json:"manifest"`
	Records  string `json:"records"`
	Classes  string `json:"classes"` // collection of class vectors
	Chunks   string `json:"chunks"`  // collection of chunk vectors
}
