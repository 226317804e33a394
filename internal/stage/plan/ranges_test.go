package plan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
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
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// watched is a corpus that remembers the ranges that it was asked for.
type watched struct {
	*documenttest.Corpus
	mu    sync.Mutex
	asked [][2]string
}

func (w *watched) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	w.mu.Lock()
	w.asked = append(w.asked, [2]string{after, until})
	w.mu.Unlock()
	return w.Corpus.ListRange(ctx, prefix, after, until)
}

// outcome is all that a plan leaves: its result and its files.
type outcome struct{ result, rows, problems string }

func (x *index) outcome(store blob.Store, parent *core.Manifest) outcome {
	x.nights++
	res := stagetest.Must(plan.Run(x.t.Context(), plan.In{
		Spec: core.Spec{Index: "i", Corpus: "memory", Include: x.include, Exclude: x.exclude,
			Documents: &core.Documents{Types: x.types}},
		Corpus: store, Artifacts: x.art, Scratch: x.scratch(),
		Limits: x.limits, Parent: parent, OnProgress: func(int64) {},
	}))
	out := outcome{result: string(bytes.ReplaceAll(stagetest.Must(json.Marshal(res)), []byte(x.scratch()), nil))}
	for key, file := range map[string]*string{
		x.stored(plan.RowsKey(x.scratch())): &out.rows, x.stored(plan.ProblemsKey(x.scratch())): &out.problems,
	} {
		content, _, err := blob.Read(x.t.Context(), x.art.Store, key)
		require.NoError(x.t, err)
		*file = string(content)
	}
	return out
}

// uncut returns a parent that says nothing of how many documents it has, so that the corpus is listed in one.
func uncut(parent *core.Manifest) *core.Manifest {
	out := *parent
	out.Segments.Documents = slices.Clone(parent.Segments.Documents)
	for i := range out.Segments.Documents {
		out.Segments.Documents[i].Rows = 0
	}
	return &out
}

// split has the parent's documents lie in segments of so many rows, as those of many units of work do.
func (x *index) split(rows int) {
	var segments []core.Segment
	var out *artifact.Rows
	count := 0
	flush := func() {
		if count == 0 {
			return
		}
		segment, _, err := out.StoreSegment(x.t.Context(), x.art, len(segments))
		require.NoError(x.t, err)
		out.Discard()
		segments, count = append(segments, segment), 0
	}
	for row, err := range artifact.ScanAll(
		x.t.Context(), x.art.Store, x.art.SegmentKey(x.parent.Segments.Documents[0].SHA256)) {
		if err == nil && count == 0 {
			out, err = artifact.NewRows()
		}
		require.NoError(x.t, err)
		out.Append(string(row.Key), bytes.Clone(row.Value))
		if count++; count == rows {
			flush()
		}
	}
	flush()
	x.parent.Segments = oneSplit(segments...)
}

// oddName makes keys of signs that are encoded in document keys, that sort around '/', or that are no ASCII, many of
// which begin with one another.
func oddName(r *rand.Rand) string {
	signs := []string{"%", "#", "%23", "%25", "é", "日", "a", "a", "$", "b", "a/", "b/", "-", "0", " ", "+", "&", "~", "!", "\x7f", ".csv!"}
	types := []string{".txt", ".md", ".md", ".jsonl", ".csv", ".bin", ""}
	var name strings.Builder
	name.WriteString([]string{"", "", "", "a", "a#", "a%", ".hid/", "node_modules/"}[r.IntN(8)])
	for range 1 + r.IntN(4) {
		name.WriteString(signs[r.IntN(len(signs))])
	}
	return strings.Trim(name.String(), "/") + types[r.IntN(len(types))]
}

func oddContent(r *rand.Rand, key string) string {
	switch {
	case strings.HasSuffix(key, ".jsonl"):
		var text strings.Builder
		for range r.IntN(6) {
			fmt.Fprintf(&text, `{"id":"%d%%#","text":"%d"}`+"\n", r.IntN(5), r.IntN(3))
		}
		if r.IntN(3) == 0 {
			text.WriteString("{oops\n")
		}
		return text.String()
	case strings.HasSuffix(key, ".csv"):
		return fmt.Sprintf("id,text\n%d,one\n%d,two\n", r.IntN(4), r.IntN(4))
	}
	return fmt.Sprint("text ", r.IntN(20))
}

// Promises: 33.
func TestACorpusThatIsListedInRangesIsPlannedToTheSameBytes(t *testing.T) {
	synctest.Test(t, samePlans) // what is torn is read again after a while, which costs no time so
}

