package apr

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/model/tokens"
)

func TestOneOfEdgesThatSayTheSame(t *testing.T) {
	lists := [][]uint32{{0, 1}, {2, 3}}
	same := func(a, b uint32) bool { return a == 1 && b == 2 }
	length := []int{20, 18, 25, 10}
	prefer := longest(func(edge uint32) string { return strings.Repeat("x", length[edge]) })
	for action, want := range map[Action][][]uint32{
		Unique: {{0, 2, 3}}, Overlap: {{0}, {2, 3}}, All: lists, None: nil,
	} {
		got := Edges(lists, action, same, prefer)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("action %d: %v, want %v", action, got, want)
		}
		if again := Edges(got, action, same, prefer); !reflect.DeepEqual(again, got) {
			t.Errorf("action %d again: %v, was %v", action, again, got)
		}
	}
	cosines := []float64{0, .9, .8, 0, 0, 0, 0}
	near := Nearest(func(edge uint32) float64 { return cosines[edge] }, func(uint32) string { return "" })
	if got := Edges(lists, Overlap, same, near); !reflect.DeepEqual(got, [][]uint32{{0, 1}, {3}}) {
		t.Errorf("the edge nearer to the query does not stay: %v", got)
	}
	if got := Edges([][]uint32{{5}, {5, 6}}, Unique, same, near); !reflect.DeepEqual(got, [][]uint32{{5, 6}}) {
		t.Errorf("an edge of two lists stands twice: %v", got)
	}
}

func TestPairsThatAreKnownToBeOneAreNotCompared(t *testing.T) {
	lists := make([][]uint32, 20)
	for i := range lists {
		for edge := range uint32(24) {
			lists[i] = append(lists[i], edge)
		}
	}
	asked := 0
	same := func(a, b uint32) bool { asked++; return true }
	got := Edges(lists, Unique, same, longest(func(uint32) string { return "" }))
	if all := 480 * 479 / 2; asked > all/100 {
		t.Errorf("%d of %d pairs compared", asked, all)
	}
	if !reflect.DeepEqual(got, [][]uint32{{23}}) {
		t.Errorf("stay %v", got)
	}
}

func TestTheMiddleOfRunsThatSayTheSameStays(t *testing.T) {
	cosines := map[[2]int]float64{{0, 1}: .95, {1, 2}: .94, {0, 2}: .85}
	cosine := func(a, b int) float64 { return cosines[[2]int{a, b}] }
	if got := Medoids([]float64{.9, .8, .7, .6}, []int{3, 3, 3, 3}, cosine); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("stay %v, want 1 3", got)
	}
	equal := func(a, b int) float64 { return 1 }
	if got := Medoids([]float64{.5, .5}, []int{4, 2}, equal); !slices.Equal(got, []int{1}) {
		t.Errorf("of equal runs the shorter is to stay, not %v", got)
	}
}

func TestBytesOfThePublishedExample(t *testing.T) {
	first := Word{"AlphaCorp", "acquired_in", "2021+"}
	p := Payload{
		Questions: []Word{first, {"BetaLtd", "exposed_to", "EUReg2024_12"}},
		Facts:     []Word{first, {"AlphaCorp", "subject_to", "EUReg2024_12"}},
	}
	for encoding, want := range map[Encoding]int{EdgeMatrix: 190, IDTriples: 186, WordTriples: 193} {
		if got := p.Render(encoding, false); len(got) != want {
			t.Errorf("%v: %d bytes, want %d: %s", encoding, len(got), want, got)
		}
	}
}

