package pipeline_test

import (
	"bytes"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"time"

	"crypto/ecdsa"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	layout "oras.land/oras-go/v2/content/oci"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/image"
	"github.com/unweaver/unweaver/internal/pipeline/purges"
	"github.com/unweaver/unweaver/internal/pipeline/release"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/oci"
)

// hub is a registry on this machine.
type hub struct {
	address string
	inner   http.Handler
	between atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool] // true: it answered itself
}

func newHub(t testing.TB) *hub {
	h := &hub{inner: registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if between := h.between.Load(); between == nil || !(*between)(w, r) {
			h.inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	h.address = oci.Scheme + strings.TrimPrefix(server.URL, "http://") + "/acme/docs:"
	return h
}

// image returns what moves an image between the site and a place.
func (s *site) image(action, where string, changes ...func(*image.Mover)) *image.Mover {
	out := &image.Mover{Ports: s.Ports, ImageRequest: core.ImageRequest{
		Action: action, Index: s.spec.Index, Where: where,
	}}
	for _, change := range changes {
		change(out)
	}
	return out
}

func (s *site) push(t testing.TB, where string, changes ...func(*image.Mover)) core.Transfer {
	t.Helper()
	return must(s.image(core.TransferPush, where, changes...).Move(t.Context()))(t)
}

func (s *site) pull(t testing.TB, where string, changes ...func(*image.Mover)) (core.Transfer, error) {
	t.Helper()
	return s.image(core.TransferPull, where, changes...).Move(t.Context())
}

func adopt(in *image.Mover) { in.Adopt = true }
func force(in *image.Mover) { in.Force = true }

// An image of two nights, through each kind of place: the copy answers as its origin does, is read-only until it is
// adopted, and then builds nights that pay for what changed.
//
// Promises: 172.
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
			first := origin.push(t, monday)
			must(replica.pull(t, monday))(t)
			sameAnswers(t, replica, origin, 1, 3)
			origin.changed(t)
			second := origin.push(t, tuesday)
			assert.True(t, first.Moved >= first.Bytes && (name == "tar" || second.Moved < second.Bytes/2),
				"%+v, then %+v", first, second)
			fetched := must(replica.pull(t, tuesday))(t)
			assert.Less(t, fetched.Moved, fetched.Bytes)
			sameAnswers(t, replica, origin, 2, 3)
			assert.True(t, len(bought.calls)+len(bought.texts) == 0, "the pulls paid: %v", bought.calls)

			replica.runs, origin.runs = 10, 10 // generations of other names
			job, holder := replica.leased(t)
			refused(replica.stages(t.Context(), job, holder))(t, fault.IndexPulled, "read-only copy", "a night of a copy")
			require.NoError(t, run.GiveLease(t.Context(), replica.index(), holder))
			again := must(replica.pull(t, tuesday, adopt))(t)
			assert.True(t, again.Unchanged && again.Adopted && again.Moved == 0, "%+v", again)
			sold.sold(nil)
			before := maps.Clone(sold.texts)
			origin.changed(t)
			replica.night(t)
			extract, _, texts, _ := sold.sold(before)
			mine, _, my, _ := bought.sold(nil)
			assert.True(t, extract == mine && texts == my && extract > 0, "paid for %d and %d, by the copy %d and %d",
				extract, texts, mine, my)
			sameAnswers(t, replica, origin, 3, 3)
			refused(replica.pull(t, tuesday))(t, fault.Usage, "already", "a pull of what an adopted index had")
			must(replica.act(t, core.ActionRollback, second.Generation))(t)
		})
	}
}

// answer has the registry answer requests of a method whose path has a part; once: only the first.
func (h *hub) answer(method, part string, once bool, do func(http.ResponseWriter, *http.Request) bool) {
	var asked atomic.Bool
	between := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.Contains(r.URL.Path, part) || once && asked.Swap(true) {
			return false
		}
		return do(w, r)
	}
	h.between.Store(&between)
}

