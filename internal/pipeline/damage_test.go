package pipeline_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/pipeline/upkeep"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
)

// how a run comes to its end.
type how struct {
	rebuild   bool // asked for
	restarted bool // it began again from plan
}

// try does what the workflow does, also where a segment that is re-used turns out to be damaged.
func (s *site) try(t *testing.T, way *how) (outcome, error) {
	job, holder := s.job(t)
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	holder.Heartbeat = time.Second
	fence, err := run.TakeLease(t.Context(), index, holder, engine{}.standing)
	if err != nil {
		return outcome{}, err
	}
	job.Fence, job.Rebuild = fence, way.rebuild
	settle := func(ctx context.Context, work *upkeep.Run) error { return work.Settle(ctx) }
	if err := s.unit(t.Context(), job, "lease", settle); err != nil {
		return outcome{}, err
	}
	out, err := s.stages(t.Context(), job, holder)
	if fault.Is(err, fault.ParentDamaged) {
		way.restarted = true
		job.Rebuild, job.Anew = true, "untold"
		out, err = s.stages(t.Context(), job, holder)
	}
	if fault.Is(err, fault.Outgrown) && job.Anew == "" {
		way.restarted = true
		job.Anew = "docs/why.json"
		why := run.Failure{Code: string(fault.CodeOf(err)), Text: err.Error()}
		_, writing := blob.WriteJSON(t.Context(), s.Artifacts, job.Anew, why, blob.Cond{})
		require.NoError(t, writing)
		out, err = s.stages(t.Context(), job, holder)
	}
	ending := run.Ending{Status: out.published.Status, Reason: out.published.Reason}
	switch {
	case err != nil:
		ending = run.Ending{Status: core.StatusFailed, Reason: string(fault.CodeOf(err)), Detail: err.Error()}
	case out.planned.Unchanged:
		ending = run.Ending{Status: out.planned.Status, Unchanged: true}
	}
	require.NoError(t, s.finish(t.Context(), job, holder, ending))
	if err == nil {
		out.manifest = s.current(t)
	}
	return out, err
}

func (s *site) index() artifact.Index { return artifact.Index{Store: s.Artifacts, Name: s.spec.Index} }

func (s *site) current(t *testing.T) *core.Manifest {
	pointer, _ := must2(s.index().ReadPointer(t.Context()))(t)
	return must(s.index().Manifest(t.Context(), pointer.Manifest))(t)
}

// restore does what the workflow of a restore does.
func (s *site) restore(t *testing.T) error {
	s.runs++
	job := run.Job{Index: s.spec.Index, Generation: fmt.Sprintf("restore-%03d", s.runs)}
	work := s.Bare(job, "restore", upkeep.RestoreFolder)
	defer work.Close()
	parts, err := work.OpenRestore(t.Context())
	for part := 0; part < parts && err == nil; part++ {
		_, err = work.RestorePart(t.Context(), part)
	}
	if err == nil {
		err = work.SealRestore(t.Context())
	}
	if err == nil {
		err = work.FinishRestore(t.Context())
	}
	return err
}

// whole fails where something that the current generation names is not there as it was written.
func (s *site) whole(t *testing.T) {
	manifest := s.current(t)
	for _, kind := range manifest.Segments.Kinds() {
		for _, segment := range kind.Segments {
			intact, err := s.index().IsIntact(t.Context(), segment.SHA256, nil)
			assert.True(t, err == nil && intact, "%s %s is damaged still: %v", kind.Name, segment.SHA256[:12], err)
		}
	}
	assert.NoError(t, musttest.Err(s.index().Spec(t.Context(), manifest.Spec)))
	ref, err := s.index().GenerationRef(t.Context(), manifest.Generation)
	assert.True(t, err == nil && ref.Seq == manifest.Seq, "reference %+v, %v", ref, err)
}

