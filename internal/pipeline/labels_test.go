package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	answering "github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/model/rerank"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/longtest"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// labelled is a history whose documents have labels.
type labelled struct{ *history }

// labels of documents: as front matter says, or a rule by folder where it says nothing.
var labels = []string{"", "", "labels: public", "labels: [hr, board]", "labels: [hr]", "labels: [legal]", "labels: []"}

// relabel writes a document of random labels, or another one's text under others.
func (h labelled) relabel(t *testing.T, key, content string) {
	if _, body, ok := strings.Cut(content, "\n---\n"); ok {
		content = body
	}
	if front := pick(h.random, labels); front != "" {
		content = "---\n" + front + "\n---\n" + content
	}
	h.put(t, key, content)
}

// change does what history.change does, and gives some documents other labels.
func (h labelled) change(t *testing.T) {
	h.history.change(t)
	for range 2 {
		key := pick(h.random, h.keys())
		h.relabel(t, key, h.files[key])
	}
}

// readableAlone returns a site over what readers may read, which has built nothing yet; nil where that is nothing.
func (h labelled) readableAlone(t *testing.T, from *retrieve.Generation, readers core.Readers) *site {
	view := must(from.View(t.Context(), readers))(t)
	files := map[string]string{}
	documents, _, _ := view.Live.Counts()
	if documents == 0 { // of nothing no index is built
		result := must(retrieve.Searcher{Methods: methods.Registry()}.Run(t.Context(), view, retrieve.Query{Method: "bm25"}))(t)
		require.Equal(t, retrieve.EmptyIndex, result.Reason)
		return nil
	}
	for i := range documents {
		files[view.Live.Key(i)] = h.files[view.Live.Key(i)]
	}
	alone := &history{site: h.site, files: files}
	return alone.freshSite(t)
}

// testModels embeds questions as a steady site embeds passages.
type testModels struct{}

func (testModels) Chat(core.Spec, string) (model.Chat, error) { return builtin.Chat{}, nil }
func (testModels) Ranker(core.Spec) (rerank.Ranker, error)    { return nil, nil }
func (testModels) Embedder(core.Spec, string, int) (model.Embedder, error) {
	return &stagetest.Embedder{Dim: 8, Free: true}, nil
}

type freeCaller struct{}

func (freeCaller) ID() string                                        { return "" }
func (freeCaller) AdmitAnswer(context.Context, int64, float64) error { return nil }
func (freeCaller) AdmitCall() error                                  { return nil }
func (freeCaller) Spend(int64, float64)                              {}

// capped is a store that gives few rows at once, as Milvus does.
type capped struct {
	vectors.Store
	most int
}

func (c capped) Search(ctx context.Context, name string, question []float32, n int) ([]vectors.Hit, error) {
	if stored, err := c.Count(ctx, name); err != nil || int64(n) > stored {
		return nil, fmt.Errorf("asked for %d of %d rows: few are fetched, %w", n, stored, err)
	}
	return c.Store.Search(ctx, name, question, min(n, c.most))
}

// answersAs returns what readers of a generation get by every method, and what they see of it in lists and pages, as
// JSON without times and the name of the generation.
func answersAs(
	t *testing.T, s *site, found vectors.Store, view *retrieve.Generation, questions []string,
) []string {
	searcher := retrieve.Searcher{Vectors: found, Records: s.Records, Methods: methods.Registry()}
	service := answering.New(testModels{}, searcher, slog.New(slog.DiscardHandler))
	var out []string
	add := func(v any) { out = append(out, string(must(json.Marshal(v))(t))) }
	for _, method := range retrievetest.ListPlain() {
		for _, question := range questions {
			got, err := service.Ask(t.Context(), view, answering.Request{
				Query: question, Method: method, Explain: true, Answer: true,
			}, freeCaller{}, nil)
			require.NoError(t, err, method)
			got.Generation, got.Release, got.Timings = "", nil, answering.Timings{}
			add(got)
		}
	}
	documents, _, _ := view.Live.Counts()
	for _, one := range must(view.ReadDocuments(t.Context(), 0, documents))(t) {
		add([]any{one.Title, one.Meta, one.Version, one.Chunks})
	}
	add(view.ListTypes())
	add(view.Manifest.Counts)
	classes, _, err := view.ListClasses(t.Context(), retrieve.Names{ByChunks: true}, 0, 1000)
	require.NoError(t, err)
	for _, class := range classes {
		place := uint32(view.Live.ClassPlace(class.ID))
		records := must(searcher.ClassRecords(t.Context(), view, view.Live.RowsOfClass(place)))(t)
		add([]any{class, view.Live.Mentions(place), view.Live.Name(int(class.Name)), records})
	}
	return out
}

