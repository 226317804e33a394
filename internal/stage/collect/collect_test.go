package collect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stage/collect"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// first and second are a generation and its successor: b changed, c went, d came.
var (
	first = content{
		classes: map[string]string{"a": "1", "b": "1", "c": "1"}, chunks: map[string]string{"x": "1*3", "y": "1", "z": "1*2"},
	}
	second = content{
		classes: map[string]string{"a": "1", "b": "2", "d": "1"}, chunks: map[string]string{"x": "1*2", "y": "2", "w": "1"},
	}
)

func generations(w *world) []string {
	refs, _, err := w.index.ReadableRefs(context.Background())
	w.check(err)
	var names []string
	for name := range refs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestGenerationsStayByRule(t *testing.T) {
	for _, c := range []struct {
		situation string
		prepare   func(w *world)
		want      []string
	}{
		{"the newest that are kept", func(w *world) { w.keep = 2 }, []string{"g4", "g5"}},
		{"the current one, whatever is newer", func(w *world) { w.point("g2", 2) }, []string{"g2", "g5"}},
		{"the parent of the current one", func(w *world) { w.publish("g6", content{parent: "g3"}) }, []string{"g3", "g6"}},
		{"a held one that is newer", func(w *world) { w.build("h", content{state: "held"}) }, []string{"g5", "h"}},
		{"not a held one that is older", func(w *world) {
			w.build("h", content{state: "held"})
			w.publish("g6", content{})
		}, []string{"g6"}},
		{"one that a reader holds", func(w *world) { w.leases["g1"] = true }, []string{"g1", "g5"}},
		{"builds of hints beside nights", func(w *world) {
			w.publish("hints-1", content{})
			w.publish("hints-2", content{})
			w.collect(0)
			w.now = w.now.Add(11 * time.Minute)
			stagetest.Must(collect.Run(t.Context(), w.in()))
			assert.Equal(t, []string{"g1", "g2", "g3", "g4", "g5", "hints-2"}, generations(w), "of hints they go soon")
		}, []string{"g5", "hints-2"}},
		{"one at least, though none should", func(w *world) { w.keep = 0 }, []string{"g5"}},
	} {
		w := newWorld(t)
		for n := range 5 {
			w.publish(fmt.Sprint("g", n+1), content{chunks: map[string]string{"c": fmt.Sprint(n)}})
		}
		c.prepare(w)
		w.collectNights(0, 4)
		assert.Equal(t, c.want, generations(w), "%s", c.situation)
	}
}

// A tag keeps a generation that no rule keeps, and takes the mark off one that was marked before it was tagged. What
// its object holds does not count.
// Promises: 36.
func TestATaggedGenerationStaysUntilItIsUntagged(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		w.publish(fmt.Sprint("g", n+1), content{chunks: map[string]string{"c": fmt.Sprint(n)}})
	}
	w.collect(0) // marks g1 to g4
	key := w.index.TagKey("g1", "audit")
	stagetest.Must(blob.Write(t.Context(), w.index.Store, key, []byte("{"), blob.Cond{}))
	w.collectNights(1, 4)
	assert.Equal(t, []string{"g1", "g5"}, generations(w), "tagged")
	assert.Empty(t, w.missing("g1", content{chunks: map[string]string{"c": "0"}}), "it lost")
	assert.Empty(t, w.store.Keys(collect.MarkKey(w.index, "g1")), "it is still marked")
	require.NoError(t, w.index.Store.Delete(t.Context(), key))
	w.collectNights(4, 8)
	assert.Equal(t, []string{"g5"}, generations(w), "untagged")
}

// A generation is marked first, and goes a grace period later with all that it alone needs, and with nothing else.
func TestAGenerationGoesInTwoStepsWithWhatItAloneNeeds(t *testing.T) {
	w := worldOf(t, first, second)
	for _, night := range []int{0, 0} { // within the grace
		res := w.collect(night)
		assert.True(t, res.Generations+res.Records+res.Rows+res.Deleted == 0, "deleted at once: %+v", res)
	}
	assert.Empty(t, w.missing("g1", first), "a marked generation lost")
	assert.True(t, len(w.store.Keys(collect.MarkKey(w.index, "g1"))) == 1 &&
		len(w.store.Keys(collect.MarkKey(w.index, "g2"))) == 0, "marks: want one on g1 alone")
	res := w.collect(1)
	// Records and class rows of b 1 and c 1; windows 2 of x, 0 of y 1, 0 and 1 of z.
	assert.True(t, res.Generations == 1 && res.Records == 2 && res.Rows == 2+4 && res.Deleted == 5, "%+v", res)
	w.alone("g2", second)
	folder := w.store.Keys("docs/generations/g1/")
	assert.True(t, len(folder) == 1 && strings.HasSuffix(folder[0], "/collected"), "left of its folder: %v", folder)
	w.collectNights(2, 16)
	if res := w.collect(16); len(w.store.Keys("docs/generations/g1/")) != 0 {
		t.Errorf("after 16 days: %+v, %v", res, w.store.Keys("docs/"))
	}
}