func samePlans(t *testing.T) {
	ranges := 0
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 7))
		x := newIndex(t, map[string]string{"a.md": "alpha", "torn.jsonl": jsonl(0, 5)})
		x.art.Store = blobmemory.New()
		for range 20 + r.IntN(150) {
			key := oddName(r)
			x.corpus.Set(key, oddContent(r, key))
		}
		x.night(nil)
		x.split(1 + r.IntN(9))
		x.include, x.exclude = [][]string{nil, {"**/*", ".hid/**"}}[r.IntN(2)], [][]string{nil, {"b/**"}}[r.IntN(2)]
		var keys []string
		for info := range x.corpus.List(t.Context(), "", "") {
			keys = append(keys, info.Key)
		}
		for _, key := range keys {
			switch r.IntN(12) {
			case 0:
				x.corpus.Remove(key)
			case 1:
				x.corpus.Set(key, oddContent(r, key))
			case 2:
				x.corpus.Open[key] = denied(key)
			case 3:
				x.corpus.Unlisted[key] = fault.NotFollowed.At("read", key)
			case 4:
				x.corpus.Unlisted[key] = fault.Unreadable.At("stat", key)
			case 5:
				x.corpus.Move(key, oddName(r))
			}
		}
		for range r.IntN(30) {
			key := oddName(r)
			x.corpus.Set(key, oddContent(r, key))
		}
		for _, parts := range []int64{1, 3, 10} {
			tear := func() {
				var torn atomic.Bool
				x.corpus.Set("torn.jsonl", jsonl(0, 5))
				x.corpus.Torn = func(key string) {
					if key == "torn.jsonl" && torn.CompareAndSwap(false, true) {
						x.corpus.Set(key, jsonl(1, 4))
					}
				}
			}
			tear()
			want := x.outcome(x.corpus, uncut(x.parent))
			plan.CutAt(t, parts)
			store := &watched{Corpus: x.corpus}
			tear()
			got := x.outcome(store, x.parent)
			assert.True(t, got == want, "seed %d, ranges of %d, cut at %q:\n%s\n%s\none listing:\n%s\n%s", seed, parts,
				store.asked, got.result, got.problems, want.result, want.problems)
			ranges += len(store.asked)
			slices.SortFunc(store.asked, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
			for i, asked := range store.asked[1:] {
				assert.True(t, asked[0] == store.asked[i][1] && asked[0] != "", "seed %d: ranges %q", seed, store.asked)
			}
		}
	}
	assert.True(t, ranges >= 25*3*5, "%d ranges were listed: the corpora were hardly cut", ranges)
}

// many returns an index of a corpus of so many files, every hundredth of which holds rows. Its parent lies in segments
// of a hundred documents.
func many(t *testing.T, files int) *index {
	objects := map[string]string{}
	for i := range files {
		if i%100 == 0 {
			objects[fmt.Sprintf("d/%05d.jsonl", i)] = jsonl(0, 1)
		} else {
			objects[fmt.Sprintf("d/%05d.txt", i)] = "text"
		}
	}
	x := newIndex(t, objects)
	x.art.Store = blobmemory.New()
	x.night(nil)
	x.split(100)
	return x
}

// Requests of ranges follow no one another, and what reads rows keeps no range from being listed: each of sixteen
// ranges holds more of them than may be read at once.
// Promises: 33.
func TestRangesOfACorpusAreListedSideBySide(t *testing.T) {
	x := many(t, 16_000)
	plan.CutAt(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		x.t = t
		requests := distance.New(15 * time.Millisecond)
		store := distance.Blob(x.corpus, requests)
		want := x.outcome(x.corpus, uncut(x.parent))
		began := time.Now()
		got := x.outcome(store, x.parent)
		counted, passed := requests.Take(), time.Since(began)
		assert.True(t, reflect.DeepEqual(got, want), "%+v, want %+v", got.result, want.result)
		// 16 listings in one chain are 16 requests, and 160 readings, eight at once, are 20.
		lists := counted.Of("", distance.List)
		assert.True(t, lists >= 16 && lists <= 32, "%d requests to list:\n%s", lists, counted)
		most := 24 * 15 * time.Millisecond
		assert.True(t, passed <= most && counted.Chain <= 24, "%s passed, want at most %s:\n%s", passed, most, counted)
	})
}

// A corpus of files alone waits for as many requests as one of its ranges takes.
func TestAnUnchangedCorpusWaitsForOneRangeOfItsListing(t *testing.T) {
	x := many(t, 16_000)
	for i := range 160 {
		x.corpus.Remove(fmt.Sprintf("d/%05d.jsonl", 100*i))
	}
	plan.CutAt(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		x.t = t
		requests := distance.New(15 * time.Millisecond)
		x.outcome(distance.Blob(x.corpus, requests), x.parent)
		counted := requests.Take()
		assert.True(t, counted.Chain == 1 && counted.Of("", distance.List) == 16, "the corpus:\n%s", counted)
	})
}

func TestTheParentsSegmentsAreFetchedAhead(t *testing.T) {
	x := many(t, 4000)
	near := x.art.Store
	synctest.Test(t, func(t *testing.T) {
		x.t = t
		requests := distance.New(15 * time.Millisecond)
		x.art.Store = distance.Blob(near, requests)
		res, err := x.plan(t.Context())
		require.True(t, err == nil && res.Unchanged, "%+v %v", res, err)
		counted := requests.Take()
		reads := counted.Of("index/segments")
		assert.True(t, reads >= 40 && reads <= 44, "%d requests for 40 segments:\n%s", reads, counted)
		if counted.Chain > 40/8+1+4 { // one for footers, and what writes the plan
			t.Errorf("the chain is %d:\n%s", counted.Chain, counted)
		}
	})
}

