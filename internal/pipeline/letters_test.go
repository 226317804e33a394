package pipeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// lettersSite has a model that answers nothing about two of its documents until it gets better.
func lettersSite(t *testing.T, better *atomic.Bool) *paidSite {
	t.Helper()
	t.Setenv(keyVariable, "secret")
	s := newPaidSite(t, 8, func(_ *paidSite, seen modeltest.Seen) modeltest.Injection {
		bad := strings.Contains(seen.Text, "Port Alma 2 was") || strings.Contains(seen.Text, "Port Alma 5 was")
		if seen.Task == "extract" && bad && !better.Load() {
			return modeltest.Injection{Content: "Sorry,\nno entities."}
		}
		return modeltest.Injection{}
	})
	s.spec.Failures.Share = 0.9
	return s
}

func (s *paidSite) letters(t *testing.T, generation string) []core.Letter {
	t.Helper()
	letters, err := run.ReadLetters(t.Context(), artifact.Index{Store: s.Artifacts, Name: "docs"}, generation)
	require.NoError(t, err)
	return letters
}

// A round of retry-failed asks for what failed and for nothing else, whatever the corpus has by then; a model that got
// better empties the list, and one that did not leaves it with one attempt more. Under parity a chunk that failed has
// no mention by which it could be counted.
func TestARetryAsksForWhatFailedAloneAndABetterModelEmptiesTheList(t *testing.T) {
	for _, parity := range []bool{false, true} {
		t.Run(fmt.Sprintf("parity %v", parity), func(t *testing.T) { retryLetters(t, parity) })
	}
}

func retryLetters(t *testing.T, parity bool) {
	var better atomic.Bool
	s := lettersSite(t, &better)
	s.spec.Parity = parity
	first := s.night(t)
	letters := s.letters(t, first.manifest.Generation)
	if len(letters) != 2 || letters[0].Document != "place-002.md" || letters[0].Kind != core.LetterContent ||
		letters[0].Attempts != 1 || !strings.Contains(letters[0].Raw, "Sorry") {
		t.Fatalf("%+v", letters)
	}
	// What changes in the corpus meanwhile waits for the next night.
	s.write(t, map[string]string{
		"new.md": "# New\n\nTolmin sells tin.\n", "place-001.md": "# Other\n\nBern sells salt.\n",
	})
	require.NoError(t, os.Remove(filepath.Join(s.corpus, "place-003.md")))
	for round := 1; round <= 2; round++ {
		s.attempt = round
		before := s.server.Stats().Tasks["extract"].Calls
		again := s.night(t)
		letters = s.letters(t, again.manifest.Generation)
		require.True(t, len(letters) == 2 && letters[0].Attempts == round+1 && again.manifest.Counts.DeadLetters == 2,
			"round %d of a model that is as it was: %+v", round, letters)
		if asked := s.server.Stats().Tasks["extract"].Calls - before; asked < 2 || asked > 16 { // until it is sure to be the chunks
			t.Errorf("round %d asked %d times for two chunks", round, asked)
		}
	}
	better.Store(true)
	asked := s.server.Stats().Tasks["extract"].Calls
	s.attempt = 3
	done := s.night(t)
	if done.published.Status != core.StatusCompleted || done.manifest.Counts.DeadLetters != 0 ||
		len(s.letters(t, done.manifest.Generation)) != 0 {
		t.Errorf("%+v, %+v", done.published, done.manifest.Counts)
	}
	assert.Equal(t, int64(2), s.server.Stats().Tasks["extract"].Calls-asked)
	assert.True(t, done.manifest.Counts.Documents == first.manifest.Counts.Documents && done.planned.Documents == 2,
		"%d documents were made; %+v, was %+v", done.planned.Documents, done.manifest.Counts, first.manifest.Counts)
	s.attempt = 0
	night := s.night(t) // which takes in what the corpus has by now
	if night.planned.Documents != 2 || night.manifest.Counts.Documents != 8 || night.manifest.Counts.DeadLetters != 0 {
		t.Errorf("%+v, %+v", night.planned, night.manifest.Counts)
	}
	// What came of it is what a build from nothing comes to.
	fresh := newPaidSite(t, 0, func(*paidSite, modeltest.Seen) modeltest.Injection { return modeltest.Injection{} })
	fresh.corpus, fresh.spec.Corpus, fresh.spec.Parity = s.corpus, s.corpus, parity
	if built := fresh.night(t); built.manifest.Hashes.Content != night.manifest.Hashes.Content {
		t.Errorf("content hash %s, from nothing %s", night.manifest.Hashes.Content.Digest().Short(12), built.manifest.Hashes.Content.Digest().Short(12))
	}
}

// One letter is asked for again by itself; a discarded one is asked for by its name alone.
func TestALetterIsShownReplayedAndDiscardedByItsChunk(t *testing.T) {
	var better atomic.Bool
	s := lettersSite(t, &better)
	first := s.night(t)
	index := artifact.Index{Store: s.Artifacts, Name: "docs"}
	letters := s.letters(t, first.manifest.Generation)
	shown, err := run.FindLetter(t.Context(), index, first.manifest, letters[1].Chunk)
	assert.True(t, err == nil && strings.Contains(shown.Text, "The harbour of Port Alma 5 was built"),
		"%+v, %v", shown, err)
	for _, unknown := range []string{strings.Repeat("0", 32), "../../current", ""} {
		_, err := run.FindLetter(t.Context(), index, first.manifest, unknown)
		assert.True(t, fault.Is(err, fault.NotFound), "%q: %v", unknown, err)
	}
	generation := first.manifest.Generation
	err = run.DiscardLetters(t.Context(), index, generation, []string{letters[0].Chunk, strings.Repeat("0", 32)}, "why")
	assert.True(t, fault.Is(err, fault.NotFound) && s.letters(t, generation)[0].Discarded == nil,
		"one of two is unknown: %v", err)
	require.NoError(t, run.DiscardLetters(t.Context(), index, generation, []string{letters[0].Chunk}, "a table"))
	better.Store(true)
	s.attempt = 1
	night := s.night(t)
	left := s.letters(t, night.manifest.Generation)
	require.True(t, len(left) == 1 && left[0].Discarded != nil && left[0].Discarded.Why == "a table",
		"after a round for all: %+v", left)
	s.attempt = 2
	next := "g003"
	require.NoError(t, run.ChooseLetters(t.Context(), index, next, []string{left[0].Chunk}))
	if named := s.night(t); named.manifest.Generation != next || len(s.letters(t, next)) != 0 {
		t.Errorf("asked for by its name: %s, %+v", named.manifest.Generation, s.letters(t, next))
	}
}
