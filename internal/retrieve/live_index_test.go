package retrieve_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/index/split"
	"github.com/unweaver/unweaver/internal/index/title"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/text"
)

// Words of the corpus: few, so that many scores are equal.
var (
	syllables = []string{"ka", "ro", "mi", "tel", "van", "os", "du", "bri", "sen", "gul"}
	kinds     = []string{"city", "person", "ship"}
)

func coined(r *rand.Rand, parts int) string {
	var out strings.Builder
	for range parts {
		out.WriteString(syllables[r.IntN(len(syllables))])
	}
	return out.String()
}

// invented documents, whose keys, words and entities follow from the seed; some have no chunk.
func invented(seed uint64, documents int) []retrievetest.Document {
	r := rand.New(rand.NewPCG(seed, 1))
	byKey := map[string]retrievetest.Document{}
	for len(byKey) < documents {
		document := retrievetest.Document{
			Key: fmt.Sprintf("%s/%s.txt", kinds[r.IntN(3)], coined(r, 2)), Title: strings.ToUpper(syllables[r.IntN(len(syllables))]) + " " + coined(r, 1), // as entities are called
			Meta:     map[string]string{"kind": kinds[r.IntN(3)]},
			Modified: time.Date(2026, time.January, 1+r.IntN(28), 0, 0, 0, 0, time.UTC),
		}
		for range r.IntN(5) {
			var chunk retrievetest.Chunk
			words := make([]string, 6+r.IntN(20))
			for i := range words {
				words[i] = coined(r, 1+r.IntN(2))
			}
			for range r.IntN(4) {
				name := strings.ToUpper(syllables[r.IntN(len(syllables))]) + " " + coined(r, 1)
				words[r.IntN(len(words))] = name
				if !slices.Contains(chunk.Entities, name) {
					chunk.Entities = append(chunk.Entities, name)
				}
			}
			chunk.Text = strings.Join(words, " ") + ". "
			document.Chunks = append(document.Chunks, chunk)
		}
		byKey[document.Key] = document
	}
	_, out := inOrder(byKey)
	return out
}

// shuffled cuts what is live now at random into splits and runs, among which lie documents and classes of another
// time, dead.
type shuffled struct {
	t        *testing.T
	r        *rand.Rand
	now, old retrievetest.Opened
}

type row struct {
	from  retrievetest.Opened
	place int
	dead  bool
}

func (s shuffled) counts() (documents, classes int) {
	documents, _, classes = s.now.Generation.Live.Counts()
	return documents, classes
}

// deal puts rows that are live now into n piles, and those of the other time where no row of the same name lies.
func (s shuffled) deal(n, live, dead int, name func(from retrievetest.Opened, place int) string) []map[string]row {
	piles := make([]map[string]row, n)
	for i := range piles {
		piles[i] = map[string]row{}
	}
	for place := range live {
		piles[s.r.IntN(n)][name(s.now, place)] = row{s.now, place, false}
	}
	for place := range dead {
		pile := piles[s.r.IntN(n)]
		if key := name(s.old, place); pile[key].from.Generation == nil {
			pile[key] = row{s.old, place, true}
		}
	}
	return piles
}

func inOrder[V any](of map[string]V) (keys []string, values []V) {
	keys = slices.Sorted(maps.Keys(of))
	for _, key := range keys {
		values = append(values, of[key])
	}
	return keys, values
}

// segment is a file with which of its rows are dead.
type segment[File, Expect any] struct {
	path   string
	file   File
	expect Expect
	rows   []row
}

func (s segment[File, Expect]) dead(i int) bool { return s.rows[i].dead }

type (
	splitSegment = segment[*split.File, split.Expect]
	runSegment   = segment[*classrun.File, classrun.Expect]
)

