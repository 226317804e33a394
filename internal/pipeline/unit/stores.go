package unit

import (
	"context"
	"errors"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// ProvenKey returns where an index says which stores its current generation was proven in.
func ProvenKey(index artifact.Index) string { return index.Name + "/stores.json" }

// ReadIdentities asks the stores who they are now. A collection that is not there has the empty identity.
func ReadIdentities(
	ctx context.Context, classes records.Store, rows vectors.Store, collections core.Collections,
) (run.Proven, error) {
	var now run.Proven
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

// StoresLost reports whether the stores have lost what a generation needs: a collection of it is not there, or a store
// is another one than the generation was proven in. It reads little, and counts no row.
func StoresLost(
	ctx context.Context, index artifact.Index, classes records.Store, rows vectors.Store, manifest *core.Manifest,
) (bool, error) {
	now, err := ReadIdentities(ctx, classes, rows, manifest.Collections)
	if err != nil || now.Classes == "" || now.Chunks == "" {
		return err == nil, err
	}
	var was run.Proven
	_, err = blob.ReadJSON(ctx, index.Store, ProvenKey(index), &was)
	if err == nil && was.Records != now.Records {
		return true, nil
	}
	var proven *core.Manifest
	if err == nil {
		proven, err = index.Manifest(ctx, was.Manifest)
	}
	if artifact.IsDamage(err) { // the next build verifies everything
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return proven.Collections.Classes == manifest.Collections.Classes && was.Classes != now.Classes ||
		proven.Collections.Chunks == manifest.Collections.Chunks && was.Chunks != now.Chunks, nil
}

// storesChanged says that a store is not the one that the parent was proven in, or is unknown.
func (r *Run) storesChanged(ctx context.Context, parent *core.Manifest) (bool, error) {
	now, err := ReadIdentities(ctx, r.Records, r.Vectors, parent.Collections)
	if err != nil {
		return false, err
	}
	var was run.Proven
	_, err = blob.ReadJSON(ctx, r.Artifacts, ProvenKey(r.Index), &was)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.SegmentDamage) {
		return true, nil
	}
	return was.Records != now.Records || was.Classes != now.Classes || was.Chunks != now.Chunks, err
}

// ReopenVectors lets a store of files read its files again before it is asked for every row: a collection of which one
// is damaged counts as missing from then on.
func (r *Run) ReopenVectors(ctx context.Context, collections core.Collections) error {
	store, ok := vectors.As[vectors.Reopener](r.Vectors)
	for _, name := range []string{collections.Classes, collections.Chunks} {
		if !ok {
			break
		}
		if err := store.Reopen(ctx, name); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// Remember keeps who the stores are before they are verified: a store that loses its memory afterwards then has another
// identity than the one that is recorded as proven.
func (r *Run) Remember(ctx context.Context, manifest *core.Manifest) error {
	_, err := run.MakeOnce(ctx, r.BaseRun(), run.StoresFile, func(ctx context.Context) (run.Proven, error) {
		if err := r.GuardLease(ctx); err != nil {
			return run.Proven{}, err
		}
		return r.CreateCollections(ctx, manifest)
	})
	return err
}

// CreateCollections makes the collections of a generation where they are missing, and returns who the stores are.
func (r *Run) CreateCollections(ctx context.Context, manifest *core.Manifest) (run.Proven, error) {
	if err := errors.Join(
		r.Vectors.Create(ctx, manifest.Collections.Classes, manifest.Class.Dimension),
		r.Vectors.Create(ctx, manifest.Collections.Chunks, manifest.Chunk.Dimension),
	); err != nil {
		return run.Proven{}, err
	}
	return ReadIdentities(ctx, r.Records, r.Vectors, manifest.Collections)
}
