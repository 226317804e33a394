package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/artifacttest"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

func index() (artifact.Index, *artifacttest.Memory) {
	store := artifacttest.New()
	return artifact.Index{Store: store, Name: "docs"}, store
}

// The layout is a contract with other programs, with backups, and with generations that exist already.
func TestKeysAreWhereTheContractSaysTheyAre(t *testing.T) {
	x, _ := index()
	digest := core.Sum("spec")
	for got, want := range map[string]string{
		x.SegmentKey("ab12"):                              "docs/segments/ab12",
		x.CurrentKey():                                    "docs/current.json",
		x.LeaseKey():                                      "docs/lease.json",
		x.GenerationKey("g1", "manifest.json"):            "docs/generations/g1/manifest.json",
		x.GenerationKey("g1", "dead-letters/c1.json"):     "docs/generations/g1/dead-letters/c1.json",
		x.SpecKey(digest):                                 "docs/specs/" + digest.String() + ".json",
		x.RunKey("g1", "3", "build.json"):                 "docs/runs/g1/3/build.json",
		strings.TrimSuffix(x.GenerationKey("g", ""), "/"): "docs/generations/g",
	} {
		assert.Equal(t, want, got)
	}
}

func TestAFileIsNamedByItsContentAndWrittenOnce(t *testing.T) {
	x, store := index()
	for round, wantFresh := range []bool{true, false} {
		file := musttest.Get(artifact.NewFile())(t)
		for _, part := range []string{"hello ", "world"} {
			musttest.Get(file.Write([]byte(part)))(t)
		}
		seg, fresh, err := file.PutSegment(t.Context(), x)
		file.Discard()
		sum := sha256.Sum256([]byte("hello world"))
		assert.True(t, err == nil && fresh == wantFresh && seg.SHA256 == hex.EncodeToString(sum[:]) && seg.Bytes == 11,
			"round %d: %+v fresh %v, %v", round, seg, fresh, err)
	}
	assert.Equal(t, 2, store.Calls(artifacttest.Put), "asked for on the condition that it is not there")
	assert.Zero(t, store.Calls(artifacttest.Get))
}

// An object of another size under a content's name is not that content.
func TestASegmentThatLiesThereCutIsWrittenAgain(t *testing.T) {
	x, store := index()
	sum := sha256.Sum256([]byte("hello"))
	key := x.SegmentKey(hex.EncodeToString(sum[:]))
	musttest.Get(blob.Write(t.Context(), store, key, []byte("hel"), blob.Cond{}))(t)
	file := musttest.Get(artifact.NewFile())(t)
	defer file.Discard()
	musttest.Get(file.Write([]byte("hello")))(t)
	_, fresh, err := file.PutSegment(t.Context(), x)
	require.True(t, err == nil && fresh, "fresh %v, %v", fresh, err)
	blobtest.Holds(t, store, key, "hello")
}

func TestTemporaryFilesLeaveTheDiskWhenDiscarded(t *testing.T) {
	dir := t.TempDir()
	open, rows := scratchtest.In(t, dir), musttest.Get(artifact.NewRows())(t)
	assert.Len(t, open(), 1)
	rows.Discard()
	assert.Empty(t, open(), "left")
	t.Setenv("TMPDIR", dir+"/none")
	musttest.Refuse(artifact.NewFile())(t, fault.StoreFull)
}