// finish writes a segment, and opens it.
func finish[File interface{ Close() }, Expect any](s shuffled, writer interface {
	Write(to io.Writer, analyser, language string) (Expect, error)
	Close()
}, open func(path string, expect Expect) (File, error), rows []row) segment[File, Expect] {
	defer writer.Close()
	path, file := s.create()
	expect, err := writer.Write(file, text.Analyser, "en")
	s.check(err, file.Close())
	made, err := open(path, expect)
	s.check(err)
	s.t.Cleanup(made.Close)
	return segment[File, Expect]{path, made, expect, rows}
}

func (s shuffled) splits(n int) []splitSegment {
	documents, _ := s.counts()
	dead, _, _ := s.old.Generation.Live.Counts()
	var out []splitSegment
	for _, pile := range s.deal(n, documents, dead, func(from retrievetest.Opened, i int) string {
		return from.Generation.Live.Key(i)
	}) {
		keys, rows := inOrder(pile)
		writer := split.NewWriter()
		chunks := uint32(0)
		for i, row := range rows {
			chunks = s.document(writer, keys[i], row, chunks)
		}
		out = append(out, finish(s, writer, split.Open, rows))
	}
	return out
}

// document writes one with its chunks behind so many, and says how many there are then.
func (s shuffled) document(writer *split.Writer, key string, row row, chunks uint32) uint32 {
	generation := row.from.Generation
	document, err := generation.ReadDocument(s.t.Context(), row.place)
	s.check(err)
	at := generation.Live.DocumentAt(row.place)
	s.check(writer.BeginDocument(split.Row{
		Key: key, Part: at.Part, Frame: at.Frame, Modified: document.Modified, Meta: document.Meta,
		Title: title.ParseTitle(document.Title, false, nil),
	}))
	for number := at.Chunks; number < at.Chunks+at.Count; number++ {
		chunk := generation.Live.ByNumber(int(number))
		passage, err := generation.ReadText(s.t.Context(), chunk)
		s.check(err)
		s.check(writer.AddChunk(split.Chunk{
			ID: chunk.ID, Digest: chunk.Digest, Start: chunk.Start, End: chunk.End, Tokens: chunk.Tokens,
			Text: chunk.Text, TextFrame: chunk.TextFrame, Extract: chunk.Extract, ExtFrame: chunk.ExtFrame,
			Windows: chunk.Windows,
		}, text.Terms(embed.ChunkText(document.Title, passage))))
		for _, place := range generation.Live.Graph.ClassesOf(number) {
			class, position := generation.Live.ClassAt(place), 1<<10
			if class.FirstChunk == number { // the others are not asked for
				position = int(generation.Live.Rank[place])
			}
			s.check(writer.AddMention(class.ID, chunks, position))
		}
		chunks++
	}
	return chunks
}

func (s shuffled) runs(n int) []runSegment {
	_, classes := s.counts()
	_, _, dead := s.old.Generation.Live.Counts()
	var out []runSegment
	for _, pile := range s.deal(n, classes, dead, func(from retrievetest.Opened, i int) string {
		id := from.Generation.Live.ClassID(uint32(i))
		return string(id[:])
	}) {
		_, rows := inOrder(pile)
		writer := classrun.NewWriter()
		for _, row := range rows {
			table := row.from.Generation.Live
			class := table.ClassAt(uint32(row.place))
			records, err := row.from.Searcher().ClassRecords(s.t.Context(), row.from.Generation, []*liveset.Class{class})
			s.check(err)
			s.check(writer.Add(classrun.Row{ID: class.ID, Vector: class.Vector.Prefix(), Record: class.Record},
				table.Name(int(class.Name)), "", text.LanguageOf("").SurfaceWords(records[0].Text)))
		}
		out = append(out, finish(s, writer, classrun.Open, rows))
	}
	return out
}

func (s shuffled) create() (string, *os.File) {
	path := filepath.Join(s.t.TempDir(), "segment")
	file, err := os.Create(path)
	s.check(err)
	return path, file
}

func (s shuffled) check(errs ...error) {
	s.t.Helper()
	require.NoError(s.t, errors.Join(errs...))
}

