package gem

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MapVersion is the version of the form of a Map; 1 is the first.
const MapVersion = 1

// Map is what can be looked at without any model: nodes with places in the plane, edges and themes. Equal input has
// equal bytes as JSON and as GraphML. Numbers are rounded to six digits after the point.
type Map struct {
	Version  int               `json:"gem"`
	Params   map[string]string `json:"params"`
	Nodes    []MapNode         `json:"nodes"`
	Edges    []MapEdge         `json:"edges"`
	Themes   []MapTheme        `json:"themes"`
	Spectrum MapSpectrum       `json:"spectrum"`
}

// MapNode is a chunk or a summary. Who makes a map gives what is above the line; Draw fills in the rest.
type MapNode struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind"` // chunk, summary
	Doc       string   `json:"doc,omitempty"`
	Start     int      `json:"start"`
	End       int      `json:"end"`
	Text      string   `json:"text"`
	Questions []string `json:"questions"`

	Degree float64   `json:"degree"`
	Theme  []float64 `json:"theme"` // its component in the eigenvector of each theme
	X      float64   `json:"x"`
	Y      float64   `json:"y"` // both from -1 to 1
}

// MapEdge joins the nodes A < B, by their places in the list.
type MapEdge struct {
	A int     `json:"a"`
	B int     `json:"b"`
	W float64 `json:"w"`
}

// MapTheme is a theme; Summary is the node that summarises it, empty where none does.
type MapTheme struct {
	K        int       `json:"k"` // the eigenpair
	Lambda   float64   `json:"lambda"`
	Beta     float64   `json:"beta"`
	Summary  string    `json:"summary,omitempty"`
	Members  []int     `json:"members"`
	Loadings []float64 `json:"loadings"`
}

// MapSpectrum is what the eigenvalues say.
type MapSpectrum struct {
	Values       []float64 `json:"lambda"`
	Distinctness float64   `json:"Lambda"`
	Themes       int       `json:"estimated_themes"`
}

// strongest is how many edges each node brings to a map.
const strongest = 8

// Drawn is a graph whose edges a map shows.
type Drawn interface {
	Neighbourhood
	Len() int
}

// Picture is what a map is drawn of.
type Picture struct {
	Params    map[string]string
	Nodes     []MapNode // those of the graph first, then summaries, which have no place in it
	Spectrum  Spectrum
	Themes    []Theme
	Summaries []int   // by theme: its summary among Nodes, or -1
	Graph     Drawn   // of the nodes, or of those that Spectrum is of
	Distinct  float64 // Distinctness of the graph
}

// Draw makes a map. Nodes lie by the second and third eigenvector, each divided by the root of the degree, and are
// then moved apart where they would hide each other (maps of at most 2,000 nodes). A summary lies amid its members.
func (p Picture) Draw() Map {
	s, count := p.Spectrum, len(p.Spectrum.Degrees)
	out := Map{Version: MapVersion, Params: p.Params, Nodes: slices.Clone(p.Nodes), Edges: p.edges(p.Graph.Len())}
	x, y := place(s, 1), place(s, 2)
	if count <= 2000 {
		apart(x, y)
	}
	for i := range out.Nodes {
		node := &out.Nodes[i]
		node.Questions = append([]string{}, node.Questions...) // never null
		node.Theme = make([]float64, len(p.Themes))
		if i >= count {
			continue
		}
		node.Degree, node.X, node.Y = rounded(s.Degrees[i]), rounded(x[i]), rounded(y[i])
		for k, t := range p.Themes {
			node.Theme[k] = rounded(s.Pairs[t.Pair].Vector[i])
		}
	}
	out.Themes = make([]MapTheme, len(p.Themes))
	for k, t := range p.Themes {
		theme := MapTheme{K: t.Pair, Lambda: rounded(t.Lambda), Beta: rounded(t.Beta), Members: t.Members}
		for _, loading := range t.Loadings {
			theme.Loadings = append(theme.Loadings, rounded(loading))
		}
		if k < len(p.Summaries) && p.Summaries[k] >= 0 {
			node := &out.Nodes[p.Summaries[k]]
			theme.Summary = node.ID
			node.Theme[k] = 1
			for _, member := range t.Members {
				node.X += x[member] / float64(len(t.Members))
				node.Y += y[member] / float64(len(t.Members))
			}
			node.X, node.Y = rounded(node.X), rounded(node.Y)
		}
		out.Themes[k] = theme
	}
	out.Spectrum = MapSpectrum{
		Values: []float64{}, Distinctness: rounded(p.Distinct), Themes: CountThemes(s.Values(), 0.05),
	}
	for _, v := range s.Values() {
		out.Spectrum.Values = append(out.Spectrum.Values, rounded(v))
	}
	return out
}

