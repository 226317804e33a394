package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// bucket is an S3 server over a store in memory, as far as the adapter asks: it proves what the adapter sends and how
// it reads answers, where a real server is not at hand. Its pages are short.
type bucket struct {
	store   *blobmemory.Store
	mu      sync.Mutex
	uploads map[string][][]byte
	aborted int

	tags          map[string]string // sets of them, by key
	refusesCopies bool
	copies, reads int
}

const pageKeys = 3

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, query := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/b"), "/"), r.URL.Query()
	switch {
	case query.Has("list-type"):
		b.list(w, query)
	case query.Has("tagging"):
		fmt.Fprintf(w, "<Tagging><TagSet>%s</TagSet></Tagging>", b.tags[key])
	case query.Has("delete"):
		var asked request
		_ = xml.NewDecoder(r.Body).Decode(&asked)
		for _, object := range asked.Object {
			_ = b.store.Delete(r.Context(), object.Key)
		}
		fmt.Fprint(w, "<DeleteResult></DeleteResult>")
	case query.Has("uploads") || query.Has("uploadId"):
		b.multipart(w, r, key, query)
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		b.copy(w, r, key)
	case r.Method == http.MethodPut:
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client broke off
		}
		b.put(w, r, key, raw)
	case r.Method == http.MethodDelete:
		_ = b.store.Delete(r.Context(), key)
		w.WriteHeader(http.StatusNoContent)
	default:
		b.reads++
		b.get(w, r, key)
	}
}

func refuse(w http.ResponseWriter, err error) {
	status, code := http.StatusInternalServerError, "InternalError"
	switch fault.CodeOf(err) {
	case fault.NotFound:
		status, code = http.StatusNotFound, "NoSuchKey"
	case fault.Precondition:
		status, code = http.StatusPreconditionFailed, "PreconditionFailed"
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%v</Message></Error>", code, err)
}

func (b *bucket) put(w http.ResponseWriter, r *http.Request, key string, raw []byte) (blob.Info, bool) {
	cond := blob.Cond{Absent: r.Header.Get("If-None-Match") == "*", Match: strings.Trim(r.Header.Get("If-Match"), `"`)}
	info, err := blob.Write(r.Context(), b.store, key, raw, cond)
	if err != nil {
		refuse(w, err)
		return info, false
	}
	w.Header().Set("ETag", `"`+info.ETag+`"`)
	return info, true
}

func (b *bucket) copy(w http.ResponseWriter, r *http.Request, key string) {
	if b.refusesCopies {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>")
		return
	}
	source, err := url.PathUnescape(r.Header.Get("X-Amz-Copy-Source"))
	if err == nil {
		var raw []byte
		if raw, _, err = blob.Read(r.Context(), b.store, strings.TrimPrefix(source, "b/")); err == nil {
			_, err = blob.Write(r.Context(), b.store, key, raw, blob.Cond{})
		}
	}
	if err != nil {
		refuse(w, err)
		return
	}
	b.copies++
	fmt.Fprint(w, "<CopyObjectResult><ETag>e</ETag></CopyObjectResult>")
}

func (b *bucket) get(w http.ResponseWriter, r *http.Request, key string) {
	raw, info, err := blob.Read(r.Context(), b.store, key)
	if match := strings.Trim(r.Header.Get("If-Match"), `"`); err == nil && match != "" && match != info.ETag {
		err = fault.Precondition.At("read", key)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("ETag", `"`+info.ETag+`"`)
	http.ServeContent(w, withoutConditions(r), key, info.Modified, bytes.NewReader(raw))
}

func withoutConditions(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("If-Match")
	return r
}

func (b *bucket) list(w http.ResponseWriter, query url.Values) {
	after := query.Get("start-after") + query.Get("continuation-token")
	type object struct {
		Key, ETag, LastModified string
		Size                    int64
	}
	result := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		EncodingType          string
		IsTruncated           bool
		NextContinuationToken string
		Contents              []object
		CommonPrefixes        []struct{ Prefix string }
	}{EncodingType: "url"}
	last, folder, prefix := "", "", query.Get("prefix")
	for info, err := range b.store.List(context.Background(), prefix, after) {
		if err != nil {
			break
		}
		if folder != "" && strings.HasPrefix(info.Key, folder) {
			last = info.Key
			continue
		}
		if len(result.Contents)+len(result.CommonPrefixes) == pageKeys {
			result.IsTruncated, result.NextContinuationToken = true, last
			break
		}
		last = info.Key
		name, _, inFolder := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if inFolder && query.Get("delimiter") == "/" {
			folder = prefix + name + "/"
			result.CommonPrefixes = append(result.CommonPrefixes, struct{ Prefix string }{url.QueryEscape(folder)})
			continue
		}
		result.Contents = append(result.Contents, object{url.QueryEscape(info.Key), `"` + info.ETag + `"`,
			info.Modified.UTC().Format("2006-01-02T15:04:05.000Z"), info.Size})
	}
	_ = xml.NewEncoder(w).Encode(result)
}

func (b *bucket) multipart(w http.ResponseWriter, r *http.Request, key string, query url.Values) {
	id := query.Get("uploadId")
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case query.Has("uploads"):
		id = fmt.Sprint("upload", len(b.uploads))
		b.uploads[id] = nil
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case r.Method == http.MethodPut:
		number, _ := strconv.Atoi(query.Get("partNumber"))
		for len(b.uploads[id]) < number {
			b.uploads[id] = append(b.uploads[id], nil)
		}
		b.uploads[id][number-1] = raw
		w.Header().Set("ETag", fmt.Sprintf(`"part%d"`, number))
	case r.Method == http.MethodDelete:
		b.aborted++
		w.WriteHeader(http.StatusNoContent)
	default:
		if info, ok := b.put(w, r, key, slices.Concat(b.uploads[id]...)); ok {
			fmt.Fprintf(w, `<CompleteMultipartUploadResult><ETag>"%s"</ETag></CompleteMultipartUploadResult>`, info.ETag)
		}
	}
}