// alone checks that the stores hold what one generation needs and nothing more.
func (w *world) alone(gen string, c content) {
	w.t.Helper()
	assert.Empty(w.t, w.missing(gen, c), "%s misses", gen)
	want := len(c.classes)*2 + 2
	for name, text := range c.chunks {
		want += int(chunkOf(name, text).Windows)
	}
	got := 0
	for _, entry := range w.state() {
		if strings.HasPrefix(entry, "record ") || strings.HasPrefix(entry, "row ") ||
			strings.HasPrefix(entry, "collection ") {
			got++
		}
	}
	if got != want {
		w.t.Errorf("%d records, rows and collections beside %s, want %d: %v", got, gen, want, w.state())
	}
	if segments := w.store.Keys("docs/segments/"); len(segments) != 5 { // split, class run, extract, classes, manifest
		w.t.Errorf("%d segments, want 5", len(segments))
	}
}

// Whatever the run was doing when its worker died, nothing that is kept is touched, and the next runs end where an
// undisturbed one does.
func TestARunMayEndAfterAnyWriteOrDelete(t *testing.T) {
	boom := errors.New("killed")
	fill := func() *world {
		w := worldOf(t, first)
		w.publish("g2", content{classes: map[string]string{"e": "1"}, collections: core.Collections{
			Classes: collPrefix + "classes_1", Chunks: collPrefix + "chunks_1",
		}})
		w.publish("g3", second)
		for _, key := range []string{"docs/runs/g3/1/build.json", "docs/segments/abandoned"} {
			stagetest.Must(blob.Write(context.Background(), w.store, key, nil, blob.Cond{}))
		}
		w.fence = 1
		return w
	}
	settle := func(w *world) []string {
		w.collectNights(3, 7)
		w.collect(30)
		w.alone("g3", second)
		return w.state()
	}
	undisturbed := fill()
	undisturbed.collect(0)
	undisturbed.collect(1)
	want := settle(undisturbed)
	for night := range 3 {
		for crash := 1; ; crash++ {
			w := fill()
			for n := range night {
				w.collect(n)
			}
			changes := 0
			w.fail = func(string) error {
				if changes++; changes >= crash {
					return boom
				}
				return nil
			}
			w.now = day(night)
			_, err := collect.Run(t.Context(), w.in())
			w.fail = nil
			require.Empty(t, w.missing("g3", second), "night %d, killed at change %d", night, crash)
			if err == nil {
				assert.True(t, night != 1 || crash >= 10, "the second night makes %d changes only", crash-1)
				break
			}
			require.ErrorIs(t, err, boom)
			require.Equal(t, want, settle(w), "night %d, killed at change %d", night, crash)
		}
	}
}

func TestRowsThatAnotherGenerationListsStay(t *testing.T) {
	class := func(text string) content { return content{classes: map[string]string{"a": text}} }
	windows := func(n int) content { return content{chunks: map[string]string{"x": fmt.Sprint("1*", n)}} }
	other := core.Collections{Classes: collPrefix + "classes_9", Chunks: collPrefix + "chunks_9"}
	for _, c := range []struct {
		situation    string
		gone, stays  content
		records, row int64
	}{
		{"the same", first, first, 0, 0},
		{"another text of a class", class("1"), class("2"), 1, 1},
		{"fewer windows", windows(5), windows(2), 0, 3},
		{"more windows", windows(2), windows(5), 0, 0},
		{"another collection: its rows go with it", first, content{classes: first.classes, collections: other}, 0, 0},
	} {
		w := worldOf(t, c.gone, c.stays)
		w.collect(0)
		res := w.collect(1)
		assert.True(t, res.Generations == 1 && res.Records == c.records && res.Rows == c.row, "%s: %+v", c.situation, res)
		assert.Empty(t, w.missing("g2", c.stays), "%s: lost", c.situation)
	}
}