func (p Picture) edges(count int) []MapEdge {
	out := []MapEdge{}
	for i := range count {
		to, weights := p.Graph.Neighbours(i)
		order := make([]int, len(to))
		for at := range order {
			order[at] = at
		}
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(to[a], to[b]))
		})
		for _, at := range order[:min(strongest, len(order))] {
			j := int(to[at])
			out = append(out, MapEdge{min(i, j), max(i, j), rounded(weights[at])})
		}
	}
	slices.SortFunc(out, func(a, b MapEdge) int { return cmp.Or(cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B)) })
	return slices.CompactFunc(out, func(a, b MapEdge) bool { return a.A == b.A && a.B == b.B })
}

// place is one coordinate of every node, from -1 to 1; all 0 where there is no such pair.
func place(s Spectrum, pair int) []float64 {
	out := make([]float64, len(s.Degrees))
	if pair >= len(s.Pairs) {
		return out
	}
	scale, _ := roots(s.Degrees)
	most := 0.0
	for i, x := range s.Pairs[pair].Vector {
		out[i] = float64(x * scale[i])
		most = max(most, math.Abs(out[i]))
	}
	if most > 0 {
		divide(out, most)
	}
	return out
}

// apart pushes nodes that are too near in 50 rounds, each less than the last. Two at one place part in a direction
// that goes by their numbers.
func apart(x, y []float64) {
	const rounds, turn = 50, 2.399963229728653 // the golden angle
	room := 0.8 / math.Sqrt(float64(max(1, len(x))))
	for round := range rounds {
		cooling := 0.5 * float64(rounds-round) / rounds
		moveX, moveY := make([]float64, len(x)), make([]float64, len(x))
		for i := range x {
			for j := range i {
				dx, dy := x[i]-x[j], y[i]-y[j]
				far := math.Hypot(dx, dy)
				if far >= room {
					continue
				}
				dx, dy = dx/far, dy/far
				if far < same {
					dx, dy = math.Cos(turn*float64(i)), math.Sin(turn*float64(i))
				}
				push := cooling * (room - far) / 2
				moveX[i] += float64(push * dx)
				moveY[i] += float64(push * dy)
				moveX[j] -= float64(push * dx)
				moveY[j] -= float64(push * dy)
			}
		}
		for i := range x {
			x[i] = max(-1, min(1, x[i]+moveX[i]))
			y[i] = max(-1, min(1, y[i]+moveY[i]))
		}
	}
}

func rounded(x float64) float64 { return math.Round(x*1e6)/1e6 + 0 } // no -0

// Telling gives what only who has the documents knows of node i of a map, its text and its questions, when it is
// written: so a map is written without all texts in memory. nil: the nodes have theirs.
type Telling func(i int, node *MapNode) error

func (m Map) node(i int, tell Telling) (MapNode, error) {
	node := m.Nodes[i]
	if tell == nil {
		return node, nil
	}
	err := tell(i, &node)
	if node.Questions == nil {
		node.Questions = []string{}
	}
	return node, err
}