// newKeys writes a key, and returns what signs by it and what verifies by it.
func newKeys(t testing.TB) (sign, verify func(*image.Mover)) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	write := func(raw []byte) func(*image.Mover) {
		file := filepath.Join(t.TempDir(), "key.pem")
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "KEY", Bytes: raw}), 0o600))
		return func(in *image.Mover) { in.Key = file }
	}
	return write(must(x509.MarshalPKCS8PrivateKey(key))(t)), write(must(x509.MarshalPKIXPublicKey(&key.PublicKey))(t))
}

func TestASignedImageIsProvenByItsKeyAlone(t *testing.T) {
	origin, replica, h := builtSite(t, sample(3)), newSite(t, nil), newHub(t)
	sign, verify := newKeys(t)
	another, _ := newKeys(t)
	unsigned := origin.push(t, h.address+"v1")
	refused(replica.pull(t, h.address+"v1", verify))(t, fault.ImageUntrusted, "none of its signatures", "no signature")
	origin.push(t, h.address+"v1", another)
	refused(replica.pull(t, h.address+"v1", verify))(t, fault.ImageUntrusted, "none of its signatures", "another's")
	assert.Zero(t, replica.pointer(t))
	origin.push(t, h.address+"v1", sign)
	signed := origin.push(t, h.address+"v1", sign)
	assert.True(t, signed.Digest == unsigned.Digest && signed.Moved == 0, "it is sent again: %+v", signed)
	assert.True(t, must(replica.pull(t, h.address+"v1", verify))(t).Signed)
	host, _, _ := strings.Cut(strings.TrimPrefix(h.address, oci.Scheme), "/")
	repository := "http://" + host + "/v2/acme/docs/"
	var signatures ocispec.Manifest
	getJSON(t, repository+"manifests/"+strings.Replace(signed.Digest, ":", "-", 1)+".sig", &signatures)
	assert.Len(t, signatures.Layers, 1, "by the last key")
	var referrers ocispec.Index
	getJSON(t, repository+"referrers/"+signed.Digest, &referrers)
	types := map[string]bool{}
	for _, one := range referrers.Manifests {
		types[one.ArtifactType] = true
	}
	assert.Len(t, types, 2, "the report and the signatures: %v", types)
}

func getJSON(t testing.TB, address string, into any) {
	response := must(http.Get(address))(t)
	defer func() { _ = response.Body.Close() }()
	require.NoError(t, json.NewDecoder(response.Body).Decode(into))
}

// A pull that ends early leaves nothing to be seen, and the same call fetches the rest. The tag may move meanwhile.
//
// Promises: 173.
func TestAPullGoesOnWithTheImageThatItBegan(t *testing.T) {
	origin, other, replica, h := builtSite(t, sample(30)), builtSite(t, sample(5)), newSite(t, nil), newHub(t)
	want := origin.push(t, h.address+"night")
	var asked atomic.Int64
	h.answer(http.MethodGet, "/blobs/", false, func(w http.ResponseWriter, _ *http.Request) bool {
		last := asked.Add(1) > 12 // of 8 at once, so that some were stored
		if last {
			w.WriteHeader(http.StatusForbidden)
		}
		return last
	})
	pulls := replica.image(core.TransferPull, h.address+"night")
	ended, err := pulls.Move(t.Context())
	half := pulls.Progress()
	assert.True(t, half.Stage == "pull" && half.Done > 0 && half.Done < half.Bytes && half.Bytes == want.Bytes, "%+v", half)
	refuses(t, err, fault.StoreDenied, "docker login", "a pull that is refused in the middle")
	assert.True(t, ended.Moved > 0 && replica.pointer(t) == core.Pointer{}, "%+v", ended)
	assert.Empty(t, must(replica.index().ListByName(t.Context()))(t))

	h.answer(http.MethodGet, "/blobs/", true, func(http.ResponseWriter, *http.Request) bool {
		h.between.Store(nil)
		assert.NotEqual(t, want.Digest, other.push(t, h.address+"night").Digest)
		return false
	})
	pulls = replica.image(core.TransferPull, h.address+"night")
	rest := must(pulls.Move(t.Context()))(t)
	last := pulls.Progress()
	assert.True(t, last.Stage == "restore" && last.Done > 0 && last.Done == last.Bytes, "%+v", last)
	assert.Equal(t, want.Digest, rest.Digest)
	assert.True(t, rest.Moved > 0 && rest.Moved+ended.Moved <= rest.Bytes, "%d, then %d of %d", ended.Moved, rest.Moved,
		rest.Bytes)
	sameAnswers(t, replica, origin, 1, 3)
}