func TestAManifestIsReadBackOnlyWhole(t *testing.T) {
	x, store := index()
	manifest := &core.Manifest{Format: core.ManifestFormat, Index: "docs", Generation: "g1", Seq: 4}
	sha := musttest.Get(x.PutManifest(t.Context(), manifest))(t)
	assert.Equal(t, sha, musttest.Get(x.PutManifest(t.Context(), manifest))(t), "the same manifest")
	assert.Equal(t, int64(4), musttest.Get(x.Manifest(t.Context(), sha))(t).Seq)
	store.Change(x.SegmentKey(sha), func(raw []byte) []byte { return bytes.Replace(raw, []byte(`:4,`), []byte(`:5,`), 1) })
	put := func(manifest core.Manifest) string { return musttest.Get(x.PutManifest(t.Context(), &manifest))(t) }
	for name, unread := range map[string]string{
		"absent": strings.Repeat("0", 64), "changed": sha,
		"a later format":           put(core.Manifest{Format: core.ManifestFormat + 1}),
		"an earlier format":        put(core.Manifest{Format: core.ManifestFormat - 1}),
		"documents without splits": put(core.Manifest{Format: core.ManifestFormat, Counts: core.Counts{Documents: 1}}),
		"chunks without splits":    put(core.Manifest{Format: core.ManifestFormat, Counts: core.Counts{Chunks: 1}}),
	} {
		_, err := x.Manifest(t.Context(), unread)
		assert.True(t, fault.Is(err, fault.SegmentDamage) && strings.Contains(err.Error(), "index --rebuild --index docs"),
			"%s: %v", name, err)
	}
}

// Programs that start together on an empty store must agree on its identity: Redis and Milvus are marked with it.
func TestProgramsThatStartTogetherAgreeOnTheStoreID(t *testing.T) {
	store := artifacttest.New()
	var meet sync.WaitGroup
	meet.Add(8)
	var once [8]sync.Once
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			find := func(_ context.Context, op artifacttest.Op, _ string, call func() error) error {
				err := call()
				if op == artifacttest.Get && err != nil { // every program finds none before any of them writes one
					once[i].Do(func() { meet.Done(); meet.Wait() })
				}
				return err
			}
			id, err := artifact.OpenStoreID(t.Context(), artifacttest.Around{Store: store, Do: find})
			assert.NoError(t, err)
			ids[i] = id
		})
	}
	all.Wait()
	for _, id := range ids {
		assert.True(t, len(id) == 32 && id == ids[0], "ids %v", ids)
	}
	id, err := artifact.OpenStoreID(t.Context(), store)
	assert.True(t, err == nil && id == ids[0], "later it is %s, %v", id, err)
}

func TestAStoreIDIsReadFromItsCopy(t *testing.T) {
	store := artifacttest.New()
	id := musttest.Get(artifact.OpenStoreID(t.Context(), store))(t)
	whole, _ := musttest.Get2(blob.Read(t.Context(), store, "store.json"))(t)
	changed := bytes.Clone(whole)
	changed[bytes.Index(changed, []byte(id))] ^= 1 // 'a' for a '`', a digit for its neighbour: still 32 signs
	for _, damaged := range [][]byte{changed, whole[:len(whole)/2], {}} {
		musttest.Get(blob.Write(t.Context(), store, "store.json", damaged, blob.Cond{}))(t)
		assert.Equal(t, id, musttest.Get(artifact.OpenStoreID(t.Context(), store))(t), "%q", damaged)
		blobtest.Holds(t, store, "store.json", string(whole))
	}
}

// A copy that is lost unseen would be no copy on the day it is needed.
func TestTheCopyOfAStoreIDIsWrittenAnew(t *testing.T) {
	store := artifacttest.New()
	id, err := artifact.OpenStoreID(t.Context(), store)
	require.NoError(t, err)
	for _, damaged := range []string{"", "{", `{"id":"` + strings.Repeat("0", 32) + `"}`, "none"} {
		if damaged == "none" {
			err = store.Delete(t.Context(), "store.json.copy")
		} else {
			_, err = blob.Write(t.Context(), store, "store.json.copy", []byte(damaged), blob.Cond{})
		}
		require.NoError(t, err)
		for _, name := range []string{"store.json", "nothing"} { // from the copy again, once it is mended
			again, err := artifact.OpenStoreID(t.Context(), store)
			assert.True(t, err == nil && again == id, "%q, before %s is gone: %s, %v", damaged, name, again, err)
			require.NoError(t, store.Delete(t.Context(), name))
		}
	}
}

// Replicas ask for it at every beat, to see whether the store answers.
func TestAStoreIDThatIsThereTakesOneRequest(t *testing.T) {
	store := artifacttest.New()
	musttest.Get(artifact.OpenStoreID(t.Context(), store))(t)
	asked := 0
	store.Fail = func(artifacttest.Op, string) error { asked++; return nil }
	_, err := artifact.StoreID(t.Context(), store)
	assert.True(t, err == nil && asked == 1, "%d requests, %v", asked, err)
}