// leave puts vectors of the other time beside those of now, as nights leave them until they are collected.
func (s shuffled) leave() {
	var classes, chunks []vectors.Row
	old := s.old.Generation
	_, numbers, places := old.Live.Counts()
	for place := range uint32(places) {
		class := old.Live.ClassAt(place)
		classes = append(classes, vectors.Row{
			Key:    core.ClassRow(class.ID, class.Vector),
			Vector: s.now.Embedder().Vector(old.Live.Name(int(class.Name))),
		})
	}
	for number := range numbers {
		chunk := old.Live.ByNumber(number)
		passage, err := old.ReadText(s.t.Context(), chunk)
		s.check(err)
		chunks = append(chunks,
			vectors.Row{Key: core.ChunkRow(chunk.ID, 0, chunk.Digest), Vector: s.now.Embedder().Vector(passage)})
	}
	store, collections := s.now.Stores.Vectors, s.now.Generation.Manifest.Collections
	s.check(store.Upsert(s.t.Context(), collections.Classes, classes))
	s.check(store.Upsert(s.t.Context(), collections.Chunks, chunks))
	s.check(store.Load(s.t.Context(), collections.Classes), store.Load(s.t.Context(), collections.Chunks))
}

type cut struct {
	splits []splitSegment
	runs   []runSegment
	set    *liveset.Set
	dead   map[string]string // by side, the file of what the dead rows count
}

func (s shuffled) cut(n int) cut {
	out := cut{splits: s.splits(n), runs: s.runs(n), dead: map[string]string{}}
	var splits []liveset.Split
	var runs []liveset.Run
	for _, one := range out.splits {
		splits = append(splits, liveset.Split{File: one.file, Dead: one.dead})
	}
	for _, one := range out.runs {
		runs = append(runs, liveset.Run{File: one.file, Dead: one.dead})
	}
	var err error
	out.set, err = liveset.New(context.Background(), "now", splits, runs)
	s.check(err)
	var chunks, classes []deletedstats.Change
	for i, one := range out.splits {
		chunks = append(chunks, deletedstats.Count(one.file.Words, out.set.ChunkRows(i).IsDead))
	}
	for i, one := range out.runs {
		classes = append(classes, deletedstats.Count(one.file.Words, out.set.ClassRows(i).IsDead))
	}
	for side, changes := range map[string][]deletedstats.Change{core.ChunkSide: chunks, core.ClassSide: classes} {
		path, file := s.create()
		of := deletedstats.Of{Side: side, Analyser: text.Analyser}
		s.check(deletedstats.Write(file, of, nil, changes...), file.Close())
		out.dead[side] = path
	}
	return out
}

// ask returns the n-th question for a method: every third is narrowed by a filter, every fifth leaves something out.
func ask(t *testing.T, o retrievetest.Opened, method string, n int) retrieve.Query {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	words := make([]string, 1+r.IntN(9))
	for i := range words {
		words[i] = coined(r, 1+r.IntN(2))
	}
	if n%2 == 0 {
		words = append(words, strings.ToUpper(syllables[r.IntN(len(syllables))])+" "+coined(r, 1))
	}
	query := o.Query(t, method, strings.Join(words, " "))
	query.TopChunks = 1 + r.IntN(20)
	if method == retrieve.Hybrid && n%4 < 2 {
		query.Params = retrieve.Params{"setting": "linked"}
	}
	if query.Vector != nil && n%4 == 0 {
		query.ChunkVector = query.Vector
	}
	if found, err := methods.Registry().Method(method); err == nil && query.Rule != "" {
		rules := found.Spec().Rules
		query.Rule = rules[n%len(rules)].Name
		if strings.HasPrefix(query.Rule, "exact") || query.Rule == "pav" || query.Rule == "cc" {
			query.TopChunks = 2
		}
	}
	switch n % 9 {
	case 0:
		query.Filter.Prefix = kinds[n%3] + "/"
	case 3:
		query.Filter.Metadata = []retrieve.Condition{{Field: "kind", In: retrieve.NewValues([]string{kinds[n%2]})}}
	case 6:
		query.Filter.From = time.Date(2026, time.January, 9, 0, 0, 0, 0, time.UTC)
	}
	if n%5 == 0 {
		_, _, classes := o.Generation.Live.Counts()
		query.Without.Entities = map[core.ID]bool{o.Generation.Live.ClassID(uint32(n % classes)): true}
		query.Without.Documents = map[string]bool{o.Generation.Live.Key(n % 7): true}
	}
	return query
}