// Generations that no rule keeps still count as long as they are there: within their grace, and while a reader holds
// them.
func TestRowsOfOneThatWaitsToGoStay(t *testing.T) {
	for _, leased := range []bool{false, true} {
		w := worldOf(t, first, first)
		w.collect(0) // g1 is marked
		if leased {
			w.leases["g2"] = true
		}
		w.publish("g3", second)
		if res := w.collect(1); res.Generations != 1 || res.Records+res.Rows > 0 { // g2 is marked
			t.Errorf("leased %v: %+v", leased, res)
		}
		assert.Empty(t, w.missing("g2", first), "leased %v: g2 lost", leased)
		res := w.collect(5)
		want := int64(2)
		assert.True(t, leased == (res.Records == 0) && (leased || res.Records == want), "leased %v: then %+v", leased, res)
	}
}

// A folder whose reference is gone is not found again: the reference goes last.
func TestAFolderThatIsHalfDeletedIsFoundAgain(t *testing.T) {
	w := worldOf(t, first)
	for i := range 2500 {
		key := w.index.GenerationKey("g1", fmt.Sprintf("dead-letters/%04d.json", i))
		stagetest.Must(blob.Write(t.Context(), w.store, key, nil, blob.Cond{}))
		key = w.index.GenerationKey("g1", fmt.Sprintf("z/%04d.json", i)) // behind the reference in the order of keys
		stagetest.Must(blob.Write(t.Context(), w.store, key, nil, blob.Cond{}))
	}
	w.publish("g2", second)
	w.collect(0)
	killed := errors.New("killed")
	for range 4 {
		deletes := 0
		w.fail = func(op string) error {
			if strings.HasPrefix(op, "delete docs/generations/g1/") {
				if deletes++; deletes >= 2 { // requests of many keys are sent side by side
					return killed
				}
			}
			return nil
		}
		w.now = day(1)
		require.ErrorIs(t, musttest.Err(collect.Run(t.Context(), w.in())), killed)
		require.Contains(t, generations(w), "g1", "the reference is gone before the rest")
	}
	w.fail = nil
	w.collect(1)
	w.alone("g2", second)
	assert.Len(t, w.store.Keys("docs/generations/g1/"), 1, "files are left of it")
}

func TestARollbackTakesTheMarkOff(t *testing.T) {
	w := worldOf(t, first, second)
	w.collect(0)
	w.point("g1", 1)
	w.collect(1)
	if missing := w.missing("g1", first); missing != nil || len(w.store.Keys(collect.MarkKey(w.index, "g1"))) != 0 {
		t.Errorf("the current generation is marked or lost %v", missing)
	}
}

// What was decided is asked again before every batch: a collector may have slept.
func TestWhatHappensMeanwhileStopsTheDeletes(t *testing.T) {
	for _, c := range []struct {
		situation string
		meanwhile func(w *world)
		code      fault.Code
	}{
		{"another run took the lease", func(w *world) {
			w.guard = func(context.Context) error { return fault.LeaseHeld.At("collect", "docs") }
		}, fault.LeaseHeld},
		{"the generation was rolled back to", func(w *world) { w.point("g1", 1) }, fault.GenBusy},
		{"a reader opened it", func(w *world) { w.leases["g1"] = true }, fault.GenBusy},
	} {
		w := worldOf(t, first, second)
		w.collect(0)
		w.now = day(1)
		in := w.in()
		in.Guard = func(ctx context.Context) error {
			if w.guard != nil {
				return w.guard(ctx)
			}
			return nil
		}
		open := in.OpenTable
		in.OpenTable = func(ctx context.Context, manifest *core.Manifest) (*segments.Table, error) {
			c.meanwhile(w) // between the decision and the first delete
			return open(ctx, manifest)
		}
		musttest.Code(t, musttest.Err(collect.Run(t.Context(), in)), c.code, c.situation)
		assert.Empty(t, w.missing("g1", first), "%s: deleted", c.situation)
	}
}

func cut(raw []byte) []byte { return raw[:len(raw)/2] }