func TestAStoreIDThatCannotBeReadIsNeverReplaced(t *testing.T) {
	for situation, content := range map[string]string{"cut": "{", "short": `{"id":"abc"}`, "empty": "{}", "0 bytes": ""} {
		store := artifacttest.New()
		musttest.Get(blob.Write(t.Context(), store, "store.json", []byte(content), blob.Cond{}))(t)
		_, err := artifact.OpenStoreID(t.Context(), store)
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %v", situation, err)
		assert.ErrorContains(t, err, "store.json back from a backup", situation)
		blobtest.Holds(t, store, "store.json", content)
	}
	down := artifacttest.New()
	down.Fail = func(artifacttest.Op, string) error { return fault.StoreDown.At("read", "store.json") }
	_, err := artifact.OpenStoreID(t.Context(), down)
	assert.True(t, fault.Is(err, fault.StoreDown) && len(down.Keys("")) == 0, "down: %v, %v", err, down.Keys(""))
}

func TestAStoreWithoutAnIDIsUnavailableAndGetsNone(t *testing.T) {
	store := artifacttest.New()
	_, err := artifact.StoreID(t.Context(), store)
	assert.True(t, fault.Is(err, fault.StoreDown) && len(store.Keys("")) == 0, "%v, %v", err, store.Keys(""))
	id := musttest.Get(artifact.OpenStoreID(t.Context(), store))(t)
	require.NoError(t, store.Delete(t.Context(), "store.json"))
	known, err := artifact.StoreID(t.Context(), store)
	assert.True(t, err == nil && known == id && len(store.Keys("")) == 1, "of the copy: %s, %v", known, err)
}

type slowly struct {
	blob.Store
	mu            sync.Mutex
	running, most int
	sizes         []int
}

func (s *slowly) DeleteAll(ctx context.Context, keys []string) error {
	s.mu.Lock()
	s.running++
	s.most, s.sizes = max(s.most, s.running), append(s.sizes, len(keys))
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	return ctx.Err()
}

// Twenty requests of a second each take five seconds, and none begins when the permit is over.
// Promises: 124.
func TestManyObjectsAreDeletedInSeveralRequestsAtOnceAndNoneBeginsAfterThePermit(t *testing.T) {
	for _, test := range []struct {
		permit, took time.Duration
		requests     int
	}{{time.Hour, 5 * time.Second, 20}, {1500 * time.Millisecond, 2 * time.Second, 8}} {
		synctest.Test(t, func(t *testing.T) {
			store, began := &slowly{Store: artifacttest.New()}, time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), test.permit)
			defer cancel()
			err := artifact.DeleteAll(ctx, store, make([]string, 20_000))
			assert.Equal(t, err == nil, test.requests == 20, "permit of %s: %v", test.permit, err)
			assert.True(t, store.most == 4 && len(store.sizes) == test.requests && slices.Max(store.sizes) == 1000,
				"permit of %s: %d at once, requests of %v", test.permit, store.most, store.sizes)
			assert.Equal(t, test.took, time.Since(began), "permit of %s: it took", test.permit)
		})
	}
}

func TestDeleteAllStopsWhenItIsCancelledAndTellsErrors(t *testing.T) {
	ctx, memory := musttest.EndedContext(t), artifacttest.New()
	err := artifact.DeleteAll(ctx, memory, []string{"a"})
	assert.True(t, errors.Is(err, context.Canceled) && memory.Calls(artifacttest.Delete) == 0,
		"%v after %d deletes", err, memory.Calls(artifacttest.Delete))
	memory.Fail = func(artifacttest.Op, string) error { return fault.StoreDenied.At("delete", "a") }
	musttest.Fail(t, artifact.DeleteAll(t.Context(), memory, []string{"a"}), fault.StoreDenied)
}

func TestAStoreOfBranchesIsAStore(t *testing.T) {
	blobtest.Run(t, func(*testing.T) blob.Store { return artifact.NewBranched(blobmemory.New()) })
}