// bucket is a corpus as object stores give it: some keys come twice, some objects are archived, some are packed.
type bucket struct {
	*documenttest.Corpus
	twice    []string
	after    bool // the second entry comes at the end of the listing
	archived map[string]string
	packed   []string
}

func (b *bucket) ListRange(ctx context.Context, prefix, after, until string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		var late []blob.Info
		for info, err := range b.Corpus.ListRange(ctx, prefix, after, until) {
			info.Archived = b.archived[info.Key]
			again := slices.Contains(b.twice, info.Key)
			if again && b.after {
				late = append(late, info)
			}
			if !yield(info, err) || again && !b.after && !yield(info, err) {
				return
			}
		}
		for _, info := range late {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (b *bucket) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	if class := b.archived[key]; class != "" {
		return nil, blob.Info{}, blob.ArchivedObject(key, "")
	}
	body, info, err := b.Corpus.Get(ctx, key, part)
	if slices.Contains(b.packed, key) {
		info.Encoding = blob.Gzip
	}
	return body, info, err
}

func TestAKeyThatIsListedTwiceIsReadOnce(t *testing.T) {
	for _, late := range []bool{false, true} {
		x := newIndex(t, map[string]string{
			"a.txt": "one", "b.jsonl": `{"id":"x","text":"two"}` + "\n" + `{"id":"y","text":"three"}`, "c.txt": "four",
		})
		x.store = &bucket{Corpus: x.corpus, twice: []string{"a.txt", "b.jsonl"}, after: late}
		res := x.night(nil)
		require.True(t, res.Listed == 4 && res.Diff.Added == 4 && res.Refused == 2 && len(maps.Collect(x.planned())) == 4,
			"late %v: %+v", late, res)
		for _, object := range []string{"a.txt", "b.jsonl"} {
			if !slices.ContainsFunc(res.Problems, func(p core.Problem) bool {
				return p.Object == object && p.Code == string(fault.DuplicateRow) && strings.Contains(p.Detail, "lists this key twice")
			}) {
				t.Errorf("late %v: %s: %+v", late, object, res.Problems)
			}
		}
		res = x.night(nil)
		assert.True(t, res.Unchanged && res.Diff.Same == 4 && res.Refused == 2, "late %v: the next night: %+v", late, res)
	}
}

// What the listing says is archived is not read, and said so; what was read before stays, and what is restored is read.
func TestAnArchivedObjectIsToBeRestored(t *testing.T) {
	x := newIndex(t, map[string]string{"a.txt": "one", "b.txt": "two", "c.jsonl": `{"id":"x","text":"three"}`})
	store := &bucket{Corpus: x.corpus, archived: map[string]string{"b.txt": "GLACIER", "c.jsonl": "DEEP_ARCHIVE"}}
	x.store = store
	res := x.night(nil)
	require.True(t, res.Documents == 1 && res.Unreadable == 1 && res.Refused == 1 && x.corpus.Reads("b.txt") == 0,
		"%+v", res)
	for object, class := range store.archived {
		if !slices.ContainsFunc(res.Problems, func(p core.Problem) bool {
			return p.Object == object && p.Code == string(fault.StoreDenied) &&
				strings.Contains(p.Detail, "it is archived (storage class "+class+") (restore it")
		}) {
			t.Errorf("%s: %+v", object, res.Problems)
		}
	}
	res = x.night(nil)
	assert.True(t, res.Unchanged, "the next night: %+v", res)
	store.archived = map[string]string{"a.txt": "GLACIER"} // the others were restored
	res = x.night(nil)
	assert.True(t, res.Diff.Added+res.Diff.Changed == 2 && res.Diff.Same == 1 && res.Unreadable == 0 &&
		res.Diff.Removed == 0, "restored: %+v", res)
}

// The version of a packed object is that of what it holds; one whose bytes are not packed is read as it is.
func TestAPackedObjectIsUnpacked(t *testing.T) {
	x := newIndex(t, map[string]string{
		"a.txt": documenttest.Gzip("one"), "b.txt": "one", "c.txt": "one", "d.txt": "\x1f\x8bno gzip",
		"e.jsonl": `{"id":"x","text":"one"}`,
	})
	x.store = &bucket{Corpus: x.corpus, packed: []string{"a.txt", "c.txt", "d.txt", "e.jsonl"}}
	res := x.night(nil)
	rows := maps.Collect(x.planned())
	assert.True(t, rows["a.txt"].Version == rows["b.txt"].Version && rows["c.txt"].Version == rows["b.txt"].Version,
		"%+v", rows)
	assert.True(t, res.Documents == 4 && res.Unreadable == 1 && rows["d.txt"].Problem == string(fault.Unreadable),
		"%+v", res)
}
