package retrieve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/distance"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

func open(t testing.TB, options retrievetest.Options) retrievetest.Opened {
	t.Helper()
	return retrievetest.Open(t, retrievetest.Sample(), options)
}

func TestMappingsGoWithTheLastHolder(t *testing.T) {
	stores, folder := retrievetest.NewStores(t), ""
	stores.Cache, folder = retrievetest.CacheIn(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	generation := musttest.Get(retrievetest.OpenBuilt(t.Context(), stores, built))(t)
	assert.Equal(t, 3, retrievetest.CountMappings(t, folder))                                      // live, search, idf
	require.True(t, generation.Hold() && generation.IsHeld(), "an open generation cannot be held") // a query
	// The server switches.
	generation.Close()
	assert.True(t, retrievetest.CountMappings(t, folder) == 3 && generation.IsHeld(), "unmapped under a query")
	chunk := generation.Live.ByNumber(2)
	assert.True(t, chunk != nil && chunk.Ordinal == 0, "%+v", chunk)
	generation.Close() // the query is over
	n := retrievetest.CountMappings(t, folder)
	assert.True(t, n == 0 && !generation.IsHeld(), "%d files stay mapped", n)
	assert.False(t, generation.Hold(), "a closed generation is held again")
}

func TestHoldersRaceWithTheLastClose(t *testing.T) {
	o := open(t, retrievetest.Options{})
	generation := musttest.Get(retrievetest.OpenBuilt(t.Context(), o.Stores, o.Built))(t)
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
		row := musttest.Get(o.Generation.ReadDocument(t.Context(), d))(t)
		require.True(t, row.Title == document.Title && len(row.Chunks) == len(document.Chunks), "document %d: %+v", d, row)
		for _, want := range document.Chunks {
			chunk := o.Generation.Live.ByNumber(number)
			text, err := o.Generation.ReadText(t.Context(), chunk)
			assert.True(t, err == nil && text == want.Text, "chunk %d: %q %v", number, text, err)
			extract, err := o.Generation.ReadExtraction(t.Context(), chunk)
			assert.True(t, err == nil && len(extract.Entities) == len(want.Entities) &&
				extract.Entities[0].Name == want.Entities[0], "chunk %d: %+v %v", number, extract, err)
			number++
		}
	}
	text, err := o.Generation.DocumentText(t.Context(), 2, 0, 6)
	assert.True(t, err == nil && text == "Tromsø", "%q %v", text, err)
	text, err = o.Generation.DocumentText(t.Context(), 2, 1000, -1)
	assert.True(t, err == nil && text == "", "behind the end: %q %v", text, err)
}