func TestWhatABranchSharesLiesBelowItsBase(t *testing.T) {
	below := blobmemory.New()
	store := artifact.NewBranched(below)
	branch := artifact.New(store, "exp")
	require.NoError(t, branch.PutBase(t.Context(), "docs"))
	assert.NoError(t, branch.PutBase(t.Context(), "docs"), "it may not be repeated")
	musttest.Code(t, branch.PutBase(t.Context(), "other"), fault.Usage, "the name is given to another base")
	for _, key := range []string{"exp/segments/a", "exp/segments/b", "exp/specs/c.json", "exp/lease.json", "exp/current.json"} {
		info, err := blob.Write(t.Context(), store, key, []byte(key), blob.Cond{Absent: true})
		require.True(t, err == nil && info.Key == key, "%s: %+v, %v", key, info, err)
		blobtest.Holds(t, store, key, key)
	}
	keys := func(of blob.Store, prefix, after string) (out []string) {
		for info := range musttest.All(t, of.List(t.Context(), prefix, after)) {
			out = append(out, info.Key)
		}
		return out
	}
	want := []string{"_branches/exp.json", "docs/lease.json", "docs/segments/a", "docs/segments/b", "docs/specs/c.json",
		"exp/current.json"}
	assert.Equal(t, want, keys(below, "", ""), "below lie")
	assert.Equal(t, []string{"exp/segments/b"}, keys(store, "exp/segments/", "exp/segments/a"), "listed")
	assert.NoError(t, blob.Copy(t.Context(), blobmemory.New(), "copy", store, "exp/segments/a"), "a copy")
	require.NoError(t, store.DeleteAll(t.Context(), []string{"exp/segments/a"}))
	musttest.Refuse(store.Stat(t.Context(), "docs/segments/a"))(t, fault.NotFound)
}

// frozen is a context whose deadline has passed once a process stood still, and whose timer has not gone off.
type frozen struct {
	context.Context
	stood *atomic.Bool
}

func (f frozen) Deadline() (time.Time, bool) {
	return time.Now().Add(map[bool]time.Duration{true: -time.Second, false: time.Hour}[f.stood.Load()]), true
}

// standing is a store whose process stands still in the middle of its first request.
type standing struct {
	*artifacttest.Memory
	requests atomic.Int32
	stood    atomic.Bool
}

func (s *standing) DeleteAll(context.Context, []string) error {
	s.requests.Add(1)
	s.stood.Store(true)
	return nil
}

// What was in flight when the process stood still is done; nothing is asked for afterwards.
func TestNoRequestBeginsInAProcessThatStoodStill(t *testing.T) {
	store, keys := &standing{Memory: artifacttest.New()}, make([]string, 20_000)
	for i := range keys {
		keys[i] = fmt.Sprint("docs/segments/", i)
	}
	err := artifact.DeleteAll(frozen{t.Context(), &store.stood}, store, keys)
	if requests := store.requests.Load(); !errors.Is(err, context.DeadlineExceeded) || requests > 4 {
		t.Errorf("%d requests, of which four may be in flight: %v", requests, err)
	}
}

// generations makes g1 to g3, of which g2 is current and g3 is held.
func generations(t *testing.T) (artifact.Index, *artifacttest.Memory, map[string]string) {
	x, store := index()
	manifests := map[string]string{}
	for gen, seq := range map[string]int64{"g1": 1, "g2": 2, "g3": 3} {
		sha := musttest.Get(x.PutManifest(t.Context(), &core.Manifest{Format: core.ManifestFormat, Generation: gen, Seq: seq,
			Counts: core.Counts{Chunks: 100 * seq}, Segments: core.Segments{Splits: []core.Split{{}}}}))(t)
		state := map[bool]string{true: "held", false: "published"}[gen == "g3"]
		writeJSON(t, store, x.GenerationKey(gen, "manifest.json"), core.GenerationRef{Manifest: sha, Seq: seq, State: state})
		writeJSON(t, store, x.GenerationKey(gen, "report.json"), map[string]string{})
		manifests[gen] = sha
	}
	writeJSON(t, store, x.GenerationKey("g9", "report.json"), map[string]string{}) // it failed: no manifest
	writeJSON(t, store, x.GenerationKey("g1", "parts/manifest.json"), map[string]string{})
	writeJSON(t, store, x.CurrentKey(), core.Pointer{Generation: "g2", Manifest: manifests["g2"], Seq: 2, Epoch: 7})
	return x, store, manifests
}

