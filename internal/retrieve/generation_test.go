package retrieve_test

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// opened is the sample, built and open.
type opened struct {
	stores     retrievetest.Stores
	built      retrievetest.Built
	generation *retrieve.Generation
}

func open(t testing.TB, options retrievetest.Options) opened {
	t.Helper()
	return openDocuments(t, retrievetest.Sample(), options)
}

func openDocuments(t testing.TB, documents []retrievetest.Document, options retrievetest.Options) opened {
	t.Helper()
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", documents, options)
	generation, err := openBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	t.Cleanup(generation.Close)
	return opened{stores, built, generation}
}

func openBuilt(
	ctx context.Context, stores retrievetest.Stores, built retrievetest.Built,
) (*retrieve.Generation, error) {
	return retrieve.Open(ctx, stores.Blobs, stores.Cache, stores.Vectors, "sample", built.SHA, 3)
}

// mappings counts the files of a folder that this process has mapped.
func mappings(t *testing.T, folder string) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no /proc here")
	}
	return strings.Count(string(raw), folder)
}

func TestMappingsGoWithTheLastHolder(t *testing.T) {
	stores := retrievetest.NewStores(t)
	folder := t.TempDir()
	var err error
	stores.Cache, err = localfile.New(folder, 0)
	require.True(t, err == nil, "%v", err)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	generation, err := openBuilt(t.Context(), stores, built)
	require.NoError(t, err)
	assert.Equal(t, 3, mappings(t, folder))                                                        // live, search, idf
	require.True(t, generation.Hold() && generation.IsHeld(), "an open generation cannot be held") // a query
	generation.Close()                                                                             // the server has switched
	assert.True(t, mappings(t, folder) == 3 && generation.IsHeld(), "unmapped under a query")
	chunk := generation.Live.ByNumber(2)
	assert.True(t, chunk != nil && chunk.Ordinal == 0, "%+v", chunk)
	generation.Close() // the query is over
	n := mappings(t, folder)
	assert.True(t, n == 0 && !generation.IsHeld(), "%d files stay mapped", n)
	assert.False(t, generation.Hold(), "a closed generation is held again")
}

func TestHoldersRaceWithTheLastClose(t *testing.T) {
	o := open(t, retrievetest.Options{})
	generation, err := openBuilt(t.Context(), o.stores, o.built)
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10_000 { // there is always one of them that holds it, on a busy machine
				if !generation.Hold() {
					return
				}
				assert.True(t, generation.Live.ByNumber(0) != nil, "chunk 0 is gone")
				generation.Close()
			}
		})
	}
	time.Sleep(5 * time.Millisecond)
	generation.Close()
	all.Wait()
	assert.False(t, generation.IsHeld(), "held by none, and yet held")
}

func TestTextsDocumentsAndExtractionsAreReadByRange(t *testing.T) {
	o := open(t, retrievetest.Options{})
	number := 0
	for d, document := range retrievetest.Sample() {
		row, err := o.generation.ReadDocument(t.Context(), d)
		require.True(t, err == nil && row.Title == document.Title && len(row.Chunks) == len(document.Chunks),
			"document %d: %+v %v", d, row, err)
		for _, want := range document.Chunks {
			chunk := o.generation.Live.ByNumber(number)
			text, err := o.generation.ReadText(t.Context(), chunk)
			assert.True(t, err == nil && text == want.Text, "chunk %d: %q %v", number, text, err)
			extract, err := o.generation.ReadExtraction(t.Context(), chunk)
			assert.True(t, err == nil && len(extract.Entities) == len(want.Entities) &&
				extract.Entities[0].Name == want.Entities[0], "chunk %d: %+v %v", number, extract, err)
			number++
		}
	}
	text, err := o.generation.DocumentText(t.Context(), 2, 0, 6)
	assert.True(t, err == nil && text == "Tromsø", "%q %v", text, err)
	if text, err := o.generation.DocumentText(t.Context(), 2, 1000, -1); err != nil || text != "" {
		t.Errorf("behind the end: %q %v", text, err)
	}
}

