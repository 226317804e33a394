package pipeline_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/ledger/embed"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// plainChunk is a chunk as the rows of its document say.
type plainChunk struct {
	id       core.ID
	document string
	passage  string
	terms    []string
	vector   []float32
}

// plainClass is a class as the rows of its mentions say.
type plainClass struct {
	id       core.ID
	name     string
	members  map[int]int // of each chunk, by number, how often it mentions the class
	first    int         // chunk of the first mention
	position int         // of it
}

// plainIndex is what a generation holds, in plain maps: the reference that segments are compared with.
type plainIndex struct {
	documents []string // keys, in order
	chunks    []plainChunk
	classes   []plainClass   // in the order of ids
	holding   map[string]int // of each term, how many chunks hold it
	length    int            // terms of all chunks
}

// scanRows decodes every row of segments.
func scanRows[T any](
	t *testing.T, s *site, list []core.Segment, decode func([]byte) (T, error), take func(key string, row T),
) {
	t.Helper()
	for _, segment := range list {
		for row, err := range artifact.ScanAll(t.Context(), s.Artifacts, s.index().SegmentKey(segment.SHA256)) {
			require.NoError(t, err)
			decoded, err := decode(row.Value)
			require.NoError(t, err)
			take(string(row.Key), decoded)
		}
	}
}

// readPlain reads the rows of a generation that was built from nothing: all of them count.
func readPlain(t *testing.T, s *site) *plainIndex {
	t.Helper()
	out := &plainIndex{holding: map[string]int{}}
	listed, language := s.current(t).Segments, text.LanguageOf(s.spec.Retrieval.Language)
	for part := range listed.Documents {
		texts, err := textseg.Open(t.Context(), s.Artifacts, s.index().SegmentKey(listed.Text[part].SHA256))
		require.NoError(t, err)
		scanRows(t, s, listed.Documents[part:part+1], rows.DecodeDocument, func(key string, document rows.Document) {
			out.documents = append(out.documents, key)
			for _, place := range document.Chunks {
				passage, err := texts.Slice(t.Context(), key, document.Frame, place.Start, place.End)
				require.NoError(t, err)
				whole := embed.ChunkText(document.Title, passage)
				out.chunks = append(out.chunks, plainChunk{
					place.ID, key, passage, language.Terms(whole), stagetest.Vector(whole, s.spec.Embedding.Dimension),
				})
			}
		})
	}
	number := map[core.ID]int{}
	for n, chunk := range out.chunks {
		number[chunk.id] = n
		out.length += len(chunk.terms)
		for _, term := range slices.Compact(slices.Sorted(slices.Values(chunk.terms))) {
			out.holding[term]++
		}
	}
	classes := map[core.ID]*plainClass{}
	scanRows(t, s, listed.Mentions, rows.DecodeMention, func(key string, mention rows.Mention) {
		id, n := core.ID([]byte(key)), number[mention.Chunk]
		class := classes[id]
		if class == nil {
			class = &plainClass{id: id, members: map[int]int{}, first: n, position: mention.Position}
			classes[id] = class
		}
		class.members[n]++
		if n < class.first || n == class.first && mention.Position < class.position {
			class.first, class.position = n, mention.Position
		}
	})
	scanRows(t, s, listed.Classes, rows.DecodeClass, func(key string, row rows.Class) {
		record, err := rows.DecodeRecord(row.Record)
		require.True(t, err == nil && classes[record.ID] != nil,
			"class %s: %v, mentioned %v", record.Name, err, classes[record.ID] != nil)
		classes[record.ID].name = record.Name
	})
	for _, class := range classes {
		out.classes = append(out.classes, *class)
	}
	slices.SortFunc(out.classes, func(a, b plainClass) int { return bytes.Compare(a.id[:], b.id[:]) })
	return out
}

// compare looks whether the current generation of a site says of everything what the maps say.
func (p *plainIndex) compare(t *testing.T, s *site, night, questions int) {
	t.Helper()
	generation := openGeneration(t, s)
	defer generation.Close()
	p.sameCounts(t, generation)
	p.sameChunks(t, generation)
	p.sameClasses(t, generation)
	random := rand.New(rand.NewPCG(uint64(night), 21))
	for range questions {
		question := questionOf(random)
		terms := text.LanguageOf(s.spec.Retrieval.Language).Terms(question)
		vector := stagetest.Vector(question, s.spec.Embedding.Dimension)
		for method, score := range map[string]func(plainChunk) float64{
			retrieve.BM25:   func(chunk plainChunk) float64 { return p.weigh(terms, chunk.terms) },
			retrieve.Vector: func(chunk plainChunk) float64 { return dotProduct(vector, chunk.vector) },
		} {
			p.sameBest(t, method+", "+question, answersOf(t, s, generation, method, question), score)
		}
	}
}