func writeJSON(t *testing.T, store blob.Store, key string, v any) {
	musttest.Get(blob.WriteJSON(t.Context(), store, key, v, blob.Cond{}))(t)
}

func cut(raw []byte) []byte { return raw[:len(raw)/2] }

func listed(t *testing.T, x artifact.Index) (names, states []string) {
	for _, g := range musttest.Get(x.ListGenerations(t.Context()))(t) {
		names, states = append(names, g.Generation), append(states, g.State)
	}
	return names, states
}

func TestGenerationsAreListedTheCurrentFirstThenTheNewest(t *testing.T) {
	x, _, manifests := generations(t)
	names, states := listed(t, x)
	assert.Equal(t, []string{"g2", "g3", "g1"}, names)
	assert.Equal(t, []string{"current", "held", "published"}, states)
	first := musttest.Get(x.ListGenerations(t.Context()))(t)[0]
	assert.True(t, first.Chunks == 200 && first.Seq == 2 && first.Manifest == manifests["g2"], "%+v", first)
	refs, err := x.ListRefs(t.Context())
	assert.True(t, err == nil && len(refs) == 3 && refs["g3"].State == "held", "%v %v", refs, err)
}

// A generation that no server has open must not keep people from seeing the others.
func TestDamageOfAnOlderGenerationIsNamedAndHidesNoOther(t *testing.T) {
	for _, c := range []struct {
		situation string
		damage    func(store *artifacttest.Memory, manifest, ref string)
		readable  int
	}{
		{"its manifest is cut", func(store *artifacttest.Memory, manifest, _ string) { store.Change(manifest, cut) }, 3},
		{"its manifest is lost", func(store *artifacttest.Memory, manifest, _ string) {
			assert.NoError(t, store.Delete(t.Context(), manifest))
		}, 3},
		{"its reference is cut", func(store *artifacttest.Memory, _, ref string) { store.Change(ref, cut) }, 2},
	} {
		x, store, manifests := generations(t)
		c.damage(store, x.SegmentKey(manifests["g1"]), x.GenerationKey("g1", "manifest.json"))
		names, states := listed(t, x)
		assert.Equal(t, []string{"g2", "g3", "g1"}, names, c.situation)
		assert.Equal(t, []string{"current", "held", artifact.Damaged}, states, c.situation)
		refs, damaged, err := x.ReadableRefs(t.Context())
		assert.True(t, err == nil && len(refs) == c.readable && len(refs)+len(damaged) == 3,
			"%s: %v %v %v", c.situation, refs, damaged, err)
		_, err = x.ListRefs(t.Context())
		assert.True(t, (err != nil) == (c.readable == 2), "%s: strict references: %v", c.situation, err)
	}
}

func TestADamagedCurrentManifestIsAnErrorAndItsReferenceIsNotNeeded(t *testing.T) {
	x, store, manifests := generations(t)
	store.Change(x.GenerationKey("g2", "manifest.json"), cut)
	names, states := listed(t, x)
	assert.True(t, names[0] == "g2" && states[0] == "current" && len(names) == 3, "no reference: %v %v", names, states)
	store.Change(x.SegmentKey(manifests["g2"]), cut)
	musttest.Refuse(x.ListGenerations(t.Context()))(t, fault.SegmentDamage)
}

func TestAStoreThatDoesNotAnswerIsNotTakenForDamage(t *testing.T) {
	x, store, manifests := generations(t)
	keys := []string{x.SegmentKey(manifests["g1"]), x.GenerationKey("g1", "manifest.json"), "docs/generations/"}
	for _, key := range keys {
		store.Fail = func(_ artifacttest.Op, k string) error {
			if k == key {
				return fault.StoreDown.At("read", k)
			}
			return nil
		}
		musttest.Code(t, musttest.Err(x.ListGenerations(t.Context())), fault.StoreDown, key)
	}
	store.Fail = nil
	_, _, err := x.ReadableRefs(musttest.EndedContext(t))
	assert.True(t, errors.Is(err, context.Canceled), "cancelled: %v", err)
}

