package gemstage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/gemstage"
	"github.com/unweaver/unweaver/internal/methods/gem/questions"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	claims "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/text"
)

func chunksOf(n int) []enrich.Chunk {
	var out []enrich.Chunk
	for i := range n {
		content := fmt.Sprintf("River%d meets Town%d beside Mount%d.", i, i%7, i%3)
		chunk := enrich.Chunk{Document: fmt.Sprintf("doc-%03d", i/3), Ordinal: i % 3, Text: content}
		sum := core.Sum(chunk.Document, content)
		copy(chunk.ID[:], sum[:])
		out = append(out, chunk)
	}
	return out
}

// asks answers as a model that gives a question for each word, and summaries.
func asks(call model.Call) (model.Reply, error) {
	if call.Task == model.Shorten {
		return model.Reply{Text: `{"description":"Rivers meet towns."}`}, nil
	}
	var list []string
	for _, word := range strings.Fields(call.Input) {
		list = append(list, "What of "+word+"?")
	}
	raw, err := json.Marshal(map[string]any{"questions": list})
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 5}}, err
}

func maker(store blob.Store, chat model.Chat, embedder model.Embedder) gemstage.In {
	return gemstage.In{
		Language: text.LanguageOf("en"), Chat: chat, Summarizer: chat, Ledger: ledger.New(store, claims.New()),
		Embedder: embedder, Fingerprint: core.Sum("embedder"), Settings: gem.DefaultSettings,
	}
}

func seal(t *testing.T, in gemstage.In, chunks []enrich.Chunk) (string, gemstage.Sealed) {
	var out bytes.Buffer
	sealed := musttest.Get(in.Seal(t.Context(), scratchtest.Yield(chunks...), &out))(t)
	if sealed.Themes != nil {
		out.Write(musttest.Get(sealed.Themes.Encode())(t))
	}
	return out.String(), sealed
}

// Promises: 90.
func TestNightsPayForWhatChangedAndGiveTheBytesOfABuildFromNothing(t *testing.T) {
	store := blobmemory.New()
	chat, embedder := &stagetest.Chat{Answer: asks}, &stagetest.Embedder{Dim: 8}
	chunks, in := chunksOf(60), maker(store, chat, embedder)
	err := in.Pay(t.Context(), scratchtest.Yield(chunks...))
	require.True(t, err == nil && len(chat.Calls()) == 60, "%d calls (%v)", len(chat.Calls()), err)
	first, sealed := seal(t, maker(store, chat, embedder), chunks)
	themes := sealed.Counts.Themes
	paid := len(chat.Calls())
	require.True(t, sealed.Counts.Questions == 300 && themes != 0 && paid <= 60+2*int(themes) &&
		sealed.Counts.Fallbacks == 0, "%d calls, %+v", paid, sealed.Counts)
	requests, reversed := len(embedder.Requests()), slices.Clone(chunks)
	slices.Reverse(reversed)
	again, sealed := seal(t, maker(store, chat, embedder), append(reversed, chunks[:9]...))
	assert.True(t, again == first && len(chat.Calls()) == paid && len(embedder.Requests()) == requests,
		"another order: equal %v, %+v, %d requests more", again == first, sealed.Counts, len(embedder.Requests())-requests)
	changed := slices.Clone(chunks)
	changed[7].Text = "Lake7 froze in 1931."
	changed[7].ID[0] ^= 1
	in = maker(store, chat, embedder)
	err = in.Pay(t.Context(), scratchtest.Yield(changed...))
	require.NoError(t, err)
	assert.Len(t, chat.Calls(), paid+1, "a night of one change")
	night, _ := seal(t, in, changed)
	nothing, _ := seal(t, maker(blobmemory.New(), chat, embedder), changed)
	assert.True(t, night == nothing && night != first,
		"from nothing: equal %v; as before: %v", night == nothing, night == first)
}

