// Package publish makes a proven generation the one that is served: gates, manifest, the flip of the pointer. The
// flip is a conditional write on the epoch that plan read; everything before it can be repeated and nobody can see
// it.
package publish

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
)

// Gate looks at a built generation and says why it must not be published, or nothing. Failed counts documents that gave
// nothing though they should; dead counts chunks without an extraction.
func Gate(
	spec corpus.Spec,
	counts corpus.Counts,
	diff corpus.Diff,
	failed, parentDocuments int64,
) (reason, detail string) {
	bad := failed + counts.DeadLetters
	all := counts.Chunks + failed
	if bad > int64(spec.Failures.Count) && float64(bad) > spec.Failures.Share*float64(all) {
		return "failure_budget", fmt.Sprintf(
			"%d of %d chunks and documents failed; the budget is %d or %.3g %% (indexes.%s.failures)",
			bad,
			all,
			spec.Failures.Count,
			100*spec.Failures.Share,
			spec.Index,
		)
	}
	if parentDocuments > 0 && float64(diff.Removed) > spec.Gate.MaxRemoved*float64(parentDocuments) {
		return "mass_deletion", fmt.Sprintf(
			"%d of %d documents are gone; at most %.3g %% may go in one run (indexes.%s.gate.max_removed)",
			diff.Removed,
			parentDocuments,
			100*spec.Gate.MaxRemoved,
			spec.Index,
		)
	}
	if counts.Chunks == 0 {
		return "empty", "no document of the corpus gave a chunk"
	}
	return "", ""
}

// Seq is one more than the largest of any generation; the caller holds the lease.
func Seq(ctx context.Context, art artifact.Index) (int64, error) {
	var most int64
	refs, err := art.Refs(ctx)
	for _, r := range refs {
		most = max(most, r.Seq)
	}
	return most + 1, err
}

// Store writes the manifest and the generation's reference to it.
func Store(ctx context.Context, art artifact.Index, manifest *corpus.Manifest, state string) (string, error) {
	sha, err := art.PutManifest(ctx, manifest)
	if err != nil {
		return "", err
	}
	_, err = blob.WriteJSON(
		ctx,
		art.Store,
		art.GenerationKey(manifest.Generation, "manifest.json"),
		corpus.GenerationRef{Manifest: sha, Seq: manifest.Seq, State: state},
		blob.Cond{},
	)
	return sha, err
}

// Flip points the index to a manifest if the pointer's epoch is still the expected one. A second flip by the same run
// finds its own work done and succeeds.
func Flip(
	ctx context.Context,
	art artifact.Index,
	mirror coordination.Readers,
	gen, sha string,
	seq, expected int64,
) (corpus.Pointer, error) {
	cur, etag, err := art.Current(ctx)
	if err != nil {
		return cur, err
	}
	if cur.Manifest == sha && cur.Epoch == expected+1 {
		return cur, Mirror(ctx, art, mirror, cur)
	}
	if cur.Epoch != expected {
		return cur, moved(art, cur)
	}
	next := corpus.Pointer{Generation: gen, Manifest: sha, Seq: seq, Epoch: expected + 1}
	cond := blob.Cond{Match: etag}
	if etag == "" {
		cond = blob.Cond{Absent: true}
	}
	if _, err := blob.WriteJSON(ctx, art.Store, art.CurrentKey(), next, cond); err != nil {
		if fault.Is(err, fault.Precondition) {
			return cur, moved(art, cur)
		}
		return cur, err
	}
	return next, Mirror(ctx, art, mirror, next)
}

func moved(art artifact.Index, cur corpus.Pointer) error {
	return fault.PointerMoved.At("publish", art.Name).
		Because(fmt.Sprintf("generation %s was published meanwhile", cur.Generation)).
		Advise("run index again, or unweaver publish")
}

// Mirror tells the class store about the pointer; readers take the higher epoch of the two.
func Mirror(ctx context.Context, art artifact.Index, mirror coordination.Readers, pointer corpus.Pointer) error {
	raw, err := json.Marshal(pointer)
	if err != nil {
		return err
	}
	return mirror.Mirror(ctx, art.Name, pointer.Epoch, raw)
}