// Whatever is in an index, and however it changes, its readers get what an index of the documents that they may read
// would give them, byte for byte.
// Promises: 170.
func TestReadersGetWhatAnIndexOfWhatTheyMayReadGivesThem(t *testing.T) {
	seeds, nights := longtest.Count(1, 6), longtest.Count(3, 25)
	for seed := range uint64(seeds) {
		h := labelled{newHistory(t, rand.New(rand.NewPCG(1+seed, 38)), 0)}
		h.spec.Documents = &core.Documents{Labels: core.Labels{
			Field: "labels", Rules: []string{"salt/**=legal", "t*/**=hr", "**=public"},
		}}
		for range 12 {
			h.add(t)
			key := h.keys()[h.random.IntN(len(h.files))]
			h.relabel(t, key, h.files[key])
		}
		for night := range nights {
			if night > 0 {
				h.change(t)
			}
			h.night(t)
			most := []int{5, 1_000_000}[night%2]
			sameAsAlone(t, h, capped{h.Vectors, most}, fmt.Sprintf("seed %d, night %d", seed, night))
		}
	}
}

func sameAsAlone(t *testing.T, h labelled, found vectors.Store, when string) {
	questions := []string{questionOf(h.random), questionOf(h.random), "What is in " + pick(h.random, places) + "?"}
	whole := openGeneration(t, h.site)
	defer whole.Close()
	assert.ErrorContains(t, ask(t.Context(), h.site, whole, questions[0]), "opened for no reader")
	seen := map[int]bool{}
	for _, labels := range [][]string{nil, {"hr"}, {"board", "legal"}, {core.AnyLabel}} {
		readers := core.ReadersOf(labels)
		alone := h.readableAlone(t, whole, readers)
		if alone == nil {
			continue
		}
		alone.night(t)
		other := openGeneration(t, alone)
		got := answersAs(t, h.site, found, must(whole.View(t.Context(), readers))(t), questions)
		want := answersAs(t, alone, alone.Vectors, must(other.View(t.Context(), readers))(t), questions)
		require.Equal(t, len(want), len(got), "%s, %v", when, readers)
		for i := range want {
			at := 0
			for at < min(len(want[i]), len(got[i])) && want[i][at] == got[i][at] {
				at++
			}
			require.True(t, got[i] == want[i], "%s, %v, response %d at byte %d: …%.300s\nwant …%.300s", when, readers, i, at,
				got[i][max(0, at-100):], want[i][max(0, at-100):])
		}
		seen[int(alone.current(t).Counts.Documents)] = true
		other.Close()
	}
	require.Greater(t, len(seen), 1, "%s: readers see the same documents", when)
}

func ask(ctx context.Context, s *site, generation *retrieve.Generation, question string) error {
	searcher := retrieve.Searcher{Vectors: s.Vectors, Records: s.Records, Methods: methods.Registry()}
	_, err := searcher.Run(ctx, generation, retrieve.Query{Text: question, Method: "bm25"})
	return err
}

// Another right to read pays for no extraction: neither labels that come, nor a changed document, nor a changed rule.
// Another name of a label pays for nothing at all.
func TestAChangedLabelPaysForNoExtraction(t *testing.T) {
	s := newSite(t, sample(12))
	s.write(t, map[string]string{"table.csv": "id,text\n1,Zurich is in Switzerland.\n"})
	sold := paying(s)
	s.spec.Gate.MaxRemoved = 1
	s.night(t)
	sold.sold(nil)
	rules := func(rules ...string) func() {
		return func() {
			s.spec.Documents = &core.Documents{Labels: core.Labels{Field: "labels", Rules: rules}}
		}
	}
	for _, change := range []struct {
		name string
		do   func()
		free bool
	}{
		{"a rule", rules("place-00*=hr", "**=public"), false},
		{"another name", rules("place-00*=staff,board", "**=public"), true},
		{"another rule", rules("place-001*=board", "**=public"), false},
		{"a document", func() { s.write(t, map[string]string{"place-005.md.meta.json": `{"labels": ["legal"]}`}) }, false},
	} {
		before, texts := s.current(t).Generation, maps.Clone(sold.texts)
		change.do()
		expected := estimated(t, s.estimating()).Estimate
		out := s.night(t)
		require.NotEqual(t, before, out.manifest.Generation, change.name)
		extract, shorten, embed, twice := sold.sold(texts)
		assert.True(t, extract == 0 && twice == 0, "%s paid for %d chunks, and for %d texts twice", change.name, extract, twice)
		assert.True(t, expected.Extract.High == 0 && (change.free || expected.Shorten.High > 0 && expected.Embed.High > 0),
			"%s: expected %+v", change.name, expected)
		assert.Equal(t, change.free, shorten+embed == 0, "%s paid for %d texts and %d vectors", change.name, shorten, embed)
	}
	before := s.current(t).Generation
	s.write(t, map[string]string{"table.csv.meta.json": `{"labels": ["hr"]}`})
	require.NotEqual(t, before, s.night(t).manifest.Generation, "labels beside a table")
	extract, _, _, _ := sold.sold(map[string]int{})
	assert.Zero(t, extract)
	assert.True(t, s.current(t).Labelled)
	whole := openGeneration(t, s)
	defer whole.Close()
	view := must(whole.View(t.Context(), core.Readers{}))(t)
	keys := map[string]bool{view.ViewKey(): true}
	for _, labels := range [][]string{{"nothing"}, {"hr"}, {"hr", "nothing"}, {core.AnyLabel}} {
		keys[must(whole.View(t.Context(), core.ReadersOf(labels)))(t).ViewKey()] = true
	}
	assert.True(t, len(keys) == 3 && len(view.ViewKey()) == 64, "who may read the same shares a view: %q", keys)
	assert.Negative(t, view.Live.FindDocument("place-005.md"))
	assert.Negative(t, view.Live.FindDocument("table.csv#1"))
}

