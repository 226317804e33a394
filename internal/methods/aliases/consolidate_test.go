package aliases

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var three = []Name{{Text: "alpha"}, {Text: "beta"}, {Text: "gamma"}}

func cosineOfThree(a, b int) float64 {
	return map[[2]int]float64{{0, 1}: .95, {1, 2}: .94, {0, 2}: .85}[[2]int{min(a, b), max(a, b)}]
}

var pairsOfThree = []Pair{{1, 2, .94}, {0, 1, .95}, {0, 2, .85}}

func TestChainsDoNotMergeWhatIsFarApart(t *testing.T) {
	plain := Merge(three, pairsOfThree, File{}, Limits{Pair: .93}, cosineOfThree)
	assert.Equal(t, []int{1, 1, 1}, plain.Of, "without the guard")
	guarded := Merge(three, pairsOfThree, File{}, DefaultLimits, cosineOfThree)
	assert.True(t, guarded.Of[0] == guarded.Of[1] && guarded.Of[2] == 2, "with the guard: %v, want {a b} {c}", guarded.Of)
	var why []string
	for _, d := range guarded.Decisions {
		why = append(why, d.Why)
	}
	assert.Equal(t, []string{WhyNear, WhyFar, WhyChain}, why, "reasons")
}

func TestGuards(t *testing.T) {
	for _, c := range []struct {
		a, b Name
		want string
	}{
		{Name{"Go 1.21", ""}, Name{"Go 1.22", ""}, WhyNumbers},
		{Name{"Alpha Corp", "company"}, Name{"AlphaCorp", "person"}, WhyType},
		{Name{"Washington", ""}, Name{"George Washington", ""}, WhyNoun},
		{Name{"Alpha Corp", ""}, Name{"AlphaCorp", "company"}, ""},
		{Name{"neural network", ""}, Name{"neural networks", ""}, ""},
	} {
		assert.Equal(t, c.want, FindObjection(c.a, c.b), "%q and %q", c.a.Text, c.b.Text)
		assert.Equal(t, c.want, FindObjection(c.b, c.a), "%q and %q", c.b.Text, c.a.Text)
	}
}

func parse(t *testing.T, lines ...string) File {
	return musttest.Get(ParseFile(strings.NewReader(strings.Join(lines, "\n"))))(t)
}

func TestPeopleHaveTheLastWord(t *testing.T) {
	for _, c := range []struct {
		line string
		want []int
	}{
		{"pin gamma | Alpha", []int{0, 0, 0}}, // which are far apart; beta is near enough to both
		{"forbid alpha | beta", []int{0, 1, 1}},
		{"prefer beta", []int{1, 1, 2}},
		{"# nothing", []int{0, 0, 2}},
	} {
		assert.Equal(t, c.want, Merge(three, pairsOfThree, parse(t, c.line), DefaultLimits, cosineOfThree).Of, "%s", c.line)
	}
}

func TestFilesThatContradictThemselves(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"pin a1 | b1\npin b1 | c1\npin c1 | a1", "circle"}, {"pin a1 | b1\npin a1 | c1", "line 2"},
		{"pin a1 | b1\nforbid b1 | a1", "forbidden"}, {"join a1 | b1", "line 1"}, {"pin a1", "line 1"}, {"prefer", "line 1"},
	} {
		_, err := ParseFile(strings.NewReader(c.file))
		assert.True(t, fault.Is(err, fault.BadConfig) && strings.Contains(err.Error(), c.want),
			"%q: %v, want one of %q", c.file, err, c.want)
	}
}

func TestTheOrderOfPairsDoesNotMatterAndRepresentativesStay(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	for range 200 {
		all, near := make([]Name, 12), map[[2]int]float64{}
		var pairs []Pair
		for i := range all {
			all[i].Text = string(rune('a'+i)) + "name"
			for j := range i {
				near[[2]int{j, i}] = .86 + .01*float64(random.IntN(14))
				pairs = append(pairs, Pair{j, i, near[[2]int{j, i}]})
			}
		}
		cosine := func(a, b int) float64 { return near[[2]int{min(a, b), max(a, b)}] }
		want := Merge(all, pairs, File{}, DefaultLimits, cosine)
		random.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
		require.Equal(t, want, Merge(all, pairs, File{}, DefaultLimits, cosine), "another order of pairs gives another result")
		for i, to := range want.Of {
			require.Equal(t, to, want.Of[to], "%d", i)
			for j := range i {
				require.True(t, want.Of[j] != to || cosine(i, j) >= DefaultLimits.Complete,
					"%d and %d are one at a cosine of %v", j, i, cosine(i, j))
			}
		}
	}
}