// sameTable fails where one table says anything that another does not.
func sameTable(t *testing.T, got, want *retrieve.Generation) {
	t.Helper()
	documents, chunks, classes := want.Live.Counts()
	d, k, c := got.Live.Counts()
	require.Equal(t, []int{documents, chunks, classes}, []int{d, k, c})
	same := func(what string, at int, a, b any) {
		require.True(t, reflect.DeepEqual(a, b), "%s %d: %+v, want %+v", what, at, a, b)
	}
	for i := range documents {
		key := want.Live.Key(i)
		meta, modified := got.Live.FilterFields(i)
		wantMeta, wantModified := want.Live.FilterFields(i)
		same("metadata of document", i, meta, wantMeta)
		same("time of document", i, modified, wantModified)
		same("key of document", i, got.Live.Key(i), key)
		same("title of document", i, got.Live.Title(i), want.Live.Title(i))
		same("place of document", i, got.Live.FindDocument(key), i)
		same("document", i, got.Live.DocumentAt(i), want.Live.DocumentAt(i))
	}
	for i := range chunks {
		chunk := want.Live.ByNumber(i)
		same("chunk", i, got.Live.ByNumber(i), chunk)
		same("chunk by id", i, got.Live.FindChunk(chunk.ID), chunk)
		same("document of chunk", i, got.Live.DocumentOf(uint32(i)), chunk.Document)
	}
	for i := range classes {
		class := want.Live.ClassAt(uint32(i))
		same("class", i, got.Live.ClassAt(uint32(i)), class)
		same("place of class", i, got.Live.ClassPlace(class.ID), i)
		same("name", i, got.Live.Name(i), want.Live.Name(i))
		same("class by name", i, got.Live.ByName(i).ID, want.Live.ByName(i).ID)
		same("first of name", i, got.Live.NamedFrom(want.Live.Name(i)), want.Live.NamedFrom(want.Live.Name(i)))
	}
	same("graph", 0, got.Live.Graph, want.Live.Graph)
	same("ranks", 0, got.Live.Rank, want.Live.Rank)
	same("places", 0, got.Live.Place, want.Live.Place)
}

// twoTimes builds a corpus as it is and as it was once.
func twoTimes(t *testing.T, stores retrievetest.Stores) (now, old retrievetest.Opened) {
	t.Helper()
	documents := invented(1, 60)
	before := append(invented(2, 25), documents[10:40]...) // what some say has changed since, and some have gone
	for i := range before {
		if i >= 25 && i%2 == 0 {
			before[i].Chunks = append(invented(uint64(i), 1)[0].Chunks, before[i].Chunks...)
		}
	}
	byKey := map[string]retrievetest.Document{}
	for _, document := range before {
		byKey[document.Key] = document
	}
	_, before = inOrder(byKey)
	now = retrievetest.OpenIn(t, stores, "now", documents, retrievetest.Options{})
	old = retrievetest.OpenIn(t, stores, "old", before, retrievetest.Options{})
	shuffled{t: t, now: now, old: old}.leave()
	return now, old
}

