package pipeline

import (
	"context"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// manifestWidth is how many manifests are read at once.
const manifestWidth = 8

// shown takes over what was shows to have been paid for in the same domains without naming them.
func (t *trusted) shown(was core.Trust) {
	t.ChatBefore = t.ChatBefore || was.ChatBefore && was.Chat == t.Chat && t.Chat != ""
	t.EmbeddingBefore = t.EmbeddingBefore || was.EmbeddingBefore && was.Embedding == t.Embedding && t.Embedding != ""
}

// told is whether there is nothing left to find out.
func (t *trusted) told() bool {
	return (t.Chat == "" || t.ChatBefore) && (t.Embedding == "" || t.EmbeddingBefore)
}

// paidBefore looks for what shows that this index paid for results that name no domain: the plan that this run began
// with, each generation that is there, and what was left of runs that ended before they wrote one.
func (r *Run) paidBefore(ctx context.Context, now *trusted) error {
	for _, look := range []func(context.Context, *trusted) error{r.ofFirstPlan, r.ofGenerations, r.ofRuns} {
		if now.told() {
			return nil
		}
		if err := look(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// ofFirstPlan is for a run that begins again from plan: it goes on paying as it began.
func (r *Run) ofFirstPlan(ctx context.Context, now *trusted) error {
	began := r.Scratch
	var again bool
	if began.Prefix, again = strings.CutSuffix(began.Prefix, anewFolder); !again {
		return nil
	}
	was, told, err := trustedBy(ctx, began)
	if err == nil && !told {
		was.Trust = ownTrust(r.Settings)
	}
	now.shown(was.Trust)
	return err
}

func (r *Run) ofGenerations(ctx context.Context, now *trusted) error {
	refs, _, err := r.Index.ReadableRefs(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, ref := range refs {
		names = append(names, ref.Manifest)
	}
	found := make([]core.Trust, len(names))
	err = parallel.Each(ctx, len(names), manifestWidth, func(ctx context.Context, i int) error {
		manifest, err := r.Index.Manifest(ctx, names[i])
		if err == nil {
			found[i], err = r.trustOf(ctx, manifest)
		}
		if artifact.IsDamage(err) { // it shows nothing
			return nil
		}
		return err
	})
	for _, was := range found {
		now.shown(was)
	}
	return err
}

// ofRuns looks at the scratch of runs that published nothing. One that recorded no trust is of a release that told no
// domains apart; which configuration it had is not in it, so those count that were stored by then.
func (r *Run) ofRuns(ctx context.Context, now *trusted) error {
	var newest time.Time // plan of such a run
	prefix := strings.TrimSuffix(r.Index.RunKey("-"), "-")
	for after := ""; ; {
		found, err := first(ctx, r.Artifacts, prefix, after)
		if err != nil {
			return err
		}
		if found.Key == "" {
			break
		}
		parts := strings.SplitN(strings.TrimPrefix(found.Key, prefix), "/", 3)
		if len(parts) < 3 {
			after = found.Key
			continue
		}
		run := Scratch{Store: r.Artifacts, Prefix: prefix + parts[0] + "/" + parts[1]}
		after = run.Prefix + string('/'+1) // behind all that is in its folder
		was, told, err := trustedBy(ctx, run)
		switch {
		case fault.Is(err, fault.SegmentDamage): // it shows nothing
		case err != nil:
			return err
		case told:
			now.shown(was.Trust)
		default:
			plan, err := first(ctx, r.Artifacts, run.Key(string(planFile)), "")
			if err != nil {
				return err
			}
			if plan.Modified.After(newest) {
				newest = plan.Modified
			}
		}
	}
	if newest.IsZero() || now.told() {
		return nil
	}
	return r.ofSpecs(ctx, now, newest)
}

// ofSpecs counts the configurations that were stored until then.
func (r *Run) ofSpecs(ctx context.Context, now *trusted, then time.Time) error {
	prefix := strings.TrimSuffix(r.Index.SpecKey(core.Digest{}), core.Digest{}.String()+".json")
	for info, err := range r.Artifacts.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		var digest core.Digest
		named := strings.TrimSuffix(strings.TrimPrefix(info.Key, prefix), ".json")
		if digest.UnmarshalText([]byte(named)) != nil || info.Modified.After(then) {
			continue
		}
		spec, err := r.Index.Spec(ctx, digest)
		switch {
		case err == nil:
			now.shown(ownTrust(spec))
		case !artifact.IsDamage(err) && !fault.Is(err, fault.InvalidParam):
			return err
		}
	}
	return nil
}

// ownTrust is that of a release that told no domains apart: all was paid for where the configuration says.
func ownTrust(spec core.Spec) core.Trust {
	return core.Trust{
		Chat: spec.Chat.Domain(), Embedding: spec.Embedding.Domain(), ChatBefore: true, EmbeddingBefore: true,
	}
}

// first object of a prefix behind a key; none has no key.
func first(ctx context.Context, store blob.Store, prefix, after string) (blob.Info, error) {
	for info, err := range store.List(ctx, prefix, after) {
		return info, err
	}
	return blob.Info{}, nil
}
