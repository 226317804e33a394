package s3_test

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
)

// request is what a client sends to delete many objects.
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

func TestADeletionThatIsRefusedForOneObjectIsNotAskedForEach(t *testing.T) {
	sent := 0
	store := guarded(t, long, func(w http.ResponseWriter, _ *http.Request) {
		sent++
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
	})
	err := store.DeleteAll(t.Context(), numbered(100))
	assert.True(t, fault.Is(err, fault.StoreDenied) && sent == 2, "sent %d times, %v", sent, err)
}

func TestADeletionThatFailsAsAWholeIsRepeatedWhereItHeals(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		code fault.Code
		sent int
	}{http.StatusServiceUnavailable: {fault.StoreDown, 4}, http.StatusForbidden: {fault.StoreDenied, 1}} {
		sent := 0
		store := guarded(t, long, func(w http.ResponseWriter, _ *http.Request) {
			sent++
			w.WriteHeader(status)
		})
		err := store.DeleteAll(t.Context(), numbered(3))
		assert.True(t, fault.Is(err, want.code) && sent == want.sent, "%d: sent %d times, %v", status, sent, err)
	}
}
