package run

import (
	"cmp"
	"fmt"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
)

// Trusted is whose answers a build trusts.
type Trusted struct {
	core.Trust
	Moved bool `json:"moved,omitempty"` // vectors of the parent are of another domain
}

// CompareTrust compares the domains of the configuration with the parent's, and returns a reason for each that changed:
// what a server made is not re-used for another.
func (r *Run) CompareTrust(parent *core.Manifest) (now Trusted, reasons []string) {
	now.Chat, now.Embedding = r.Settings.ChatOf(core.RoleExtraction).Domain(), r.Settings.Embedding.Domain()
	shortening := r.Settings.ChatOf(core.RoleShortening).Domain()
	if shortening != now.Chat {
		now.Shortening = shortening
	}
	if r.Settings.VisionBy() != nil {
		now.Vision = r.Settings.ChatOf(core.RoleVision).Domain()
	}
	now.Parser = r.Settings.ReadAs().Parser.Domain()
	if parent == nil || parent.Trust == nil {
		return now, nil
	}
	was := *parent.Trust
	for _, one := range []struct{ name, now, was string }{
		{"trust domain of the chat model", now.Chat, was.Chat},
		{"trust domain of the shortening model", shortening, cmp.Or(was.Shortening, was.Chat)},
		{"trust domain of the embedding model", now.Embedding, was.Embedding},
		{"trust domain of the vision model", now.Vision, was.Vision},
		{"trust domain of the document parser", now.Parser, was.Parser},
	} {
		if one.now != "" && one.was != "" && one.now != one.was {
			reasons = append(reasons, fmt.Sprintf("%s: %s, was %s", one.name, one.now, one.was))
		}
	}
	now.Moved = now.Embedding != "" && was.Embedding != "" && now.Embedding != was.Embedding
	return now, reasons
}

// ModelSet makes the run's models: paid ones are metered.
func (r *Run) ModelSet() (model.Set, error) {
	set, err := r.Models(r.Settings, r.Book)
	if err != nil || (!set.PaysChat() && !set.Chunks.Info().Paid) {
		return set, err
	}
	return set.WithSign(r.Progress.Touch), nil
}

// RecordedTrust returns what a manifest holds of the domains; nothing where no model is asked over a network.
func (t Trusted) RecordedTrust() *core.Trust {
	if t.Trust == (core.Trust{}) {
		return nil
	}
	return &t.Trust
}