func TestAGenerationThatIsNotThereIsUnknown(t *testing.T) {
	x, _, _ := generations(t)
	musttest.Refuse(x.GenerationRef(t.Context(), "g9"))(t, fault.UnknownGen)
	empty, _ := index()
	all, err := empty.ListGenerations(t.Context())
	assert.True(t, err == nil && all != nil && len(all) == 0, "an index without any: %v %v", all, err)
}

// A pointer that is cut, or that names no generation or two, is damage, and never an index without a generation.
// Promises: 139.
func TestAPointerNamesOneGenerationOrIsDamaged(t *testing.T) {
	x := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	pointer, etag, err := x.ReadPointer(t.Context())
	assert.True(t, err == nil && etag == "" && pointer == core.Pointer{}, "unpublished: %+v %q %v", pointer, etag, err)
	sha := musttest.Get(x.PutManifest(t.Context(), &core.Manifest{Generation: "g1", Seq: 3, Format: core.ManifestFormat}))(t)
	for name, c := range map[string]struct {
		raw  string
		read bool // Current gives it, and Pointed does not
	}{
		"empty": {"", false}, "cut": {`{"generation":"g1"`, false}, "null": {"null", false}, "nothing": {"{}", false},
		"no manifest":        {`{"generation":"g1","seq":3,"epoch":1}`, false},
		"no generation":      {`{"manifest":"` + sha + `","seq":3,"epoch":1}`, false},
		"an epoch below all": {`{"generation":"g1","manifest":"` + sha + `","seq":3,"epoch":-1}`, false},
		"two generations":    {`{"generation":"g2","manifest":"` + sha + `","seq":3,"epoch":1}`, true},
		"two numbers":        {`{"generation":"g1","manifest":"` + sha + `","seq":4,"epoch":1}`, true},
		"a manifest that is not there": {`{"generation":"g1","manifest":"` + strings.Repeat("0", 64) + `","seq":3,"epoch":1}`,
			true},
	} {
		musttest.Get(blob.Write(t.Context(), x.Store, x.CurrentKey(), []byte(c.raw), blob.Cond{}))(t)
		pointer, _, err := x.ReadPointer(t.Context())
		if c.read && err == nil {
			_, err = x.ManifestOf(t.Context(), pointer)
		} else if c.read {
			t.Errorf("%s: %v", name, err)
		}
		assert.True(t, fault.Is(err, fault.SegmentDamage), "%s: %+v %v", name, pointer, err)
	}
	manifest, err := x.ManifestOf(t.Context(), core.Pointer{Generation: "g1", Manifest: sha, Seq: 3, Epoch: 1})
	assert.True(t, err == nil && manifest.Generation == "g1", "%+v %v", manifest, err)
}

func TestAnObjectIsIntactWhereItIsWhatItsNameSays(t *testing.T) {
	x := artifact.Index{Store: blobmemory.New(), Name: "docs"}
	file := musttest.Get(artifact.NewFile())(t)
	defer file.Discard()
	musttest.Get(file.Write([]byte("content")))(t)
	segment, _ := musttest.Get2(file.PutSegment(t.Context(), x))(t)
	key := x.SegmentKey(segment.SHA256)
	for _, content := range []string{"content", "contenT", "conten", "contents", ""} {
		musttest.Get(blob.Write(t.Context(), x.Store, key, []byte(content), blob.Cond{}))(t)
		assert.Equal(t, content == "content", musttest.Get(x.IsIntact(t.Context(), segment.SHA256, nil))(t), "%q", content)
	}
	require.NoError(t, x.Store.Delete(t.Context(), key))
	assert.False(t, musttest.Get(x.IsIntact(t.Context(), segment.SHA256, nil))(t), "one that is gone")
}