// damages are the kinds of damage.
var damages = map[string]func(*testing.T, blob.Store, string){
	"removed": func(t *testing.T, store blob.Store, key string) {
		t.Helper()
		require.NoError(t, store.Delete(t.Context(), key))
	},
	"cut": func(t *testing.T, store blob.Store, key string) {
		t.Helper()
		raw, _ := must2(blob.Read(t.Context(), store, key))(t)
		_, err := blob.Write(t.Context(), store, key, bytes.Clone(raw[:len(raw)/2]), blob.Cond{})
		require.NoError(t, err)
	},
	"flipped": func(t *testing.T, store blob.Store, key string) {
		t.Helper()
		raw, _ := must2(blob.Read(t.Context(), store, key))(t)
		raw = bytes.Clone(raw)
		raw[len(raw)/2] ^= 0x40
		if strings.HasSuffix(key, ".json") {
			raw[0] ^= 0x40 // a JSON file that is no JSON any more
		}
		_, err := blob.Write(t.Context(), store, key, raw, blob.Cond{})
		require.NoError(t, err)
	},
}

// objects returns the stored objects of the current generation: one of each kind, but every file of enrichments, which
// have several kinds.
func (s *site) objects(t *testing.T) [][2]string {
	pointer, _ := must2(s.index().ReadPointer(t.Context()))(t)
	manifest := s.current(t)
	var out [][2]string
	for _, kind := range manifest.Segments.Kinds() {
		for i, segment := range kind.Segments {
			if i == 0 || kind.Name == "enrichment" {
				out = append(out, [2]string{kind.Name, s.index().SegmentKey(segment.SHA256)})
			}
		}
	}
	return append(out,
		[2]string{"manifest", s.index().SegmentKey(pointer.Manifest)},
		[2]string{"reference", s.index().GenerationKey(pointer.Generation, "manifest.json")},
		[2]string{"current.json", s.index().CurrentKey()},
		[2]string{"stores.json", s.index().Name + "/stores.json"},
		[2]string{"lease.json", s.index().LeaseKey()},
		[2]string{"configuration", s.index().SpecKey(manifest.Spec)})
}

// heal follows the hints of errors until a night goes well, and says what was done.
func (s *site) heal(t *testing.T) (out outcome, steps []string) {
	t.Helper()
	way := &how{}
	for range 3 {
		var err error
		if out, err = s.try(t, way); err == nil {
			break
		}
		text := err.Error()
		step := fmt.Sprintf("`%s`, then ", fault.CodeOf(err))
		switch {
		case strings.Contains(text, "index --rebuild --index docs"):
			step += "`index --rebuild`"
			way.rebuild = true
		case strings.Contains(text, "restore docs"):
			step += "`restore`"
			require.NoError(t, s.restore(t), "restore")
		default:
			t.Fatalf("it fails and names no step: %v", err)
		}
		steps = append(steps, step)
	}
	return out, steps
}

// fromNothing builds the same corpus in an installation that holds nothing.
func (s *site) fromNothing(t *testing.T) *core.Manifest {
	other := newSite(t, nil)
	other.corpus, other.spec.Corpus = s.corpus, s.corpus
	return other.night(t).manifest
}

// touched counts reads of whole segments.
type touched struct {
	blob.Store
	mu    sync.Mutex
	whole map[string]int
}

func (s *touched) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if part == blob.All {
		s.mu.Lock()
		s.whole[key]++
		s.mu.Unlock()
	}
	return s.Store.Get(ctx, key, part)
}

func TestEverySegmentOfTheParentIsReadOnceInSevenNights(t *testing.T) {
	s := newSite(t, sample(40))
	now := time.Date(2026, 11, 2, 3, 0, 0, 0, time.UTC)
	s.Checks = run.Checks{Bytes: 1, Now: func() time.Time { return now }}
	store := &touched{Store: s.Artifacts, whole: map[string]int{}}
	s.Artifacts = store
	first := s.night(t)
	var most int
	all := first.manifest.Segments.All()
	ever := map[string]bool{}
	for range 7 {
		store.whole = map[string]int{}
		now = now.Add(24 * time.Hour)
		night := s.night(t)
		require.True(t, night.planned.Unchanged, "%+v", night.planned)
		tonight := 0
		for _, segment := range all {
			if store.whole[s.index().SegmentKey(segment.SHA256)] > 0 {
				ever[segment.SHA256] = true
				tonight++
			}
		}
		most = max(most, tonight)
	}
	assert.True(t, len(ever) == len(all) && most < len(all),
		"%d of %d segments were read in seven nights, at most %d in one", len(ever), len(all), most)
}