// WriteJSON writes a map as one JSON document with a line end. Errors are those of tell and w.
func (m Map) WriteJSON(w io.Writer, tell Telling) error {
	out := bufio.NewWriter(w)
	var failed error
	value := func(before string, v any) {
		var raw bytes.Buffer
		encoder := json.NewEncoder(&raw)
		encoder.SetEscapeHTML(false)
		failed = errors.Join(failed, encoder.Encode(v))
		_, _ = out.WriteString(before) // errors come with Flush
		_, _ = out.Write(bytes.TrimSuffix(raw.Bytes(), []byte("\n")))
	}
	value(`{"gem":`, m.Version)
	value(`,"params":`, m.Params)
	_, _ = out.WriteString(`,"nodes":[`)
	for i := range m.Nodes {
		node, err := m.node(i, tell)
		if err != nil {
			return err
		}
		comma := ","
		if i == 0 {
			comma = ""
		}
		value(comma, node)
	}
	value(`],"edges":`, m.Edges)
	value(`,"themes":`, m.Themes)
	value(`,"spectrum":`, m.Spectrum)
	_, _ = out.WriteString("}\n")
	return errors.Join(failed, out.Flush())
}

// WriteGraphML writes nodes and edges of a map as GraphML, with questions joined by line ends. The strongest theme of a
// node is its attribute theme, -1 where it is in none; its loadings are its attributes theme0, theme1 and so on.
// Errors are those of tell and w.
func (m Map) WriteGraphML(w io.Writer, tell Telling) error {
	out := bufio.NewWriter(w)
	line := func(parts ...string) { _, _ = fmt.Fprintln(out, strings.Join(parts, "")) } // errors come with Flush
	line(xml.Header, `<graphml xmlns="http://graphml.graphdrawing.org/xmlns">`)
	keys := [][2]string{
		{"id", "string"}, {"kind", "string"}, {"doc", "string"}, {"start", "int"}, {"end", "int"}, {"text", "string"},
		{"questions", "string"}, {"degree", "double"}, {"theme", "int"}, {"x", "double"}, {"y", "double"},
	}
	for k := range m.Themes {
		keys = append(keys, [2]string{"theme" + strconv.Itoa(k), "double"})
	}
	for _, key := range keys {
		line(` <key id="`, key[0], `" for="node" attr.name="`, key[0], `" attr.type="`, key[1], `"/>`)
	}
	line(` <key id="weight" for="edge" attr.name="weight" attr.type="double"/>`)
	line(` <graph id="gem" edgedefault="undirected">`)
	data := func(key, value string) { line(`   <data key="`, key, `">`, escaped(value), `</data>`) }
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	for i := range m.Nodes {
		n, err := m.node(i, tell)
		if err != nil {
			return err
		}
		line(`  <node id="n`, strconv.Itoa(i), `">`)
		data("id", n.ID)
		data("kind", n.Kind)
		data("doc", n.Doc)
		data("start", strconv.Itoa(n.Start))
		data("end", strconv.Itoa(n.End))
		data("text", n.Text)
		data("questions", strings.Join(n.Questions, "\n"))
		data("degree", number(n.Degree))
		data("theme", strconv.Itoa(n.strongest()))
		data("x", number(n.X))
		data("y", number(n.Y))
		for k, loading := range n.Theme {
			data("theme"+strconv.Itoa(k), number(loading))
		}
		line(`  </node>`)
	}
	for _, e := range m.Edges {
		line(`  <edge source="n`, strconv.Itoa(e.A), `" target="n`, strconv.Itoa(e.B), `">`)
		data("weight", number(e.W))
		line(`  </edge>`)
	}
	line(` </graph>`)
	line(`</graphml>`)
	return out.Flush()
}

// strongest is the theme of a node's largest component, -1 where none is above 0.
func (n MapNode) strongest() int {
	best, most := -1, 0.0
	for k, x := range n.Theme {
		if x > most {
			best, most = k, x
		}
	}
	return best
}

func escaped(text string) string {
	var out strings.Builder
	xml.EscapeText(&out, []byte(text)) //nolint:errcheck // a strings.Builder takes everything
	return out.String()
}
