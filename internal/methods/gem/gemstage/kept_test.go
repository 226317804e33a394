package gemstage_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/methods/gem/gemstage"
	"github.com/unweaver/unweaver/internal/methods/gem/spectral"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

// before opens what was made as a later build does.
func before(t *testing.T, sealed gemstage.Sealed) *gemstage.Before {
	t.Helper()
	var raw bytes.Buffer
	if err := sealed.Graph.Write(&raw); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "spectral")
	if err := os.WriteFile(path, raw.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := spectral.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.Close)
	return &gemstage.Before{Themes: sealed.Themes, Graph: file}
}

func TestASpectrumIsKeptUpToAShareOfChanges(t *testing.T) {
	store := blobmemory.New()
	chunks := chunksOf(60)
	in := maker(store, builtin.Chat{}, builtin.Embedder{})
	in.Settings.Respectrum = 0.1
	_, first := seal(t, in, chunks)
	if !strings.HasPrefix(first.Why, "computed: there is none before") || first.Counts.Nodes != 60 {
		t.Fatalf("%q, %+v", first.Why, first.Counts)
	}
	gone := first.Themes.Themes[0].Members[0].Chunk // a member goes, and two chunks come
	changed := slices.DeleteFunc(slices.Clone(chunks), func(c gemstage.Chunk) bool { return c.ID.String() == gone })
	changed = append(changed, chunksOf(62)[60:]...)
	in.Before = before(t, first)
	_, second := seal(t, in, changed)
	want := "kept: 2 chunks came and 1 went since it was computed of 60, 5.0 %; gem.respectrum allows 10.0 %"
	if second.Why != want || second.Counts.Changed != 3 || second.Counts.Nodes != 60 ||
		!slices.Equal(second.Themes.Values, first.Themes.Values) || second.Themes.Nodes != 60 {
		t.Fatalf("%q, %+v", second.Why, second.Counts)
	}
	for i, id := range second.Graph.Chunks {
		was := in.Before.Graph.Find(id)
		if (second.Graph.Known[i] == 1) != (was >= 0) {
			t.Errorf("chunk %v is known: %d, before at %d", id, second.Graph.Known[i], was)
		}
		for k := range second.Graph.Pairs {
			x := float32(0)
			if was >= 0 {
				x = first.Graph.Vector(k)[was]
			}
			if second.Graph.Vector(k)[i] != x {
				t.Errorf("component %d of %v is %v, was %v", k, id, second.Graph.Vector(k)[i], x)
			}
		}
		if from, to := second.Graph.Starts[i], second.Graph.Starts[i+1]; from == to {
			t.Errorf("chunk %v has no edge", id)
		}
	}
	for _, member := range second.Themes.Themes[0].Members {
		if member.Chunk == gone {
			t.Error("a chunk that is gone is a member")
		}
	}
	in.Before = before(t, second) // changes add up: against the spectrum, not against the generation before
	_, third := seal(t, in, append(slices.Clone(changed), chunksOf(66)[62:]...))
	if third.Why != "computed: 6 chunks came and 1 went since it was computed of 60, 11.7 %; "+
		"gem.respectrum allows 10.0 %" {
		t.Errorf("%q", third.Why)
	}
	in.Before, in.Settings.Respectrum = before(t, second), 0
	always, fresh := seal(t, in, changed)
	in.Before = nil
	nothing, _ := seal(t, in, changed)
	if always != nothing || !strings.HasPrefix(fresh.Why, "computed: gem.respectrum is 0") {
		t.Errorf("%q, equal %v", fresh.Why, always == nothing)
	}
}

