package pipeline

import (
	"context"
	"fmt"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
)

// trusted is whose answers a build trusts.
type trusted struct {
	core.Trust
	Moved bool `json:"moved,omitempty"` // vectors of the parent are of another domain
}

// trustFile is what releases read that know of no Plan.Trust. Theirs wrote it before the plan, so that an attempt that
// ended late could replace it; now it says what the recorded plan says. A run that was planned by a release without
// either pays in its own domain, as it did before.
const trustFile File[trusted] = "trust.json"

// trust compares the domains of the configuration with the parent's, and gives a reason for each that changed: what a
// server made is not re-used for another.
func (r *Run) trust(ctx context.Context, parent *core.Manifest) (trusted, []string, error) {
	now := trusted{Trust: core.Trust{Chat: r.Settings.Chat.Domain(), Embedding: r.Settings.Embedding.Domain()}}
	if now.Chat == "" && now.Embedding == "" {
		return now, nil, nil
	}
	var reasons []string
	if parent != nil {
		was, err := r.trustOf(ctx, parent)
		if err != nil {
			return now, nil, err
		}
		now.shown(was)
		for _, one := range []struct{ name, now, was string }{
			{"trust domain of the chat model", now.Chat, was.Chat},
			{"trust domain of the embedding model", now.Embedding, was.Embedding},
		} {
			if one.now != "" && one.was != "" && one.now != one.was {
				reasons = append(reasons, fmt.Sprintf("%s: %s, was %s", one.name, one.now, one.was))
			}
		}
		now.Moved = now.Embedding != "" && was.Embedding != "" && now.Embedding != was.Embedding
	}
	return now, reasons, r.paidBefore(ctx, &now)
}

// trustOf is whose answers a generation trusts. One of a release that did not record it was paid for where its
// configuration says.
func (r *Run) trustOf(ctx context.Context, manifest *core.Manifest) (core.Trust, error) {
	if manifest.Trust != nil {
		return *manifest.Trust, nil
	}
	spec, err := r.Index.Spec(ctx, manifest.Spec)
	if artifact.IsDamage(err) || fault.Is(err, fault.NotFound) { // not known: nothing of it is trusted
		return core.Trust{}, nil
	}
	return ownTrust(spec), err
}

// trusts is what the recorded plan found.
func (r *Run) trusts(ctx context.Context) (trusted, error) {
	if r.domains != nil {
		return *r.domains, nil
	}
	fixed, err := kept(ctx, r, planFile)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return trusted{}, err
	}
	found, told, err := trustOfPlan(ctx, r.Scratch, fixed)
	if err != nil {
		return found, err
	}
	if !told {
		found.Trust = ownTrust(r.Settings)
	}
	r.domains = &found
	return found, nil
}

// planned takes over whom the recorded plan trusts, which another attempt may have written, and has workers of releases
// before find it.
func (r *Run) planned(ctx context.Context, fixed Plan) error {
	r.domains = fixed.Trust
	if fixed.Trust == nil {
		return nil
	}
	return trustFile.Write(ctx, r.Scratch, *fixed.Trust)
}

// trustedBy is whom a run trusts, as far as it recorded that.
func trustedBy(ctx context.Context, run Scratch) (found trusted, told bool, err error) {
	fixed, _, err := planFile.Find(ctx, run)
	if err != nil {
		return trusted{}, false, err
	}
	return trustOfPlan(ctx, run, fixed)
}

func trustOfPlan(ctx context.Context, run Scratch, fixed Plan) (found trusted, told bool, err error) {
	if fixed.Trust != nil {
		return *fixed.Trust, true, nil
	}
	return trustFile.Find(ctx, run)
}

// models makes the run's models: paid ones are metered, and know which former results are theirs.
func (r *Run) models(ctx context.Context) (model.Set, error) {
	set, err := r.Models(r.Settings, r.book)
	if err != nil || (!set.Chat.Info().Paid && !set.Chunks.Info().Paid) {
		return set, err
	}
	trusts, err := r.trusts(ctx)
	return set.Watched(r.Progress.Touch).WithBefore(trusts.ChatBefore, trusts.EmbeddingBefore), err
}

// recorded is what a manifest says of the domains; nothing where no model is asked over a network.
func (t trusted) recorded() *core.Trust {
	if t.Chat == "" && t.Embedding == "" {
		return nil
	}
	return &t.Trust
}
