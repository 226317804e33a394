package lexical_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/deletedstats"
	"github.com/unweaver/unweaver/internal/index/deletions"
	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
	"github.com/unweaver/unweaver/internal/text"
)

func build(t testing.TB, docs [][]string) *lexical.Index {
	return lexical.New(searchtest.OpenSide(t, docs))
}

// zipf gives documents whose words are spread as in language.
func zipf(r *rand.Rand, docs, vocabulary, length int) [][]string {
	z, out := rand.NewZipf(r, 1.1, 2, uint64(vocabulary-1)), make([][]string, docs)
	for i := range out {
		for range 1 + r.IntN(2*length) {
			out[i] = append(out[i], fmt.Sprint("t", z.Uint64()))
		}
	}
	return out
}

// inOrder returns the n best hits by the scores of all documents, each summed by itself.
func inOrder(index *lexical.Index, terms []string, docs, n int) []lexical.Hit {
	all := make([]uint32, docs)
	for i := range all {
		all[i] = uint32(i)
	}
	var hits []lexical.Hit
	for i, score := range index.ScoreRows(terms, all) {
		if score > 0 {
			hits = append(hits, lexical.Hit{Doc: uint32(i), Score: score})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].Score > hits[j].Score })
	return hits[:min(n, len(hits))]
}

func TestOverManyWindowsNoBitOfAScoreDiffersFromItsOwnSum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const documents = 40_000 // of several windows, in which lists and windows are left out
	docs := zipf(r, documents, 4000, 6)
	index := build(t, docs)
	for range 12 {
		terms, n := ask(r, docs, 40), 1+r.IntN(120)
		got, want := index.Search(terms, n, nil, nil), inOrder(index, terms, documents, n)
		require.True(t, slices.Equal(got, want), "%d best for %v:\n%v, want\n%v", n, terms, got, want)
	}
}

func TestWorkersBesideEachOtherFindWhatOneFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const documents = 60_000
	docs := make([][]string, documents) // with so many postings that several workers share them
	for i := range docs {
		for range 7 {
			docs[i] = append(docs[i], fmt.Sprint("t", r.IntN(9)))
		}
	}
	index := build(t, docs)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	terms := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"}
	for _, n := range []int{1, 100, 5000} { // most scores are equal
		want, got := inOrder(index, terms, documents, n), index.Search(terms, n, nil, nil)
		require.True(t, slices.Equal(got, want), "%d best: they differ", n)
		every := func(uint32) bool { return true } // one worker alone
		got = index.Search(terms, n, every, nil)
		require.True(t, slices.Equal(got, want), "%d best by one worker: they differ", n)
	}
}

