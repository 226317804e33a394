package s3_test

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/testkit/blobtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// endpoint returns the address of the real server; without one the test is skipped.
func endpoint(t *testing.T) string {
	t.Helper()
	e := os.Getenv("UNWEAVER_TEST_S3")
	if e == "" {
		t.Skip("no S3 server: make test-servers has one")
	}
	return e
}

func config(t *testing.T) s3.Config {
	config := at(endpoint(t), "test/"+rand.Text())
	config.Bucket = "unweaver"
	return config
}

func open(t *testing.T) blob.Store {
	return musttest.Get(s3.Open(t.Context(), config(t)))(t)
}

func TestConformance(t *testing.T) {
	endpoint(t)
	blobtest.Run(t, open)
}

func TestLargeObjectsTravelInPartsUnderTheirCondition(t *testing.T) { travelInParts(t, open(t)) }

func travelInParts(t *testing.T, store blob.Store) {
	big := make([]byte, 20<<20+5)
	_, _ = rand.Read(big)
	for _, size := range []int64{int64(len(big)), -1} {
		key := fmt.Sprint("big", size)
		// Hiding Seek and Len proves that nothing but the stream is needed.
		stream := io.MultiReader(bytes.NewReader(big))
		musttest.Get(store.Put(t.Context(), key, stream, size, blob.Cond{Absent: true}))(t)
		got, in, err := blob.Read(t.Context(), store, key)
		assert.True(t, err == nil && bytes.Equal(got, big) && in.Size == int64(len(big)), "%d, %+v, %v", len(got), in, err)
		_, err = store.Put(t.Context(), key, bytes.NewReader(big), size, blob.Cond{Absent: true})
		assert.True(t, fault.Is(err, fault.Precondition), "a second If-None-Match: %v", err)
	}
	// Another writer is first while the parts are sent.
	first := readerFunc(func([]byte) (int, error) {
		_, err := blob.Write(t.Context(), store, "raced", []byte("first"), blob.Cond{Absent: true})
		return 0, cmp.Or(err, io.EOF)
	})
	_, err := store.Put(t.Context(), "raced", io.MultiReader(bytes.NewReader(big), first), -1, blob.Cond{Absent: true})
	assert.True(t, fault.Is(err, fault.Precondition), "an object that came while parts were sent: %v", err)
	raced, _, err := blob.Read(t.Context(), store, "raced")
	assert.True(t, err == nil && string(raced) == "first", "%d bytes took its place, %v", len(raced), err)
	_, err = store.Put(t.Context(), "short", bytes.NewReader(big), int64(len(big))+1, blob.Cond{})
	assert.Error(t, err, "a body that ends early was stored")
	musttest.Refuse(store.Stat(t.Context(), "short"))(t, fault.NotFound)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(out []byte) (int, error) { return f(out) }

func TestTagsOnAServer(t *testing.T) {
	c := config(t)
	store := musttest.Get(s3.Open(t.Context(), c))(t)
	loaded := musttest.Get(awsconfig.LoadDefaultConfig(t.Context(), awsconfig.WithRegion(c.Region)))(t)
	client := awss3.NewFromConfig(loaded, func(o *awss3.Options) { o.BaseEndpoint, o.UsePathStyle = &c.Endpoint, true })
	info := musttest.Get(blob.Write(t.Context(), store, "a b.txt", []byte("x"), blob.Cond{}))(t)
	assert.Empty(t, musttest.Get(store.ReadTags(t.Context(), "a b.txt"))(t))
	musttest.Get(client.PutObjectTagging(t.Context(), &awss3.PutObjectTaggingInput{
		Bucket: &c.Bucket, Key: aws.String(c.Prefix + "/a b.txt"),
		Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("team"), Value: aws.String("legal")}}},
	}))(t)
	assert.Equal(t, map[string]string{"team": "legal"}, musttest.Get(store.ReadTags(t.Context(), "a b.txt"))(t))
	assert.Equal(t, info.ETag, musttest.Get(store.Stat(t.Context(), "a b.txt"))(t).ETag, "tags change no ETag")
	musttest.Refuse(store.ReadTags(t.Context(), "none"))(t, fault.NotFound)
}

