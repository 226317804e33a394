package pipeline_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordsmemory"
	"github.com/unweaver/unweaver/internal/testkit/vectorsmemory"
)

// Promises: 24.
func TestAStoreThatLostItsMemoryIsFilledAgainAlsoWhenNothingChanged(t *testing.T) {
	for name, lose := range map[string]func(*site){
		"records":                func(s *site) { s.Records = recordsmemory.New() },
		"vectors":                func(s *site) { s.Vectors = vectorsmemory.New() },
		"records and vectors":    func(s *site) { s.Records, s.Vectors = recordsmemory.New(), vectorsmemory.New() },
		"one collection dropped": func(s *site) { _ = s.Vectors.Drop(context.Background(), collections(s).Chunks) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sample(8))
			first := s.night(t)
			lose(s)
			night := s.night(t)
			require.True(t, night.planned.Unchanged && night.planned.Repair != 0, "not noticed: %+v", night.planned)
			report := s.report(t)
			assert.True(t, report.Written.Records+report.Written.Rows != 0 && report.Calls.Sum() == 0,
				"written %+v, calls %+v", report.Written, report.Calls)
			assert.True(t, night.manifest.Hashes == first.manifest.Hashes, "the hashes changed")
			assert.Zero(t, s.night(t).planned.Repair, "it is repaired again although everything is there")
		})
	}
}

func collections(s *site) core.Collections {
	current, _, err := s.index().ReadPointer(context.Background())
	if err != nil {
		panic(err)
	}
	manifest, err := s.index().Manifest(context.Background(), current.Manifest)
	if err != nil {
		panic(err)
	}
	return manifest.Collections
}

func TestNewRulesBuildAgainAndSayWhy(t *testing.T) {
	for name, change := range map[string]struct {
		apply func(*testing.T, *site)
		want  string
	}{
		"a new parser":          {func(t *testing.T, _ *site) { setMade(t, core.Made{Parser: "other"}) }, "parser"},
		"a new chunker":         {func(t *testing.T, _ *site) { setMade(t, core.Made{Chunker: "other"}) }, "chunker"},
		"new rules of names":    {func(t *testing.T, _ *site) { setMade(t, core.Made{Names: "other"}) }, "names"},
		"new rules of words":    {func(t *testing.T, _ *site) { setMade(t, core.Made{Analyser: "other"}) }, "analyser"},
		"another chunk size":    {func(_ *testing.T, s *site) { s.spec.Chunking.MaxTokens = 700 }, "config: chunking"},
		"a price: none of them": {func(_ *testing.T, s *site) { s.spec.Chat.Price.Prompt = 7 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := builtSite(t, sample(6))
			change.apply(t, s)
			night := s.night(t)
			reasons := strings.Join(s.report(t).Reasons, "; ")
			assert.True(t, night.planned.Unchanged == (change.want == "") && strings.Contains(reasons, change.want),
				"unchanged %v, reasons %q, want %q", night.planned.Unchanged, reasons, change.want)
		})
	}
}

// The gate sees a mass deletion also where another segment of the parent, or its list of documents, is lost: a mount
// that broke takes documents and artifacts at once.
// Promises: 4.
func TestAMassDeletionIsHeldBeforeAnythingIsBuilt(t *testing.T) {
	for _, lost := range []string{"", "class run", "documents"} {
		for damage, do := range damages {
			s := newSite(t, sample(10))
			first := s.night(t)
			for _, segment := range kinds(first.manifest, lost) {
				do(t, s.Artifacts, s.index().SegmentKey(segment.SHA256))
			}
			for i := range 5 {
				s.remove(t, fmt.Sprintf("place-%03d.md", i))
			}
			night, report := s.night(t), s.report(t)
			assert.Equal(t, "mass_deletion", night.planned.Held, "%s %s", lost, damage)
			assert.Equal(t, first.manifest.Generation, night.manifest.Generation, "%s %s", lost, damage)
			assert.True(t, report.Status == core.StatusHeld && report.Written.Segments == 0 &&
				(lost != "" || strings.Contains(report.Detail, "5 of 10")), "%s %s: %+v", lost, damage, report)
		}
	}
}

// Promises: 28.
func TestAPublicationThatIsRepeatedKnowsItsOwnFlip(t *testing.T) {
	s := newSite(t, sample(5))
	job, holder := s.leased(t)
	must(s.stages(t.Context(), job, holder))(t)
	// As a worker that was killed between the flip and its answer; meanwhile more was counted.
	account := []byte(`{"calls":{"extract":7},"tokens":{"prompt":700},"cost":1}`)
	musttest.Get2(s.Coordination.ExchangeAccount(t.Context(), job.Name(), "another", account))(t)
	job.Generation = "g002"
	s.runs = 1
	fence := job.Fence
	job, holder = s.job(t)
	job.Fence = fence
	s.write(t, map[string]string{"more.md": "# More\n\nMore salt from Tolmin.\n"})
	out, err := s.stages(t.Context(), job, holder)
	require.True(t, err == nil && out.published.Status == core.StatusCompleted, "%v %v", out.published, err)
}