func TestEveryMethodAnswersFromManySegmentsAsFromOne(t *testing.T) {
	one, old := twoTimes(t, retrievetest.NewStores(t))
	setting := one.Run(t, one.Query(t, retrieve.Hybrid, "ka")).Explain.(retrieve.HybridExplain).Setting
	require.True(t, setting.TitlesNamed != 0, "no document names another: what is measured of titles compares nothing")
	for _, n := range []int{1, 3, 17} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := shuffled{t, rand.New(rand.NewPCG(uint64(n), 2)), one, old}
			generation := musttest.Get(s.open(s.manifest(n), one.Stores.Cache))(t)
			defer generation.Close()
			sameTable(t, generation, one.Generation)
			many := retrievetest.Opened{Stores: one.Stores, Built: one.Built, Generation: generation}
			found := 0
			for _, method := range retrievetest.ListPlain() {
				for question := range 150 {
					query := ask(t, one, method, question)
					want, got := one.Run(t, query), many.Run(t, query)
					want.Timing, got.Timing = retrieve.Timing{}, retrieve.Timing{}
					require.True(t, reflect.DeepEqual(got, want), "%s, %s, %q:\n%+v\nwant\n%+v", method, query.Rule, query.Text, got, want)
					found += len(want.Chunks)
				}
			}
			assert.GreaterOrEqual(t, found, 150*6*2, "hardly anything was found")
		})
	}
}

// put stores what is written as a segment.
func (s shuffled) put(rows int64, write func(io.Writer) error) core.Segment {
	file, err := artifact.NewFile()
	s.check(err)
	defer file.Discard()
	s.check(write(file))
	made, _, err := file.PutSegment(s.t.Context(), s.now.Built.Index)
	s.check(err)
	made.Rows = rows
	return made
}

func (s shuffled) putFile(rows int64, path string) core.Segment {
	return s.put(rows, func(to io.Writer) error {
		raw, err := os.ReadFile(path)
		if err == nil {
			_, err = to.Write(raw)
		}
		return err
	})
}

func (s shuffled) putTomb(of core.Segment, unit string, rows []row) core.Tomb {
	return core.Tomb{Of: of.SHA256, Segment: s.put(int64(len(rows)), func(to io.Writer) error {
		return deletions.Write(to, deletions.Of{Segment: of.SHA256, Unit: unit, Rows: len(rows)}, func(i int) bool {
			return rows[i].dead
		})
	})}
}

func (s shuffled) manifest(n int) core.Manifest {
	made := s.cut(n)
	manifest := *s.now.Built.Manifest
	segments := &manifest.Segments
	segments.Splits, segments.Runs = nil, nil
	for _, one := range made.splits {
		file := s.putFile(int64(one.expect.Chunks), one.path)
		segments.Splits = append(segments.Splits, core.Split{
			Segment: file, Documents: int64(one.expect.Documents), Chunks: int64(one.expect.Chunks),
			Classes: int64(one.expect.Classes),
		})
		segments.Tombs = append(segments.Tombs, s.putTomb(file, deletions.Documents, one.rows))
	}
	for _, one := range made.runs {
		file := s.putFile(int64(one.expect.Classes), one.path)
		segments.Runs = append(segments.Runs, core.Run{Segment: file})
		segments.Tombs = append(segments.Tombs, s.putTomb(file, deletions.Classes, one.rows))
	}
	for _, side := range []string{core.ChunkSide, core.ClassSide} {
		segments.DeadStats = append(segments.DeadStats, core.DeadStat{Side: side, Segment: s.putFile(0, made.dead[side])})
	}
	return manifest
}

func (s shuffled) open(manifest core.Manifest, cache *localfile.Cache) (*retrieve.Generation, error) {
	sha, err := s.now.Built.Index.PutManifest(s.t.Context(), &manifest)
	s.check(err)
	return retrieve.Opening{
		Artifacts: s.now.Stores.Blobs, Cache: cache, Vectors: s.now.Stores.Vectors, Index: "now", Manifest: sha, Release: 1,
	}.Open(s.t.Context())
}