func TestWhatCannotBeOpenedSaysWhyAndLeavesNothingMapped(t *testing.T) {
	missing := core.Segment{SHA256: strings.Repeat("0", 64)}
	const rebuild, restore = "index --rebuild --index sample", "restore sample"
	for name, c := range map[string]struct {
		edit func(*core.Manifest)
		code fault.Code
		say  string
	}{
		"no split": {func(m *core.Manifest) { m.Segments.Splits = nil }, fault.SegmentDamage,
			"names no split (rebuild it from paid results: unweaver index --rebuild --index sample)"},
		"neither splits nor class runs": {func(m *core.Manifest) {
			m.Segments.Splits, m.Segments.Runs, m.Segments.Tombs, m.Segments.DeadStats = nil, nil, nil, nil
		}, fault.SegmentDamage, rebuild},
		"the class run is gone":     {func(m *core.Manifest) { m.Segments.Runs[0].Segment = missing }, fault.SegmentDamage, restore},
		"the texts are gone":        {func(m *core.Manifest) { m.Segments.Text[0] = missing }, fault.SegmentDamage, rebuild},
		"the split is gone":         {func(m *core.Manifest) { m.Segments.Splits[0].Segment = missing }, fault.SegmentDamage, rebuild},
		"the documents are gone":    {func(m *core.Manifest) { m.Segments.Documents[0] = missing }, fault.SegmentDamage, rebuild},
		"the word weights are gone": {func(m *core.Manifest) { m.Segments.IDF[0] = missing }, fault.SegmentDamage, restore},
		"another analyser":          {nil, fault.FormatUnknown, "unweaver index"},
		"the vectors are lost":      {nil, fault.StoreDown, restore},
		"the manifest is gone":      {nil, fault.SegmentDamage, rebuild},
	} {
		stores := retrievetest.NewStores(t)
		folder := t.TempDir()
		var err error
		stores.Cache, err = localfile.New(folder, 0)
		require.NoError(t, err, name)
		options := retrievetest.Options{Edit: c.edit}
		if name == "another analyser" {
			options.Analyser = "en/1"
		}
		built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), options)
		switch name {
		case "the vectors are lost":
			require.NoError(t, stores.Vectors.Drop(t.Context(), built.Manifest.Collections.Chunks), name)
		case "the manifest is gone":
			require.NoError(t, stores.Blobs.Delete(t.Context(), built.Index.SegmentKey(built.SHA)), name)
		}
		generation, err := retrievetest.OpenBuilt(t.Context(), stores, built)
		assert.True(t, fault.Is(err, c.code) && strings.Contains(err.Error(), c.say), "%s: %v, want %s", name, err, c.code)
		assert.Nil(t, generation, name)
		assert.Zero(t, retrievetest.CountMappings(t, folder), "%s: files stay mapped", name)
	}
}

func TestAnOpeningEndsWithItsContext(t *testing.T) {
	o := open(t, retrievetest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	generation, err := retrievetest.OpenBuilt(ctx, o.Stores, o.Built)
	assert.True(t, errors.Is(err, context.Canceled), "%v %v", generation, err)
}

func TestClassesAreListedByNameAndByChunks(t *testing.T) {
	o := open(t, retrievetest.Options{})
	live := o.Generation.Live
	for of, want := range map[retrieve.Names]int{
		{}: live.Names(), {Prefix: "OSLO"}: 1, {Prefix: "o"}: 2, {Prefix: "zzz"}: 0, {Part: "SLO"}: 1, {Part: "o"}: -1,
		{ByChunks: true}: live.Names(), {Part: "slo", ByChunks: true}: 1, {Prefix: "o", Part: "s", ByChunks: true}: -1,
	} {
		whole, next := musttest.Get2(o.Generation.ListClasses(t.Context(), of, 0, 1000))(t)
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
			found, at, _ = o.Generation.ListClasses(t.Context(), of, at, 4)
			paged = append(paged, found...)
		}
		assert.Equal(t, whole, paged, "%+v", of)
	}
	most, _, _ := o.Generation.ListClasses(t.Context(), retrieve.Names{ByChunks: true}, 0, 1)
	assert.Greater(t, most[0].Chunks, uint32(1), "the sample has nothing to sort")
}

func TestListsGoOnFromAPlace(t *testing.T) {
	o := open(t, retrievetest.Options{})
	sample := retrievetest.Sample()
	for prefix, want := range map[string][2]int{"": {0, len(sample)}, "cities/": {0, 3}, "people/": {3, 5}, "zzz": {6, 6}} {
		from, to, next := o.Generation.DocumentsFrom(prefix, 0, 100)
		assert.True(t, from == want[0] && to == want[1] && next == 0, "%q: %d to %d, then %d", prefix, from, to, next)
	}
	from, to, next := o.Generation.DocumentsFrom("cities/", 1, 1)
	assert.True(t, from == 1 && to == 2 && next == 2, "the second city: %d to %d, then %d", from, to, next)
	if from, to, next := o.Generation.DocumentsFrom("cities/", 99, 5); from != to || next != 0 { // behind the last
		t.Errorf("behind the last city: %d to %d, then %d", from, to, next)
	}
	found, err := o.Generation.ReadDocuments(t.Context(), 2, 5)
	require.True(t, err == nil && len(found) == 3, "%v %v", found, err)
	for i, document := range found {
		assert.True(t, document.Title == sample[2+i].Title, "document %d is %q", 2+i, document.Title)
	}
}

