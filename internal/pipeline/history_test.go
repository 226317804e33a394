package pipeline_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// steady gives a site models whose vectors do not depend on what else is in the corpus, so that a night can be compared
// with a build from nothing.
func steady(s *site) {
	s.spec.Embedding.Dimension = 8
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: builtin.Chat{}, Classes: embedder, Chunks: embedder}, nil
	}
}

// history is a corpus that changes every night.
type history struct {
	*site
	random *rand.Rand
	files  map[string]string
	next   int
}

var (
	people = []string{"Carla Ruiz", "Jan Novak", "Aino Salo", "Omar Haddad", "Li Wei", "Greta Lind"}
	places = []string{"Port Alma", "Lake Verin", "Tolmin", "Sankt Peer", "Osk Harbour", "Mount Ilda", "Rhine Gate"}
	goods  = []string{"salt", "timber", "glass", "wool", "tin", "amber"}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// document writes one of one to four chunks.
func (h *history) document() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s of %s\n\n", pick(h.random, goods), pick(h.random, places))
	for range 1 + h.random.IntN(4) {
		for range 3 + h.random.IntN(20) {
			fmt.Fprintf(&out, "%s carried %s from %s to %s, as %s wrote in 19%02d. ", pick(h.random, people),
				pick(h.random, goods), pick(h.random, places), pick(h.random, places), pick(h.random, people),
				h.random.IntN(100))
		}
		out.WriteString("\n\n")
	}
	return out.String()
}

func (h *history) keys() []string {
	var out []string
	for key := range h.files {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// add writes a new document.
func (h *history) add(t *testing.T) {
	h.next++
	h.put(t, fmt.Sprintf("%s/%03d.md", pick(h.random, goods), h.next), h.document())
}

func (h *history) put(t *testing.T, key, content string) {
	h.files[key] = content
	h.write(t, map[string]string{key: content})
}

func (h *history) remove(t *testing.T, key string) {
	delete(h.files, key)
	require.NoError(t, os.Remove(filepath.Join(h.corpus, key)))
}

// change does to the corpus what happens to one in a day.
func (h *history) change(t *testing.T) {
	for range 1 + h.random.IntN(3) {
		keys := h.keys()
		key := pick(h.random, keys)
		switch what := h.random.IntN(10); {
		case what < 3:
			h.add(t)
		case what < 5: // a paragraph more, or other text
			h.put(t, key, h.files[key]+"\n\n"+h.document())
		case what == 5: // another title
			h.put(t, key, "# A tale of "+pick(h.random, places)+"\n\n"+h.files[key])
		case what == 6: // under another name
			content := h.files[key]
			h.remove(t, key)
			h.next++
			h.put(t, fmt.Sprintf("moved/%03d.md", h.next), content)
		case what == 7: // shorter
			h.put(t, key, h.files[key][:1+len(h.files[key])/2])
		case len(keys) > 12:
			h.remove(t, key)
		default:
			h.put(t, key, h.document())
		}
	}
}

// Whatever happens to a corpus, each night comes to what a build from nothing comes to, which has one split: by its
// hashes and counts, and by the bits of what every method answers. Now and then it is compared with what plain maps
// say.
// Promises: 11.
func TestEveryNightComesToWhatABuildFromNothingComesTo(t *testing.T) {
	for seed := range uint64(longtest.Count(1, 2)) {
		t.Run(fmt.Sprint("seed ", 1+seed), func(t *testing.T) {
			t.Parallel()
			h := &history{site: newSite(t, nil), random: rand.New(rand.NewPCG(1+seed, 1)), files: map[string]string{}}
			steady(h.site)
			h.spec.Gate.MaxRemoved, h.spec.Shortening.Threshold = 1, 500
			h.spec.Chunking.MaxTokens = 200
			h.shard = 7
			for range 15 {
				h.add(t)
			}
			h.night(t)
			nights, most := longtest.Count(15, 200), 0
			for night := range nights {
				h.change(t)
				out := h.night(t)
				if out.planned.Unchanged || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
					continue // it changed and changed back
				}
				most = max(most, len(out.manifest.Segments.Splits))
				fresh := h.freshSite(t)
				want := fresh.night(t)
				sameGeneration(t, night, out.manifest, want.manifest)
				wholeVectors(t, h.site, out.manifest)
				switch {
				case night == nights-1:
					sameAnswers(t, h.site, fresh, night, longtest.Count(30, 150))
					readPlain(t, fresh).compare(t, h.site, night, longtest.Count(15, 50))
				case night%10 == 9:
					sameAnswers(t, h.site, fresh, night, 15)
					readPlain(t, fresh).compare(t, h.site, night, 15)
				}
			}
			classes, chunks := wholeVectors(t, h.site, h.current(t))
			t.Logf("%d and %d vectors segments", classes, chunks)
			if limit := 40; max(classes, chunks) > limit {
				t.Errorf("%d and %d vectors segments, at most %d wanted", classes, chunks, limit)
			}
			assert.True(t, most >= 3, "no night had more than %d splits: nothing was composed", most)
			t.Logf("%d nights, at most %d splits, %d at last", nights, most, len(h.current(t).Segments.Splits))
		})
	}
}

// freshSite returns a site over the same corpus that has built nothing yet, and builds one split.
func (h *history) freshSite(t *testing.T) *site {
	t.Helper()
	fresh := newSite(t, h.files)
	steady(fresh)
	spec := h.spec
	spec.Corpus = fresh.corpus
	fresh.spec, fresh.shard = spec, 50
	return fresh
}

// wholeVectors looks whether the vectors segments of a generation have every row that counts, with the vector that the
// store has, and counts the segments.
func wholeVectors(t *testing.T, s *site, manifest *core.Manifest) (classes, chunks int) {
	t.Helper()
	counts := rowsOf(t, s.Ports, manifest)
	for _, kind := range []struct {
		name, collection string
		list             []core.Segment
		live             int64
	}{
		{"classes", manifest.Collections.Classes, manifest.Segments.ClassVecs, manifest.Counts.Classes},
		{"chunks", manifest.Collections.Chunks, manifest.Segments.ChunkVecs, manifest.Counts.Windows},
	} {
		held := map[string][]float32{}
		var keys []string
		for _, segment := range kind.list {
			raw, _, err := blob.Read(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256))
			require.NoError(t, err)
			rows, err := parquet.Read[stage.VectorRow](bytes.NewReader(raw), int64(len(raw)))
			require.True(t, err == nil && int64(len(rows)) == segment.Rows, "%d of %d rows: %v", len(rows), segment.Rows, err)
			for _, row := range rows {
				if held[row.Key] == nil {
					keys = append(keys, row.Key)
				}
				held[row.Key] = row.Vector
			}
		}
		stored, err := s.Vectors.Fetch(t.Context(), kind.collection, keys)
		require.NoError(t, err)
		live := int64(0)
		for i, key := range keys {
			require.True(t, stored[i] == nil || slices.Equal(stored[i], held[key]),
				"%s: the segments have another vector of %s than the store", kind.name, key)
			if counts(key) {
				live++
			}
		}
		require.Equal(t, kind.live, live, "%s: vectors segments have", kind.name)
	}
	return len(manifest.Segments.ClassVecs), len(manifest.Segments.ChunkVecs)
}

