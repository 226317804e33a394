package pipeline

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Proven is stores.json of an index: which identity each store had when everything that the current generation names
// was last known to be in it. A store with another identity lost its memory, or is another one.
type Proven struct {
	Manifest string `json:"manifest"`
	Records  string `json:"records"`
	Classes  string `json:"classes"` // collection of class vectors
	Chunks   string `json:"chunks"`  // collection of chunk vectors
}

// ProvenKey is where an index says which stores its current generation was proven in.
func ProvenKey(index artifact.Index) string { return index.Name + "/stores.json" }

func (r *Run) provenKey() string { return ProvenKey(r.Index) }

func (r *Run) identities(ctx context.Context, collections core.Collections) (Proven, error) {
	return Identities(ctx, r.Records, r.Vectors, collections)
}

// Identities asks the stores who they are now. A collection that is not there has the empty identity.
func Identities(
	ctx context.Context, classes records.Store, rows vectors.Store, collections core.Collections,
) (Proven, error) {
	var now Proven
	var err error
	if now.Records, err = classes.Identity(ctx); err != nil {
		return now, err
	}
	of := func(collection string) (string, error) {
		identity, err := rows.Identity(ctx, collection)
		if fault.Is(err, fault.NotFound) {
			return "", nil
		}
		return identity, err
	}
	if now.Classes, err = of(collections.Classes); err != nil {
		return now, err
	}
	now.Chunks, err = of(collections.Chunks)
	return now, err
}

// storesChanged tells that a store is not the one that the parent was proven in, or that nobody knows.
func (r *Run) storesChanged(ctx context.Context, parent *core.Manifest) (bool, error) {
	now, err := r.identities(ctx, parent.Collections)
	if err != nil {
		return false, err
	}
	var was Proven
	_, err = blob.ReadJSON(ctx, r.Artifacts, r.provenKey(), &was)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage) {
		return true, nil
	}
	return was.Records != now.Records || was.Classes != now.Classes || was.Chunks != now.Chunks, err
}

// remember keeps who the stores are before they are verified: a store that loses its memory afterwards then has another
// identity than the one that is recorded as proven.
func (r *Run) remember(ctx context.Context, manifest *core.Manifest) error {
	_, err := once(ctx, r, storesFile, func(ctx context.Context) (Proven, error) {
		if err := r.Guard(ctx); err != nil {
			return Proven{}, err
		}
		if err := r.Vectors.Create(ctx, manifest.Collections.Classes, manifest.Class.Dimension); err != nil {
			return Proven{}, err
		}
		if err := r.Vectors.Create(ctx, manifest.Collections.Chunks, manifest.Chunk.Dimension); err != nil {
			return Proven{}, err
		}
		return r.identities(ctx, manifest.Collections)
	})
	return err
}

// proven records which stores a generation was proven in: those that were remembered before they were verified.
func (r *Run) proven(ctx context.Context, sha string) error {
	was, found, err := storesFile.Find(ctx, r.Scratch)
	if err != nil || !found { // the end of a restore that is repeated: it was recorded
		return err
	}
	was.Manifest = sha
	_, err = blob.WriteJSON(ctx, r.Artifacts, r.provenKey(), was, blob.Cond{})
	return err
}