// changed answers with what the registry has, changed.
func (h *hub) changed(change func(raw []byte) []byte) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		has := httptest.NewRecorder()
		h.inner.ServeHTTP(has, r)
		w.Header().Set("Content-Type", has.Header().Get("Content-Type"))
		_, _ = w.Write(change(has.Body.Bytes()))
		return true
	}
}

func TestPlacesThatFail(t *testing.T) {
	origin, replica := builtSite(t, sample(3)), newSite(t, nil)
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	h := newHub(t)
	origin.push(t, h.address+"v1")
	cut := func(raw []byte) []byte { return raw[1:] }
	turn := func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw }
	slow := func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the caller is not seen
		<-r.Context().Done()
		return true
	}
	stop := func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	for name, c := range map[string]struct {
		method, part string
		do           func(http.ResponseWriter, *http.Request) bool
		code         fault.Code
		says         string
	}{
		"refuses":           {http.MethodPost, "/uploads", status(401), fault.StoreDenied, "docker login"},
		"is full":           {http.MethodPut, "/uploads", status(http.StatusInsufficientStorage), fault.StoreFull, "quota"},
		"is down":           {http.MethodHead, "/blobs/", status(http.StatusBadGateway), fault.StoreDown, "502"},
		"is slow":           {http.MethodPut, "/uploads", slow, fault.StoreDown, "no byte"},
		"stops":             {http.MethodGet, "/blobs/", stop, fault.StoreDown, "no byte"},
		"changes a byte":    {http.MethodGet, "/blobs/", h.changed(turn), fault.SegmentDamage, "match"},
		"cuts":              {http.MethodGet, "/blobs/", h.changed(cut), fault.SegmentDamage, "match"},
		"changes the image": {http.MethodGet, "/manifests/", h.changed(turn), fault.SegmentDamage, "match"},
	} {
		hurried := func(in *image.Mover) {
			if name == "is slow" || name == "stops" {
				in.Patience = 200 * time.Millisecond
			}
		}
		if c.method == http.MethodGet {
			h.answer(c.method, c.part, false, c.do)
			refused(replica.pull(t, h.address+"v1", hurried))(t, c.code, c.says, name)
			assert.Zero(t, replica.pointer(t))
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newHub(t)
			to.answer(c.method, c.part, false, c.do)
			_, err := origin.image(core.TransferPush, to.address+"v1", hurried).Move(t.Context())
			refuses(t, err, c.code, c.says, name)
		})
	}
}

// forge writes an image again as somebody else would.
func forge(t testing.TB, folder string, change func(*ocispec.Manifest, map[string]any)) {
	ctx, place := t.Context(), must(layout.New(folder))(t)
	var manifest ocispec.Manifest
	var config map[string]any
	found := must(place.Resolve(ctx, oci.Latest))(t)
	require.NoError(t, json.Unmarshal(must(content.FetchAll(ctx, place, found))(t), &manifest))
	require.NoError(t, json.Unmarshal(must(content.FetchAll(ctx, place, manifest.Config))(t), &config))
	kind := manifest.Config.MediaType
	change(&manifest, config)
	raw := must(json.Marshal(config))(t)
	if len(config) == 0 {
		raw = []byte("null")
	}
	if manifest.Config.MediaType == kind {
		manifest.Config = must(oras.TagBytes(ctx, place, kind, raw, "config"))(t)
	}
	raw = must(json.Marshal(manifest))(t)
	must(oras.TagBytes(ctx, place, ocispec.MediaTypeImageManifest, raw, oci.Latest))(t)
}

