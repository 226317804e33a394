package names_test

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/lang/names"
)

func TestEquivalentNamesHaveOneKey(t *testing.T) {
	for _, group := range [][]string{
		{"Niels Bohr", "niels  bohr", " Niels Bohr. ", "“Niels Bohr”", "NIELS BOHR", "Niels\u00a0Bohr"},
		{"The Hague", "the hague", "Hague"},
		{"Müller", "Mu\u0308ller", "MÜLLER"},
		{"Straße", "STRASSE"},
		{"COVID–19", "COVID-19", "covid‑19"},
		{"ﬁeld", "field"},
		{"(DNA)", "DNA", "[DNA],"},
	} {
		for _, n := range group[1:] {
			if a, b := names.Key(group[0], false), names.Key(n, false); a != b {
				t.Errorf("%q and %q: %q, %q", group[0], n, a, b)
			}
		}
	}
	for _, pair := range [][2]string{{"C", "C++"}, {"HIV-1", "HIV-2"}, {"US", "U.S"}, {"A", "B"}} {
		if names.Key(pair[0], false) == names.Key(pair[1], false) {
			t.Errorf("%q and %q are one", pair[0], pair[1])
		}
	}
	if names.Key("!!!", false) == "" || names.Key("the", false) != "the" || names.Key(" X", true) != " X" {
		t.Error("names of signs, of an article, exact names")
	}
}

func TestSpansAreCodePointsOfTheOriginal(t *testing.T) {
	for _, c := range []struct{ text, name, want string }{
		{"Bohr met BOHR and Bohrs.", "Bohr", "[Bohr BOHR]"},
		{"In Zürich, zürich; Zu\u0308rich!", "Zürich", "[Zürich zürich Zu\u0308rich]"},
		{"the ﬁeld and the field", "field", "[ﬁeld field]"},
		{"New\n York and new york", "New York", "[New\n York new york]"},
		{"🙂 Oslo 🙂 oslo", "Oslo", "[Oslo oslo]"},
		{"nothing", "Oslo", "[]"},
		{"a a a a a a a a a a", "a", "[a a a a a a a a]"},
	} {
		rs := []rune(c.text)
		var got []string
		for _, s := range names.NewText(c.text).Spans(names.Key(c.name, false), 8) {
			got = append(got, string(rs[s[0]:s[1]]))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%q in %q: got %q, want %s", c.name, c.text, got, c.want)
		}
	}
}

func FuzzSpansLieInTheText(f *testing.F) {
	f.Add("Zu\u0308rich", "zürich")
	f.Add("ß ẞ SS", "ss")
	f.Fuzz(func(t *testing.T, text, name string) {
		if !utf8.ValidString(text) || !utf8.ValidString(name) {
			return
		}
		n := utf8.RuneCountInString(text)
		for _, s := range names.NewText(text).Spans(names.Key(name, false), 8) {
			if s[0] < 0 || s[0] >= s[1] || s[1] > n {
				t.Fatalf("span %v of %d code points", s, n)
			}
		}
	})
}