// counted counts reads of a store, and can hold or fail them.
type counted struct {
	blob.Store
	mu    sync.Mutex
	reads int
	hold  chan struct{} // nil: none is held
	fail  error         // of the next read
}

func (c *counted) Get(ctx context.Context, key string, part blob.Range) (io.ReadCloser, blob.Info, error) {
	c.mu.Lock()
	c.reads++
	hold, fail := c.hold, c.fail
	c.fail = nil
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, blob.Info{}, ctx.Err()
		}
	}
	if fail != nil {
		return nil, blob.Info{}, fail
	}
	return c.Store.Get(ctx, key, part)
}

// since gives the reads since it was asked last.
func (c *counted) since() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.reads
	c.reads = 0
	return n
}

// set says what becomes of the reads that follow.
func (c *counted) set(hold chan struct{}, fail error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold, c.fail = hold, fail
}

func openCounted(t *testing.T) (*retrieve.Generation, *counted) {
	t.Helper()
	stores := retrievetest.NewStores(t)
	built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
	store := &counted{Store: stores.Blobs}
	generation := musttest.Get(retrieve.Opening{
		Artifacts: store, Cache: stores.Cache, Vectors: stores.Vectors, Index: "sample", Manifest: built.SHA, Release: 1,
	}.Open(t.Context()))(t)
	store.since()
	return generation, store
}

func TestWhatWasReadIsNotReadAgainUntilTheGenerationCloses(t *testing.T) {
	before := retrieve.KeptFrameBytes()
	generation, store := openCounted(t)
	chunk := generation.Live.ByNumber(0)
	for round, want := range []int{3, 0, 0} { // a frame of documents, one of text, one of extractions
		musttest.Get(generation.ReadDocument(t.Context(), int(chunk.Document)))(t)
		text, err := generation.ReadText(t.Context(), chunk)
		require.True(t, err == nil && text != "", "%v %v", text, err)
		musttest.Get(generation.ReadExtraction(t.Context(), chunk))(t)
		assert.Equal(t, want, store.since(), "%d", round)
	}
	assert.True(t, retrieve.KeptFrameBytes() > before, "nothing is kept")
	generation.Close()
	assert.Equal(t, before, retrieve.KeptFrameBytes(), "of a closed generation")
}

func TestAFrameThatManyWantIsReadOnce(t *testing.T) {
	generation, store := openCounted(t)
	defer generation.Close()
	hold := make(chan struct{})
	store.set(hold, nil)
	chunk := generation.Live.ByNumber(0)
	var beside sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		beside.Go(func() { _, errs[i] = generation.ReadText(t.Context(), chunk) })
	}
	for retrieve.FramesUnderWay() == 0 { // a later caller waits for it, or finds it read
		time.Sleep(time.Millisecond)
	}
	close(hold)
	beside.Wait()
	require.NoError(t, errors.Join(errs...))
	assert.Equal(t, 1, store.since(), "it was read")
}

func TestAReadThatFailsIsTriedAgainByTheNext(t *testing.T) {
	generation, store := openCounted(t)
	defer generation.Close()
	failure := errors.New("the store is away")
	store.set(nil, failure)
	chunk := generation.Live.ByNumber(0)
	_, err := generation.ReadText(t.Context(), chunk)
	assert.True(t, errors.Is(err, failure), "got %v", err)
	text, err := generation.ReadText(t.Context(), chunk)
	assert.True(t, err == nil && text != "", "%q %v", text, err)
}