func TestMissingBucketAndWrongKeysNameTheSetting(t *testing.T) {
	c := config(t)
	c.Bucket = "no-such-bucket"
	musttest.Refuse(s3.Open(t.Context(), c))(t, fault.StoreDenied, "stores.artifacts")
	c.Bucket = "unweaver"
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	musttest.Refuse(s3.Open(t.Context(), c))(t, fault.StoreDenied, "AWS_SECRET_ACCESS_KEY")
}

func answering(t *testing.T, status int, code string, seen *int) s3.Config {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("list-type") != "" && code != "list" && seen != nil {
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
			return
		}
		if seen != nil {
			*seen++
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said so</Message></Error>", code)
	}))
	t.Cleanup(srv.Close)
	return at(srv.URL, "")
}

// at returns the configuration of a store at an address, below a prefix of the bucket.
func at(endpoint, prefix string) s3.Config {
	return s3.Config{Bucket: "b", Prefix: prefix, Endpoint: endpoint, Region: "us-east-1", PathStyle: true,
		Setting: "stores.artifacts"}
}

func TestErrorsOfAStoreNameTheWayOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
		want   fault.Code
		says   string
	}{
		{403, "AccessDenied", fault.StoreDenied, "list, read, write and delete"},
		{403, "RequestTimeTooSkewed", fault.StoreDenied, "clock"},
		{403, "InvalidAccessKeyId", fault.StoreDenied, "AWS_ACCESS_KEY_ID"},
		{400, "AuthorizationHeaderMalformed", fault.BadConfig, "stores.s3.region"},
		{301, "PermanentRedirect", fault.BadConfig, "stores.s3.region"},
		{404, "NoSuchBucket", fault.StoreDenied, "does not exist"},
		{507, "QuotaExceeded", fault.StoreFull, "make room"},
	} {
		_, err := s3.Open(t.Context(), answering(t, c.status, c.code, nil))
		assert.True(t, fault.Is(err, c.want) && strings.Contains(fmt.Sprint(err), c.says), "%d %s: %v", c.status, c.code, err)
	}
}

// Conditional writes are sent once, others are repeated. Runs wait for a store that asks for fewer requests, and status
// says its word.
func TestWritesThatAreRefusedSayWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
		want   fault.Code
		says   string
	}{
		{500, "InternalError", fault.StoreDown, ""}, {501, "NotImplemented", fault.StoreDenied, "conditional writes"},
		{503, "SlowDown", fault.StoreDown, "SlowDown"}, {429, "TooManyRequests", fault.StoreDown, "TooManyRequests"},
	} {
		n := 0
		store := musttest.Get(s3.Open(t.Context(), answering(t, c.status, c.code, &n)))(t)
		_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true})
		assert.True(t, fault.Is(err, c.want) && strings.Contains(err.Error(), c.says), "%d: %v", c.status, err)
		assert.Equal(t, 1, n, "%d: a conditional write was sent", c.status)
		if c.want != fault.StoreDown {
			continue
		}
		assert.Equal(t, fault.Transient, fault.KindOf(err), "%v", err)
		n = 0
		_, err = blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{})
		assert.True(t, fault.Is(err, fault.StoreDown) && n >= 2, "%d: an unconditional write, sent %d times: %v", c.status, n, err)
		_, _, err = blob.Read(t.Context(), store, "k")
		assert.True(t, fault.Is(err, fault.StoreDown) && strings.Contains(err.Error(), c.says), "%d: a read: %v", c.status, err)
	}
}

func TestUnreachableEndpointIsTransientAndNamesTheSetting(t *testing.T) {
	t.Parallel()
	_, err := s3.Open(t.Context(), at("http://127.0.0.1:1", ""))
	assert.True(t, fault.Is(err, fault.StoreDown) && strings.Contains(err.Error(), "stores.s3.endpoint"), "%v", err)
	assert.Equal(t, fault.Transient, fault.KindOf(err))
}

func TestParse(t *testing.T) {
	for uri, want := range map[string]string{"s3://b/p/q/": "b p/q", "s3://b": "b ", "s3:///x": "", "http://b/x": ""} {
		b, p, err := s3.Parse(uri)
		got := b + " " + p
		assert.True(t, (err == nil) == (want != "") && (err != nil || got == want), "%s: %q, %v", uri, got, err)
	}
}

