package run

import (
	"github.com/unweaver/unweaver/internal/core"
)

// Frozen is what the vectors of a build depend on. The fingerprints are fixed by the plan; the built-in embedder weighs
// words by how many chunks hold them, and its table is part of its fingerprint, which names the collections: those are
// fixed once the chunks are there.
type Frozen struct {
	Class       core.Fingerprint `json:"class"`
	Chunk       core.Fingerprint `json:"chunk"`
	Collections core.Collections `json:"collections"`
	Import      Importing        `json:"import"`
	IDF         *core.Segment    `json:"idf,omitempty"`
	Spec        string           `json:"spec,omitempty"` // Run.Speak of the language that was found; empty: none was to be
}

// Importing says which collections are filled by bulk import. Only a collection that no generation names is: what lies
// in it then is left from an abandoned build and may be dropped.
type Importing struct {
	Classes bool `json:"classes"`
	Chunks  bool `json:"chunks"`
}