func TestAGenerationOfManySegmentsIsOpenedByItsManifest(t *testing.T) {
	cache, folder := retrievetest.CacheIn(t)
	now, old := twoTimes(t, retrievetest.NewStores(t))
	s := shuffled{t, rand.New(rand.NewPCG(5, 5)), now, old}
	manifest := s.manifest(3)
	generation := musttest.Get(s.open(manifest, cache))(t)
	for number := range 20 {
		chunk := now.Generation.Live.ByNumber(number)
		want, err := now.Generation.ReadText(t.Context(), chunk)
		got, gotErr := generation.ReadText(t.Context(), generation.Live.FindChunk(chunk.ID))
		assert.True(t, err == nil && gotErr == nil && got == want,
			"text of chunk %d: %q, want %q, %v, %v", number, got, want, gotErr, err)
	}
	const files = 3 + 3 + 6 + 2 // splits, runs, tombs, dead statistics
	first := retrievetest.CountMappings(t, folder)
	assert.Equal(t, files+1, first) // and the table of the embedder
	manifest.Generation = "g2"      // which has the same segments
	next := musttest.Get(s.open(manifest, cache))(t)
	assert.Equal(t, first, retrievetest.CountMappings(t, folder))
	generation.Close()
	sameTable(t, next, now.Generation)
	next.Close()
	assert.Zero(t, retrievetest.CountMappings(t, folder), "files are mapped still")
	var mapped int64
	for _, segment := range manifest.Segments.All() {
		mapped += segment.Bytes
	}
	held := retrieve.EstimateFootprint(&manifest)
	assert.True(t, held >= retrieve.EstimateFootprint(now.Built.Manifest) && held <= 2*mapped,
		"%d bytes are held of segments of %d", held, mapped)
}

func TestAManifestWhoseSegmentsDoNotFitIsRefused(t *testing.T) {
	cache, folder := retrievetest.CacheIn(t)
	now, old := twoTimes(t, retrievetest.NewStores(t))
	s := shuffled{t, rand.New(rand.NewPCG(6, 6)), now, old}
	whole := s.manifest(2)
	absent := core.Segment{SHA256: core.Sum("absent").String(), Bytes: 100}
	for name, spoil := range map[string]func(*core.Segments){
		"a split is gone":        func(m *core.Segments) { m.Splits[1].Segment = absent },
		"a split is not listed":  func(m *core.Segments) { m.Splits, m.Tombs = m.Splits[:1], m.Tombs[:1:1] },
		"a run is gone":          func(m *core.Segments) { m.Runs[0].Segment = absent },
		"a tomb is gone":         func(m *core.Segments) { m.Tombs[0].Segment = absent },
		"a tomb is not listed":   func(m *core.Segments) { m.Tombs = m.Tombs[1:] },
		"a tomb is of another":   func(m *core.Segments) { m.Tombs[0].Of, m.Tombs[1].Of = m.Tombs[1].Of, m.Tombs[0].Of },
		"a tomb is there twice":  func(m *core.Segments) { m.Tombs[1] = m.Tombs[0] },
		"a tomb is of nothing":   func(m *core.Segments) { m.Tombs[0].Of = absent.SHA256 },
		"no statistics":          func(m *core.Segments) { m.DeadStats = nil },
		"statistics twice":       func(m *core.Segments) { m.DeadStats[1] = m.DeadStats[0] },
		"statistics of another":  func(m *core.Segments) { m.DeadStats[0].Side, m.DeadStats[1].Side = "classes", "chunks" },
		"more chunks than there": func(m *core.Segments) { m.Splits[0].Chunks++ },
		"fewer classes":          func(m *core.Segments) { m.Runs[0].Rows-- },
	} {
		manifest := whole
		segments := &manifest.Segments
		segments.Splits, segments.Runs = slices.Clone(segments.Splits), slices.Clone(segments.Runs)
		segments.Tombs, segments.DeadStats = slices.Clone(segments.Tombs), slices.Clone(segments.DeadStats)
		spoil(segments)
		for _, before := range []bool{false, true} { // a whole generation is open already, and shares what it has mapped
			closeWhole := func() {}
			if before {
				beside := musttest.Get(s.open(whole, cache))(t)
				closeWhole = beside.Close
			}
			generation, err := s.open(manifest, cache)
			assert.True(t, generation == nil && fault.Is(err, fault.SegmentDamage), "%s, beside a whole one %v: %v", name, before, err)
			closeWhole()
		}
		assert.Equal(t, 0, retrievetest.CountMappings(t, folder), "%s", name)
	}
}