// Promises: 90.
func TestAnswersOfNoUseHaveChunksComparedByTheirText(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   []string // questions of each chunk; nil: none, so its text
	}{
		"five":       {`{"questions":["a?","b?","c?","d?","e?"]}`, []string{"a?", "b?", "c?", "d?", "e?"}},
		"too many":   {`{"questions":["a?","b?","c?","d?","e?","f?"]}`, []string{"a?", "b?", "c?", "d?", "e?"}},
		"fewer":      {`{"questions":["a?"]}`, []string{"a?"}},
		"doubled":    {`{"questions":["A  b?"," a b?","","c?"]}`, []string{"A b?", "c?"}},
		"bare list":  {`Here: ["a?"]`, []string{"a?"}},
		"none":       {`{"questions":[]}`, nil},
		"no JSON":    {`I cannot.`, nil},
		"of numbers": {`{"questions":[1,2]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			chat := &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) {
				calls.Add(1)
				return model.Reply{Text: c.answer}, nil
			}}
			store := blobmemory.New()
			in, chunks := maker(store, chat, &stagetest.Embedder{Dim: 8}), chunksOf(2)
			raw, sealed := seal(t, in, chunks)
			fallbacks := sealed.Counts.Fallbacks
			assert.True(t, (fallbacks == 2) == (c.want == nil) && sealed.Themes == nil, "%+v", sealed.Counts)
			path := scratchtest.WriteFile(t, []byte(raw))
			file := musttest.Get(questions.Open(path, questions.Of{Embedder: in.Fingerprint.String(), Dimension: 8}))(t)
			defer file.Close()
			for _, chunk := range chunks {
				var got []string
				_, starts := file.FlatVectors()
				for q, at := starts[file.Find(chunk.ID)], file.Find(chunk.ID)+1; q < starts[at]; q++ {
					got = append(got, file.Text(int(q)))
				}
				want := c.want
				if want == nil {
					want = []string{chunk.Text}
				}
				assert.True(t, slices.Equal(got, want), "%q, want %q", got, want)
			}
			asked := calls.Load()
			again, _ := seal(t, maker(store, chat, &stagetest.Embedder{Dim: 8}), chunks)
			assert.True(t, again == raw && calls.Load() == asked,
				"%d calls more for the same (equal %v)", calls.Load()-asked, again == raw)
		})
	}
}

func TestRulesAskAndSummariseWithoutAModel(t *testing.T) {
	store := blobmemory.New()
	in, chunks := maker(store, builtin.Chat{}, builtin.Embedder{}), chunksOf(12)
	require.NoError(t, in.Pay(t.Context(), scratchtest.Yield(chunks...)))
	_, sealed := seal(t, in, chunks)
	require.True(t, sealed.Counts.Questions > 0 && sealed.Counts.Themes > 0,
		"%+v", sealed.Counts)
	for _, theme := range sealed.Themes.Themes {
		assert.True(t, theme.Summary != "" && len(theme.Questions) != 0 && len(theme.Members) != 0 && theme.Tokens != 0,
			"%+v", theme)
	}
	for i, residual := range sealed.Themes.Residuals {
		assert.True(t, residual <= 1e-6, "eigenvalue %v: residual up to %v", sealed.Themes.Values[i], residual)
	}
	for info, err := range store.List(t.Context(), "", "") {
		t.Errorf("rules wrote %s (%v)", info.Key, err)
	}
}

func TestAServerThatFailsStopsTheWork(t *testing.T) {
	chat := &stagetest.Chat{Answer: func(model.Call) (model.Reply, error) {
		return model.Reply{}, fault.ModelAuth.At("ask", "the model")
	}}
	in := maker(blobmemory.New(), chat, &stagetest.Embedder{Dim: 8})
	musttest.Code(t, in.Pay(t.Context(), scratchtest.Yield(chunksOf(3)...)), fault.ModelAuth)
}

func chunksAt(c spectral.Content, node, chunks int) []uint32 {
	to, _ := c.Edges(node)
	return slices.DeleteFunc(slices.Clone(to), func(j uint32) bool { return int(j) >= chunks })
}

func TestSettingsBoundQuestionsThemesAndNeighbours(t *testing.T) {
	chunks := chunksOf(40)
	var systems []string
	chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		if call.Task == model.Extract && len(systems) == 0 {
			systems = append(systems, call.System)
		}
		return asks(call)
	}}
	in := maker(blobmemory.New(), chat, &stagetest.Embedder{Dim: 8})
	in.Settings = gem.Settings{Questions: 3, Themes: 2, Neighbours: 4}
	err := in.Pay(t.Context(), scratchtest.Yield(chunks[:1]...))
	require.True(t, err == nil && len(chat.Calls()) == 1 &&
		strings.Contains(systems[0], "exactly 3 different questions") && strings.Contains(systems[0], `{"questions":["...","...","..."]}`), "%v: %s", err, systems)
	_, sealed := seal(t, in, chunks)
	assert.True(t, sealed.Counts.Questions == 120 && len(sealed.Themes.Themes) <= 2 && len(sealed.Themes.Values) == 3,
		"%+v, %d values", sealed.Counts, len(sealed.Themes.Values))
	edges := 0
	for i := range sealed.Graph.Chunks {
		edges += len(chunksAt(sealed.Graph, i, 40))
	}
	assert.True(t, edges <= 2*4*40 && edges >= 4*40, "%d ends of edges", edges)
	paid := len(chat.Calls())
	in.Settings.Questions = 0
	_, none := seal(t, in, chunks)
	assert.True(t, none.Counts.Fallbacks == 40 && none.Counts.Failed == 0 && none.Counts.Questions == 0,
		"%+v", none.Counts)
	more := len(chat.Calls()) - paid
	assert.True(t, more <= len(none.Themes.Themes), "%d calls for no questions", more) // summaries alone
}

// Chunks for which a model fails for ever are counted as such; those for which no rule finds a question are not.
func TestChunksWhoseQuestionsFailAreCounted(t *testing.T) {
	chunks := chunksOf(9)
	chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		if strings.Contains(call.Input, "River4 ") && call.Task == model.Extract {
			return model.Reply{Text: "no"}, nil
		}
		return asks(call)
	}}
	_, sealed := seal(t, maker(blobmemory.New(), chat, &stagetest.Embedder{Dim: 8}), chunks)
	assert.True(t, sealed.Counts.Failed == 1 && sealed.Counts.Fallbacks == 1, "%+v", sealed.Counts)
	for i := range chunks {
		chunks[i].Text = fmt.Sprintf("it rained %d times", i)
	}
	_, sealed = seal(t, maker(blobmemory.New(), builtin.Chat{}, builtin.Embedder{}), chunks)
	assert.True(t, sealed.Counts.Failed == 0 && sealed.Counts.Fallbacks == 9, "%+v", sealed.Counts)
}

// Fewer chunks than themes that are wanted, down to none at all.
func TestFewChunksHaveFewThemesOrNone(t *testing.T) {
	for n := range 9 {
		in := maker(blobmemory.New(), builtin.Chat{}, builtin.Embedder{})
		in.Settings.Themes = 50
		_, sealed := seal(t, in, chunksOf(n))
		assert.True(t, (sealed.Themes == nil) == (n < 4) && sealed.Counts.Themes <= int64(n/4) &&
			len(sealed.Graph.Chunks) == n, "%d chunks: %+v", n, sealed.Counts)
		assert.NoError(t, sealed.Graph.Write(&bytes.Buffer{}))
	}
}