// The words of real pages in four languages are found in other forms by the language, and not by plain words: line n of
// the questions asks for line n of the pages.
func TestPagesAreFoundByTheirLanguageBetterThanByPlainWords(t *testing.T) {
	lines := func(name string) []string {
		raw := musttest.Get(os.ReadFile(filepath.Join("testdata", "pages", name)))(t)
		return strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
	for _, code := range []string{"de", "fr", "es", "pt"} {
		pages, questions := lines(code+".txt"), lines(code+".questions.txt")
		require.Len(t, questions, 10)
		reciprocal := func(language *text.Language) (sum float64) {
			var terms [][]string
			for _, page := range pages {
				terms = append(terms, language.Terms(page))
			}
			index := build(t, terms)
			for i, question := range questions {
				for rank, hit := range index.Search(language.Terms(question), len(pages), nil, nil) {
					if int(hit.Doc) == i {
						sum += 1 / float64(rank+1)
					}
				}
			}
			return sum / float64(len(questions))
		}
		plain, english, own := reciprocal(text.LanguageOf(text.Undetermined)), reciprocal(text.LanguageOf("en")), reciprocal(text.LanguageOf(code))
		assert.False(t, own < plain+0.1 || own < english || own < 0.85,
			"%s: %.3f, by plain words %.3f, as English %.3f", code, own, plain, english)
	}
}

// layout is a corpus in sides: rows of live and of dead documents.
type layout struct {
	live  [][]string // by key
	sides [][][]string
	key   [][]int // of the rows of each side; -1 = dead
}

// cut spreads a corpus over sides, at random or run by run, among documents that are dead.
func cut(r *rand.Rand, live, dead [][]string, sides int) layout {
	out := layout{live: live, sides: make([][][]string, sides), key: make([][]int, sides)}
	inRuns := r.IntN(2) == 0
	few := 1 + r.IntN(sides) // most go to some of them
	type row struct {
		key   int
		terms []string
	}
	var rows []row
	for key, terms := range live {
		rows = append(rows, row{key, terms})
	}
	for _, terms := range dead {
		rows = slices.Insert(rows, r.IntN(len(rows)+1), row{-1, terms})
	}
	for i, row := range rows {
		side := r.IntN(few)
		if inRuns {
			side = (sides - 1) - i*sides/len(rows) // the last keys lie in the first side
		} else if r.IntN(10) == 0 {
			side = r.IntN(sides)
		}
		out.sides[side] = append(out.sides[side], row.terms)
		out.key[side] = append(out.key[side], row.key)
	}
	return out
}

// composed opens the layout with its bitmaps, and what the dead count, which is gathered side by side.
func (l layout) composed(t testing.TB) (index *lexical.Index, keys []int) {
	var parts []lexical.Part
	var changes []deletedstats.Change
	for i, docs := range l.sides {
		part := lexical.Part{Side: searchtest.OpenSide(t, docs)}
		keys = append(keys, l.key[i]...)
		if slices.Contains(l.key[i], -1) {
			var content bytes.Buffer
			of := deletions.Of{Segment: fmt.Sprint(i), Unit: deletions.Classes, Rows: len(docs)}
			dead := func(row int) bool { return l.key[i][row] < 0 }
			require.NoError(t, deletions.Write(&content, of, dead))
			bitmap := musttest.Get(deletions.Open(scratchtest.WriteFile(t, content.Bytes()), of))(t)
			t.Cleanup(bitmap.Close)
			part.Dead = bitmap
			changes = append(changes, deletedstats.Count(part.Side, bitmap.IsDead))
		}
		parts = append(parts, part)
	}
	index = musttest.Get(lexical.Compose(parts, counted(t, changes...)))(t)
	return index, keys
}

func counted(t testing.TB, changes ...deletedstats.Change) *deletedstats.File {
	var content bytes.Buffer
	of := deletedstats.Of{Side: "classes", Analyser: "test"}
	require.NoError(t, deletedstats.Write(&content, of, nil, changes...))
	dead := musttest.Get(deletedstats.Open(scratchtest.WriteFile(t, content.Bytes()), of))(t)
	t.Cleanup(dead.Close)
	return dead
}

// same fails where any answer of the composed index differs in a bit from that of one side of the live rows.
func same(t *testing.T, r *rand.Rand, one, many *lexical.Index, keys []int, terms []string) {
	rank := func(row uint32) uint32 { return uint32(keys[row]) }
	n := []int{1, 3, 10, 100, 5000}[r.IntN(5)]
	var allowKey, allowRow func(uint32) bool
	if r.IntN(4) == 0 {
		keep := uint32(2 + r.IntN(5))
		allowKey = func(key uint32) bool { return key%keep == 0 }
		allowRow = func(row uint32) bool { return allowKey(uint32(keys[row])) } // a dead row is not asked about
	}
	want, got := one.Search(terms, n, allowKey, nil), many.Search(terms, n, allowRow, rank)
	var wanted, found []uint32
	for i := range max(len(want), len(got)) {
		require.True(t, i < len(want) && i < len(got) && int(want[i].Doc) == keys[got[i].Doc] &&
			math.Float64bits(want[i].Score) == math.Float64bits(got[i].Score),
			"%d best for %v, from place %d:\nof sides %v\nof one   %v", n, terms, i, got[i:], want[i:])
		wanted, found = append(wanted, want[i].Doc), append(found, got[i].Doc)
	}
	for i, score := range many.ScoreRows(terms, found) {
		require.True(t, math.Float64bits(score) == math.Float64bits(got[i].Score),
			"%v: row %d alone has %v, in the search %v", terms, found[i], score, got[i].Score)
	}
	require.Equal(t, fmt.Sprint(one.Holds(terms, wanted)), fmt.Sprint(many.Holds(terms, found)), "%v", terms)
	for _, term := range terms {
		require.True(t, math.Float64bits(one.Weight(term)) == math.Float64bits(many.Weight(term)),
			"%s weighs %v, of one side %v", term, many.Weight(term), one.Weight(term))
	}
	require.True(t, one.HasAnyTerm(terms) == many.HasAnyTerm(terms) && one.UnknownWeight() == many.UnknownWeight() &&
		one.Totals() == many.Totals(),
		"%v: known %v, unknown %v, totals %v", terms, many.HasAnyTerm(terms), many.UnknownWeight(), many.Totals())
}

// byFormula fails where a score of the composed index differs in a bit from the formula over the live documents, which
// goes by neither lists nor sums over sides.
func byFormula(t *testing.T, live [][]string, many *lexical.Index, keys []int, terms []string) {
	total, df := 0, map[string]int{}
	for _, doc := range live {
		total += len(doc)
		for _, term := range slices.Compact(slices.Sorted(slices.Values(doc))) {
			df[term]++
		}
	}
	hits, found := many.Search(terms, len(keys), nil, nil), map[int]float64{}
	for i, hit := range hits {
		require.True(t, i == 0 || hits[i-1].Score >= hit.Score, "%v: scores rise", terms)
		found[keys[hit.Doc]] = hit.Score
	}
	average := float64(total) / float64(len(live))
	for key, doc := range live {
		counts, score := map[string]int{}, 0.0
		for _, held := range doc {
			counts[held]++
		}
		for _, term := range terms {
			if counts[term] > 0 {
				holding := float64(df[term])
				idf := math.Log(1 + (float64(len(live))-holding+0.5)/(holding+0.5))
				score += float64(idf * float64(postings.Weight(uint8(min(counts[term], 255)), uint32(len(doc)), average)))
			}
			delete(counts, term) // counts once
		}
		require.Equal(t, math.Float64bits(found[key]), math.Float64bits(score), "%v %v %v", terms, found[key], score)
	}
}

func ask(r *rand.Rand, docs [][]string, most int) []string {
	var terms []string
	for range 1 + r.IntN(most) {
		if doc := docs[r.IntN(len(docs))]; len(doc) > 0 {
			terms = append(terms, doc[r.IntN(len(doc))])
		}
	}
	return append(terms, "no-such-term")
}

// lengthened makes some stretch of the corpus long, so that sides differ in their average.
func lengthened(r *rand.Rand, docs [][]string) [][]string {
	from := r.IntN(len(docs))
	for i := from; i < min(len(docs), from+len(docs)/4+1); i++ {
		for range r.IntN(5) {
			docs[i] = append(docs[i], docs[i]...)
		}
	}
	return docs
}

// Promises: 81.
func TestManySidesAnswerToTheLastBitAsOneOfTheLiveRows(t *testing.T) {
	corpora, r := longtest.Count(10, 40), rand.New(rand.NewPCG(14, 1))
	for corpus := range corpora {
		vocabulary := []int{5, 60, 3000}[corpus%3]
		live := lengthened(r, zipf(r, 1+r.IntN(1200), vocabulary, 12))
		dead := lengthened(r, zipf(r, 1+r.IntN(300), vocabulary+50, 12)) // some terms only the dead hold
		if corpus%5 == 0 {
			dead = nil
		}
		one := lexical.New(searchtest.OpenSide(t, live))
		many, keys := cut(r, live, dead, 1+r.IntN(64)).composed(t)
		for range 5 { // of no more terms than are looked up
			byFormula(t, live, many, keys, ask(r, live, lexical.MaxTerms))
		}
		for range 80 {
			same(t, r, one, many, keys, ask(r, append(slices.Clip(live), dead...), []int{2, 12, 60}[r.IntN(3)]))
		}
	}
}

// Promises: 81.
func TestManySidesOfManyWindowsAnswerAsOneWithWorkersBesideEachOther(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	r := rand.New(rand.NewPCG(14, 2))
	const documents = 60_000
	live := zipf(r, documents, 50, 8) // several workers share so many postings, most scores are equal to others
	dead, one := zipf(r, documents/5, 50, 14), lexical.New(searchtest.OpenSide(t, live))
	for _, sides := range []int{1, 2, 7} {
		many, keys := cut(r, live, dead, sides).composed(t)
		for range 15 {
			same(t, r, one, many, keys, ask(r, live, 12))
		}
	}
}

// Promises: 81.
func TestQuestionsBesideEachOtherThatTakeEachOthersRememberedWordsAnswerAsOneSide(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 3))
	live, dead := zipf(r, 2000, 20_000, 12), zipf(r, 200, 20_000, 12) // more words than are remembered
	one := lexical.New(searchtest.OpenSide(t, live))
	many, _ := cut(r, live, dead, 40).composed(t)
	var asking sync.WaitGroup
	for asker := range 4 {
		r := rand.New(rand.NewPCG(14, uint64(4+asker%2))) // two and two ask the same
		asking.Go(func() {
			for range 400 {
				terms := ask(r, live, 12)
				want, got := one.Search(terms, 10, nil, nil), many.Search(terms, 10, nil, nil)
				for i := range max(len(want), len(got)) {
					if i >= len(want) || i >= len(got) || want[i].Score != got[i].Score {
						t.Errorf("%v: of sides %v, of one %v", terms, got, want)
						return
					}
				}
				for _, term := range terms {
					if one.Weight(term) != many.Weight(term) {
						t.Errorf("%s weighs %v, of one side %v", term, many.Weight(term), one.Weight(term))
						return
					}
				}
			}
		})
	}
	asking.Wait()
}

