package pipeline_test

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// steady gives a site models whose vectors do not depend on what else is in the corpus, so that a night can be compared
// with a build from nothing.
func steady(s *site) { steadyBy(s, builtin.Chat{}) }

func steadyBy(s *site, chat model.Chat) {
	s.spec.Embedding.Dimension = 8
	s.Models = func(core.Spec, model.Meter) (model.Set, error) {
		embedder := &stagetest.Embedder{Dim: 8, Free: true}
		return model.Set{Chat: chat, Classes: embedder, Chunks: embedder}, nil
	}
}

// history is a corpus that changes every night.
type history struct {
	*site
	random *rand.Rand
	files  map[string]string
	next   int
}

// newHistory returns a history with documents, of which nothing is built. Small limits give it several segments.
func newHistory(t *testing.T, random *rand.Rand, documents int) *history {
	h := &history{site: newSite(t, nil), random: random, files: map[string]string{}}
	steady(h.site)
	h.spec.Gate.MaxRemoved, h.spec.Shortening.Threshold, h.spec.Chunking.MaxTokens, h.shard = 1, 500, 200, 7
	for range documents {
		h.add(t)
	}
	return h
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
// hashes and counts, and by the bits of what every method answers. What one split answers is compared with formulas and
// plain lists in internal/index/lexical, postings and liveset.
// Promises: 11.
func TestEveryNightComesToWhatABuildFromNothingComesTo(t *testing.T) {
	for seed := range uint64(longtest.Count(1, 2)) {
		t.Run(fmt.Sprint("seed ", 1+seed), func(t *testing.T) {
			t.Parallel()
			h := newHistory(t, rand.New(rand.NewPCG(1+seed, 1)), 15)
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
				case night%10 == 9:
					sameAnswers(t, h.site, fresh, night, 15)
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
			raw, _ := must2(blob.Read(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)))(t)
			rows, err := parquet.Read[stage.VectorRow](bytes.NewReader(raw), int64(len(raw)))
			require.True(t, err == nil && int64(len(rows)) == segment.Rows, "%d of %d rows: %v", len(rows), segment.Rows, err)
			for _, row := range rows {
				if held[row.Key] == nil {
					keys = append(keys, row.Key)
				}
				held[row.Key] = row.Vector
			}
		}
		stored := must(s.Vectors.Fetch(t.Context(), kind.collection, keys))(t)
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
	require.True(t, got.Hashes == want.Hashes, "night %d: content %v, text %v, vector %v", night,
		got.Hashes.Content == want.Hashes.Content, got.Hashes.Text == want.Hashes.Text,
		got.Hashes.Vector == want.Hashes.Vector)
	require.True(t, got.Counts == want.Counts, "night %d:\n%+v\nwant\n%+v", night, got.Counts, want.Counts)
}

func openGeneration(t *testing.T, s *site) *retrieve.Generation {
	current, _ := must2(s.index().ReadPointer(t.Context()))(t)
	return must(retrieve.Opening{
		Artifacts: s.Artifacts, Cache: s.Cache, Vectors: s.Vectors, Index: s.spec.Index, Manifest: current.Manifest,
		Release: 1,
	}.Open(t.Context()))(t)
}

// questionOf returns a question about what documents of a history say.
func questionOf(random *rand.Rand) string {
	return fmt.Sprintf("Which %s did %s carry to %s?", pick(random, goods), pick(random, people), pick(random, places))
}

// sameAnswers asks two sites questions by every method.
func sameAnswers(t *testing.T, got, want *site, night, questions int) {
	random := rand.New(rand.NewPCG(uint64(night), 9))
	have, other := openGeneration(t, got), openGeneration(t, want)
	defer have.Close()
	defer other.Close()
	found := 0
	for _, method := range retrievetest.ListPlain() {
		for range questions {
			question := questionOf(random)
			first, second := answerOf(t, got, have, method, question), answerOf(t, want, other, method, question)
			require.True(t, slices.Equal(first, second),
				"night %d, %s, %q:\n%s\nwant\n%s", night, method, question, strings.Join(first, "\n"), strings.Join(second, "\n"))
			found += len(first)
		}
	}
	require.True(t, found != 0, "nothing was found by any method")
}

// answerOf gives the chunks that answer with the bits of their scores.
func answerOf(t *testing.T, s *site, generation *retrieve.Generation, method, question string) []string {
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
	m := must(methods.Registry().Method(method))(t)
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
	searcher := retrieve.Searcher{Vectors: s.Vectors, Records: s.Records, Methods: methods.Registry()}
	result, err := searcher.Run(t.Context(), generation, query)
	require.True(t, err == nil, "%v %v", method, err)
	for _, chunk := range result.Chunks {
		key := generation.Live.Key(int(chunk.Live.Document))
		out = append(out, scored{fmt.Sprintf("%s %s", key, chunk.Live.ID), chunk.Score})
	}
	return out
}

// oddly does to the corpus what happens seldom: rows come, go and change places, files are written again as they are,
// are without a word, cannot be parsed, or have names that need care, and a corpus shrinks to one document.
func (h *history) oddly(t *testing.T) {
	keys := h.keys()
	key := pick(h.random, keys)
	jsonl := "rows, of #1%.jsonl"
	h.next++
	switch h.random.IntN(12) {
	case 0, 1, 2:
		lines := strings.Split(strings.TrimSpace(h.files[jsonl]), "\n")
		if lines[0] == "" {
			lines = nil
		}
		for range 1 + h.random.IntN(4) {
			lines = append(lines, fmt.Sprintf(`{"id":"r#%d%% ä","text":%q}`, h.next, h.document()))
		}
		h.random.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		if h.random.IntN(2) == 0 {
			lines = lines[:1+len(lines)/2]
		}
		h.put(t, jsonl, strings.Join(lines, "\n")+"\n")
	case 3:
		for _, one := range keys {
			when := time.Unix(1_700_000_000+int64(h.next), 0)
			require.NoError(t, os.Chtimes(filepath.Join(h.corpus, one), when, when))
		}
	case 4:
		h.put(t, fmt.Sprintf("none/%03d.md", h.next), "")
	case 5:
		h.put(t, fmt.Sprintf("bad %d%%#.pdf", h.next), "%PDF-1.7\nnone of it")
	case 6:
		h.put(t, fmt.Sprintf("ü #%%é\n\t%d.md", h.next), h.document())
	case 7:
		h.put(t, fmt.Sprintf("long/%d.txt", h.next), strings.Repeat("tolmin", 20_000)+" "+h.document())
	case 8:
		h.put(t, fmt.Sprintf("nul/%d.txt", h.next), "a\x00b \u202e\ufeff\U0001F9D1\u200d\U0001F680 "+h.document())
	case 9:
		for _, one := range keys[1:] {
			if h.random.IntN(4) > 0 {
				h.remove(t, one)
			}
		}
		h.add(t)
	case 10:
		if strings.HasPrefix(key, "none/") {
			h.put(t, key, h.document())
		} else {
			h.remove(t, key)
			h.add(t)
		}
	default:
		h.add(t)
	}
}

// What happens seldom comes to what a build from nothing comes to, too, and so does an index in another language: at
// first the corpus has three documents.
// Promises: 76.
func TestOddNightsComeToWhatABuildFromNothingComesTo(t *testing.T) {
	for _, seed := range []uint64{3, 4}[:longtest.Count(1, 2)] {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			h := newHistory(t, rand.New(rand.NewPCG(seed, 1)), 3)
			inLanguages(h.site)
			h.spec.Failures.Share, h.spec.Retrieval.Language = 1, "de"
			require.Equal(t, "de/2", h.night(t).manifest.Made.Analyser)
			for night := range longtest.Count(15, 50) {
				h.oddly(t)
				out := h.night(t)
				if out.planned.Unchanged || out.equalsParent || out.manifest.Generation != fmt.Sprintf("g%03d", h.runs) {
					require.True(t, out.planned.Held == "" && out.published.Status != core.StatusHeld,
						"night %d held: %+v", night, out)
					continue
				}
				fresh := h.freshSite(t)
				inLanguages(fresh)
				sameGeneration(t, night, out.manifest, fresh.night(t).manifest)
				if night%10 == 9 {
					h.whole(t)
					sameAnswers(t, h.site, fresh, night, 10)
				}
			}
		})
	}
}