// Twenty nights on which three of a hundred documents change leave in the stores what the kept generations name, and
// hardly more.
// Promises: 26.
func TestManyNightsDoNotFillTheStores(t *testing.T) {
	s := builtSite(t, sample(100))
	for night := range 20 {
		for i := 3 * night; i < 3*night+3; i++ {
			s.write(t, map[string]string{fmt.Sprintf("place-%03d.md", i): fmt.Sprintf(
				"# Harbour %d, new\n\nPort Alma %d was rebuilt by Ivo Kralj %d. It trades tin with Lake Verin.\n", i, i, i)})
		}
		out := s.night(t)
		require.True(t, out.published.Status == core.StatusCompleted, "night %d: %+v", night, out.published)
	}
	refs := must(s.index().ListRefs(t.Context()))(t)
	named := map[string]bool{}
	classes, rows := int64(0), int64(0)
	for _, ref := range refs {
		manifest := must(s.index().Manifest(t.Context(), ref.Manifest))(t)
		named[ref.Manifest] = true
		for _, segment := range manifest.Segments.All() {
			named[segment.SHA256] = true
		}
		classes, rows = max(classes, manifest.Counts.Classes), max(rows, manifest.Counts.Classes+manifest.Counts.Windows)
	}
	records := int64(0)
	require.NoError(t, s.Records.ScanRecords(t.Context(), s.StoreID[:8]+":c:docs:", func(keys []string) error {
		records += int64(len(keys))
		return nil
	}))
	stored := int64(0)
	for _, collection := range []string{collections(s).Classes, collections(s).Chunks} {
		count := must(s.Vectors.Count(t.Context(), collection))(t)
		stored += count
	}
	files := 0
	for range musttest.All(t, s.Artifacts.List(t.Context(), "docs/", "")) {
		files++
	}
	t.Logf("%d generations; %d records of %d classes, %d rows of %d, %d files of %d named",
		len(refs), records, classes, stored, rows, files, len(named))
	assert.False(t, float64(records) > 1.3*float64(classes) || float64(stored) > 1.3*float64(rows),
		"%d records of %d classes, %d rows of %d", records, classes, stored, rows)
	// Besides what is named there are a reference, a report in two forms and a configuration to each generation.
	assert.True(t, files <= 2*len(named), "%d files, %d of them named", files, len(named))
}

func TestAStoreThatLosesItsMemoryWhileABuildVerifiesIsNoticedByTheNextNight(t *testing.T) {
	s := newSite(t, sample(8))
	job, holder := s.leased(t)
	s.before = func(stage string) {
		if stage == "publish" {
			s.Records = recordsmemory.New()
		}
	}
	must(s.stages(t.Context(), job, holder))(t)
	s.before = nil
	index := artifact.Index{Store: s.Artifacts, Name: job.Index}
	require.NoError(t, run.GiveLease(t.Context(), index, holder))
	night := s.night(t)
	assert.True(t, night.planned.Repair != 0 && s.report(t).Written.Records != 0, "not noticed: %+v", night.planned)
}

// The built-in embedder learns its words again once there are twice as many chunks: then a part cannot be made alone.
func TestACorpusThatOutgrowsItsWordsIsMadeAnew(t *testing.T) {
	s := builtSite(t, sample(6))
	s.write(t, sample(8))
	way := &how{}
	night, err := s.try(t, way)
	require.True(t, err == nil && !way.restarted, "a part more: restarted %v, %v, %v", way.restarted, night.published, err)
	s.write(t, sample(20))
	grown, err := s.try(t, way)
	require.True(t, err == nil && way.restarted, "three times as many: restarted %v, %v", way.restarted, err)
	fresh := newSite(t, sample(20))
	want := fresh.night(t)
	assert.True(t, grown.manifest.Hashes == want.manifest.Hashes, "the hashes are not those of a build from nothing")
	if report := s.report(t); !slices.ContainsFunc(report.Reasons, func(reason string) bool {
		return strings.Contains(reason, "learned from")
	}) {
		t.Errorf("%q", report.Reasons)
	}
}