func TestDamageIsNamedAndNothingThatItMightNeedIsDeleted(t *testing.T) {
	splitOf := func(w *world, gen string) string {
		manifest := stagetest.Must(w.index.Manifest(context.Background(), w.manifest[gen]))
		return w.index.SegmentKey(manifest.Segments.Splits[0].SHA256)
	}
	manifestOf := func(w *world, gen string) string { return w.index.SegmentKey(w.manifest[gen]) }
	refOf := func(w *world, gen string) string { return w.index.GenerationKey(gen, "manifest.json") }
	for _, c := range []struct {
		situation string
		object    func(w *world, gen string) string
		gen       string
		goes      bool // g1 goes, though g1's own keys may stay
		named     string
	}{
		{"the manifest of a kept one", manifestOf, "g2", false, "g2"},
		{"the reference of one that would be kept", refOf, "g2", true, "g2"},
		{"the split of a kept one", splitOf, "g2", false, "g2"},
		{"the manifest of one that goes", manifestOf, "g1", true, "g1"},
		{"the split of one that goes", splitOf, "g1", true, "g1"},
	} {
		w := worldOf(t, first, second, content{classes: map[string]string{"a": "1"}})
		w.keep = 2
		w.store.Change(c.object(w, c.gen), cut)
		w.collect(0)
		res := w.collect(1)
		assert.True(t, res.Generations > 0 == c.goes && slices.Contains(res.Damaged, c.named) && res.Records+res.Rows <= 0,
			"%s: %+v", c.situation, res)
		assert.True(t, c.goes && c.gen != "g2" || res.Deleted <= 0, "%s: segments went: %+v", c.situation, res)
		assert.Empty(t, w.missing("g3", content{classes: map[string]string{"a": "1"}}), "%s: lost", c.situation)
	}
	w := worldOf(t, first, second)
	w.store.Change(manifestOf(w, "g2"), cut)
	musttest.Code(t, musttest.Err(collect.Run(t.Context(), w.in())), fault.SegmentDamage, "a damaged current generation")
}

func TestAStoreThatDoesNotAnswerIsNotTakenForDamage(t *testing.T) {
	w := worldOf(t, first, second)
	w.collect(0)
	w.now = day(1)
	manifest := w.index.SegmentKey(w.manifest["g1"])
	w.store.Fail = func(op artifacttest.Op, key string) error {
		if op == artifacttest.Get && key == manifest {
			return fault.StoreDown.At("read", key)
		}
		return nil
	}
	res, err := collect.Run(t.Context(), w.in())
	assert.True(t, fault.Is(err, fault.StoreDown) && res.Generations == 0, "%+v %v", res, err)
}

func TestScratchGoesByFenceAndOldReportsGo(t *testing.T) {
	w := worldOf(t, first)
	put := func(at time.Time, keys ...string) {
		w.now = at
		for _, key := range keys {
			stagetest.Must(blob.Write(t.Context(), w.store, key, []byte("{}"), blob.Cond{}))
		}
	}
	put(day(0), "docs/runs/g9/3/build.json", "docs/runs/g1/5/a/b.rows", "docs/runs/g8/6/build.json",
		"docs/runs/r/restore/old.json", "docs/generations/g7/report.json", "docs/generations/g7/dead-letters/c.json")
	put(day(10), "docs/runs/r/restore/parts.json", "docs/generations/g8/report.json")
	w.fence = 5
	w.collect(15)
	want := []string{"docs/runs/g8/6/build.json", "docs/runs/r/restore/parts.json"}
	got := w.store.Keys("docs/runs/")
	assert.True(t, slices.Equal(got, want), "scratch %v, want %v", got, want)
	want = []string{
		"docs/generations/g1/manifest.json", "docs/generations/g1/report.json", "docs/generations/g8/report.json",
	}
	got = w.store.Keys("docs/generations/")
	assert.True(t, slices.Equal(got, want), "generations %v, want %v", got, want)
}

func TestACancelledRunDeletesNothing(t *testing.T) {
	w := worldOf(t, first, second)
	w.collect(0)
	before := w.state()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.now = day(1)
	_, err := collect.Run(ctx, w.in())
	assert.True(t, errors.Is(err, context.Canceled) && slices.Equal(before, w.state()), "%v", err)
}

