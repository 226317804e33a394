// Package publish makes a proven generation the one that is served: gates, manifest, the flip of the pointer. The
// flip is a conditional write on the epoch that plan read; everything before it can be repeated and nobody can see
// it.
package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Seq is more than that of any generation, also of those of indexes that share its segments; the caller holds the
// lease. A generation whose reference cannot be read had one of the numbers before it, so as many are left out.
func Seq(ctx context.Context, art artifact.Index) (int64, error) {
	family, branches, err := art.Family(ctx)
	if err != nil {
		return 0, err
	}
	var most, unread int64
	for _, branch := range branches {
		most = max(most, branch.Seq)
	}
	for _, member := range family {
		current, _, err := member.Current(ctx)
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
		err = Taken(manifest.Generation, there)
	default:
		_, err = blob.WriteJSON(ctx, art.Store, key, ref, blob.Cond{})
	}
	return sha, err
}

// Unused refuses the name of a generation that has a manifest.
func Unused(ctx context.Context, art artifact.Index, generation string) error {
	there, err := art.GenerationRef(ctx, generation)
	switch {
	case fault.Is(err, fault.UnknownGen):
		return nil
	case err != nil:
		return err
	}
	return Taken(generation, there)
}

// Taken is the fault of a name that a generation has already.
func Taken(generation string, there core.GenerationRef) error {
	return fault.Usage.At("name generation", generation).
		Because("it was built already and is " + there.State).
		Advise("leave --generation out, or choose another name")
}

// FlipIn is what becomes the served generation.
type FlipIn struct {
	Artifacts  artifact.Index
	Mirror     coordination.Readers
	Generation string
	Manifest   string // sha256 of its manifest
	Seq        int64
	Expected   int64 // the pointer's epoch when the build was planned
}

// Flip points the index to a manifest if the pointer's epoch is still the expected one, else fault.PointerMoved. A
// second flip by the same run finds its own work done and succeeds; so does one whose answer was lost. When only the
// mirror fails, the pointer that comes back with the error is served already.
func Flip(ctx context.Context, in FlipIn) (core.Pointer, error) {
	current, etag, err := in.Artifacts.Current(ctx)
	if err != nil {
		return current, err
	}
	if in.done(current) {
		return current, Mirror(ctx, in.Artifacts, in.Mirror, current)
	}
	if current.Epoch != in.Expected {
		return current, in.moved(current)
	}
	next := core.Pointer{Generation: in.Generation, Manifest: in.Manifest, Seq: in.Seq, Epoch: in.Expected + 1}
	condition := blob.Cond{Match: etag}
	if etag == "" {
		condition = blob.Cond{Absent: true}
	}
	_, err = blob.WriteJSON(ctx, in.Artifacts.Store, in.Artifacts.CurrentKey(), next, condition)
	if fault.Is(
		err,
		fault.Precondition,
	) { // another run, or this write itself, repeated below after its answer was lost
		if current, _, err = in.Artifacts.Current(ctx); err == nil && !in.done(current) {
			err = in.moved(current)
		}
	}
	if err != nil {
		return current, err
	}
	return next, Mirror(ctx, in.Artifacts, in.Mirror, next)
}

// done tells whether a pointer is what this flip makes it.
func (in FlipIn) done(pointer core.Pointer) bool {
	return pointer.Manifest == in.Manifest && pointer.Epoch == in.Expected+1
}

func (in FlipIn) moved(current core.Pointer) error {
	why := fmt.Sprintf("generation %s was published meanwhile, or gone back to", current.Generation)
	if current.Generation == "" {
		why = "the index has no published generation any more"
	}
	return fault.PointerMoved.At("publish", in.Artifacts.Name).
		Because(why).
		Advise("run index again: what was paid for is not paid twice; or see what differs, and publish it all the same: " +
			"unweaver diff, unweaver publish " + in.Generation + " --force, both with --index " + in.Artifacts.Name)
}

// Mirror tells the store that readers ask about the pointer. To them it is a hint: what current.json says counts.
func Mirror(ctx context.Context, art artifact.Index, mirror coordination.Readers, pointer core.Pointer) error {
	raw, err := json.Marshal(pointer)
	if err != nil {
		return err
	}
	return mirror.Mirror(ctx, art.Name, pointer.Epoch, raw)
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