func faked(t *testing.T) (*s3.Store, *bucket) {
	b := &bucket{store: blobmemory.New(), uploads: map[string][][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return musttest.Get(s3.Open(t.Context(), at(server.URL, "some/prefix")))(t), b
}

func TestTagsOfObjects(t *testing.T) {
	store, b := faked(t)
	b.tags = map[string]string{"some/prefix/a b": "<Tag><Key>team</Key><Value>legal</Value></Tag>" +
		"<Tag><Key>aws:stack</Key><Value>x</Value></Tag><Tag><Key>none</Key><Value></Value></Tag>"}
	assert.Equal(t, map[string]string{"team": "legal", "none": ""}, musttest.Get(store.ReadTags(t.Context(), "a b"))(t))
	seen := 0
	without := musttest.Get(s3.Open(t.Context(), answering(t, http.StatusNotFound, "NoSuchTagSet", &seen)))(t)
	assert.Empty(t, musttest.Get(without.ReadTags(t.Context(), "a"))(t))
	for _, c := range []struct {
		status  int
		code    string
		refuses bool
	}{
		{403, "AccessDenied", true}, {403, "", true}, {405, "MethodNotAllowed", true}, {501, "NotImplemented", true},
		{400, "ExpiredToken", false}, {403, "SignatureDoesNotMatch", false}, {404, "NoSuchBucket", false},
	} {
		denying := musttest.Get(s3.Open(t.Context(), answering(t, c.status, c.code, &seen)))(t)
		_, err := denying.ReadTags(t.Context(), "a")
		musttest.Fail(t, err, fault.StoreDenied, "read tags of s3://b/a")
		assert.Equal(t, c.refuses, errors.Is(err, blob.ErrTagsRefused), "%d %s: %v", c.status, c.code, err)
		assert.Equal(t, c.refuses, strings.Contains(err.Error(), "s3:GetObjectTagging, or set documents.s3_tags"), err)
	}
}

func TestConformanceOnAFake(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		store, _ := faked(t)
		return store
	})
}

func TestPartsOfAnUploadThatFailsAreGivenUp(t *testing.T) {
	store, b := faked(t)
	travelInParts(t, store)
	assert.Equal(t, 2, b.aborted)
}

