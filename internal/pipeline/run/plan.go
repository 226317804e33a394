package run

import (
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/verify"
)

// Plan is what is fixed for the rest of the run before its first stage.
type Plan struct {
	Parent       string      `json:"parent"` // sha256 of the manifest; empty: none
	ParentDocs   int64       `json:"parent_documents"`
	ParentChunks int64       `json:"parent_chunks,omitempty"`
	Foreign      bool        `json:"foreign,omitempty"` // the parent is of another corpus
	Epoch        int64       `json:"epoch"`
	Family       string      `json:"family,omitempty"` // the base that the index is a branch of
	Plan         plan.Result `json:"plan"`
	Rebuild      bool        `json:"rebuild,omitempty"` // nothing of the parent is re-used but its table of word weights
	Damage       []Damage    `json:"damage,omitempty"`  // of the parent
	Repair       bool        `json:"repair,omitempty"`  // a store lost its memory: what is live is verified and rewritten
	Part         bool        `json:"part,omitempty"`    // the parent's segments stay, but for what changed
	Held         string      `json:"held,omitempty"`    // gate that is known already
	HeldDetail   string      `json:"held_detail,omitempty"`
	Trust        Trusted     `json:"trust,omitzero"`
	Excluded     purges.Set  `json:"excluded,omitzero"` // documents that were purged, and are left out
	Pending      []string    `json:"pending,omitempty"` // purges that the run goes on with
	Purge        string      `json:"purge,omitempty"`   // the one that the run is for: it touches nothing else
	Started      time.Time   `json:"started"`
	Spec         string      `json:"spec,omitempty"` // see Run.Speak; empty: the run's own, as it stands

	Aliases    core.Aliases `json:"aliases,omitempty"`
	Extraction core.Asked   `json:"extraction,omitzero"` // what passages are extracted by
	Renaming   Renaming     `json:"renaming,omitzero"`

	Frozen // fingerprints here, the rest once the chunks are there: frozenFile
}

// Source returns the manifest whose content a build may re-use; empty: none.
func (p Plan) Source() string {
	if p.Rebuild {
		return ""
	}
	return p.Parent
}

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

// Renaming is what a run makes of aliases that are not the parent's.
type Renaming struct {
	Names     int `json:"names"`               // that are mapped
	Changed   int `json:"changed,omitempty"`   // that are mapped otherwise than in the parent
	Documents int `json:"documents,omitempty"` // of the parent that name them, and are made again
}

// FindReason returns the reason that a report gives; empty: the aliases are the parent's.
func (n Renaming) FindReason() string {
	if n.Changed == 0 {
		return ""
	}
	return fmt.Sprintf("aliases: the mapping of %d names changed, in %d documents", n.Changed, n.Documents)
}

// Preflighted is preflight.json: what was asked for before the work began.
type Preflighted struct {
	Asked    core.Digest `json:"asked"`    // key of the extraction that was paid for; zero: none
	Embedder bool        `json:"embedder"` // answered, or is not needed
}

// Shards are the chunks of all units, cut into pieces of which each is reduced, embedded and loaded at once.
type Shards struct {
	Shards []extract.Shard `json:"shards"`
	Chunks []int           `json:"chunks"` // of each shard
	Counts core.Counts     `json:"counts"` // of the generation
	Hashes core.Hashes     `json:"hashes"` // entries of the chunks that the build made
	Failed int64           `json:"failed"` // documents
	Lapsed chunk.Lapsed    `json:"lapsed"`
}

// CountMade returns how many chunks the build made.
func (s Shards) CountMade() (chunks int64) {
	for _, of := range s.Chunks {
		chunks += int64(of)
	}
	return chunks
}

// Partitions are the ranges of class ids that are reduced, shortened, embedded and loaded at once.
type Partitions struct {
	Partitions int   `json:"partitions"`
	Mentions   int64 `json:"mentions"`
	Dead       int64 `json:"dead"`              // with those of the parent that count still
	Refused    int64 `json:"refused,omitempty"` // of the dead, those that the next run asks for again

	Failed []extract.Failed `json:"failed,omitempty"` // the first of the dead, as many as a report lists

	Kept []core.Segment `json:"kept,omitempty"` // mentions of the shards

	Pieces Pieces `json:"pieces,omitzero"`
}

// Batched is what came of the batches of a build.
type Batched struct {
	Requests int64 `json:"requests"` // of its chunks
	Known    int64 `json:"known"`    // answered before, or by batches
	Online   int64 `json:"online"`   // left to calls of their own: too late, refused, or of no use
}

// BatchForm is how the server takes requests, as the first process that sends batches of the run finds out.
type BatchForm struct {
	Form string `json:"form"`
}

// Pieces says how many splits and class runs of a build are units of work of their own: none where there is one of
// each. There may turn out to be fewer runs, never fewer splits.
type Pieces struct {
	Splits int `json:"splits,omitempty"`
	Runs   int `json:"runs,omitempty"`
}

// Count returns how many units of work there are.
func (p Pieces) Count() int { return p.Splits + p.Runs }

// Piece is a split or a class run that was written; without a digest there was nothing to write.
type Piece struct {
	Segment   core.Segment `json:"segment,omitzero"` // its rows are chunks or classes
	Documents int64        `json:"documents,omitempty"`
	Classes   int64        `json:"classes,omitempty"`
	Fresh     bool         `json:"fresh,omitempty"`
}

// Span is [from, to).
type Span struct{ From, To int }

// Count returns how many numbers the span holds.
func (s Span) Count() int { return s.To - s.From }

// Proven is stores.json of an index: which identity each store had when everything that the current generation names
// was last known to be in it. A store with another identity lost its memory, or is another one.
type Proven struct {
	Manifest string `json:"manifest"`
	Records  string `json:"records"`
	Classes  string `json:"classes"` // collection of class vectors
	Chunks   string `json:"chunks"`  // collection of chunk vectors
}

// Check is what a part is compared with.
type Check string

// The checks of parts.
const (
	CheckFile      Check = "file"      // a file with the sum that names it
	CheckStore     Check = "store"     // records or rows in a store with the segment that they are from
	CheckClasses   Check = "classes"   // classes of a partition with their mentions and what counts
	CheckDocuments Check = "documents" // chunks of a documents segment with those that count
)

// Part is one part of a generation: what one activity of an audit or a restore looks at.
type Part struct {
	Check    Check       `json:"check"`
	Manifest string      `json:"manifest,omitempty"`
	Kind     string      `json:"kind,omitempty"` // of the segment, as people know it
	Unit     verify.Unit `json:"unit"`           // of a file the segment alone

	Partition  int `json:"partition,omitempty"` // of the classes
	Partitions int `json:"partitions,omitempty"`
}

// AuditPlan is what an audit looks at, fixed when it begins.
type AuditPlan struct {
	Manifest   string      `json:"manifest"`
	Generation string      `json:"generation"`
	Sample     core.Sample `json:"sample"`
	Repair     bool        `json:"repair"`
	Parts      []Part      `json:"parts"`
}
