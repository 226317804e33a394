package build

import (
	"context"
	"testing"

	"github.com/unweaver/unweaver/internal/corpus"
)

// SetMade has this program claim other rules for one test; empty fields stay as they are.
func SetMade(t *testing.T, other corpus.Made) {
	t.Helper()
	was := madeBy
	t.Cleanup(func() { madeBy = was })
	for _, field := range []struct{ to, from *string }{
		{&madeBy.Parser, &other.Parser},
		{&madeBy.Chunker, &other.Chunker},
		{&madeBy.Names, &other.Names},
		{&madeBy.Analyser, &other.Analyser},
	} {
		if *field.from != "" {
			*field.to = *field.from
		}
	}
}

// Forget has units of work begin with what the store has, as those of another process do.
func (p *Ports) Forget() { p.near.Forget() }

// TrustOf is whom a run trusts.
func TrustOf(ctx context.Context, run *Run) (corpus.Trust, error) {
	found, err := run.trusts(ctx)
	return found.Trust, err
}
