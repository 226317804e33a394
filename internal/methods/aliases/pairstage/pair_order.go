package pairstage

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/text/names"
)

// OrderPairs puts pairs in the order in which a model is asked for them: first those of the same letters, then those
// whose names have a word in common or of which one is the initials of the other, then the others, each by cosine.
// Vectors of what is said beside a name are near for names that stand beside each other, too.
func OrderPairs(pairs []Pair) []Pair {
	out := slices.Clone(pairs)
	rank := make(map[[2]string]int, len(out))
	for _, pair := range out {
		rank[[2]string{pair.A.Name, pair.Of.Name}] = rankPair(pair)
	}
	slices.SortStableFunc(out, func(a, b Pair) int {
		return cmp.Or(
			cmp.Compare(rank[[2]string{a.A.Name, a.Of.Name}], rank[[2]string{b.A.Name, b.Of.Name}]),
			cmp.Compare(b.Cosine, a.Cosine),
		)
	})
	return out
}

func rankPair(pair Pair) int {
	first, second := splitWords(pair.A.Name), splitWords(pair.Of.Name)
	switch {
	case pair.Spelled:
		return 0
	case hasSharedWord(first, second), matchesInitials(first, second), matchesInitials(second, first):
		return 1
	}
	return 2
}

func splitWords(name string) []string {
	parts := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	return strings.FieldsFunc(names.Key(name, false), parts)
}

// leastWord is how many letters and digits a word needs to count: of and de do not.
const leastWord = 3

func hasSharedWord(first, second []string) bool {
	return slices.ContainsFunc(first, func(word string) bool {
		return utf8.RuneCountInString(word) >= leastWord && slices.Contains(second, word)
	})
}

// matchesInitials reports whether a name is the first letters of another one's words.
func matchesInitials(short, long []string) bool {
	if len(long) < 2 {
		return false
	}
	var first strings.Builder
	for _, word := range long {
		letter, _ := utf8.DecodeRuneInString(word)
		first.WriteRune(letter)
	}
	return strings.Join(short, "") == first.String()
}