// counting counts reads of a store.
type counting struct {
	blob.Store
	mu   sync.Mutex
	gets int
	fail error
}

func (c *counting) Get(ctx context.Context, key string, r blob.Range) (io.ReadCloser, blob.Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gets++; c.fail != nil {
		return nil, blob.Info{}, c.fail
	}
	return c.Store.Get(ctx, key, r)
}

func TestAFrameOfExtractionsIsReadOnce(t *testing.T) {
	o := open(t, retrievetest.Options{})
	store := &counting{Store: o.stores.Blobs}
	o.stores.Blobs = store
	generation, err := openBuilt(t.Context(), o.stores, o.built)
	require.NoError(t, err)
	defer generation.Close()
	before := store.gets
	for range 5 {
		for n := range 9 {
			_, err = generation.ReadExtraction(t.Context(), generation.Live.ByNumber(n))
			require.True(t, err == nil, "%v", err)
		}
	}
	assert.Equal(t, 1, store.gets-before, "one frame was read")
}

func TestWhatCannotBeOpenedSaysWhyAndLeavesNothingMapped(t *testing.T) {
	missing := core.Segment{SHA256: strings.Repeat("0", 64)}
	for name, c := range map[string]struct {
		options retrievetest.Options
		spoil   func(t *testing.T, o retrievetest.Stores, built retrievetest.Built)
		code    fault.Code
		say     string
	}{
		"no split": {retrievetest.Options{Edit: func(m *core.Manifest) { m.Segments.Splits = nil }}, nil, fault.SegmentDamage,
			"names no split (rebuild it from paid results: unweaver index --rebuild --index sample)"},
		"neither splits nor class runs": {
			retrievetest.Options{Edit: func(m *core.Manifest) {
				m.Segments.Splits, m.Segments.Runs, m.Segments.Tombs, m.Segments.DeadStats = nil, nil, nil, nil
			}}, nil, fault.SegmentDamage, "index --rebuild --index sample",
		},
		"the class run is gone": {retrievetest.Options{Edit: func(m *core.Manifest) { m.Segments.Runs[0].Segment = missing }},
			nil, fault.SegmentDamage, "restore sample"},
		"another analyser": {retrievetest.Options{Analyser: "en/1"}, nil, fault.FormatUnknown, "unweaver index"},
		"the texts are gone": {
			retrievetest.Options{Edit: func(m *core.Manifest) { m.Segments.Text = []core.Segment{missing} }},
			nil, fault.SegmentDamage, "index --rebuild --index sample",
		},
		"the split is gone": {retrievetest.Options{Edit: func(m *core.Manifest) { m.Segments.Splits[0].Segment = missing }},
			nil, fault.SegmentDamage, "index --rebuild --index sample"},
		"the documents are gone": {
			retrievetest.Options{Edit: func(m *core.Manifest) { m.Segments.Documents = []core.Segment{missing} }},
			nil, fault.SegmentDamage, "index --rebuild --index sample",
		},
		"the word weights are gone": {
			retrievetest.Options{Edit: func(m *core.Manifest) { m.Segments.IDF = []core.Segment{missing} }},
			nil, fault.SegmentDamage, "restore sample",
		},
		"the vectors are lost": {
			retrievetest.Options{}, func(t *testing.T, o retrievetest.Stores, built retrievetest.Built) {
				require.NoError(t, o.Vectors.Drop(t.Context(), built.Manifest.Collections.Chunks))
			}, fault.StoreDown, "restore sample",
		},
		"the manifest is gone": {
			retrievetest.Options{}, func(t *testing.T, o retrievetest.Stores, built retrievetest.Built) {
				require.NoError(t, o.Blobs.Delete(t.Context(), built.Index.SegmentKey(built.SHA)))
			}, fault.SegmentDamage, "index --rebuild --index sample",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stores := retrievetest.NewStores(t)
			folder := t.TempDir()
			var err error
			stores.Cache, err = localfile.New(folder, 0)
			require.True(t, err == nil, "%v", err)
			built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), c.options)
			if c.spoil != nil {
				c.spoil(t, stores, built)
			}
			generation, err := openBuilt(t.Context(), stores, built)
			assert.True(t, fault.Is(err, c.code) && strings.Contains(err.Error(), c.say), "%v, want %s", err, c.code)
			assert.True(t, generation == nil && mappings(t, folder) == 0, "%d files stay mapped", mappings(t, folder))
		})
	}
}

