package gem_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/methods/gem"
)

func picture(t *testing.T) gem.Picture {
	t.Helper()
	nodes := random(60, 12, 3, 3, 21)
	g, err := nodes.NewNearest(gem.Nearest{Neighbours: 30})
	if err != nil {
		t.Fatal(err)
	}
	s := spectrum(t, g, gem.Options{Pairs: 5})
	p := gem.Picture{
		Params: map[string]string{"m": "3", "order": "algebraic"}, Spectrum: s, Graph: g, Distinct: gem.Distinctness(g),
		Themes: gem.Themes(s, gem.Choice{Count: 2}), Summaries: []int{60, -1},
	}
	for i := range 60 {
		p.Nodes = append(p.Nodes, gem.MapNode{
			ID: fmt.Sprintf("id%d", i), Kind: "chunk", Doc: "a & b", Text: "<1> \"x\"\x00 é", Questions: []string{"Who?", "Why?"},
		})
	}
	p.Nodes = append(p.Nodes, gem.MapNode{ID: "s", Kind: "summary"})
	return p
}

func written(t *testing.T, write func(io.Writer, gem.Telling) error) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAMapSaysWhereNodesAre(t *testing.T) {
	p := picture(t)
	m := p.Draw()
	if m.Version != 1 || len(m.Nodes) != 61 || len(m.Themes) != 2 || len(m.Spectrum.Values) != 5 {
		t.Fatalf("%d nodes, %d themes", len(m.Nodes), len(m.Themes))
	}
	if m.Themes[0].Summary != "s" || m.Themes[1].Summary != "" {
		t.Errorf("summaries: %q, %q", m.Themes[0].Summary, m.Themes[1].Summary)
	}
	of := make([]int, 60)
	for _, e := range m.Edges {
		if e.A >= e.B || e.W <= 0 {
			t.Fatalf("edge %+v", e)
		}
		of[e.A]++
		of[e.B]++
	}
	for i, n := range m.Nodes[:60] {
		if of[i] < 8 || math.Abs(n.X) > 1 || math.Abs(n.Y) > 1 || n.Degree <= 0 || len(n.Theme) != 2 {
			t.Errorf("node %d has %d edges: %+v", i, of[i], n)
		}
		for j, other := range m.Nodes[:i] {
			if math.Hypot(n.X-other.X, n.Y-other.Y) < 0.01 {
				t.Errorf("nodes %d and %d hide each other", i, j)
			}
		}
	}
	if len(m.Edges) > 60*8 {
		t.Errorf("%d edges", len(m.Edges))
	}
}

func TestAMapHasTheSameBytesAndCanBeRead(t *testing.T) {
	m := picture(t).Draw()
	asJSON, asXML := written(t, m.WriteJSON), written(t, m.WriteGraphML)
	again := picture(t).Draw()
	if !bytes.Equal(asJSON, written(t, again.WriteJSON)) || !bytes.Equal(asXML, written(t, again.WriteGraphML)) {
		t.Error("the bytes differ")
	}
	var read gem.Map
	if err := json.Unmarshal(asJSON, &read); err != nil || read.Nodes[0].Text != m.Nodes[0].Text ||
		read.Nodes[3].X != m.Nodes[3].X || len(read.Edges) != len(m.Edges) {
		t.Error(err, read.Nodes[0])
	}
	var graph struct {
		Keys []struct {
			ID string `xml:"id,attr"`
		} `xml:"key"`
		Nodes []struct {
			ID   string `xml:"id,attr"`
			Data []struct {
				Key   string `xml:"key,attr"`
				Value string `xml:",chardata"`
			} `xml:"data"`
		} `xml:"graph>node"`
		Edges []struct {
			Source string `xml:"source,attr"`
		} `xml:"graph>edge"`
	}
	if err := xml.Unmarshal(asXML, &graph); err != nil {
		t.Fatal(err)
	}
	if len(graph.Nodes) != 61 || len(graph.Edges) != len(m.Edges) || len(graph.Keys) != 14 {
		t.Errorf("%d nodes, %d edges, %d keys", len(graph.Nodes), len(graph.Edges), len(graph.Keys))
	}
	data := map[string]string{}
	for _, d := range graph.Nodes[0].Data {
		data[d.Key] = d.Value
	}
	if data["doc"] != "a & b" || data["theme1"] == "" || data["id"] != "id0" ||
		data["questions"] != "Who?\nWhy?" || !strings.HasPrefix(data["text"], `<1> "x"`) {
		t.Errorf("%v", data)
	}
}

func TestAMapOfNothingIsAMap(t *testing.T) {
	g, err := gem.Nodes{}.NewNearest(gem.Nearest{})
	if err != nil {
		t.Fatal(err)
	}
	p := gem.Picture{Spectrum: spectrum(t, g, gem.Options{}), Graph: g}
	if got := string(written(t, p.Draw().WriteJSON)); !strings.Contains(got, `"edges":[],"themes":[]`) {
		t.Error(got)
	}
}