func TestWhoLosesPatienceTakesTheFrameFromNobody(t *testing.T) {
	generation, store := openCounted(t)
	defer generation.Close()
	hold := make(chan struct{})
	store.set(hold, nil)
	chunk := generation.Live.ByNumber(0)
	first, cancel := context.WithCancel(t.Context())
	gone, stayed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := generation.ReadText(first, chunk); gone <- err }()
	for retrieve.FramesUnderWay() == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { _, err := generation.ReadText(t.Context(), chunk); stayed <- err }()
	cancel()
	assert.ErrorIs(t, <-gone, context.Canceled)
	close(hold)
	assert.NoError(t, <-stayed, "the other one got")
}

func TestTheCacheOfFramesKeepsItsBound(t *testing.T) {
	readAll := func() {
		generation, _ := openCounted(t)
		t.Cleanup(generation.Close)
		for i := range generation.Manifest.Counts.Chunks {
			chunk := generation.Live.ByNumber(int(i))
			text, err := generation.ReadText(t.Context(), chunk)
			require.True(t, err == nil && text != "", "%v %v", text, err)
			require.NoError(t, musttest.Err(generation.ReadExtraction(t.Context(), chunk)))
		}
	}
	before := retrieve.KeptFrameBytes()
	readAll()
	one := retrieve.KeptFrameBytes() - before
	limit := before + 4*one
	t.Cleanup(retrieve.KeepFrames(limit))
	for range 6 {
		readAll()
		got := retrieve.KeptFrameBytes()
		require.True(t, got <= limit && got > before, "%d bytes are kept, of %d", got, limit)
	}
}

// Files that are mapped come beside each other but for the first, and of one that is read by range the end comes in one
// request.
func TestAnOpeningIsAShortChainOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 15 * time.Millisecond
		stores := retrievetest.NewStores(t)
		built := retrievetest.Build(t, stores, "sample", retrievetest.Sample(), retrievetest.Options{})
		requests := distance.New(wait)
		far := distance.Blob(stores.Blobs, requests)
		began := time.Now()
		generation := musttest.Get(retrieve.Opening{
			Artifacts: far, Cache: stores.Cache, Vectors: stores.Vectors, Index: "sample", Manifest: built.SHA, Release: 1,
		}.Open(t.Context()))(t)
		defer generation.Close()
		took, counted := time.Since(began), requests.Take()
		if took > 4*wait { // manifest, settings, splits and class runs, all others
			t.Errorf("%s for an opening at %s a request", took, wait)
		}
		assert.Zero(t, counted.Of("", distance.Head), "the size of")
	})
}

// The extractions of eight chunks lie in eight frames, which one voter under parity needs.
func TestUnderParityTheChunksOfABallotAreReadSideBySide(t *testing.T) {
	var documents []retrievetest.Document
	for i := range 8 {
		names := []string{"kvarn", strings.Repeat(fmt.Sprint(i), 70<<10)}
		chunk := retrievetest.Chunk{Text: fmt.Sprintf("text %d. ", i), Entities: names}
		documents = append(documents, retrievetest.Document{Key: fmt.Sprint(i), Chunks: []retrievetest.Chunk{chunk}})
	}
	synctest.Test(t, func(t *testing.T) {
		stores := retrievetest.NewStores(t)
		parity := retrievetest.Options{Spec: func(spec *core.Spec) { spec.Parity = true }}
		built := retrievetest.Build(t, stores, "sample", documents, parity)
		requests := distance.New(15 * time.Millisecond)
		stores.Blobs = distance.Blob(stores.Blobs, requests)
		generation := musttest.Get(retrievetest.OpenBuilt(t.Context(), stores, built))(t)
		defer generation.Close()
		o := retrievetest.Opened{Stores: stores, Built: built, Generation: generation}
		requests.Take()
		query := o.Query(t, "unweaver", "kvarn")
		query.TopEntities = 1
		o.Run(t, query)
		counted := requests.Take()
		assert.GreaterOrEqual(t, counted.Of(""), int64(8), "%s", counted)
		assert.Less(t, counted.Chain, 4, "%s", counted)
	})
}