func TestASmallIndexIsReadWholeEachNight(t *testing.T) {
	s := newSite(t, sample(10))
	store := &touched{Store: s.Artifacts, whole: map[string]int{}}
	s.Artifacts = store
	first := s.night(t)
	store.whole = map[string]int{}
	s.night(t)
	for _, segment := range first.manifest.Segments.All() {
		assert.Equal(t, 1, store.whole[s.index().SegmentKey(segment.SHA256)], "segment %s was read", segment.SHA256)
	}
}

// Promises: 54.
func TestARebuildHasTheSameHashesAndPublishesAlsoWhenNothingChanged(t *testing.T) {
	s := builtSite(t, sample(12))
	before := s.buildFiles(t, map[string]string{"more.md": "# More\n\nMore salt of Tolmin goes to Port Alma 3.\n"})
	night, err := s.try(t, &how{rebuild: true})
	require.True(t, err == nil && !night.planned.Unchanged && night.manifest.Generation != before.manifest.Generation,
		"%v %v", night.planned, err)
	assert.True(t, night.manifest.Hashes == before.manifest.Hashes &&
		night.manifest.Collections == before.manifest.Collections, "hashes or collections are other ones")
	assert.True(t, len(night.manifest.Segments.ClassVecs) < len(before.manifest.Segments.ClassVecs),
		"%d segments of class vectors, %d before: the parent's are re-used", len(night.manifest.Segments.ClassVecs),
		len(before.manifest.Segments.ClassVecs))
	reasons := s.report(t).Reasons
	assert.True(t, slices.Contains(reasons, "requested with --rebuild"), "reasons %q", reasons)
}

func TestRestoreTellsAllThatIsLostAndRestoresTheRest(t *testing.T) {
	s := newSite(t, sample(12))
	first := s.night(t)
	segments := first.manifest.Segments
	for _, lost := range []core.Segment{segments.Text[0], segments.Mentions[0], segments.Splits[0].Segment} {
		damages["removed"](t, s.Artifacts, s.index().SegmentKey(lost.SHA256))
	}
	damages["flipped"](t, s.Artifacts, s.index().SegmentKey(segments.Extract[0].SHA256))
	s.Records = recordsmemory.New()
	err := s.restore(t)
	for _, want := range []string{"(text)", "(mentions)", "(extract)", "index --rebuild --index docs"} {
		assert.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), want),
			"it does not tell of %s: %v", want, err)
	}
	count := 0
	_ = s.Records.ScanRecords(t.Context(), "", func(keys []string) error { count += len(keys); return nil })
	assert.True(t, count != 0, "the records were not restored")
}

func TestRestoreMakesAgainWhatIsMadeFromOtherSegments(t *testing.T) {
	for damage, do := range damages {
		s := builtSite(t, sample(12))
		night := s.buildFiles(t, map[string]string{"place-001.md": "# Harbour 1\n\nIt was moved to Lake Verin.\n"})
		again := 0
		for _, segment := range kinds(night.manifest, "split", "class run", "dead statistics") {
			again++
			do(t, s.Artifacts, s.index().SegmentKey(segment.SHA256))
			s.Cache.Drop(segment.SHA256)
			assert.NoError(t, s.restore(t), "%s", damage)
		}
		assert.True(t, again >= 4, "%d segments", again)
		s.whole(t)
	}
}

// kinds returns the segments of some kinds.
func kinds(manifest *core.Manifest, names ...string) (out []core.Segment) {
	for _, kind := range manifest.Segments.Kinds() {
		if slices.Contains(names, kind.Name) {
			out = append(out, kind.Segments...)
		}
	}
	return out
}

func TestOlderGenerationsThatAreDamagedAreLeftOut(t *testing.T) {
	for _, object := range []string{"manifest", "reference"} {
		for damage, do := range damages {
			t.Run(object+" "+damage, func(t *testing.T) {
				s := builtSite(t, sample(8))
				for _, mine := range s.objects(t) {
					if mine[0] == object {
						old := mine[1]
						s.buildFiles(t, map[string]string{"a.md": "# A\n\nSalt of Tolmin.\n"})
						do(t, s.Artifacts, old)
					}
				}
				assert.NoError(t, s.restore(t), "restore")
				s.write(t, map[string]string{"b.md": "# B\n\nTin of Tolmin.\n"})
				night := musttest.Get(s.try(t, &how{}))(t)
				assert.True(t, night.published.Status == core.StatusCompleted, "a build: %+v", night.published)
				list, err := s.index().ListGenerations(t.Context())
				assert.True(t, err == nil && list[0].Generation == night.manifest.Generation, "generations %+v, %v", list, err)
			})
		}
	}
}

