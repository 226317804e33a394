package pipeline_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/ledger"
	coordmemory "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
)

// distantSite returns a site whose models are paid for and whose stores answer after a while.
func distantSite(t testing.TB, documents int, wait time.Duration) (*site, *distance.Requests) {
	s := newSite(t, sample(documents))
	requests := distance.New(wait)
	s.Artifacts = distance.Blob(s.Artifacts, requests)
	s.Coordination = distance.Coordination(s.Coordination, requests)
	paying(s)
	s.shard, s.batch, s.width = min(5000, max(500, documents/10)), 64, 20 // 5,000 and 20 are what runs and workers have
	return s, requests
}

// next builds a night in a process that begins with it, and returns the requests and the time of that night.
func (s *site) next(t testing.TB, requests *distance.Requests) (distance.Counted, time.Duration) {
	s.Ledger = ledger.New(s.Artifacts, distance.Coordination(coordmemory.New(), requests))
	requests.Take()
	begin := time.Now()
	s.night(t)
	return requests.Take(), time.Since(begin)
}

// edit changes every document whose number is a multiple of every.
func (s *site) edit(t testing.TB, documents, every int) {
	for i := 0; i < documents; i += every {
		path := filepath.Join(s.corpus, fmt.Sprintf("place-%03d.md", i))
		raw := must(os.ReadFile(path))(t)
		require.NoError(t, os.WriteFile(path, append(raw, "Tin came from Tolmin.\n"...), 0o644))
	}
}

// What a build asks its stores for is bounded by its chunks, and what an unchanged night asks for is a constant.
func TestRequestsOfABuildAreFewAndThoseOfAnUnchangedNightFewer(t *testing.T) {
	const documents = 600
	s, requests := distantSite(t, documents, 0)
	first, _ := s.next(t, requests)
	t.Logf("first build of %d chunks:\n%s", documents, first)
	unchanged, _ := s.next(t, requests)
	t.Logf("unchanged night:\n%s", unchanged)
	s.edit(t, documents, 100)
	night, _ := s.next(t, requests)
	t.Logf("a night of 1 %%:\n%s", night)
	s.write(t, map[string]string{"quay.md": "# A quay\n\nCopper from Barrow Keld is weighed on the Long Quay.\n"})
	added, _ := s.next(t, requests)
	t.Logf("a night of one document:\n%s", added)
	blobs := func(counted distance.Counted) int64 { return counted.Of("index/") + counted.Of("ledger/") }
	for _, bound := range []struct {
		what        string
		asked, most int64
	}{
		{"looks at single entries by the first build: one a miss, and those before the first shard", first.Of(
			"ledger/extract/loose", distance.Get), documents + 64 + 10},
		{"claims given back by the first build: one a miss, and a few; on a busy machine claims are renewed", first.Of(
			"coordination", "release"), documents + 100},
		{"claims of an unchanged night", unchanged.Of("coordination", "claim", "release"), 0},
		{"entries written by the first build", first.Of("ledger/extract/loose", distance.PutIf), documents},
		{"all that the first build asked the artifacts for", blobs(first), 9 * documents / 2},
		{"all that an unchanged night asked the artifacts for", blobs(unchanged), 70},
		{"looks at single entries by a night of 1 %", night.Of("ledger/extract/loose", distance.Get), 64},
		{"what a night of 1 % read of packs", night.Of("ledger/extract/packs", distance.Get), 120},
		{"all that a night of 1 % asked the artifacts for", blobs(night), 290},
		{"all that a night of one document asked the artifacts for; some ten tell of earlier ones", blobs(added), 270},
	} {
		assert.True(t, bound.asked <= bound.most, "%s: %d, at most %d", bound.what, bound.asked, bound.most)
	}
}

// A merge reads what it merges once, and not each document by itself: many small ones lie in one frame.
func TestRequestsOfAMergeDoNotGrowWithItsDocuments(t *testing.T) {
	const documents = 600
	s, requests := distantSite(t, documents, 0)
	s.next(t, requests)
	s.edit(t, documents, 4)
	night, _ := s.next(t, requests)
	t.Logf("a night that writes a split again of which a quarter died:\n%s", night)
	segments := s.current(t).Segments
	require.True(t, len(segments.Splits) == 2 && len(segments.Tombs) == 0 && segments.Splits[0].Documents == documents/4,
		"no split was merged: %+v, %d tombs", segments.Splits, len(segments.Tombs))
	if asked := night.Of("index/segments", distance.Get); asked > documents/2 {
		t.Errorf("%d segments and parts of them were read, as if each document were read by itself", asked)
	}
}