// decode reads what Render wrote, by the rules that it carries.
func decode(t *testing.T, text string) Payload {
	t.Helper()
	if !strings.HasPrefix(text, "{") {
		return decodeLines(t, text)
	}
	var raw map[string]json.RawMessage
	into := func(data json.RawMessage, value any) {
		if err := json.Unmarshal(data, value); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	into(json.RawMessage(text), &raw)
	var e, r []string
	var matrix [][3]int
	if raw["e"] != nil {
		into(raw["e"], &e)
		into(raw["r"], &r)
	}
	if raw["edge_matrix"] != nil {
		into(raw["edge_matrix"], &matrix)
	}
	var p Payload
	for i, words := range []*[]Word{&p.Questions, &p.Answers, &p.Facts} {
		if data := raw[keys[WordTriples][i]]; data != nil {
			var rows [][3]string
			into(data, &rows)
			for _, row := range rows {
				*words = append(*words, Word{row[0], row[1], row[2]})
			}
		}
		var rows [][3]int
		if data := raw[keys[IDTriples][i]]; data != nil {
			into(data, &rows)
		}
		if data := raw[keys[EdgeMatrix][i]]; data != nil {
			var edges []int
			into(data, &edges)
			for _, edge := range edges {
				rows = append(rows, matrix[edge])
			}
		}
		for _, row := range rows {
			*words = append(*words, Word{e[row[0]], r[row[1]], e[row[2]]})
		}
	}
	return p
}

func decodeLines(t *testing.T, text string) Payload {
	t.Helper()
	var p Payload
	var into *[]Word
	channels := map[string]*[]Word{
		"questions:": &p.Questions, "given knowledge:": &p.Answers, "facts:": &p.Facts,
	}
	for _, line := range strings.Split(text, "\n")[1:] {
		if channel, head := channels[line]; head {
			into = channel
			continue
		}
		parts := []string{""}
		for i := 0; i < len(line); i++ {
			last := &parts[len(parts)-1]
			switch line[i] {
			case '\\':
				i++
				*last += strings.ReplaceAll(line[i:i+1], "n", "\n")
			case '|':
				parts = append(parts, "")
			default:
				*last += line[i : i+1]
			}
		}
		if len(parts) != 3 {
			t.Fatalf("%q has %d parts", line, len(parts))
		}
		*into = append(*into, Word{strings.TrimSuffix(parts[0], " "),
			strings.TrimSuffix(strings.TrimPrefix(parts[1], " "), " "), strings.TrimPrefix(parts[2], " ")})
	}
	return p
}

func randomWords(random *rand.Rand, n, names int) []Word {
	var out []Word
	for range n {
		out = append(out, Word{fmt.Sprintf("The \"Entity\" <%d>", random.IntN(names)),
			fmt.Sprint("is related | \\ to, ", random.IntN(3)), fmt.Sprintf("Größe & %d", random.IntN(names))})
	}
	return out
}

func TestEveryEncodingSaysTheSameAndTheSmallestIsTaken(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	taken := map[Encoding]bool{}
	for i := range 60 {
		p := Payload{Facts: randomWords(random, random.IntN(40), 1+random.IntN(30))}
		if i%2 == 0 {
			p.Questions, p.Answers = slices.Clone(p.Facts), slices.Clone(p.Facts)
		}
		least := 1 << 30
		for _, encoding := range append([]Encoding{Lines}, Published...) {
			text := p.Render(encoding, true)
			if encoding != Lines {
				least = min(least, tokens.Count(text))
			}
			if got := decode(t, text); !reflect.DeepEqual(got, normal(p)) {
				t.Fatalf("%v decodes to %v, want %v", encoding, got, p)
			}
		}
		encoding, text, n := p.Smallest(tokens.Count)
		if n != least || tokens.Count(text) != n {
			t.Fatalf("%v with %d tokens, the least is %d", encoding, n, least)
		}
		taken[encoding] = true
	}
	if len(taken) < 2 {
		t.Errorf("only %v was ever the smallest: the test says little", taken)
	}
}

func TestLinesAreTakenOnlyWhereTheyAreAskedFor(t *testing.T) {
	p := Payload{Facts: []Word{{"A", "is", "B"}, {"B", "is", "C\nfacts:"}}}
	if encoding, _, _ := p.Smallest(tokens.Count); encoding == Lines {
		t.Error("lines were taken unasked")
	}
	encoding, text, n := p.Smallest(tokens.Count, WordTriples, Lines)
	if encoding != Lines || n != tokens.Count(text) || !reflect.DeepEqual(decode(t, text), p) {
		t.Errorf("%v with %d tokens: %s", encoding, n, text)
	}
	channels := Channels{Select: func(Actions) Payload { return p }}
	if got := Decide(channels, 500, tokens.Count, Lines); got.Encoding != Lines {
		t.Errorf("the policy takes %v", got.Encoding)
	}
}

// normal has nil for channels without triples.
func normal(p Payload) Payload {
	for _, words := range []*[]Word{&p.Questions, &p.Answers, &p.Facts} {
		if len(*words) == 0 {
			*words = nil
		}
	}
	return p
}

func TestThePolicyKeepsTheBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	all := randomWords(random, 60, 40)
	c := Channels{QuestionScore: .9, Select: func(a Actions) Payload {
		p := Payload{}
		if a.Answers != None {
			p.Answers = all[:10]
		}
		switch a.Facts {
		case All:
			p.Facts = all
		case Unique:
			p.Facts = all[:50]
		case None, Overlap:
		}
		return p
	}}
	seen := map[Actions]bool{}
	for budget := 0; budget < 4000; budget += 37 {
		got := Decide(c, budget, tokens.Count)
		if got.Tokens > budget || tokens.Count(got.Text) != got.Tokens {
			t.Fatalf("budget %d: %d tokens", budget, got.Tokens)
		}
		seen[got.Actions] = true
	}
	for _, want := range []Actions{{}, {Facts: Unique}, {Facts: Unique, Answers: Unique}, {Facts: All, Answers: Unique}} {
		if !seen[want] {
			t.Errorf("no budget led to %v", want)
		}
	}
	c.QuestionScore, c.Repeated = .84, .1
	if got := Decide(c, 1<<20, tokens.Count).Actions; got != (Actions{Facts: Unique}) {
		t.Errorf("without a near question, with facts that repeat: %v", got)
	}
}

func TestEveryActionKeepsTheBudgetAndTheChosenOneIsAmongThem(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	all := randomWords(random, 60, 40)
	for _, repeated := range []float64{0, .2} {
		c := Channels{Repeated: repeated, Select: func(a Actions) Payload {
			return Payload{Facts: map[Action][]Word{Unique: all[:50], All: all}[a.Facts]}
		}}
		for budget := 0; budget < 4000; budget += 97 {
			chosen, among := Decide(c, budget, tokens.Count), false
			each := c.Each(budget, tokens.Count)
			for i, action := range []Action{None, Unique, All} {
				got := each[i]
				if got.Actions.Facts != action || got.Tokens > budget || tokens.Count(got.Text) != got.Tokens {
					t.Fatalf("budget %d, action %d: %+v", budget, action, got)
				}
				among = among || (got.Tokens == chosen.Tokens && got.Facts == chosen.Facts && got.Text == chosen.Text)
			}
			if !among {
				t.Errorf("budget %d: %d facts in %d tokens were chosen, of none of the actions", budget, chosen.Facts, chosen.Tokens)
			}
			if budget > 3000 && (each[1].Facts != 50 || each[2].Facts != 60) {
				t.Errorf("budget %d: %d and %d facts, where all fit", budget, each[1].Facts, each[2].Facts)
			}
		}
	}
}

// longest prefers longer texts, then higher numbers, as the authors' program does.
func longest(text func(uint32) string) func(a, b uint32) bool {
	return func(a, b uint32) bool {
		if la, lb := len(text(a)), len(text(b)); la != lb {
			return la > lb
		}
		return a > b
	}
}