// Promises: 173.
func TestForgedImagesAreRefused(t *testing.T) {
	origin, replica, folder := builtSite(t, sample(3)), newSite(t, nil), filepath.Join(t.TempDir(), "images")
	_, verify := newKeys(t)
	for at, change := range map[string]func(*core.Spec){
		"retrieval.top_chunks": func(s *core.Spec) { s.Retrieval.TopChunks = -1 },
		"models.rerank.top":    func(s *core.Spec) { s.Rerank.Top = 1 << 40 },
		"the price of a model": func(s *core.Spec) { s.Chat.Price.Completion = -1 },
	} {
		odd := newSite(t, sample(3))
		change(&odd.spec)
		odd.night(t)
		odd.push(t, folder)
		refused(replica.pull(t, folder))(t, fault.InvalidParam, at, at)
	}
	for name, c := range map[string]struct {
		change func(*ocispec.Manifest, map[string]any)
		code   fault.Code
		says   string
	}{
		"a way out": {func(m *ocispec.Manifest, _ map[string]any) {
			m.Layers[0].Annotations[ocispec.AnnotationTitle] = "generations/g001/dead-letters/../../../current.json"
		}, fault.InvalidParam, "none of it"},
		"a newer format": {func(_ *ocispec.Manifest, c map[string]any) { c["format"] = 9 }, fault.FormatUnknown, "format 9"},
		"no manifest":    {func(_ *ocispec.Manifest, c map[string]any) { clear(c) }, fault.FormatUnknown, "format 0"},
		"a newer field":  {func(_ *ocispec.Manifest, c map[string]any) { c["walls"] = true }, fault.FormatUnknown, "walls"},
		"no index": {func(m *ocispec.Manifest, _ map[string]any) {
			m.Config.MediaType = "text/plain"
		}, fault.InvalidParam, "no index"},
		"a segment too few": {func(m *ocispec.Manifest, _ map[string]any) {
			m.Layers = m.Layers[1:]
		}, fault.InvalidParam, "is missing"},
		"too much to decode": {func(_ *ocispec.Manifest, c map[string]any) {
			c["walls"] = strings.Repeat("x", 16<<20)
		}, fault.TooLarge, "at most 16777216"},
		"too many objects": {func(_ *ocispec.Manifest, c map[string]any) {
			c["enriched"] = make([]struct{}, 200_000)
		}, fault.TooLarge, "more than 200000 objects"},
	} {
		origin.push(t, folder)
		forge(t, folder, c.change)
		refused(replica.pull(t, folder))(t, c.code, c.says, name)
		refused(replica.pull(t, folder, verify))(t, fault.ImageUntrusted, "none of its signatures", name+" is read unproven")
		for info := range musttest.All(t, replica.Artifacts.List(t.Context(), "", "")) {
			assert.True(t, strings.HasPrefix(info.Key, "store.json"), "%s wrote %s", name, info.Key)
		}
	}
}