func (p *plainIndex) sameCounts(t *testing.T, generation *retrieve.Generation) {
	t.Helper()
	mentions, edges := 0, 0
	for _, class := range p.classes {
		edges += len(class.members)
		for _, times := range class.members {
			mentions += times
		}
	}
	counts := generation.Manifest.Counts
	got := []int64{counts.Documents, counts.Chunks, counts.Classes, counts.Mentions, counts.Edges}
	want := []int64{
		int64(len(p.documents)), int64(len(p.chunks)), int64(len(p.classes)), int64(mentions), int64(edges),
	}
	require.True(t, slices.Equal(got, want), "documents, chunks, classes, mentions and edges: %d, want %d", got, want)
}

func (p *plainIndex) sameChunks(t *testing.T, generation *retrieve.Generation) {
	t.Helper()
	for place, key := range p.documents {
		require.Equal(t, key, generation.Live.Key(place), "document %d", place)
	}
	for number, want := range p.chunks {
		chunk := generation.Live.ByNumber(number)
		passage, err := generation.ReadText(t.Context(), chunk)
		if err != nil || chunk.ID != want.id || passage != want.passage ||
			generation.Live.Key(int(chunk.Document)) != want.document {
			t.Fatalf("chunk %d: %+v of %q, want %s of %q, %v", number, chunk, passage, want.id, want.passage, err)
		}
	}
}

func (p *plainIndex) sameClasses(t *testing.T, generation *retrieve.Generation) {
	t.Helper()
	table := generation.Live
	for place, want := range p.classes {
		chunks, mentions := slices.Sorted(maps.Keys(want.members)), 0
		for _, times := range want.members {
			mentions += times
		}
		var got []int
		for _, number := range table.Graph.ChunksOf(uint32(place)) {
			got = append(got, int(number))
		}
		if table.ClassID(uint32(place)) != want.id || !slices.Equal(got, chunks) ||
			table.Mentions(uint32(place)) != int64(mentions) {
			t.Fatalf("class %d, %s: chunks %v and %d mentions, want %v and %d", place, want.name, got,
				table.Mentions(uint32(place)), chunks, mentions)
		}
	}
	order := func(compare func(a, b plainClass) int) (out []core.ID) {
		for _, class := range slices.SortedStableFunc(slices.Values(p.classes), compare) {
			out = append(out, class.id)
		}
		return out
	}
	byFirst := order(func(a, b plainClass) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.position, b.position))
	})
	byName := order(func(a, b plainClass) int {
		return strings.Compare(names.Key(a.name, false), names.Key(b.name, false))
	})
	for i := range p.classes {
		require.Equal(t, byFirst[i], table.ClassID(table.Place[i]), "class %d by its first mention", i)
		require.Equal(t, byName[i], table.ByName(i).ID, "class %d by its name", i)
	}
}

// weigh returns BM25 of a chunk by the formula.
func (p *plainIndex) weigh(question, terms []string) (sum float64) {
	average := float64(p.length) / float64(len(p.chunks))
	for _, term := range slices.Compact(slices.Sorted(slices.Values(question))) {
		times := 0.0
		for _, one := range terms {
			if one == term {
				times++
			}
		}
		holding := float64(p.holding[term])
		idf := math.Log(1 + (float64(len(p.chunks))-holding+0.5)/(holding+0.5))
		length := float64(len(terms)) / average
		sum += idf * times * (postings.K1 + 1) / (times + postings.K1*(1-postings.B+postings.B*length))
	}
	return sum
}

func dotProduct(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// sameBest looks whether the chunks that answer have the score that they should have, and no other one a better one.
func (p *plainIndex) sameBest(t *testing.T, asked string, got []scored, score func(plainChunk) float64) {
	t.Helper()
	const near = 1e-5 // weights have 24 bits
	least, found := math.Inf(1), map[string]float64{}
	for _, one := range got {
		least, found[one.chunk] = min(least, one.score), one.score
	}
	for _, chunk := range p.chunks {
		want := score(chunk)
		have, answers := found[fmt.Sprintf("%s %s", chunk.document, chunk.id)]
		if answers && math.Abs(have-want) > near || !answers && want > least+near {
			t.Fatalf("%s: %s of %s has %g, it answers with %g (%v), the least with %g", asked, chunk.id, chunk.document,
				want, have, answers, least)
		}
	}
}