// What holds a purged document goes without a grace, once no reader has it open, whatever rule would keep it. What
// is served stays.
// Promises: 135.
func TestWhatIsPurgedGoesAtOnceButWhereItIsOpenOrServed(t *testing.T) {
	w := worldOf(t, first, first, second)
	w.keep = 3
	w.abandon("s1")
	run := func(purged ...string) collect.Result {
		in := w.in()
		in.Purged = func(gen string) bool { return slices.Contains(purged, gen) }
		w.now = w.now.Add(time.Second)
		return stagetest.Must(collect.Run(t.Context(), in))
	}
	w.now = day(0)
	w.leases["g2"] = true
	run("g1", "g2", "g3") // marks them, so that no reader opens one any more
	assert.False(t, w.has("s1"), "what no generation names waits for its grace")
	res := run("g1", "g2", "g3")
	assert.True(t, res.Generations == 1 && res.Purged == 1, "one is open: %+v", res)
	assert.Equal(t, []string{"g2", "g3"}, generations(w), "there")
	assert.Empty(t, w.missing("g2", first), "one that is open lost")
	delete(w.leases, "g2")
	res = run("g1", "g2", "g3")
	assert.True(t, res.Generations == 1 && res.Purged == 0 && res.Records != 0 && res.Rows != 0, "none is open: %+v", res)
	assert.Equal(t, []string{"g3"}, generations(w), "there")
	w.alone("g3", second)
}

// Promises: 135.
func TestWhatNothingNamesStaysForItsGrace(t *testing.T) {
	w := worldOf(t, first, second)
	w.abandon("s1")
	unnamed := collPrefix + "classes_7"
	w.check(w.vectors.Create(t.Context(), unnamed, 2))
	w.check(w.vectors.Create(t.Context(), "another_index", 2))
	for _, c := range []struct {
		after time.Duration
		there bool
	}{
		{0, true}, {time.Second, true}, {12 * time.Hour, true}, {24*time.Hour - time.Second, true},
		{24 * time.Hour, false},
	} {
		w.now = day(0).Add(c.after)
		stagetest.Must(collect.Run(t.Context(), w.in()))
		names := stagetest.Must(w.vectors.List(t.Context(), collPrefix))
		assert.True(t, w.has("s1") == c.there && slices.Contains(names, unnamed) == c.there &&
			slices.Contains(generations(w), "g1") == c.there, "%s: segment %t, collections %q, generations %q", c.after,
			w.has("s1"), names, generations(w))
	}
	assert.Contains(t, stagetest.Must(w.vectors.List(t.Context(), "")), "another_index")
}

// The clock of the machine is a year ahead for one night, or behind: nothing may go that night, or in the next ones,
// that would not have gone soon anyway, and afterwards all goes on.
// Promises: 113.
func TestAClockThatJumpsMakesNothingGoAtOnce(t *testing.T) {
	for _, c := range []struct {
		situation string
		wrong     func(time.Time) time.Time // the machine's clock in the fourth night
	}{
		{"a year ahead", func(at time.Time) time.Time { return at.AddDate(1, 0, 0) }},
		{"a day ahead", func(at time.Time) time.Time { return at.AddDate(0, 0, 1) }},
		{"an hour back", func(at time.Time) time.Time { return at.Add(-time.Hour) }},
		{"a year back", func(at time.Time) time.Time { return at.AddDate(-1, 0, 0) }},
	} {
		w := worldOf(t, first, second)
		for night := range 20 {
			w.now = day(night)
			if night == 3 {
				w.now = c.wrong(w.now)
			}
			in := w.in()
			in.Grace = 7 * 24 * time.Hour
			stagetest.Must(collect.Run(t.Context(), in))
			missing := w.missing("g1", first)
			require.True(t, night >= 6 || missing == nil,
				"%s: in night %d the marked generation lost %v", c.situation, night, missing)
			assert.True(t, night != 12 || !slices.Contains(generations(w), "g1"),
				"%s: in night %d it is still there", c.situation, night)
		}
		w.alone("g2", second)
	}
}

// A mark, and what is condemned, from a clock that was a year ahead must not stay for a year.
func TestWhatAWrongClockMarkedIsMarkedAnew(t *testing.T) {
	w := worldOf(t, first, second)
	w.now = day(0).AddDate(1, 0, 0)
	if _, err := collect.Run(t.Context(), w.in()); err != nil { // the first run of all: nothing to compare with
		t.Fatal(err)
	}
	w.collectNights(0, 4)
	w.alone("g2", second)
}
