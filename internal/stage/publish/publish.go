// Package publish prepares a verified generation for its publication: it applies the gates, gives the generation its
// number and writes its manifest. All of it can be repeated, and readers see none of it.
package publish

import (
	"context"
	"errors"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// NextSeq returns a number greater than that of any generation, also of those of indexes that share its segments; the
// caller holds the lease. A generation whose reference cannot be read had one of the numbers before it, so as many are
// left out.
func NextSeq(ctx context.Context, art artifact.Index) (int64, error) {
	family, branches, err := art.ListFamily(ctx)
	if err != nil {
		return 0, err
	}
	var most, unread int64
	for _, branch := range branches {
		most = max(most, branch.Seq)
	}
	for _, member := range family {
		current, _, err := member.ReadPointer(ctx)
		if err != nil {
			return 0, err
		}
		refs, damaged, err := member.ReadableRefs(ctx)
		if err != nil {
			return 0, err
		}
		most, unread = max(most, current.Seq), unread+int64(len(damaged))
		for _, ref := range refs {
			most = max(most, ref.Seq)
		}
	}
	return most + unread + 1, nil
}

// Store writes the manifest and the generation's reference to it, and gives the manifest's sha256. State is "published"
// or "held". It may be repeated. A name that another manifest has is refused: it may be what is served.
func Store(ctx context.Context, art artifact.Index, manifest *core.Manifest, state string) (string, error) {
	sha, err := art.PutManifest(ctx, manifest)
	if err != nil {
		return "", err
	}
	ref := core.GenerationRef{Manifest: sha, Seq: manifest.Seq, State: state}
	key := art.GenerationKey(manifest.Generation, "manifest.json")
	_, err = blob.WriteJSON(ctx, art.Store, key, ref, blob.Cond{Absent: true})
	if !fault.Is(err, fault.Precondition) {
		return sha, err
	}
	there, err := art.GenerationRef(ctx, manifest.Generation)
	switch {
	case err != nil || there == ref:
	case there.Manifest != sha:
		err = TakenError(manifest.Generation, there)
	default:
		_, err = blob.WriteJSON(ctx, art.Store, key, ref, blob.Cond{})
	}
	return sha, err
}

// CheckUnused refuses the name of a generation that has a manifest.
func CheckUnused(ctx context.Context, art artifact.Index, generation string) error {
	there, err := art.GenerationRef(ctx, generation)
	switch {
	case fault.Is(err, fault.UnknownGen):
		return nil
	case err != nil:
		return err
	}
	return TakenError(generation, there)
}

// TakenError returns the fault of a name that a generation has already.
func TakenError(generation string, there core.GenerationRef) error {
	return fault.Usage.At("name generation", generation).
		Because("it was built already and is " + there.State).
		Advise("omit --generation, or choose another name")
}

// Alias points the aliases for other programs that read the vector store at collections. Ours never use them.
func Alias(ctx context.Context, store vectors.Store, collections core.Collections) error {
	aliaser, ok := vectors.As[vectors.Aliaser](store)
	if !ok {
		return nil
	}
	var failed error
	for _, collection := range []string{collections.Classes, collections.Chunks} {
		parts := strings.Split(collection, "_") // uw_<hash>_<kind>_<fingerprint>_<n>
		if err := aliaser.Alias(ctx, strings.Join(parts[:min(len(parts), 3)], "_"), collection); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
