package pipeline_test

import (
	"crypto/ecdsa"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/image"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// hub is a registry on this machine.
type hub struct {
	address string
	between atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool] // true: it answered itself
}

func newHub(t testing.TB) *hub {
	h := &hub{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if between := h.between.Load(); between == nil || !(*between)(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	h.address = oci.Scheme + strings.TrimPrefix(server.URL, "http://") + "/acme/docs:"
	return h
}

func openPlace(t testing.TB, where string, create bool) *oci.Place {
	t.Helper()
	return must(oci.Open(t.Context(), oci.Options{Where: where, PlainHTTP: true, Create: create}))(t)
}

func (s *site) push(t testing.TB, where string, key *ecdsa.PrivateKey) core.Transfer {
	t.Helper()
	place := openPlace(t, where, true)
	out := must(image.Push(t.Context(), image.Pushing{Index: s.index(), Place: place, Key: key, Meter: &image.Meter{}}))(t)
	require.NoError(t, place.Close())
	return out
}

func (s *site) pull(t testing.TB, where string, change func(*image.Pulling)) (core.Transfer, error) {
	t.Helper()
	in := image.Pulling{Ports: s.Ports, Index: s.spec.Index, Place: openPlace(t, where, false), Meter: &image.Meter{}}
	if change != nil {
		change(&in)
	}
	return image.Pull(t.Context(), in)
}

func adopt(in *image.Pulling) { in.Adopt = true }

// An image of two nights, through each kind of place: the copy answers as its origin does, is read-only until it is
// adopted, and then builds nights that pay for what changed.
func TestAPulledIndexAnswersAsItsOriginAndPaysNothing(t *testing.T) {
	for name, places := range map[string]func() (string, string){
		"registry": func() (string, string) { a := newHub(t).address; return a + "monday", a + "tuesday" },
		"folder":   func() (string, string) { f := filepath.Join(t.TempDir(), "images"); return f, f },
		"tar":      func() (string, string) { f := t.TempDir(); return f + "/monday.tar", f + "/tuesday.tar" },
	} {
		t.Run(name, func(t *testing.T) {
			origin, replica := newSite(t, sample(40)), newSite(t, nil)
			sold, bought := paying(origin), paying(replica)
			replica.corpus, replica.spec.Corpus = origin.corpus, origin.corpus
			origin.night(t)
			monday, tuesday := places()
			first := origin.push(t, monday, nil)
			must(replica.pull(t, monday, nil))(t)
			sameAnswers(t, replica, origin, 1, 3)
			origin.changed(t)
			second := origin.push(t, tuesday, nil)
			assert.True(t, second.Moved < second.Bytes && (name == "tar" || first.Moved == first.Bytes),
				"%+v, then %+v", first, second)
			fetched := must(replica.pull(t, tuesday, nil))(t)
			assert.Less(t, fetched.Moved, fetched.Bytes)
			sameAnswers(t, replica, origin, 2, 3)
			assert.True(t, len(bought.calls)+len(bought.texts) == 0, "the pulls paid: %v", bought.calls)

			job, holder := replica.leased(t)
			refused(replica.stages(t.Context(), job, holder))(t, fault.IndexPulled, "read-only copy", "a night of a copy")
			require.NoError(t, run.GiveLease(t.Context(), replica.index(), holder))
			again := must(replica.pull(t, tuesday, adopt))(t)
			assert.True(t, again.Unchanged && again.Adopted && again.Moved == 0, "%+v", again)
			sold.sold(nil)
			before, bytes := maps.Clone(sold.texts), sold
			replica.runs, origin.runs = 10, 10
			origin.changed(t)
			replica.night(t)
			extract, _, texts, _ := bytes.sold(before)
			mine, _, my, _ := bought.sold(nil)
			assert.True(t, extract == mine && texts == my && extract > 0, "the origin paid for %d and %d, the copy for %d and %d",
				extract, texts, mine, my)
			sameAnswers(t, replica, origin, 3, 3)
			refused(replica.pull(t, tuesday, nil))(t, fault.Usage, "built here", "a pull over an adopted index")
			must(replica.act(t, core.ActionRollback, second.Generation))(t)
		})
	}
}