var writePlain = flag.Bool("write-plain", false, "write testdata/plain.txt again")

// passing are what differs between two equal builds: when and where they ran.
var passing = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`uw_[0-9a-f]{8}_`), "uw_STORE_"},
	{ // rows of documents, which splits have too, tell the state of the object
		regexp.MustCompile(`"(documents|splits)":\[\{"sha256":"[0-9a-f]{64}","bytes":\d+`),
		`"$1":[{"sha256":"OBJECTS","bytes":0`,
	},
	{regexp.MustCompile(`"store":"[0-9a-f]{32}"`), `"store":"STORE"`},
	{regexp.MustCompile(`"(spec|config_digest)":"[0-9a-f]{64}"`), `"$1":"SPEC"`}, // it names the folder of the corpus
}

// The manifest of a generation without enrichments and its settings have stored bytes: their digests name them. Where
// the bytes are meant to change: go test ./internal/pipeline -run Plain -write-plain.
// Promises: 89.
func TestAPlainGenerationHasItsBytes(t *testing.T) {
	s := newSite(t, sample(6))
	steady(s)
	s.night(t)
	var found strings.Builder
	index, manifest := s.index(), s.current(t)
	pointer, _ := must2(index.ReadPointer(t.Context()))(t)
	for _, key := range []string{index.SegmentKey(pointer.Manifest), index.SpecKey(manifest.Spec)} {
		raw, _ := must2(blob.Read(t.Context(), s.Artifacts, key))(t)
		content := strings.ReplaceAll(string(raw), s.corpus, "CORPUS")
		for _, one := range passing {
			content = one.what.ReplaceAllString(content, one.as)
		}
		found.WriteString(content + "\n")
	}
	name := filepath.Join("testdata", "plain.txt")
	if *writePlain {
		require.NoError(t, os.WriteFile(name, []byte(found.String()), 0o644))
	}
	want := must(os.ReadFile(name))(t)
	assert.True(t, found.String() == string(want), "other bytes:\n%s\nwant\n%s", found.String(), want)
}