// Names come from all who reach the engine.
// Promises: 138.
func TestANameThatIsNoneNeverBecomesAPath(t *testing.T) {
	store := artifacttest.New()
	var keys []string
	for _, name := range []string{"../../../..", "..", "", "/etc", "docs/../..", "a/b", "ledger", "doctor", "Docs", ".tmp"} {
		x := artifact.Index{Store: store, Name: name}
		assert.True(t, fault.Is(x.Check(), fault.InvalidParam), "%q names an index", name)
		keys = append(keys, x.CurrentKey(), x.LeaseKey(), x.SegmentKey("ab"), x.GenerationKey("g", "report.json"),
			x.RunKey("g", "1", "build.json"), x.SpecKey(core.Digest{}))
	}
	good := artifact.Index{Store: store, Name: "docs"}
	for _, name := range []string{"..", "../other/current.json", "a/../b", "../..", "/etc/passwd", "a\x00", `a\b`} {
		keys = append(keys, good.SegmentKey(name), good.GenerationKey(name, "report.json"), good.RunKey(name, "x"),
			good.RunKey("g", name+"/.."), good.GenerationKey("g", "../"+name))
	}
	keys = append(keys, good.SegmentKey("a/b"), good.GenerationKey("a/b", "report.json"), good.RunKey("a/b", "x"))
	for _, key := range keys {
		assert.True(t, fault.Is(blob.CheckKey(key), fault.InvalidParam), "%q is taken by a store", key)
		musttest.Code(t, musttest.Err(store.Stat(t.Context(), key)), fault.InvalidParam, "%q", key)
	}
}

// A configuration that another index has, or that a person put in its place, says where to read and whom to pay.
func TestAConfigurationOfAnotherIndexIsRefused(t *testing.T) {
	x, store := index()
	other := artifact.Index{Store: store, Name: "other"}
	digest := musttest.Get(other.PutSpec(t.Context(), core.Spec{Index: "other"}))(t)
	raw := musttest.Get(json.Marshal(core.Spec{Index: "other"}))(t)
	musttest.Get(blob.Write(t.Context(), store, x.SpecKey(digest), raw, blob.Cond{}))(t)
	musttest.Refuse(x.Spec(t.Context(), digest))(t, fault.InvalidParam, "other")
	musttest.Get(other.Spec(t.Context(), digest))(t)
}

// One look after the other, of which each is kept: how far the clock goes when the machine's goes so far.
// Promises: 113.
func TestAClockFollowsTheMachinesByBoundedSteps(t *testing.T) {
	const day = 24 * time.Hour
	for name, looks := range map[string][]struct{ machine, clock time.Duration }{ // since the first look
		"every night":         {{day, day}, {2 * day, 2 * day}, {3 * day, 3 * day}},
		"a year ahead once":   {{day, day}, {365 * day, 3 * day}, {3 * day, 3 * day}, {4 * day, 4 * day}},
		"ahead from now on":   {{365 * day, day}, {366 * day, 3 * day}, {367 * day, 7 * day}, {368 * day, 15 * day}},
		"an hour back":        {{day, day}, {day - time.Hour, day}, {2 * day, 2 * day}},
		"a year back once":    {{day, day}, {-365 * day, day}, {2 * day, 2 * day}},
		"a year back for two": {{day, day}, {-365 * day, day}, {-364 * day, day}, {2 * day, 2 * day}},
		"back from now on":    {{day, day}, {-365 * day, day}, {-364 * day, day}, {-363 * day, -363 * day}},
	} {
		store, began := blobmemory.New(), time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
		look := func(machine time.Duration) time.Duration {
			clock, err := artifact.ReadClock(t.Context(), store, "docs/clock.json", began.Add(machine), day)
			if err == nil {
				err = clock.Save(t.Context(), store, "docs/clock.json")
			}
			require.NoError(t, err)
			return clock.At.Sub(began)
		}
		look(0)
		for i, want := range looks {
			assert.Equal(t, want.clock, look(want.machine), "%s, look %d at %s: the clock is at", name, i, want.machine)
		}
		musttest.Get(blob.Write(t.Context(), store, "docs/clock.json", []byte("{"), blob.Cond{}))(t)
		assert.Equal(t, 500*day, look(500*day), "%s: one that is damaged is at", name)
	}
}
