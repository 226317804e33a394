// Package enrich is the hook of enrichments: what a build makes of a generation beside what every one has, where the
// configuration names it. An enrichment says what shapes it, what it pays for, what it writes and what people read of
// it. The pipeline does the rest for all of them: it lists the ledger entries that one asked for, by which a purge
// finds what goes, keeps files while a generation names them, and merges nothing, as each is made from all chunks.
package enrich

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"maps"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Enrichment is what one kind of enrichment does. It works from the draft of a generation, whose chunks are fixed.
type Enrichment struct {
	Name string // as indexes.*.enrich names it
	Asks string // what of a generation a model is asked about: chunks, pairs
	Role string // of the chat model that it asks; empty: models.chat
	// DigestRules returns a digest of all that shapes it: settings, models, versions of its own rules. Where the parent's
	// has the same and no chunk changed, the parent's files stay. An embedder that the generation has too is not in it:
	// another one is a reason to make all again.
	DigestRules func(spec core.Spec, models model.Set) string
	// ListChanges names what other settings make again, and what that costs; nil: there are no settings.
	ListChanges func(was, now core.Spec) []string
	// Pay puts into the ledger what part n of the chunks needs, of parts. It may be repeated. nil: all is paid by Seal.
	Pay func(ctx context.Context, of *Build, n, parts int) error
	// Seal makes the files, asking the ledger. Equal chunks and rules give equal bytes, whatever the parent.
	Seal func(ctx context.Context, of *Build) (Made, error)
	// Notes are what the report of a build says of counts above 0, in their order.
	Notes []Note
}

// Note is a sentence of a report: a count, and what it counts.
type Note struct{ Count, Text string }

// AsksAgain ends a note on what failed.
const AsksAgain = " A round of unweaver retry-failed asks for them again."

// Failed is the count of what a model gave no answer of use for.
const Failed = "failed"

// Build is the generation that is enriched, and what its build lends for that.
type Build struct {
	Manifest *core.Manifest // the draft
	Spec     core.Spec
	Models   model.Set // embedders are as the generation has them
	Ledger   *ledger.Ledger
	Index    artifact.Index
	Cache    *localfile.Cache
	Vectors  vectors.Store
	Attempt  int    // round of retry-failed
	Touch    func() // shows that the unit is at work

	HealthOf   func(task string) *stage.Health
	TakePlace  func(ctx context.Context) (release func(), err error) // among the units that fill a core
	ReadParent func(ctx context.Context) (*core.Manifest, error)     // what the build re-uses; nil: nothing
	// Chunks gives those of part n, of parts. One that was made again with the same text may come twice.
	Chunks func(ctx context.Context, n, parts int) iter.Seq2[Chunk, error]
}

// Chunk is a chunk of a draft with its text.
type Chunk struct {
	ID       core.ID
	Document string
	Title    string // as it is embedded with the text
	Ordinal  int    // its place in the document
	Text     string
}

// Made is what one enrichment made.
type Made struct {
	Enrichment core.Enrichment     `json:"enrichment"` // Seal sets its hash and counts
	Files      []core.EnrichedFile `json:"files"`
	Fresh      int64               `json:"fresh"` // files that were not there
}

// AddFile stores what writes itself as a file of an enrichment.
func (m *Made) AddFile(
	ctx context.Context, index artifact.Index, of, kind string, content func(io.Writer) (rows int64, err error),
) error {
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	rows, err := content(file)
	if err != nil {
		return err
	}
	segment, fresh, err := file.PutSegment(ctx, index)
	if err != nil {
		return err
	}
	segment.Rows = rows
	m.Files = append(m.Files, core.EnrichedFile{Segment: segment, Of: of, Kind: kind})
	if fresh {
		m.Fresh++
	}
	return nil
}

// ReadSettings returns the settings of an enrichment, which are usual where a specification says nothing.
func ReadSettings[T any](spec core.Spec, name string, usual T) T {
	if raw, said := spec.EnrichSettings[name]; said {
		_ = json.Unmarshal(raw, &usual) // SetSettings wrote it
	}
	return usual
}

// SetSettings sets the settings of an enrichment in a specification, which says nothing of the usual ones.
func SetSettings[T comparable](spec *core.Spec, name string, settings, usual T) {
	all := maps.Clone(spec.EnrichSettings) // other specifications may share it
	delete(all, name)
	if settings != usual {
		raw, err := json.Marshal(settings)
		if err != nil {
			panic("settings of enrichment " + name + ": " + err.Error()) // plain structs of numbers always marshal
		}
		if all == nil {
			all = map[string]json.RawMessage{}
		}
		all[name] = raw
	}
	if spec.EnrichSettings = all; len(all) == 0 {
		spec.EnrichSettings = nil
	}
}
