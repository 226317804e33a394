package powerloss_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
)

// samples starts the stack on what is left at some cuts of the second build.
func (r *replay) samples() {
	count := 8
	if everyCut {
		count = 60
	}
	number, during := 0, 0
	r.rec.model(r.t, func(_ *disk, _ string, _ *node, at time.Time) error {
		if at.After(r.rec.firstAt) && at.Before(r.rec.secondAt) {
			during++
		}
		return nil
	})
	variants := []variant{strict, scattered, strict, all}
	taken := 0
	r.rec.model(r.t, func(d *disk, _ string, file *node, at time.Time) error {
		if !at.After(r.rec.firstAt) || !at.Before(r.rec.secondAt) {
			return nil
		}
		number++
		if number*count < (taken+1)*during-during/2 || taken == count {
			return nil
		}
		v := variants[taken%len(variants)]
		taken++
		tree := left(d.top, v, r.random)
		r.t.Run(fmt.Sprintf("the stack on cut %d of %d, %s", number, during, v), func(t *testing.T) {
			r.stack(t, tree, file.name, at)
		})
		return nil
	})
}

func (r *replay) stack(t *testing.T, tree map[string]leaf, synced string, at time.Time) {
	folder := t.TempDir()
	require.NoError(t, put(folder, tree, func(path string) bool { return strings.HasPrefix(path, "data/") }))
	r.rec.asked.take()
	begin := time.Now()
	p := start(t, filepath.Join(folder, "data"))
	started := time.Since(begin)
	generations, err := p.control().ListGenerations(t.Context(), index)
	assert.True(t, err == nil && len(generations) != 0, "generations: %v, %v", generations, err)
	assert.NoError(t, p.answers())
	how := "went on"
	status, err := p.control().ReadStatus(t.Context(), index+"/g2")
	if err != nil { // it had not begun when the power went
		how = "was begun again"
		status, err = p.build(r.rec.spec, "g2")
		require.NoError(t, err)
	} else if !core.IsTerminal(status.Status) {
		status, err = p.ended(index + "/g2")
		require.NoError(t, err)
	}
	want := r.rec.second
	assert.True(t, status.Status == core.StatusCompleted && status.ContentHash == want.ContentHash &&
		status.TextHash == want.TextHash && status.VectorHash == want.VectorHash, "%s: hashes %s %s %s, want %s %s %s",
		status.Status, status.ContentHash, status.TextHash, status.VectorHash, want.ContentHash, want.TextHash,
		want.VectorHash)
	assert.NoError(t, p.answers())
	twice, paid := 0, 0
	for text := range r.rec.asked.take() {
		if answered, ok := r.rec.paid[text]; ok && answered.Before(at) && !strings.HasPrefix(text, "answer") {
			twice++
		}
	}
	for _, answered := range r.rec.paid {
		if answered.Before(at) {
			paid++
		}
	}
	t.Logf("synced %s, %.1f s in: started in %.1f s, the build %s, done after %.1f s; of %d answers %d were paid twice",
		synced, at.Sub(r.rec.firstAt).Seconds(), started.Seconds(), how, time.Since(begin).Seconds(), paid, twice)
	assert.True(t, twice <= flight, "%d answers were paid twice, %d were in flight at most", twice, flight)
	p.kill()
}