// Right sums prove nothing of what a forger writes: rows that no build writes are refused, unless the image is proven.
func TestRowsOfAnImageAreReadBeforeItIsServed(t *testing.T) {
	origin, folder := builtSite(t, sample(3)), filepath.Join(t.TempDir(), "images")
	sign, verify := newKeys(t)
	var crowd rows.Extract
	crowd.Entities = make([]rows.Entity, core.MaxEntities+1)
	for name, c := range map[string]struct {
		kind, says string
		row        []byte
	}{
		"a row of a few bytes that becomes long": {"text", "a row of it has 17 MiB", make([]byte, 17<<20)},
		"a row that nothing can read":            {"extract", "version 9 is unknown", []byte{9}},
		"a crowd of entities":                    {"extract", "at most 2000 are written", crowd.Encode()},
	} {
		origin.push(t, folder)
		var raw bytes.Buffer
		file := rowfile.NewWriter(&raw)
		file.Append("a", c.row)
		require.NoError(t, file.Close())
		place := must(layout.New(folder))(t)
		blob := must(oras.PushBytes(t.Context(), place, "application/vnd.unweaver.file.v1", raw.Bytes()))(t)
		blob.Annotations = map[string]string{ocispec.AnnotationTitle: "segments/" + blob.Digest.Encoded()}
		forge(t, folder, func(m *ocispec.Manifest, config map[string]any) {
			m.Layers = append(m.Layers, blob)
			segments := config["segments"].(map[string]any)
			segments[c.kind] = append(segments[c.kind].([]any),
				map[string]any{"sha256": blob.Digest.Encoded(), "bytes": blob.Size, "rows": 1})
		})
		refused(newSite(t, nil).pull(t, folder))(t, fault.InvalidParam, c.says, name)
	}
	origin.push(t, folder, sign)
	must(newSite(t, nil).pull(t, folder, verify))(t)
}

func TestAPullReplacesNothingUnasked(t *testing.T) {
	origin, own, folder := builtSite(t, sample(3)), newSite(t, sample(5)), filepath.Join(t.TempDir(), "images")
	origin.push(t, folder)
	own.runs = 4
	own.night(t)
	mine := own.pointer(t).Generation
	refused(own.pull(t, folder))(t, fault.Usage, "built here", "a pull over an index of its own")
	assert.Equal(t, "g001", must(own.pull(t, folder, force))(t).Generation)
	sameAnswers(t, own, origin, 1, 3)
	assert.True(t, fault.Is(run.RefusePulled(t.Context(), own.index()), fault.IndexPulled), "what it serves is a copy")
	must(own.act(t, core.ActionRollback, mine))(t)
	require.NoError(t, run.RefusePulled(t.Context(), own.index()), "what it serves again is its own")
	refused(own.pull(t, folder, force))(t, fault.Usage, "already", "a generation that is kept")

	held := newSite(t, sample(9))
	origin.changed(t)
	origin.push(t, folder)
	held.night(t)
	held.held(t)
	refused(held.pull(t, folder, force))(t, fault.Usage, "another generation g002, which is held", "a name that is taken")

	copied := newSite(t, nil)
	must(copied.pull(t, folder))(t)
	own.push(t, folder)
	refused(copied.pull(t, folder))(t, fault.Usage, own.corpus, "an image of another corpus")
	segment := own.index().SegmentKey(own.current(t).Segments.All()[0].SHA256)
	raw, _ := must2(blob.Read(t.Context(), own.Artifacts, segment))(t)
	raw[len(raw)/2] ^= 1
	must(blob.Write(t.Context(), own.Artifacts, segment, raw, blob.Cond{}))(t)
	damaged := own.image(core.TransferPush, folder+"2")
	refused(damaged.Move(t.Context()))(t, fault.SegmentDamage, "unweaver restore", "an index with a damaged file")
	none := copied.image(core.TransferPush, folder, func(in *image.Mover) { in.Generation = "g9" })
	refused(none.Move(t.Context()))(t, fault.UnknownGen, "g9", "a generation that is none")
}