func TestRowsAndTermsThatAreDeadAreNotThere(t *testing.T) {
	side := searchtest.OpenSide(t, [][]string{{"gone", "a"}, {"a", "b"}})
	of := deletions.Of{Segment: "s", Unit: deletions.Classes, Rows: 2}
	var content bytes.Buffer
	require.NoError(t, deletions.Add(&content, of, nil, []uint32{0}))
	bitmap := musttest.Get(deletions.Open(scratchtest.WriteFile(t, content.Bytes()), of))(t)
	defer bitmap.Close()
	parts := []lexical.Part{{Side: searchtest.OpenSide(t, nil)}, {Side: side, Dead: bitmap}, {Side: searchtest.OpenSide(t, [][]string{{"c"}})}}
	index := musttest.Get(lexical.Compose(parts, counted(t, deletedstats.Count(side, bitmap.IsDead))))(t)
	assert.True(t, !index.HasAnyTerm([]string{"gone"}) && index.Weight("gone") == 0 &&
		len(index.Search([]string{"gone"}, 9, nil, nil)) == 0, "a term that only a dead row holds is known")
	hits := index.Search([]string{"a", "c"}, 9, nil, nil)
	assert.True(t,
		len(hits) == 2 && hits[0].Doc == 2 && hits[1].Doc == 1 && index.FirstRow(1) == 0 && index.FirstRow(2) == 2, "hits %v",
		hits)
	scores := index.ScoreRows([]string{"a"}, []uint32{0, 1, 2, 99})
	assert.True(t, scores[0] == 0 && scores[1] != 0 && scores[3] == 0,
		"scores %v: of a dead row, a live one, one without the term, and none", scores)
	assert.Equal(t, "[[false true false]]", fmt.Sprint(index.Holds([]string{"a"}, []uint32{0, 1, 99})), "held by")
	for name, wrong := range map[string]func() (*lexical.Index, error){
		"nothing counted": func() (*lexical.Index, error) { return lexical.Compose(parts, nil) },
		"nothing dead": func() (*lexical.Index, error) {
			return lexical.Compose(parts[:1], counted(t, deletedstats.Count(side, nil)))
		},
		"another bitmap": func() (*lexical.Index, error) {
			return lexical.Compose([]lexical.Part{{Side: parts[2].Side, Dead: bitmap}}, nil)
		},
	} {
		musttest.Code(t, musttest.Err(wrong()), fault.SegmentDamage, name)
	}
}

// Promises: 127.
func TestScoresOfAllRowsAreThoseOfASearchToTheLastBit(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 2))
	for corpus := range 12 {
		live := lengthened(r, zipf(r, 1+r.IntN(600), []int{5, 60, 3000}[corpus%3], 12))
		dead := lengthened(r, zipf(r, 1+r.IntN(100), 60, 12))
		many, keys := cut(r, live, dead, 1+r.IntN(30)).composed(t)
		for range 20 {
			terms := ask(r, append(slices.Clip(live), dead...), []int{2, 12, 60}[r.IntN(3)])
			scores, found := many.ScoreAll(terms), map[uint32]float64{}
			for _, hit := range many.Search(terms, len(keys), nil, nil) {
				found[hit.Doc] = hit.Score
			}
			for row, key := range keys {
				require.True(t, key < 0 || math.Float64bits(scores.ScoreOf(uint32(row))) == math.Float64bits(found[uint32(row)]),
					"%v: row %d has %v, in the search %v", terms, row, scores.ScoreOf(uint32(row)), found[uint32(row)])
			}
			require.Zero(t, scores.ScoreOf(uint32(len(keys)+64)), "a row that is not there has a score")
		}
	}
}
