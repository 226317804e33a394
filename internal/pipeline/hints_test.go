package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
)

// hintedSite is a site that follows hints, with the engine that runs their builds.
type hintedSite struct {
	*history
	t         *testing.T
	collector *hints.Collector
	now       time.Time
	put       int
	ended     map[string]run.Standing
	last      outcome
	err       error // of the last build
	skip      bool  // the process dies before it starts a build
	gone      int   // documents that removed removed
}

func followHints(t *testing.T, h *history) *hintedSite {
	s := &hintedSite{history: h, t: t, ended: map[string]run.Standing{}, now: time.Now().UTC()}
	s.collector = &hints.Collector{
		Index: h.index(), Coordination: h.Coordination, Owner: "one", Debounce: time.Second, Start: s.startBuild,
		Describe: func(_ context.Context, holder run.Holder) (run.Standing, error) { return s.ended[holder.Workflow], nil },
		Observe:  func(float64) {}, Now: func() time.Time { return s.now },
	}
	require.NoError(t, s.collector.Advance(t.Context()))
	return s
}

// startBuild does at once what the workflow does.
func (s *hintedSite) startBuild(ctx context.Context, generation, spec string) error {
	if s.skip {
		return fault.EngineDown.At("start", generation)
	}
	job := run.Job{Index: s.index().Name, Generation: generation, Spec: spec, Shard: s.shard, Batch: s.batch}
	holder := run.Holder{Workflow: "build/" + job.Name(), Run: generation}
	s.lease(s.t, &job, holder)
	s.last, s.err = s.stages(ctx, job, holder)
	ending := run.Ending{Status: s.last.published.Status, Reason: s.last.published.Reason}
	switch {
	case s.err != nil:
		ending = run.Ending{Status: core.StatusFailed, Reason: string(fault.CodeOf(s.err))}
	case s.last.planned.Held != "":
		ending = run.Ending{Status: core.StatusHeld, Reason: s.last.planned.Held}
	case s.last.planned.Unchanged, s.last.equalsParent:
		ending = run.Ending{Status: core.StatusCompleted, Unchanged: true}
	}
	s.ended[holder.Workflow] = run.StandingClosed
	return s.finish(ctx, job, holder, ending)
}

// hint delivers keys, each delivery under another name.
func (s *hintedSite) hint(keys ...string) {
	s.put++
	require.NoError(s.t, hints.Put(s.t.Context(), s.index(), fmt.Sprint(s.put), keys))
}

// follow lets time pass until a build has followed what waits, and returns how the index stands.
func (s *hintedSite) follow() *core.Freshness {
	for range 3 {
		s.now = s.now.Add(time.Minute)
		require.NoError(s.t, s.collector.Advance(s.t.Context()))
	}
	stands, err := hints.Read(s.t.Context(), s.index())
	require.NoError(s.t, err)
	return stands
}

func isNoRow(line string) bool { return !json.Valid([]byte(line)) }