// Segments that have the bytes of their names, which are no documents all the same: no hash sees them.
// Promises: 84.
func TestAForgedListOfDocumentsHasEverythingMadeAgain(t *testing.T) {
	first := newSite(t, sample(12))
	want := first.night(t)
	replace := func(manifest *core.Manifest, other core.Segment) {
		other.Part = manifest.Segments.Documents[0].Part
		manifest.Segments.Documents[0] = other
	}
	forgeries := map[string]func(*testing.T, *site, *core.Manifest){
		"bytes of no format": func(t *testing.T, s *site, manifest *core.Manifest) {
			raw := []byte(strings.Repeat("no documents at all ", 100))
			sum := sha256.Sum256(raw)
			forged := core.Segment{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(raw))}
			key := s.index().SegmentKey(forged.SHA256)
			must(blob.Write(t.Context(), s.Artifacts, key, raw, blob.Cond{}))(t)
			replace(manifest, forged)
		},
		"rows of another kind": func(_ *testing.T, _ *site, manifest *core.Manifest) {
			replace(manifest, manifest.Segments.Mentions[0])
		},
		"fewer than the manifest says": func(_ *testing.T, _ *site, manifest *core.Manifest) {
			manifest.Segments.Splits[0].Documents++
		},
	}
	for name, forge := range forgeries {
		for _, rebuild := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := first.copied(t)
				s.forge(t, func(manifest *core.Manifest) { forge(t, s, manifest) })
				night := must(s.try(t, &how{rebuild: rebuild}))(t)
				assert.True(t, !night.planned.Unchanged && night.manifest.Hashes == want.manifest.Hashes,
					"unchanged %v, hashes %+v, want %+v", night.planned.Unchanged, night.manifest.Hashes, want.manifest.Hashes)
				reported := strings.Join(s.report(t).Reasons, "\n")
				assert.Contains(t, reported, "is no list of documents: everything is rebuilt", "reasons")
				s.whole(t)
			})
		}
	}
}

// A collector died in a batch, the reference of an old generation is damaged, and the corpus becomes again what it was,
// so that the night makes segments of the batch: it publishes, and its report reports the damage.
func TestDamageOfAnOldReferenceAndADeadCollectorBlockNoNight(t *testing.T) {
	s := builtSite(t, sample(8))
	was := s.buildFiles(t, map[string]string{"a.md": "# A\n\nSalt of Tolmin.\n"})
	s.buildFiles(t, map[string]string{"a.md": "# A\n\nTin of Lake Verin.\n"})
	var batch []string
	now := s.current(t).Segments.All()
	for _, segment := range was.manifest.Segments.All() {
		if !slices.Contains(now, segment) {
			batch = append(batch, "segment:"+segment.SHA256)
		}
	}
	list := map[string]any{"format": 2, "since": map[string]string{}, "deleting": batch}
	must(blob.WriteJSON(t.Context(), s.Artifacts, "docs/condemned.json", list, blob.Cond{}))(t)
	reference := s.index().GenerationKey(was.manifest.Generation, "manifest.json")
	damages["flipped"](t, s.Artifacts, reference)
	s.write(t, map[string]string{"a.md": "# A\n\nSalt of Tolmin.\n"})
	night := musttest.Get(s.try(t, &how{}))(t)
	require.True(t, night.published.Status == core.StatusCompleted, "the night: %+v", night.published)
	shared := 0
	for _, segment := range night.manifest.Segments.All() {
		if slices.Contains(batch, "segment:"+segment.SHA256) {
			shared++
		}
	}
	assert.True(t, shared != 0, "the night made nothing of the batch again")
	s.whole(t)
	report := s.report(t)
	reported := 0
	for _, problem := range report.Problems {
		if problem.Code == string(fault.SegmentDamage) && problem.Object == reference {
			reported++
		}
	}
	assert.True(t, reported == 1 && report.ProblemsTotal == int64(len(report.Problems)),
		"reported %d times: %+v", reported, report.Problems)
}
