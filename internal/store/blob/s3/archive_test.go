package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
)

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
		store, err := s3.Open(t.Context(),
			s3.Config{Bucket: "b", Prefix: "p", Endpoint: server.URL, Region: "us-east-1", PathStyle: true, Setting: "corpus"})
		require.NoError(t, err)
		asked = 0 // opening a store lists, too
		got := ""
		for info, err := range store.List(t.Context(), "", "") {
			require.NoError(t, err)
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
		if !fault.Is(err, fault.StoreDenied) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "write") {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
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
		body, info, err := store.Get(t.Context(), c[0], blob.All)
		require.NoError(t, err)
		raw, err := io.ReadAll(body)
		assert.True(t, err == nil && string(raw) == "bytes" && info.Encoding == c[2], "%v: %q %+v %v", c, raw, info, err)
		_ = body.Close()
	}
}
