package builtin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/text"
)

func TestQuestionsByRule(t *testing.T) {
	for name, c := range map[string]struct {
		language, chunk string
		count           int
		want            []string
	}{
		"each sentence first, then second names": {
			"en", "Marie Curie was born in Warsaw. Later Marie Curie lived in Paris.", 5,
			[]string{
				"What was born in Warsaw?", "Later what lived in Paris?",
				"Marie Curie was born in what?", "Later Marie Curie lived in what?",
			},
		},
		"no more than asked for": {"en", "Marie Curie was born in Warsaw. Later Marie Curie lived in Paris.", 3,
			[]string{"What was born in Warsaw?", "Later what lived in Paris?", "Marie Curie was born in what?"}},
		"none asked for": {"en", "Marie Curie was born in Warsaw.", 0, nil},
		"of names within names the longest": {"en", "They saw Oxford University in New Zealand again.", 5,
			[]string{"They saw what again?"}},
		"the same question once":         {"en", "We met Niels Bohr. We met Albert Einstein.", 5, []string{"We met what?"}},
		"a name alone asks nothing":      {"en", "Niels Bohr.", 5, nil},
		"without names there is nothing": {"en", "it rained all day and nobody came.", 5, nil},
		"an empty chunk":                 {"en", "", 5, nil},
		"wrapped lines are one question": {"en",
			"The old library that stands beside the river was built by the architect\nNiels Bohr in a year.", 1,
			[]string{"The old library that stands beside the river was built by the architect what in a year?"}},
		"beyond ASCII, in another language": {
			"de", "Jürgen Müller fährt über Köln nach Zürich!", 9,
			[]string{
				"Was fährt über Köln nach Zürich?", "Jürgen Müller fährt über was nach Zürich?",
				"Jürgen Müller fährt über Köln nach was?",
			},
		},
		"what is too long is not asked": {"en", "We met Niels Bohr " + strings.Repeat("and so on ", 40) + ".", 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := builtin.QuestionsIn(text.LanguageOf(c.language), c.chunk, c.count)
			assert.True(t, slices.Equal(got, c.want), "questions of %q:\n%q, not\n%q", c.chunk, got, c.want)
		})
	}
}

func FuzzQuestionsAreFewAndDifferentAndTheSameAgain(f *testing.F) {
	f.Add("Marie Curie was born in Warsaw. Later Marie Curie lived in Paris.", "en", uint8(5))
	f.Add("Die Universität Zürich wurde 1833 gegründet.", "de", uint8(2))
	f.Add("東京タワーは東京都港区にある。東京タワーは赤い。", "ja", uint8(3))
	f.Add("\xff Ab\u0300c Bohr ﬁn", "fr", uint8(1))
	f.Fuzz(func(t *testing.T, chunk, code string, count uint8) {
		language := text.LanguageOf(code)
		got := builtin.QuestionsIn(language, chunk, int(count))
		require.True(t, len(got) <= int(count), "%d questions, of %d asked for", len(got), count)
		seen := map[string]bool{}
		for _, question := range got {
			assert.True(t, !seen[question] && len(question) >= 2 && strings.HasSuffix(question, "?"),
				"question %q of %q is doubled or none", question, chunk)
			seen[question] = true
		}
		again := builtin.QuestionsIn(language, chunk, int(count))
		assert.True(t, slices.Equal(got, again), "%q, then %q", got, again)
	})
}