func sameGeneration(t *testing.T, night int, got, want *core.Manifest) {
	t.Helper()
	if got.Hashes != want.Hashes {
		t.Fatalf("night %d: content %v, text %v, vector %v", night, got.Hashes.Content == want.Hashes.Content,
			got.Hashes.Text == want.Hashes.Text, got.Hashes.Vector == want.Hashes.Vector)
	}
	require.True(t, got.Counts == want.Counts, "night %d:\n%+v\nwant\n%+v", night, got.Counts, want.Counts)
}

func openGeneration(t *testing.T, s *site) *retrieve.Generation {
	t.Helper()
	current, _, err := s.index().ReadPointer(t.Context())
	require.NoError(t, err)
	generation, err := retrieve.Open(t.Context(), s.Artifacts, s.Cache, s.Vectors, s.spec.Index, current.Manifest, 1)
	require.NoError(t, err)
	return generation
}

// questionOf returns a question about what documents of a history say.
func questionOf(random *rand.Rand) string {
	return fmt.Sprintf("Which %s did %s carry to %s?", pick(random, goods), pick(random, people), pick(random, places))
}

// sameAnswers asks two sites questions by every method.
func sameAnswers(t *testing.T, got, want *site, night, questions int) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(night), 9))
	have, other := openGeneration(t, got), openGeneration(t, want)
	defer have.Close()
	defer other.Close()
	found := 0
	for _, method := range retrieve.RegisterMethods().ListPlain() {
		for range questions {
			question := questionOf(random)
			first, second := answerOf(t, got, have, method, question), answerOf(t, want, other, method, question)
			if !slices.Equal(first, second) {
				t.Fatalf("night %d, %s, %q:\n%s\nwant\n%s", night, method, question, strings.Join(first, "\n"),
					strings.Join(second, "\n"))
			}
			found += len(first)
		}
	}
	require.True(t, found != 0, "nothing was found by any method")
}

// answerOf gives the chunks that answer with the bits of their scores.
func answerOf(t *testing.T, s *site, generation *retrieve.Generation, method, question string) []string {
	t.Helper()
	var out []string
	for _, one := range answersOf(t, s, generation, method, question) {
		out = append(out, fmt.Sprintf("%s %x", one.chunk, math.Float64bits(one.score)))
	}
	return out
}

// scored is a chunk that answers, by its document and id, with its score.
type scored struct {
	chunk string
	score float64
}

func answersOf(t *testing.T, s *site, generation *retrieve.Generation, method, question string) (out []scored) {
	t.Helper()
	m, err := retrieve.RegisterMethods().Method(method)
	require.NoError(t, err)
	spec := m.Spec()
	query := retrieve.Query{Text: question, Method: method, TopEntities: spec.Entities, TopChunks: 8, MinSim: -1}
	vector := stagetest.Vector(question, generation.Manifest.Class.Dimension)
	switch spec.Needs.Embedding {
	case retrieve.ByClassEmbedder:
		query.Vector = vector
	case retrieve.ByChunkEmbedder:
		query.ChunkVector = vector
	}
	if len(spec.Rules) > 0 {
		query.Rule = "weighted"
	}
	result, err := retrieve.Searcher{Vectors: s.Vectors, Records: s.Records}.Run(t.Context(), generation, query)
	require.True(t, err == nil, "%v %v", method, err)
	for _, chunk := range result.Chunks {
		key := generation.Live.Key(int(chunk.Live.Document))
		out = append(out, scored{fmt.Sprintf("%s %s", key, chunk.Live.ID), chunk.Score})
	}
	return out
}