// contents returns an entry of a listing: key, storage class, and what else is said of it.
func contents(key, class, more string) string {
	return fmt.Sprintf("<Contents><Key>p/%s</Key><Size>1</Size><StorageClass>%s</StorageClass>%s</Contents>", key, class, more)
}

// Which objects must be restored is known by the listing. That is asked for what is restored only where anything is
// archived, and what a server does not know of it changes nothing.
func TestAListingSaysWhatIsArchived(t *testing.T) {
	const restored = `<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>` +
		`<RestoreExpiryDate>2999-01-01T00:00:00.000Z</RestoreExpiryDate></RestoreStatus>`
	plain := contents("a", "STANDARD", "") + contents("b", "GLACIER_IR", "") + contents("c", "", "")
	for name, c := range map[string]struct {
		first, again string // pages; no second one: it is refused
		asked        int
		want         string
	}{
		"nothing":   {plain, "", 1, "a b c "},
		"something": {plain + contents("d", "GLACIER", ""), plain + contents("d", "GLACIER", ""), 2, "a b c d:GLACIER "},
		"something restored": {contents("d", "GLACIER", "") + contents("e", "DEEP_ARCHIVE", ""),
			contents("d", "GLACIER", restored) + contents("e", "DEEP_ARCHIVE",
				"<RestoreStatus><IsRestoreInProgress>true</IsRestoreInProgress></RestoreStatus>"), 2, "d e:DEEP_ARCHIVE "},
		"a server that refuses to say": {contents("d", "DEEP_ARCHIVE", ""), "", 2, "d:DEEP_ARCHIVE "},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			switch page := c.first; {
			case r.Header.Get("X-Amz-Optional-Object-Attributes") == "":
				fmt.Fprint(w, "<ListBucketResult>"+page+"</ListBucketResult>")
			case c.again == "":
				w.WriteHeader(http.StatusNotImplemented)
				fmt.Fprint(w, "<Error><Code>NotImplemented</Code></Error>")
			default:
				fmt.Fprint(w, "<ListBucketResult>"+c.again+"</ListBucketResult>")
			}
		}))
		t.Cleanup(server.Close)
		store := musttest.Get(s3.Open(t.Context(), at(server.URL, "p")))(t)
		asked = 0 // opening a store lists, too
		got := ""
		for info := range musttest.All(t, store.List(t.Context(), "", "")) {
			got += strings.TrimSuffix(info.Key+":"+info.Archived, ":") + " "
		}
		assert.True(t, got == c.want && asked == c.asked, "%s: %s after %d requests, want %s", name, got, asked, c.want)
	}
}

func TestAnArchivedObjectThatIsReadSaysSo(t *testing.T) {
	for body, want := range map[string]string{
		"<Error><Code>InvalidObjectState</Code></Error>": "it is archived (restore it",
		"<Error><Code>InvalidObjectState</Code><Message>no</Message><StorageClass>GLACIER</StorageClass></Error>": "it is " +
			"archived (storage class GLACIER) (restore it",
		"<Error><Code>InvalidObjectState</Code><AccessTier>DEEP_ARCHIVE_ACCESS</AccessTier></Error>": "it is archived " +
			"(storage class DEEP_ARCHIVE_ACCESS) (restore it",
	} {
		store := guarded(t, long, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, body)
		})
		_, _, err := store.Get(t.Context(), "k", blob.All)
		assert.True(t, fault.Is(err, fault.StoreDenied) && strings.Contains(err.Error(), want) &&
			!strings.Contains(err.Error(), "write"), "%s: %v, want %s", body, err, want)
	}
}

// How an object is packed is reported with its bytes, which are given as they are.
func TestTheEncodingOfAnObjectIsTold(t *testing.T) {
	for _, c := range [][3]string{
		{"a.txt", "gzip", blob.Gzip}, {"a.txt", "GZIP", blob.Gzip}, {"a.txt", "x-gzip", blob.Gzip},
		{"a.txt", "aws-chunked, gzip", blob.Gzip}, {"a.txt", "utf-8", ""}, {"a.txt", "", ""}, {"a.txt", "br", ""},
		{"a.txt.gz", "gzip", ""}, {"a.TXT.GZ", "gzip", ""},
	} {
		store := guarded(t, long, func(w http.ResponseWriter, r *http.Request) {
			accepted := r.Header.Get("Accept-Encoding")
			assert.True(t, !strings.Contains(accepted, "gzip"), "%s is accepted, which the client would unpack", accepted)
			w.Header().Set("Content-Encoding", c[1])
			fmt.Fprint(w, "bytes")
		})
		body, info := musttest.Get2(store.Get(t.Context(), c[0], blob.All))(t)
		raw, err := io.ReadAll(body)
		assert.True(t, err == nil && string(raw) == "bytes" && info.Encoding == c[2], "%v: %q %+v %v", c, raw, info, err)
		_ = body.Close()
	}
}

