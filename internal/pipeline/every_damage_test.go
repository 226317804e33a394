//go:build !race

// What these tests do many times, one after another, others do with the race detector a few times.

package pipeline_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

// Every kind of object of the current generation, removed and flipped one at a time, on a night that finds nothing else
// to do: it heals, with the hashes that it had, or ends with a code and a step that heals.
// Promises: 49.
func TestEveryDamageOfTheCurrentGenerationHasAWayBack(t *testing.T) {
	whole := newSite(t, sample(12))
	whole.spec.Enrich = []string{"gem", "facts"}
	whole.night(t)
	whole.write(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	whole.remove(t, "place-003.md")
	before := whole.night(t)
	for _, kind := range before.manifest.Segments.Kinds() {
		assert.True(t, len(kind.Segments) != 0, "no segment of the kind %s", kind.Name)
	}
	for _, object := range whole.objects(t) {
		for _, damage := range []string{"removed", "flipped", "cut"} {
			t.Run(object[0]+" "+damage, func(t *testing.T) {
				s, key := whole.copied(t), object[1]
				damages[damage](t, s.Artifacts, key)
				night, steps := s.heal(t)
				s.whole(t)
				want := before.manifest.Hashes
				if object[0] == "idf" { // another table of word weights: vectors are as of an index built from nothing
					want.Vector = s.fromNothing(t).Hashes.Vector
				}
				assert.True(t, night.manifest.Hashes == want, "the hashes are other ones")
				report := s.report(t)
				reported := strings.Join(report.Reasons, "; ")
				if strings.HasSuffix(key, "/current.json") || strings.HasSuffix(key, "/lease.json") {
					assert.True(t, len(steps) == 0 && night.planned.Unchanged, "steps %q, %+v", steps, night.planned)
				}
				segment := strings.Contains(key, "/segments/") && object[0] != "manifest"
				assert.True(t, !segment || !night.planned.Unchanged && strings.Contains(reported, "("+object[0]+")") &&
					len(report.Problems) != 0 && report.Problems[0].Code == string(fault.ParentDamaged),
					"unchanged %v, it says %q, problems %+v", night.planned.Unchanged, reported, report.Problems)
				if again, err := s.try(t, &how{}); err != nil || !again.planned.Unchanged || again.planned.Repair != 0 {
					t.Errorf("the night after: %+v, %v", again.planned, err)
				}
			})
		}
	}
}

// What a night reads of its parent to take documents out and to merge may be damaged since plan looked: the same run
// makes everything again.
// Promises: 49.
func TestDamageThatAMergeMeetsMendsItselfInTheSameRun(t *testing.T) {
	first, sound := beforeMerge(t)
	for _, list := range first.current(t).Segments.Kinds() {
		for damage, do := range damages {
			if len(list.Segments) == 0 || list.Name == "idf" {
				continue
			}
			t.Run(list.Name+" "+damage, func(t *testing.T) {
				s := first.copied(t)
				for _, stage := range []string{"chunk", "segment"} {
					done, sha := false, list.Segments[0].SHA256
					s := s.copied(t)
					s.Cache.Drop(sha)
					s.before = func(at string) {
						if at == stage && !done {
							done = true
							do(t, s.Artifacts, s.index().SegmentKey(sha))
							s.Cache.Drop(sha)
						}
					}
					way := &how{}
					night, err := s.try(t, way)
					if err != nil || night.published.Status != core.StatusCompleted {
						t.Errorf("before %s: %+v, %v", stage, night.published, err)
						continue
					}
					s.before = nil
					assert.True(t, night.manifest.Hashes == sound.Hashes,
						"before %s: the hashes are not those of an undamaged run", stage)
					assert.True(t, done, "before %s: nothing was damaged", stage)
				}
			})
		}
	}
}
