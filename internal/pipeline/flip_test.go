package pipeline_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// losing is a store beside whose use a run loses its lease: once something with an ending was read or written.
type losing struct {
	blob.Store
	read, written string
	lose          func()
}

func (l *losing) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := l.Store.Get(ctx, key, part)
	l.after(key, l.read)
	return body, info, err
}

func (l *losing) Put(
	ctx context.Context, key string, body io.Reader, size int64, cond blob.Cond,
) (blob.Info, error) {
	info, err := l.Store.Put(ctx, key, body, size, cond)
	l.after(key, l.written)
	return info, err
}

func (l *losing) after(key, ending string) {
	if lose := l.lose; lose != nil && ending != "" && strings.HasSuffix(key, ending) {
		l.lose = nil
		lose()
	}
}

// A run may stand still at any point of a publication: it looks at its lease right before the reference of its
// generation, and once more before the flip.
// Promises: 30.
func TestARunThatLosesItsLeaseAmidAPublicationPublishesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		read, written string
		named         bool
	}{
		"before the reference": {read: "/condemned.json"},
		"before the flip":      {written: "/manifest.json", named: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(6))
			first := s.night(t)
			s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			job, index := s.begin(t)
			plain := s.Artifacts
			lose := func() { passOn(t, artifact.Index{Store: plain, Name: index.Name}) }
			s.before = func(stage string) {
				if stage == "publish" {
					s.Artifacts = &losing{Store: plain, read: c.read, written: c.written, lose: lose}
				}
			}
			_, err := s.stages(t.Context(), job, job.Holder)
			assert.True(t, fault.Is(err, fault.LeaseLost), "the run ended with %v", err)
			current, _, err := index.ReadPointer(t.Context())
			assert.True(t, err == nil && current.Generation == first.manifest.Generation, "current is %+v, %v", current, err)
			if _, err := index.GenerationRef(t.Context(), job.Generation); fault.Is(err, fault.UnknownGen) == c.named {
				t.Errorf("its reference: %v", err)
			}
		})
	}
}