// Too many sets of labels are refused before anything is paid; documents without labels are reported each night.
func TestLabelsAreCountedBeforeAnythingIsPaid(t *testing.T) {
	table := func(from, to int) string {
		out := "id,text,labels\n"
		for i := from; i < to; i++ {
			out += fmt.Sprintf("%d,Zurich is in Switzerland.,group %d\n", i, i)
		}
		return out
	}
	for _, tables := range [][]string{{table(0, 1001)}, {table(0, 600), table(500, 1001)}} {
		s := newSite(t, map[string]string{"a.md": "# Rome\n\nRome is in Italy.\n", "b.md": "# Bern\n\nBern has bears.\n"})
		s.spec.Documents = &core.Documents{Labels: core.Labels{Field: "labels"}}
		sold := paying(s)
		for i, rows := range tables {
			for range i + 1 {
				s.night(t)
				assert.Contains(t, fmt.Sprint(s.report(t).Problems), "nobody may read 2 documents")
			}
			s.write(t, map[string]string{fmt.Sprintf("%d.csv", i): rows})
		}
		sold.sold(nil)
		_, err := s.try(t, &how{})
		refuses(t, err, fault.TooLarge, fmt.Sprintf("%d.csv#", len(tables)-1), "too many sets")
		extract, _, _, _ := sold.sold(nil)
		assert.Zero(t, extract)
	}
}

func TestAPurgedDocumentWithLabelsLeavesEverythingThatIsStored(t *testing.T) {
	rules := func(rules ...string) *core.Documents {
		return &core.Documents{Labels: core.Labels{Rules: append(rules, "**=public")}}
	}
	on := rules("secret*=hr,board")
	for name, nights := range map[string][]*core.Documents{
		"one night": {on}, "turned on": {nil, on}, "turned off": {on, nil},
		"other rules": {rules("secret2*=hr", "secret*=legal"), on},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPaidSite(t, 12, calm)
			files := map[string]string{"secret.md": secretDocument(0)}
			if len(nights) > 1 { // a long text of the class, which a model shortens
				files["secret2.md"] = "# The opal ledger of Quastenberg\n\n" +
					strings.Repeat("The opal ledger of Quastenberg holds much that nobody may know of Carla Ruiz. ", 30)
				files["open.md"] = "# The opal ledger of Quastenberg\n\n" +
					strings.Repeat("The opal ledger of Quastenberg is in a museum that all may visit on Sundays. ", 30)
			}
			s.write(t, files)
			for _, s.spec.Documents = range nights {
				expected := fmt.Sprint(estimated(t, s.estimating()).Problems)
				out := s.night(t)
				held := out.published.Reason == publish.LabelsOff
				require.Equal(t, name == "turned off" && s.spec.Documents == nil, held, "held")
				require.Equal(t, held, strings.Contains(expected, publish.LabelsOff), expected)
				if held {
					must(s.act(t, core.ActionPublish, fmt.Sprintf("g%03d", s.site.runs)))(t)
				}
			}
			if len(nights) == 1 {
				require.GreaterOrEqual(t, len(s.holding(t, secrets...)), 6)
			}
			s.purge(t, slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(key string) bool { return key == "open.md" })...)
			s.night(t)
			assert.Empty(t, s.holding(t, secrets...), "still stored")
		})
	}
}