type request struct {
	Object []struct{ Key string }
	Quiet  bool
}

func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k/%04d", i)
	}
	return keys
}

func TestManyAreDeletedInFewRequests(t *testing.T) {
	var sizes []int
	var first string
	store := guarded(t, long, func(w http.ResponseWriter, r *http.Request) {
		var asked request
		if err := xml.NewDecoder(r.Body).Decode(&asked); err != nil || !r.URL.Query().Has("delete") || !asked.Quiet {
			t.Errorf("%s %s: %+v, %v", r.Method, r.URL, asked, err)
			return
		}
		if len(sizes) == 0 {
			first = asked.Object[0].Key
		}
		sizes = append(sizes, len(asked.Object))
		fmt.Fprint(w, `<DeleteResult></DeleteResult>`)
	})
	require.NoError(t, store.DeleteAll(t.Context(), numbered(2500)))
	assert.True(t, slices.Equal(sizes, []int{1000, 1000, 500}) && first == "p/k/0000",
		"requests of %v keys, the first is %q", sizes, first)
}

func TestKeysThatStayAreCountedAndTheFirstIsNamed(t *testing.T) {
	store := guarded(t, long, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<DeleteResult>
			<Error><Key>p/k/0000</Key><Code>NoSuchKey</Code><Message>gone</Message></Error>
			<Error><Key>p/k/0003</Key><Code>AccessDenied</Code><Message>it is locked</Message></Error>
			<Error><Key>p/k/0007</Key><Code>AccessDenied</Code><Message>it is locked</Message></Error>
		</DeleteResult>`)
	})
	err := store.DeleteAll(t.Context(), numbered(10))
	require.True(t, fault.Is(err, fault.StoreDenied), "got %v", err)
	for _, says := range []string{"2 of 10", "s3://b/p/k/0003", "it is locked", "delete"} {
		assert.Contains(t, err.Error(), says, "%v does not say", err)
	}
}

func TestAStoreThatDeletesOneByOneIsAskedSo(t *testing.T) {
	for _, refusal := range []struct {
		status int
		code   string
	}{{501, "NotImplemented"}, {405, "MethodNotAllowed"}, {400, "MissingContentMD5"}, {403, "AccessDenied"}} {
		var mu sync.Mutex // objects are deleted side by side
		var deleted []string
		store := guarded(t, long, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				mu.Lock()
				defer mu.Unlock()
				deleted = append(deleted, r.URL.Path)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.WriteHeader(refusal.status)
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", refusal.code)
		})
		assert.NoError(t, store.DeleteAll(t.Context(), numbered(3)), "%s", refusal.code)
		slices.Sort(deleted)
		want := []string{"/b/p/k/0000", "/b/p/k/0001", "/b/p/k/0002"}
		assert.True(t, slices.Equal(deleted, want), "%s: deleted %q", refusal.code, deleted)
	}
}

// What is refused for one object is not asked for each, and what fails as a whole is repeated where it heals.
func TestADeletionThatFailsIsRepeatedWhereItHeals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   fault.Code
		sent   int
	}{
		"refused for one":  {403, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>", fault.StoreDenied, 2},
		"down as a whole":  {503, "", fault.StoreDown, 4},
		"refused as whole": {403, "", fault.StoreDenied, 1},
	} {
		sent := 0
		store := guarded(t, long, func(w http.ResponseWriter, _ *http.Request) {
			sent++
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		err := store.DeleteAll(t.Context(), numbered(100))
		assert.True(t, fault.Is(err, c.want) && sent == c.sent, "%s: sent %d times, %v", name, sent, err)
	}
}