// Promises: 173.
func TestAKilledPullGoesOn(t *testing.T) {
	origin, monday, tuesday := builtSite(t, sample(3)), t.TempDir()+"/monday.tar", t.TempDir()+"/tuesday.tar"
	origin.push(t, monday)
	origin.changed(t)
	origin.push(t, tuesday)
	discarded := 0
	for n := 1; ; n++ {
		replica, died := newSite(t, nil), &mortal{left: n}
		must(replica.pull(t, monday))(t)
		_, killed := replica.pull(t, tuesday, func(in *image.Mover) {
			in.Ports = &run.Ports{
				Artifacts: artifact.NewBranched(died.blobs(replica.Artifacts, died.write)), Coordination: replica.Coordination,
				Records: mortalRecords{replica.Records, died}, Vectors: mortalVectors{replica.Vectors, died},
				StoreID: replica.StoreID, Cache: replica.Cache, CPU: replica.CPU, Log: replica.Log,
			}
		})
		if !died.dead {
			break
		}
		lease, _, _ := run.ReadLease(t.Context(), replica.index()) // as if its time were over
		require.NoError(t, run.GiveLease(t.Context(), replica.index(), run.Holder{Workflow: lease.Workflow, Run: lease.Run}))
		if ref, _ := replica.index().GenerationRef(t.Context(), "g002"); ref.State == core.GenerationHeld && n%2 == 0 {
			must(replica.act(t, core.ActionDiscard, "g002"))(t) // who pulls it again wants it
			discarded++
		}
		_, err := replica.pull(t, tuesday)
		require.NoError(t, err, "after %d writes, and %v", n, killed)
		assert.Equal(t, "g002", replica.pointer(t).Generation)
	}
	assert.Positive(t, discarded)
}

func TestACopyLosesNeitherLabelsNorPurges(t *testing.T) {
	origin, replica, folder := newSite(t, sample(12)), newSite(t, nil), filepath.Join(t.TempDir(), "images")
	replica.corpus, replica.spec.Corpus = origin.corpus, origin.corpus
	origin.spec.Documents = &core.Documents{Labels: core.Labels{Rules: []string{"**1*=hr", "**=public"}}}
	origin.spec.Overlay = map[string]string{"documents.labels.rules": `["**=public"]`} // as of a branch, promoted there
	origin.night(t)
	origin.push(t, folder)
	must(replica.pull(t, folder, adopt))(t)
	for at, settings := range map[*site]int{origin: 1, replica: 0} {
		overlay, _, err := release.OverlayOf(t.Context(), at.index())
		stored := must(at.index().Spec(t.Context(), at.current(t).Spec))(t)
		assert.True(t, err == nil && len(overlay.Set) == settings && len(stored.Overlay) == settings,
			"settings of an image: %v, %v", overlay.Set, err)
	}
	replica.runs = 10
	origin.changed(t)
	opened := newSite(t, sample(12)) // the origin, once labels were turned off there
	opened.corpus, opened.spec.Corpus, opened.runs = origin.corpus, origin.corpus, 5
	opened.night(t)
	opened.push(t, folder+"2")
	copied := newSite(t, nil)
	must(copied.pull(t, folder))(t)
	_, err := copied.pull(t, folder+"2")
	refuses(t, err, fault.Usage, "have labels", "an image of an origin that turned labels off")
	assert.Equal(t, publish.LabelsOff, replica.night(t).published.Reason)
	require.NoError(t, purges.Write(t.Context(), replica.index(), core.Purge{
		ID: "p1", Index: "docs", State: core.PurgeDone, Documents: []core.Digest{core.PurgedKey("docs", "place-003.md")},
	}))
	origin.push(t, folder)
	_, err = replica.pull(t, folder, force)
	refuses(t, err, fault.Usage, "were purged", "a document that was purged")
	assert.Equal(t, "g001", replica.pointer(t).Generation)
}

