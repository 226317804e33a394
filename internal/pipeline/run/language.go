package run

import (
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/text"
)

// FindLanguage returns the language of the settings. Where they leave it to the corpus it is that of the parent, so
// that nights do not change it; it is still core.LanguageAuto where no parent says it.
func (r *Run) FindLanguage(ctx context.Context, parent *core.Manifest) (string, error) {
	if r.Settings.Retrieval.Language != core.LanguageAuto || parent == nil {
		return r.Settings.Retrieval.Language, nil
	}
	old, err := r.Index.Spec(ctx, parent.Spec)
	if artifact.IsDamage(err) { // the language is the one with which these settings are the parent's
		settings := r.Settings
		for _, settings.Retrieval.Language = range text.Languages() {
			if settings.ConfigDigest() == parent.Config {
				return settings.Retrieval.Language, nil
			}
		}
		return core.LanguageAuto, nil
	}
	return old.Retrieval.Language, err
}

// StoreLanguage stores the configuration with its language, for a run whose configuration leaves that to the corpus. It
// returns the digest of what is stored, by which the run goes on and which the manifest names.
func (r *Run) StoreLanguage(ctx context.Context, language string) (string, error) {
	spec, err := r.readSpec(ctx) // r.Settings may have another budget
	if err != nil {
		return "", err
	}
	spec.Retrieval.Language, r.Settings.Retrieval.Language = language, language
	digest, err := r.Index.PutSpec(ctx, spec)
	r.Spec = digest.String()
	return r.Spec, err
}