// Above the size up to which every edge counts, the kept graph is extended by the chunks that came.
func TestAGraphOfNearestChunksIsKeptAndExtended(t *testing.T) {
	in := maker(blobmemory.New(), builtin.Chat{}, &stagetest.Embedder{Dim: 16})
	in.Settings.Respectrum, in.Settings.Neighbours = 0.1, 6
	chunks := chunksOf(2010)
	_, first := seal(t, in, chunks[:2005])
	if first.Themes.Graph != "nearest" {
		t.Fatal(first.Themes.Graph)
	}
	in.Before = before(t, first)
	_, kept := seal(t, in, chunks)
	in.Before = nil
	_, anew := seal(t, in, chunks)
	if !strings.HasPrefix(kept.Why, "kept: 5 chunks came") {
		t.Fatal(kept.Why)
	}
	nodes := len(kept.Graph.Chunks) // edges of chunks; those of summaries are of other themes
	for i := range nodes {
		got, want := chunksAt(kept.Graph, i, nodes), chunksAt(anew.Graph, i, nodes)
		if !slices.Equal(got, want) {
			t.Fatalf("chunk %d is joined to %v, anew to %v", i, got, want)
		}
	}
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
	in.Settings = core.Gem{Questions: 3, Themes: 2, Neighbours: 4}
	counts, err := in.Pay(t.Context(), listed(chunks[:1]))
	if err != nil || counts.Paid != 1 || !strings.Contains(systems[0], "exactly 3 different questions") ||
		!strings.Contains(systems[0], `{"questions":["...","...","..."]}`) {
		t.Fatalf("%+v (%v): %s", counts, err, systems)
	}
	_, sealed := seal(t, in, chunks)
	if sealed.Counts.Questions != 120 || len(sealed.Themes.Themes) > 2 || len(sealed.Themes.Values) != 3 {
		t.Errorf("%+v, %d values", sealed.Counts, len(sealed.Themes.Values))
	}
	edges := 0
	for i := range sealed.Graph.Chunks {
		edges += len(chunksAt(sealed.Graph, i, 40))
	}
	if edges > 2*4*40 || edges < 4*40 {
		t.Errorf("%d ends of edges", edges)
	}
	paid := len(chat.Calls())
	in.Settings.Questions = 0
	_, none := seal(t, in, chunks)
	if none.Counts.Fallbacks != 40 || none.Counts.Failed != 0 || none.Counts.Questions != 0 {
		t.Errorf("%+v", none.Counts)
	}
	if more := len(chat.Calls()) - paid; more > len(none.Themes.Themes) { // summaries alone
		t.Errorf("%d calls for no questions", more)
	}
}

// Chunks for which a model fails for ever are counted as such; those for which nobody has a question by rule are not.
func TestChunksWhoseQuestionsFailAreCounted(t *testing.T) {
	chunks := chunksOf(9)
	chat := &stagetest.Chat{Answer: func(call model.Call) (model.Reply, error) {
		if strings.Contains(call.Input, "River4 ") && call.Task == model.Extract {
			return model.Reply{Text: "no"}, nil
		}
		return asks(call)
	}}
	_, sealed := seal(t, maker(blobmemory.New(), chat, &stagetest.Embedder{Dim: 8}), chunks)
	if sealed.Counts.Failed != 1 || sealed.Counts.Fallbacks != 1 {
		t.Errorf("%+v", sealed.Counts)
	}
	for i := range chunks {
		chunks[i].Text = fmt.Sprintf("it rained %d times", i)
	}
	_, sealed = seal(t, maker(blobmemory.New(), builtin.Chat{}, builtin.Embedder{}), chunks)
	if sealed.Counts.Failed != 0 || sealed.Counts.Fallbacks != 9 {
		t.Errorf("%+v", sealed.Counts)
	}
}

// Fewer chunks than themes that are wanted, down to none at all.
func TestFewChunksHaveFewThemesOrNone(t *testing.T) {
	for n := range 9 {
		in := maker(blobmemory.New(), builtin.Chat{}, builtin.Embedder{})
		in.Settings.Themes = 50
		_, sealed := seal(t, in, chunksOf(n))
		if (sealed.Themes == nil) != (n < 4) || sealed.Counts.Themes > int64(n/4) || len(sealed.Graph.Chunks) != n {
			t.Errorf("%d chunks: %+v, %q", n, sealed.Counts, sealed.Why)
		}
		if err := sealed.Graph.Write(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	}
}