// Promises: 11.
func TestAfterHintsThatAreLostDoubledLateAndFalseANightComesToABuildFromNothing(t *testing.T) {
	for seed := range uint64(longtest.Count(2, 6)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			h := newHistory(t, random, 6)
			h.spec.Failures.Share = 1
			h.put(t, h.keys()[0]+".meta.json", `{"year": 1901}`)
			h.night(t)
			s, late := followHints(t, h), []string{}
			for night := range longtest.Count(12, 40) {
				was := maps.Clone(h.files)
				for _, key := range h.keys() { // change halves what is there
					if h.files[key] == "" {
						h.put(t, key, h.document())
					}
				}
				h.change(t)
				h.oddly(t)
				for i, key := range h.keys() { // metadata or rows that cannot be read leave what the parent had
					lines := strings.Split(strings.TrimSuffix(h.files[key], "\n"), "\n")
					if filepath.Ext(key) == ".jsonl" && slices.ContainsFunc(lines, isNoRow) {
						h.put(t, key, fmt.Sprintf(`{"id":"whole","text":%q}`, h.document()))
					}
					if owner, beside := strings.CutSuffix(key, ".meta.json"); beside {
						h.put(t, key, fmt.Sprintf(`{"year": %d}`, 1900+night))
					} else if i == night && filepath.Ext(owner) == ".md" {
						h.put(t, key+".meta.json", `{"year": 1899}`)
					}
				}
				complete, named := night%2 == 0, late
				late = nil
				for _, key := range slices.Sorted(maps.Keys(union(was, h.files))) {
					content, there := h.files[key]
					before, known := was[key]
					changed, lot := known != there || before != content, random.IntN(6)
					switch {
					case changed && (complete || lot < 4), !changed && lot == 0: // or false
						named = append(named, key)
					case changed && lot == 4: // or lost
						late = append(late, key)
					}
				}
				s.hint(append(named, "never/was.md", "goods/")...)
				if random.IntN(2) == 0 {
					s.hint(named...)
				}
				stands := s.follow()
				require.NoError(t, s.err, "night %d", night)
				require.True(t, stands.Pending == 0 && stands.Run == "" && stands.Waiting == "", "%+v", stands)
				if complete {
					sameGeneration(t, night, h.current(t), h.freshSite(t).night(t).manifest)
				}
				h.night(t)
				sameGeneration(t, night, h.current(t), h.freshSite(t).night(t).manifest)
			}
		})
	}
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// What one delivery of hints comes to, also where the process dies between writing down a build and starting it.
func TestWhatBecomesOfHints(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *hintedSite) []string // gives the keys that are hinted
		want   string                       // status, reason, changed, deliveries left and why they wait
		built  bool                         // another generation is served
	}{
		"a false hint gives no generation": {
			func(*hintedSite) []string { return []string{"place-001.md", "no.md"} }, "completed  0 0 ", false,
		},
		"an object that is gone is removed": {
			func(s *hintedSite) []string { return s.removed(1) }, "completed  1 0 ", true,
		},
		"a mass deletion is held, and waits for a night": {
			func(s *hintedSite) []string { return s.removed(5) }, "held mass_deletion 5 1 mass_deletion", false,
		},
		"a folder that is not mounted removes nothing": {func(s *hintedSite) []string {
			require.NoError(s.t, os.Rename(s.corpus, s.corpus+"-away"))
			require.NoError(s.t, os.Mkdir(s.corpus, 0o700))
			return []string{"place-001.md"}
		}, "failed corpus_empty 0 1 ", false},
		"a changed setting waits for a night": {func(s *hintedSite) []string {
			spec := s.spec
			spec.Chunking.MaxTokens = 700
			require.NoError(s.t, run.KeepSchedule(s.t.Context(), s.index(), run.Scheduled{Spec: spec}))
			return []string{"place-001.md"}
		}, "failed plan_moved 0 1 plan_moved", false},
		"too many have the corpus listed": {func(s *hintedSite) (keys []string) {
			s.write(s.t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			for i := range 10_001 {
				keys = append(keys, fmt.Sprintf("none-%d.md", i))
			}
			return keys
		}, "completed  1 0 ", true},
		"too many deliveries have it listed, too": {func(s *hintedSite) []string {
			s.write(s.t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			for range core.MostDeliveries - 1 {
				s.hint("none.md")
			}
			return []string{"none.md"}
		}, "completed  1 0 ", true},
		"a delivery that cannot be read has it listed": {func(s *hintedSite) []string {
			s.write(s.t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			key := s.index().HintsKey("inbox", "torn.json")
			_, err := blob.Write(s.t.Context(), s.Artifacts, key, []byte("[\"new"), blob.Cond{})
			require.NoError(s.t, err)
			return []string{"none.md"}
		}, "completed  1 0 ", true},
		"of names that no object can have there is nothing": {func(s *hintedSite) []string {
			s.write(s.t, map[string]string{"sub/x.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
			require.NoError(s.t, os.Symlink(s.corpus, filepath.Join(s.corpus, "link")))
			return []string{
				"sub/x.md", "sub//x.md", "link/sub/x.md", "place-001.md/x.md", strings.Repeat("k", 300) + ".md",
				strings.Repeat("k", 247) + ".md", "a\x01.md",
			}
		}, "completed  1 0 ", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := followHints(t, &history{site: builtSite(t, sample(10)), files: map[string]string{}})
			served := s.current(t).Generation
			for keys := range slices.Chunk(tc.change(s), hints.MostKeys) {
				s.hint(keys...)
			}
			s.skip, s.now = true, s.now.Add(time.Minute)
			require.Error(t, s.collector.Advance(t.Context()))
			s.skip = false
			stands := s.follow()
			require.NotNil(t, stands.Last)
			assert.Equal(t, tc.want, fmt.Sprintf("%s %s %d %d %s", stands.Last.Status, stands.Last.Reason, stands.Last.Changed,
				stands.Pending, stands.Waiting))
			assert.Equal(t, tc.built, s.current(t).Generation != served)
			require.NoError(t, run.NoteTime(t.Context(), s.Coordination, run.ListingOf("docs"), s.now.Add(time.Hour)))
			assert.Zero(t, s.follow().Pending, "a night that began later has seen it all")
		})
	}
}

// removed removes the next documents of a sample.
func (s *hintedSite) removed(count int) (keys []string) {
	for range count {
		key := fmt.Sprintf("place-%03d.md", s.gone)
		s.gone++
		s.site.remove(s.t, key)
		keys = append(keys, key)
	}
	return keys
}

// A mount that is gone for a while costs a few tries, and no night; one that goes well ends the wait.
func TestHintsAreFollowedOnceAMountIsBack(t *testing.T) {
	for _, night := range []bool{false, true} {
		s, tries := followHints(t, &history{site: builtSite(t, sample(10)), files: map[string]string{}}), map[string]bool{}
		s.write(t, map[string]string{"new.md": "# Salt\n\nSalt of Lake Verin is sold in Tolmin.\n"})
		require.NoError(t, os.Rename(s.corpus, s.corpus+"-away"))
		s.hint("new.md")
		for range 40 {
			tries[s.follow().Last.Run] = true
		}
		assert.True(t, len(tries) > 4 && len(tries) < 10, "%d tries in two hours", len(tries))
		require.NoError(t, os.Rename(s.corpus+"-away", s.corpus))
		if night {
			require.NoError(t, run.NoteTime(t.Context(), s.Coordination, run.ListingOf("docs"), time.Now()))
		} else {
			s.now = s.now.Add(3 * time.Hour)
		}
		stands := s.follow()
		assert.Equal(t, "completed 1 0", fmt.Sprint(stands.Last.Status, " ", stands.Last.Changed, " ", stands.Pending))
	}
}

// Builds of hints remove together what a night may, and wait for one after an operator went back.
func TestBuildsOfHintsCountTogether(t *testing.T) {
	s := followHints(t, &history{site: builtSite(t, sample(20)), files: map[string]string{}})
	night := s.current(t).Generation
	for _, want := range []string{core.StatusCompleted, core.StatusCompleted, core.StatusHeld} {
		s.hint(s.removed(2)...)
		require.Equal(t, want, s.follow().Last.Status)
	}
	_, err := s.desk().Do(t.Context(), release.Request{
		Action: core.ActionRollback, Index: "docs", Generation: night, Operator: core.Operator{By: "ada", Reason: "bad"},
	})
	require.NoError(t, err)
	require.NoError(t, run.NoteTime(t.Context(), s.Coordination, run.ListingOf("docs"), time.Now().Add(-time.Second)))
	s.hint("new-1.md")
	assert.Equal(t, core.ActionRollback, s.follow().Waiting)
	assert.Equal(t, night, s.current(t).Generation)
}