func TestKeysLieBelowThePrefix(t *testing.T) {
	store, b := faked(t)
	musttest.Get(blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{}))(t)
	assert.NoError(t, musttest.Err(b.store.Stat(t.Context(), "some/prefix/k")))
	assert.Equal(t, "s3://b/some/prefix/k", store.Location("k"), "location")
}

type passing struct{ blob.Store }

func (p passing) Unwrap() blob.Store { return p.Store }

func pair(t *testing.T) (from, to *s3.Store, b *bucket) {
	b = &bucket{store: blobmemory.New(), uploads: map[string][][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return musttest.Get(s3.Open(t.Context(), at(server.URL, "from")))(t), musttest.Get(s3.Open(t.Context(), at(server.URL, "to")))(t), b
}

func TestTheServerCopiesWhatItCanAndTheRestIsReadAndWritten(t *testing.T) {
	const odd = "seg ments/a+b%20ü"
	for name, test := range map[string]struct {
		refuses       bool
		copies, reads int
	}{"by the server": {false, 1, 0}, "through this process": {true, 0, 1}} {
		from, to, b := pair(t)
		b.refusesCopies = test.refuses
		musttest.Get(blob.Write(t.Context(), from, odd, []byte("rows"), blob.Cond{}))(t)
		err := blob.Copy(t.Context(), to, "copy", passing{from}, odd)
		require.True(t, err == nil, "%v %v", name, err)
		assert.True(t, b.copies == test.copies && b.reads == test.reads, "%s: %d copies, %d reads", name, b.copies, b.reads)
		blobtest.Holds(t, to, "copy", "rows")
		musttest.Code(t, blob.Copy(t.Context(), to, "none", from, "absent"), fault.NotFound, "%s: an absent object", name)
	}
}

func TestAnotherServersObjectsAreReadAndWritten(t *testing.T) {
	from, _, _ := pair(t)
	_, to, b := pair(t)
	musttest.Get(blob.Write(t.Context(), from, "k", []byte("rows"), blob.Cond{}))(t)
	require.NoError(t, blob.Copy(t.Context(), to, "copy", from, "k"))
	blobtest.Holds(t, to, "copy", "rows")
	assert.Zero(t, b.copies)
}

// breaking breaks the connection of the first answers to a GET of an object in their middle.
type breaking struct {
	*bucket
	left  atomic.Int64
	asked atomic.Int64
	after func() // called when an answer was broken; may be nil
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Query().Has("list-type") {
		b.bucket.ServeHTTP(w, r)
		return
	}
	b.asked.Add(1)
	if b.left.Add(-1) < 0 {
		b.bucket.ServeHTTP(w, r)
		return
	}
	whole := httptest.NewRecorder()
	b.bucket.ServeHTTP(whole, r)
	for name, values := range whole.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(whole.Body.Len()))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(whole.Body.Bytes()[:whole.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	if b.after != nil {
		b.after()
	}
	panic(http.ErrAbortHandler)
}

func breakingStore(t *testing.T, times int64) (*s3.Store, *breaking) {
	b := &breaking{bucket: &bucket{store: blobmemory.New(), uploads: map[string][][]byte{}}}
	b.left.Store(times)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return musttest.Get(s3.Open(t.Context(), at(server.URL, "")))(t), b
}

func TestAStreamThatBreaksGoesOnWhereItWas(t *testing.T) {
	want := make([]byte, 300_000)
	_, _ = rand.Read(want)
	for name, part := range map[string]blob.Range{
		"the whole":  {Length: -1},
		"a part":     {Offset: 1000, Length: 200_000},
		"to its end": {Offset: 5, Length: -1},
	} {
		t.Run(name, func(t *testing.T) {
			store, b := breakingStore(t, 3)
			musttest.Get(blob.Write(t.Context(), store, "k", want, blob.Cond{}))(t)
			stream, info := musttest.Get2(store.Get(t.Context(), "k", part))(t)
			defer func() { _ = stream.Close() }()
			var got bytes.Buffer
			musttest.Get(got.ReadFrom(stream))(t)
			end := int64(len(want))
			if part.Length > 0 {
				end = part.Offset + part.Length
			}
			assert.True(t, bytes.Equal(got.Bytes(), want[part.Offset:end]) && info.Size == int64(len(want)),
				"%d bytes of an object of %d", got.Len(), info.Size)
			assert.Equal(t, int64(4), b.asked.Load(), "asked")
		})
	}
}

func TestAStreamThatBreaksAgainAndAgainFailsTransiently(t *testing.T) {
	store, _ := breakingStore(t, 100)
	musttest.Get(blob.Write(t.Context(), store, "k", make([]byte, 300_000), blob.Cond{}))(t)
	_, _, err := blob.Read(t.Context(), store, "k")
	assert.True(t, fault.KindOf(err) == fault.Transient, "%v", err)
}

func TestAStreamNeverGoesOnInAnotherVersion(t *testing.T) {
	store, b := breakingStore(t, 1)
	one, two := bytes.Repeat([]byte("1"), 300_000), bytes.Repeat([]byte("2"), 300_000)
	musttest.Get(blob.Write(t.Context(), store, "k", one, blob.Cond{}))(t)
	b.after = func() { _, _ = blob.Write(t.Context(), b.store, "k", two, blob.Cond{}) }
	raw, _, err := blob.Read(t.Context(), store, "k")
	assert.True(t, fault.KindOf(err) == fault.Transient, "%d bytes, %v", len(raw), err)
}

const stall = 150 * time.Millisecond

const long = 5 * time.Minute

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"} {
		if os.Getenv(name) == "" { // those of a real server stay
			_ = os.Setenv(name, value)
		}
	}
	os.Exit(m.Run())
}

// serving opens a store over a server that answers lists with nothing and everything else as handle does. Its guard is
// so short that a busy machine sets it off: who counts requests that are answered takes a long one (guarded).
func serving(t *testing.T, handle http.HandlerFunc) *s3.Store {
	return guarded(t, stall, handle)
}

func guarded(t *testing.T, limit time.Duration, handle http.HandlerFunc) *s3.Store {
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("list-type") != "" {
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
			return
		}
		handle(w, r.WithContext(context.WithValue(r.Context(), endKey{}, done)))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) }) // first: hanging handlers end
	config := at(server.URL, "p")
	config.Stall = limit
	return musttest.Get(s3.Open(t.Context(), config))(t)
}

