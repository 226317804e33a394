package gemstage_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

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
	counts, err := in.Pay(t.Context(), listed(chunks[:1]))
	require.True(t, err == nil && counts.Paid == 1 && strings.Contains(systems[0], "exactly 3 different questions") &&
		strings.Contains(systems[0], `{"questions":["...","...","..."]}`), "%+v (%v): %s", counts, err, systems)
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