func TestAnOpeningEndsWithItsContext(t *testing.T) {
	o := open(t, retrievetest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	generation, err := openBuilt(ctx, o.stores, o.built)
	assert.True(t, errors.Is(err, context.Canceled), "%v %v", generation, err)
}

func TestClassesAreListedByNameAndByChunks(t *testing.T) {
	o := open(t, retrievetest.Options{})
	live := o.generation.Live
	for of, want := range map[retrieve.Names]int{
		{}: live.Names(), {Prefix: "OSLO"}: 1, {Prefix: "o"}: 2, {Prefix: "zzz"}: 0, {Part: "SLO"}: 1, {Part: "o"}: -1,
		{ByChunks: true}: live.Names(), {Part: "slo", ByChunks: true}: 1, {Prefix: "o", Part: "s", ByChunks: true}: -1,
	} {
		whole, next := o.generation.ListClasses(of, 0, 1000)
		assert.Zero(t, next)
		if want < 0 { // by the names themselves
			want = 0
			for i := range live.Names() {
				if strings.HasPrefix(live.Name(i), of.Prefix) && strings.Contains(live.Name(i), of.Part) {
					want++
				}
			}
		}
		assert.Len(t, whole, want, "%+v", of)
		assert.True(t, slices.IsSortedFunc(whole, func(a, b *liveset.Class) int {
			if of.ByChunks && a.Chunks != b.Chunks {
				return int(b.Chunks) - int(a.Chunks)
			}
			return int(a.Name) - int(b.Name)
		}), "%+v", of)
		var paged []*liveset.Class
		for at, first := 0, true; first || at > 0; first = false {
			var found []*liveset.Class
			found, at = o.generation.ListClasses(of, at, 4)
			paged = append(paged, found...)
		}
		assert.Equal(t, whole, paged, "%+v", of)
	}
	most, _ := o.generation.ListClasses(retrieve.Names{ByChunks: true}, 0, 1)
	assert.Greater(t, most[0].Chunks, uint32(1), "the sample has nothing to sort")
}

func TestListsGoOnFromAPlace(t *testing.T) {
	o := open(t, retrievetest.Options{})
	sample := retrievetest.Sample()
	for prefix, want := range map[string][2]int{"": {0, len(sample)}, "cities/": {0, 3}, "people/": {3, 5}, "zzz": {6, 6}} {
		from, to, next := o.generation.DocumentsFrom(prefix, 0, 100)
		assert.True(t, from == want[0] && to == want[1] && next == 0, "%q: %d to %d, then %d", prefix, from, to, next)
	}
	from, to, next := o.generation.DocumentsFrom("cities/", 1, 1)
	assert.True(t, from == 1 && to == 2 && next == 2, "the second city: %d to %d, then %d", from, to, next)
	if from, to, next := o.generation.DocumentsFrom("cities/", 99, 5); from != to || next != 0 { // behind the last
		t.Errorf("behind the last city: %d to %d, then %d", from, to, next)
	}
	found, err := o.generation.ReadDocuments(t.Context(), 2, 5)
	require.True(t, err == nil && len(found) == 3, "%v %v", found, err)
	for i, document := range found {
		assert.True(t, document.Title == sample[2+i].Title, "document %d is %q", 2+i, document.Title)
	}
}