// A bitmap of what is dead is made from nothing else that is stored: where it is lost, everything is made again,
// whatever else the night finds, documents among it that only the parent has.
func TestALostTombHasAWayBack(t *testing.T) {
	whole := newSite(t, sample(12))
	whole.spec.Failures = core.Failures{Share: 1}
	whole.night(t)
	whole.write(t, map[string]string{
		"place-001.md": "# Harbour 1\n\nIt was moved to Lake Verin.\n", "place-002.md": "# Harbour 2\n\nIt was moved, too.\n",
	})
	first := whole.night(t)
	tombs := first.manifest.Segments.Tombs
	if !slices.ContainsFunc(tombs, func(one core.Tomb) bool {
		return one.Of == first.manifest.Segments.Splits[0].SHA256
	}) {
		t.Fatalf("no document is dead: %+v", tombs)
	}
	for damage, do := range damages {
		for _, night := range []string{"unchanged", "changed", "stale"} {
			for _, one := range tombs {
				s := whole.copied(t)
				s.spec.Failures = whole.spec.Failures
				do(t, s.Artifacts, s.index().SegmentKey(one.SHA256))
				s.Cache.Drop(one.SHA256)
				switch night {
				case "changed":
					s.write(t, map[string]string{"place-003.md": "# Harbour 3\n\nIt was moved to Tolmin.\n"})
				case "stale":
					s.write(t, map[string]string{"place-003.md": ""})
				}
				out, steps := s.heal(t)
				assert.True(t, out.manifest != nil && out.manifest.Counts.Documents >= 11,
					"%s, %s: %+v after %q", damage, night, out.published, steps)
				s.whole(t)
				whole.write(t, map[string]string{"place-003.md": sample(12)["place-003.md"]})
			}
		}
	}
}

// killed is a parser that somebody kills whenever it reads one document.
type killed struct {
	document.Parser
	by    string // name of the document; empty: of none
	tries int
}

func (k *killed) Parse(ctx context.Context, reader io.Reader, kind document.Kind, object string) (document.Doc, error) {
	if object == k.by {
		k.tries++
		return document.Doc{}, fault.Quarantined.At("read", object).Because("killed")
	}
	return k.Parser.Parse(ctx, reader, kind, object)
}

// A document that breaks what reads it is tried again every night, and publishes nothing as long as it goes on so.
func TestANightWithTheSameQuarantinedDocumentPublishesNothing(t *testing.T) {
	s := newSite(t, sample(6))
	s.spec.Failures = core.Failures{Share: 0.5}
	parser := &killed{Parser: s.Parser, by: "place-002.md"}
	s.Parser = parser
	first := s.night(t)
	require.True(t, first.manifest != nil && first.manifest.Counts.Failed == 1, "%+v", first)
	for range 2 {
		tries := parser.tries
		out := s.night(t)
		require.True(t, out.equalsParent && out.manifest.Generation == "g001" && parser.tries != tries,
			"%+v, tried %d times", out, parser.tries-tries)
		report := s.report(t)
		assert.True(t, report.Unchanged && report.Status == core.StatusErrors && report.DocumentsFailed == 1 &&
			report.ProblemsTotal == 1 && report.ProblemsPath != "" && report.Diff.Changed == 0 && report.Diff.Same == 6 &&
			len(report.Problems) == 1 && report.Problems[0].Object == parser.by &&
			strings.Contains(report.Problems[0].Detail, "killed"), "%+v", report)
	}
	s.write(t, map[string]string{"place-001.md": "# Harbour 1\n\nIt was moved to Lake Verin.\n"})
	if out := s.night(t); out.equalsParent || out.manifest.Generation != "g004" || out.manifest.Counts.Failed != 1 {
		t.Errorf("something else changed: %+v", out)
	}
	parser.by = ""
	if out := s.night(t); out.equalsParent || out.manifest.Generation != "g005" || out.manifest.Counts.Failed != 0 {
		t.Errorf("it can be read again: %+v", out)
	}
	out := s.night(t)
	assert.True(t, out.planned.Unchanged, "%+v", out)
}

// Only a publication keeps the limits that documents met: without one each later night would try all of them again.
func TestANightWithOtherLimitsIsPublishedOnce(t *testing.T) {
	s := newSite(t, sample(6))
	s.write(t, map[string]string{"large.md": "# Large\n\n" + strings.Repeat("Salt from Tolmin. ", 200)})
	s.spec.Failures = core.Failures{Share: 0.5}
	limited := func(bytes int64) {
		s.Limits.Text = bytes
		s.Parser = documenttest.Here{Limits: s.Limits}
	}
	limited(2000)
	first := s.night(t)
	require.True(t, first.manifest.Counts.Failed == 1, "%+v", first.manifest.Counts)
	limited(3000)
	out := s.night(t)
	assert.True(t, !out.equalsParent && out.manifest.Generation == "g002" && out.manifest.Counts.Failed == 1, "%+v", out)
	out = s.night(t)
	assert.True(t, out.planned.Unchanged, "the same limits: %+v", out)
}

