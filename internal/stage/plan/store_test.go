package plan_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

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

// A key that comes twice is read once, and said; no row of the plan has another's key.
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
	if res := x.night(nil); res.Diff.Added+res.Diff.Changed != 2 || res.Diff.Same != 1 || res.Unreadable != 0 ||
		res.Diff.Removed != 0 {
		t.Errorf("restored: %+v", res)
	}
}

// The version of a packed object is that of what it holds; one whose bytes are not packed is read as it is.
func TestAPackedObjectIsUnpacked(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte("one"))
	_ = writer.Close()
	x := newIndex(t, map[string]string{
		"a.txt": packed.String(), "b.txt": "one", "c.txt": "one", "d.txt": "\x1f\x8bno gzip",
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