type endKey struct{}

func hang(r *http.Request) { <-r.Context().Value(endKey{}).(chan struct{}) }

func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(long):
		t.Fatal("it hangs")
		return nil
	}
}

func stalls(t *testing.T, err error) {
	t.Helper()
	assert.True(t, fault.Is(err, fault.StoreDown) && fault.KindOf(err) == fault.Transient &&
		strings.Contains(err.Error(), "no byte moved"), "got %v, want a transient fault that says so", err)
}

func TestADownloadThatMovesNoByteFailsTransiently(t *testing.T) {
	t.Parallel()
	store := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 100))
		w.(http.Flusher).Flush()
		hang(r)
	})
	stalls(t, within(t, func() error {
		body, _, err := store.Get(t.Context(), "k", blob.All)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		n, err := io.Copy(io.Discard, body)
		assert.Equal(t, int64(100), n)
		return err
	}))
}

func TestAStoreThatNeverAnswersFailsTransiently(t *testing.T) {
	t.Run("a read", func(t *testing.T) {
		t.Parallel()
		store := serving(t, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
		stalls(t, within(t, func() error { return musttest.Err(store.Stat(t.Context(), "k")) }))
	})
	t.Run("a conditional write, which is sent once", func(t *testing.T) {
		t.Parallel()
		var arrived atomic.Int64
		store := serving(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			hang(r)
		})
		stalls(t, within(t, func() error {
			return musttest.Err(blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true}))
		}))
		if arrived.Load() > 1 { // none, where the server did not come to it in time
			t.Errorf("it was sent %d times", arrived.Load())
		}
	})
}

func TestACallersOwnEndIsNoStall(t *testing.T) {
	t.Parallel()
	store := guarded(t, long, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	ctx, cancel := context.WithTimeout(t.Context(), stall)
	defer cancel()
	err := within(t, func() error { return musttest.Err(store.Stat(ctx, "k")) })
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
