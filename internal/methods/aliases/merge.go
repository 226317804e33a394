package aliases

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// Name is a name as it is shown. Names of one call differ by their keys.
type Name struct {
	Text string
	Type string // empty where it is not known
}

// Pair of names by their places, which are near by Cosine.
type Pair struct {
	A, B   int
	Cosine float64
}

// Limits of what is merged.
type Limits struct {
	Pair     float64 // the least cosine of a candidate
	Complete float64 // the least cosine of any two of a group
}

// DefaultLimits are the published threshold and a guard against chains.
var DefaultLimits = Limits{Pair: 0.93, Complete: 0.90}

// Decision explains a pair.
type Decision struct {
	Pair
	Merged bool
	Why    string
}

// What decisions say.
const (
	WhyPinned    = "pinned by the file"
	WhyNear      = "near enough"
	WhyJoined    = "one already"
	WhyFar       = "not near enough"
	WhyForbidden = "forbidden by the file"
	WhyPinnedTwo = "pinned to different names"
	WhyNumbers   = "other numbers"
	WhyType      = "another type"
	WhyNoun      = "one has another proper noun besides"
	WhyChain     = "members of the groups are not near enough"
)

// Result is the representative of each name, itself for most, and why.
type Result struct {
	Of        []int
	Decisions []Decision
}

// Merge decides pairs from the nearest on. What cosine gives must not depend on the order of its arguments. The result
// does not depend on the order of the pairs, and only by its numbers on that of the names.
func Merge(all []Name, pairs []Pair, file File, limits Limits, cosine func(a, b int) float64) Result {
	m := merger{keys: make([]string, len(all)), file: file, group: make([][]int, len(all))}
	place := make(map[string]int, len(all))
	for i, name := range all {
		m.keys[i] = names.Key(name.Text, false)
		place[m.keys[i]], m.group[i] = i, []int{i}
	}
	var decisions []Decision
	decide := func(pair Pair, why string) {
		merged := why == WhyPinned || why == WhyNear
		if merged {
			m.joinGroups(pair.A, pair.B)
		}
		decisions = append(decisions, Decision{pair, merged || why == WhyJoined, why})
	}
	for i, key := range m.keys {
		target, err := file.resolvePin(key)
		if to, known := place[target]; err == nil && known && to != i {
			decide(m.orderPair(Pair{i, to, cosine(i, to)}), WhyPinned)
		}
	}
	sorted := make([]Pair, 0, len(pairs))
	for _, pair := range pairs {
		if pair.A != pair.B {
			sorted = append(sorted, m.orderPair(pair))
		}
	}
	slices.SortFunc(sorted, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(m.keys[a.A], m.keys[b.A]),
			cmp.Compare(m.keys[a.B], m.keys[b.B]))
	})
	for _, pair := range slices.Compact(sorted) {
		decide(pair, m.explainPair(pair, all, limits, cosine))
	}
	slices.SortFunc(decisions, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(m.keys[a.A], m.keys[b.A]), cmp.Compare(m.keys[a.B], m.keys[b.B]),
			cmp.Compare(a.Why, b.Why))
	})
	of := make([]int, len(all))
	for i := range all {
		of[i] = m.chooseRepresentative(m.group[i], cosine)
	}
	return Result{of, decisions}
}

type merger struct {
	keys  []string
	file  File
	group [][]int // of each name, its group: one slice for all members
}

// orderPair has the name with the lesser key first.
func (m *merger) orderPair(pair Pair) Pair {
	if m.keys[pair.A] > m.keys[pair.B] {
		pair.A, pair.B = pair.B, pair.A
	}
	return pair
}

func (m *merger) joinGroups(a, b int) {
	if slices.Contains(m.group[a], b) {
		return
	}
	both := slices.Concat(m.group[a], m.group[b])
	slices.SortFunc(both, func(a, b int) int { return cmp.Compare(m.keys[a], m.keys[b]) })
	for _, member := range both {
		m.group[member] = both
	}
}

func (m *merger) explainPair(pair Pair, all []Name, limits Limits, cosine func(a, b int) float64) string {
	if slices.Contains(m.group[pair.A], pair.B) {
		return WhyJoined
	}
	if pair.Cosine < limits.Pair {
		return WhyFar
	}
	pins := map[string]bool{}
	for _, a := range m.group[pair.A] {
		for _, b := range m.group[pair.B] {
			if m.file.Forbidden[[2]string{m.keys[a], m.keys[b]}] {
				return WhyForbidden
			}
			if why := FindObjection(all[a], all[b]); why != "" {
				return why
			}
			if cosine(a, b) < limits.Complete {
				return WhyChain
			}
		}
	}
	for _, member := range slices.Concat(m.group[pair.A], m.group[pair.B]) {
		if _, pinned := m.file.Pinned[m.keys[member]]; pinned {
			target, _ := m.file.resolvePin(m.keys[member])
			pins[target] = true
		}
	}
	if len(pins) > 1 {
		return WhyPinnedTwo
	}
	return WhyNear
}

// chooseRepresentative returns the member that stands for a group, which is in the order of keys: what a member is
// pinned to, else a preferred name, else the one whose distances to the others have the least sum.
func (m *merger) chooseRepresentative(group []int, cosine func(a, b int) float64) int {
	for _, member := range group {
		if target, err := m.file.resolvePin(m.keys[member]); err == nil && target != m.keys[member] {
			for _, to := range group {
				if m.keys[to] == target {
					return to
				}
			}
		}
	}
	for _, member := range group {
		if m.file.Preferred[m.keys[member]] {
			return member
		}
	}
	best, least := group[0], 0.0
	for i, member := range group {
		sum := 0.0
		for _, other := range group {
			if other != member {
				sum += 1 - cosine(member, other)
			}
		}
		if i == 0 || sum < least {
			best, least = member, sum
		}
	}
	return best
}

// FindObjection says why two names must not be one, empty where nothing is against it.
func FindObjection(a, b Name) string {
	if a.Type != "" && b.Type != "" && a.Type != b.Type {
		return WhyType
	}
	left, right := splitWords(a.Text), splitWords(b.Text)
	if !slices.Equal(pickDigitWords(left), pickDigitWords(right)) {
		return WhyNumbers
	}
	if len(left) > len(right) {
		left, right = right, left
	}
	// One name within the other, as Washington in George Washington: what is more of it must be no proper noun.
	var more []string
	rest := foldAll(left)
	for _, word := range right {
		if i := slices.Index(rest, strings.ToLower(word)); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			continue
		}
		more = append(more, word)
	}
	if len(rest) == 0 && slices.ContainsFunc(more, isProperNoun) {
		return WhyNoun
	}
	return ""
}

func splitWords(name string) []string { return text.Words(name) }

func foldAll(of []string) []string {
	out := make([]string, len(of))
	for i, word := range of {
		out[i] = strings.ToLower(word)
	}
	return out
}

func isProperNoun(word string) bool {
	for _, r := range word {
		return unicode.IsUpper(r) && !text.IsCommon(strings.ToLower(word))
	}
	return false
}

// pickDigitWords returns the words with a digit, which are dates, versions and numbers, sorted.
func pickDigitWords(of []string) []string {
	var out []string
	for _, word := range of {
		if strings.ContainsFunc(word, unicode.IsDigit) {
			out = append(out, strings.ToLower(word))
		}
	}
	slices.Sort(out)
	return out
}
