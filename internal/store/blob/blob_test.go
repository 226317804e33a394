package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestSeveralFailuresAreOneFaultThatCountsThem(t *testing.T) {
	denied := fault.StoreDenied.At("delete", "a").Because(os.ErrPermission).Advise("unlock it")
	for name, c := range map[string]struct {
		failures []error
		want     string
	}{
		"none": {[]error{nil, nil}, ""},
		"one":  {[]error{nil, denied}, "delete a: permission denied (unlock it)"},
		"several": {[]error{denied, nil, fault.StoreDown.At("delete", "b")},
			"delete a: 2 of 3 objects failed, the first: permission denied (unlock it)"},
		"several without a cause": {[]error{fault.StoreDown.At("delete", "a"), fault.StoreDown.At("delete", "b")},
			"delete a: 2 of 2 objects failed"},
		"another kind of error": {[]error{io.ErrUnexpectedEOF, denied}, "unexpected EOF"},
	} {
		var failures blob.Failures
		for _, err := range c.failures {
			failures.Add(err)
		}
		err := failures.Err(len(c.failures))
		text := ""
		if err != nil {
			text = err.Error()
		}
		assert.Equal(t, c.want, text, "%s", name)
		if name == "several" { // the first decides what happens next
			assert.True(t, fault.Is(err, fault.StoreDenied) && errors.Is(err, os.ErrPermission), "%v", err)
		}
	}
}

func TestTheFirstFailureDecidesWhatHappensNext(t *testing.T) {
	var failures blob.Failures
	failures.Add(fault.StoreDown.At("delete", "a").Because(io.ErrUnexpectedEOF))
	failures.Add(fault.StoreDenied.At("delete", "b"))
	err := failures.Err(2)
	assert.True(t, fault.Is(err, fault.StoreDown) && fault.KindOf(err) == fault.Transient &&
		errors.Is(err, io.ErrUnexpectedEOF), "got %v", err)
}

func TestJSONIsReadAsItWasWritten(t *testing.T) {
	type pointer struct {
		Generation string `json:"generation"`
		Epoch      int    `json:"epoch"`
	}
	store := blobmemory.New()
	want := pointer{"g1", 3}
	musttest.Get(blob.WriteJSON(t.Context(), store, "p.json", want, blob.Cond{Absent: true}))(t)
	raw, _, err := blob.Read(t.Context(), store, "p.json")
	if err != nil || string(raw) != "{\n \"generation\": \"g1\",\n \"epoch\": 3\n}\n" {
		t.Errorf("stored %q, %v", raw, err) // hashes of what is published rest on these bytes
	}
	var got pointer
	info, err := blob.ReadJSON(t.Context(), store, "p.json", &got)
	assert.True(t, err == nil && got == want && info.ETag != "", "got %+v, %+v, %v", got, info, err)
	musttest.Refuse(blob.WriteJSON(t.Context(), store, "p.json", want, blob.Cond{Absent: true}))(t, fault.Precondition)
}

func TestJSONThatCannotBeReadOrWrittenIsNamed(t *testing.T) {
	store := blobmemory.New()
	var into map[string]int
	musttest.Refuse(blob.ReadJSON(t.Context(), store, "absent", &into))(t, fault.NotFound)
	musttest.Get(blob.Write(t.Context(), store, "damaged", []byte(`{"a":`), blob.Cond{}))(t)
	_, err := blob.ReadJSON(t.Context(), store, "damaged", &into)
	assert.True(t, fault.Is(err, fault.SegmentDamage) && fault.As(err).Object == "memory:damaged", "damaged: %v", err)
	musttest.Refuse(blob.WriteJSON(t.Context(), store, "k", func() {}, blob.Cond{}))(t, fault.Internal)
}

// breaking is a store whose bodies end in the middle.
type breaking struct{ *blobmemory.Store }

func (b breaking) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	body, info, err := b.Store.Get(ctx, key, part)
	if err != nil {
		return nil, info, err
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(body, 2), end{})), info, nil
}

type end struct{}

func (end) Read([]byte) (int, error) { return 0, errors.New("the line broke") }

func TestABodyThatBreaksIsTransientAndNamesItsObject(t *testing.T) {
	store := breaking{blobmemory.New()}
	musttest.Get(blob.Write(t.Context(), store, "k", []byte("content"), blob.Cond{}))(t)
	_, _, err := blob.Read(t.Context(), store, "k")
	assert.True(t, fault.Is(err, fault.StoreDown) && strings.Contains(err.Error(), "memory:k"), "got %v", err)
}

// Names come from documents, from stored files and from any client of the engine.
// Promises: 138.
func TestNoKeyLeadsOutOfItsStore(t *testing.T) {
	for _, key := range []string{"a", "a/b.md", ".tmp", "..a", "a..", "a/..b/c", "...", "a//b", `a\..\b`, "ü/ß"} {
		assert.NoError(t, blob.CheckKey(key), "%q", key)
	}
	for _, key := range []string{"", "/", "/etc/passwd", "//a", ".", "..", "./a", "../a", "a/..", "a/.", "a/../b", "a/./b",
		"a/../../b", "a\x00b"} {
		musttest.Code(t, blob.CheckKey(key), fault.InvalidParam, "%q is taken", key)
	}
}

// telling is a store of one object that says how large it is, rightly or not.
type telling struct {
	blob.Store
	content []byte
	size    int64
}

func (s telling) Get(_ context.Context, key string, _ blob.Range) (io.ReadCloser, blob.Info, error) {
	return io.NopCloser(struct{ io.Reader }{bytes.NewReader(s.content)}), blob.Info{Key: key, Size: s.size}, nil
}

func TestAnObjectIsReadWhateverSizeItsStoreTells(t *testing.T) {
	content := bytes.Repeat([]byte("content "), 1000)
	for _, size := range []int64{int64(len(content)), 0, -1, 10, 1 << 50} {
		raw, _, err := blob.Read(t.Context(), telling{content: content, size: size}, "key")
		assert.True(t, err == nil && bytes.Equal(raw, content),
			"announced as %d bytes: %d of %d bytes, %v", size, len(raw), len(content), err)
	}
}

func TestAnObjectIsReadIntoMemoryOfItsSize(t *testing.T) {
	content := bytes.Repeat([]byte("content "), 100_000)
	raw, _, err := blob.Read(t.Context(), telling{content: content, size: int64(len(content))}, "key")
	assert.True(t, err == nil && cap(raw) <= len(content)+8<<10, "%d, %d, %v", cap(raw), len(content), err)
}