// Settings of an image say what its generation was made from. They open no corpus, to no build and no branch, and
// follow no links, also where builds may change the copy.
func TestAnImageBringsNoRights(t *testing.T) {
	origin, folder := newSite(t, sample(4)), filepath.Join(t.TempDir(), "images")
	origin.spec.FollowLinks, origin.spec.Limits = true, core.Limits{Concurrency: 1}
	answers := origin.spec.Chat
	answers.Limits = core.Limits{RequestsPerMinute: 1}
	origin.spec.Roles = map[string]core.ChatModel{core.RoleAnswer: answers}
	origin.spec.Documents = &core.Documents{Labels: core.Labels{Rules: []string{"**=public"}}}
	origin.night(t)
	origin.push(t, folder)
	h := &history{site: newSite(t, nil)}
	h.runs = 10
	must(h.pull(t, folder, adopt))(t)
	s := followHints(t, h)
	served := h.pointer(t)
	brought := must(h.index().Spec(t.Context(), h.current(t).Spec))(t)
	assert.True(t, brought.Pulled && !brought.FollowLinks && brought.Corpus == origin.corpus, "%+v", brought)
	assert.Zero(t, brought.LimitsOf(core.RoleAnswer), "limits of an endpoint that other indexes use")
	exp := artifact.Index{Store: h.Artifacts, Name: "exp"}
	require.NoError(t, exp.PutBase(t.Context(), "docs"))
	record := core.Branch{Name: "exp", Base: "docs", State: core.BranchOpen}
	must(blob.WriteJSON(t.Context(), h.Artifacts, "docs/branches/exp.json", record, blob.Cond{}))(t)
	_, corpus, err := release.OverlayOf(t.Context(), exp)
	assert.True(t, err == nil && corpus == "", "the corpus of a branch: %s, %v", corpus, err)

	require.NoError(t, os.WriteFile(filepath.Join(origin.corpus, "new.md"), []byte("# New\n\nAda Berg."), 0o600))
	s.hint("new.md")
	stands := s.follow()
	assert.True(t, stands.Waiting == string(fault.BadConfig) && stands.Last == nil && stands.Run == "", "%+v", stands)
	job, holder := h.leased(t)
	job.Spec = h.current(t).Spec.String()
	refused(h.stages(t.Context(), job, holder))(t, fault.BadConfig, "came with an image", "a build with its settings")
	require.NoError(t, run.GiveLease(t.Context(), h.index(), holder))
	assert.Equal(t, served, h.pointer(t))
	h.corpus, h.spec.Corpus, h.spec.Documents = origin.corpus, origin.corpus, origin.spec.Documents
	require.NoError(t, os.Remove(filepath.Join(origin.corpus, "new.md")))
	night := h.night(t)
	own := must(h.index().Spec(t.Context(), h.current(t).Spec))(t)
	assert.True(t, !own.Pulled && served != h.pointer(t) && night.planned.Documents == 0 && !night.planned.Unchanged,
		"once the index has settings of this place, for the documents of the image: %+v, %+v", own, night.planned)
	assert.True(t, h.night(t).planned.Unchanged, "the night after")
}

func TestAPushSendsWhatThePlaceLost(t *testing.T) {
	origin, folder, h := builtSite(t, sample(3)), filepath.Join(t.TempDir(), "images"), newHub(t)
	want := origin.push(t, folder)
	lost := filepath.Join(folder, "blobs", "sha256", origin.current(t).Segments.All()[0].SHA256)
	require.NoError(t, os.Remove(lost))
	again := origin.push(t, folder)
	assert.True(t, again.Moved > 0 && again.Moved < again.Bytes, "%+v", again)
	verify := origin.image(core.TransferVerify, folder)
	assert.Equal(t, want.Digest, must(verify.Move(t.Context()))(t).Digest)

	origin.push(t, h.address+"v1") // an operator deletes the image, but not its report
	gone := must(http.NewRequestWithContext(t.Context(), http.MethodDelete, "/v2/acme/docs/manifests/"+want.Digest, nil))(t)
	answer := httptest.NewRecorder()
	h.inner.ServeHTTP(answer, gone)
	require.Equal(t, http.StatusAccepted, answer.Code)
	origin.push(t, h.address+"v1")
	must(newSite(t, nil).pull(t, h.address+"v1"))(t)
}