// A corpus that shrinks to nothing ends the night by name before anything is made, whatever the gate allows: what is
// served stays, and once the documents are back there is nothing to do.
// Promises: 112.
func TestACorpusThatShrinksToNothingEndsTheNightAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(6))
	s.spec.Gate.MaxRemoved = 1
	first := s.night(t)
	for i := range 6 {
		s.remove(t, fmt.Sprintf("place-%03d.md", i))
	}
	job, holder := s.leased(t)
	refused(s.stages(t.Context(), job, holder))(t, fault.CorpusEmpty, "holds no document", "")
	failed := run.Ending{Status: core.StatusFailed, Reason: string(fault.CorpusEmpty)}
	require.NoError(t, s.finish(t.Context(), job, holder, failed))
	current, _, err := s.index().ReadPointer(t.Context())
	assert.True(t, err == nil && current.Generation == first.manifest.Generation, "%+v, %v", current, err)
	back := s.buildFiles(t, sample(6))
	assert.True(t, back.planned.Unchanged && back.manifest.Hashes == first.manifest.Hashes, "%+v", back.planned)
}

// full is a store that has no room left for objects above some bytes; below zero there is room.
type full struct {
	blob.Store
	room *atomic.Int64
}

func (f full) Put(ctx context.Context, key string, body io.Reader, size int64, c blob.Cond) (blob.Info, error) {
	if room := f.room.Load(); room >= 0 && size > room {
		return blob.Info{}, fault.StoreFull.At("write", key).Because("no room is left").Advise("make room")
	}
	return f.Store.Put(ctx, key, body, size, c)
}

// A store that is full but for small files serves what it served before by a rollback, and is collected, which makes
// room. One that takes no byte refuses both by name, and what is served stays.
// Promises: 112.
func TestAFullStoreIsRolledBackAndCollected(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(40))
	room := &atomic.Int64{}
	room.Store(-1)
	s.Artifacts = full{s.Artifacts, room}
	s.spec.Keep = 9
	for night := range 4 {
		texts := map[string]string{}
		for i := range 30 { // most of it is made again: whole segments are no longer wanted
			texts[fmt.Sprintf("place-%03d.md", i)] = fmt.Sprintf("# Harbour\n\nBern sells salt %d to Lake Verin %d.\n", night, i)
		}
		s.buildFiles(t, texts)
	}
	s.spec.Keep = 1
	job, holder := s.job(t)
	stored := func() (bytes int64) {
		for info := range musttest.All(t, s.Artifacts.List(t.Context(), "", "")) {
			bytes += info.Size
		}
		return bytes
	}
	room.Store(4096)
	s.write(t, map[string]string{"more.md": "# More\n\nThe ferry goes to Tolmin.\n"})
	move, err := s.act(t, core.ActionRollback, "")
	assert.True(t, err == nil && move.To == "g003", "rollback: %+v, %v", move, err)
	before := stored()
	for range 2 { // what the first one condemns the second deletes, a grace later
		s.lease(t, &job, holder)
		if err = s.collect(t.Context(), job, holder); err != nil {
			break
		}
	}
	after := stored()
	assert.True(t, err == nil && after < before, "collect: %v, %d bytes, then %d", err, before, after)
	room.Store(0)
	refused(s.act(t, core.ActionRollback, "g002"))(t, fault.StoreFull, "", "rollback without a byte")
	current, _, err := s.index().ReadPointer(t.Context())
	assert.True(t, err == nil && current.Generation == "g003", "%+v, %v", current, err)
}

// Documents that came through links are gone for a version that does not follow them: the gate of mass deletions holds
// the run, and its message names the setting that brings them back.
func TestDocumentsThatCameThroughLinksAreHeldAndTheSettingIsNamed(t *testing.T) {
	s := newSite(t, map[string]string{"own.md": "# Own\n\nThe harbour of Port Alma was built by Carla Ruiz.\n"})
	outside := t.TempDir()
	for name, text := range sample(3) {
		require.NoError(t, os.WriteFile(filepath.Join(outside, name), []byte(text), 0o600))
	}
	if err := os.Symlink(outside, filepath.Join(s.corpus, "linked")); err != nil {
		t.Skip("no links here: ", err)
	}
	s.spec.FollowLinks = true
	require.EqualValues(t, 4, s.night(t).planned.Documents)
	s.spec.FollowLinks = false
	require.NotEmpty(t, s.night(t).planned.Held, "it was not held")
	problems := s.report(t).Problems
	assert.True(t, slices.ContainsFunc(problems, func(one core.Problem) bool {
		return one.Code == "not_followed" && one.Object == "linked" && strings.Contains(one.Detail, "follow_links")
	}), "problems: %+v", problems)
	s.spec.FollowLinks = true
	assert.True(t, s.night(t).planned.Unchanged, "with the setting")
}
