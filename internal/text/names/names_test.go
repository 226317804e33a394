package names_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
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
			assert.Equal(t, names.Key(group[0], false), names.Key(n, false), "%q and %q", group[0], n)
		}
	}
	for _, pair := range [][2]string{{"C", "C++"}, {"HIV-1", "HIV-2"}, {"US", "U.S"}, {"A", "B"}} {
		assert.True(t, names.Key(pair[0], false) != names.Key(pair[1], false), "%q and %q are one", pair[0], pair[1])
	}
	assert.True(t, names.Key("!!!", false) != "" && names.Key("the", false) == "the" && names.Key(" X", true) == " X",
		"names of signs, of an article, exact names")
}

func TestSpansAreCodePointsOfTheOriginal(t *testing.T) {
	for _, c := range []struct{ text, name, want string }{
		{"Bohr met BOHR and Bohrs.", "Bohr", "[Bohr BOHR]"},
		{"In Zürich, zürich; Zu\u0308rich!", "Zürich", "[Zürich zürich Zu\u0308rich]"},
		{"the ﬁeld and the field", "field", "[ﬁeld field]"}, {"New\n York and new york", "New York", "[New\n York new york]"},
		{"🙂 Oslo 🙂 oslo", "Oslo", "[Oslo oslo]"}, {"nothing", "Oslo", "[]"},
		{"a a a a a a a a a a", "a", "[a a a a a a a a]"},
	} {
		rs := []rune(c.text)
		var got []string
		for _, s := range names.NewText(c.text).Spans(names.Key(c.name, false), 8) {
			got = append(got, string(rs[s[0]:s[1]]))
		}
		assert.True(t, fmt.Sprint(got) == c.want, "%q in %q: got %q, want %s", c.name, c.text, got, c.want)
	}
}

// Chinese, Japanese and Thai part words by no space: a name may stand within what looks like one word.
func TestNamesStandWithinTextWithoutSpaces(t *testing.T) {
	for _, c := range []struct {
		code, text, name string
		places           int
	}{
		{"ja", "彼は東京大学で東京を学ぶ。", "東京", 2},
		{"ja", "APIを使うAPIs", "API", 1},
		{"th", "เห็นภูเขาไฟฟูจิที่", "ภูเขาไฟฟูจิ", 1},
		{"th", "กข\u0e48ค", "กข", 0}, // the mark belongs to the letter
		{"de", "das Wort 漢字学", "漢字", 1},
		{"de", "Haustür", "Haus", 0},
		{"en", "彼は東京大学で", "東京", 0}, // as in every index of English that stands
	} {
		got := names.NewTextOf(text.LanguageOf(c.code), c.text).Spans(names.Key(c.name, false), 8)
		assert.True(t, len(got) == c.places, "%s: %q in %q is at %v", c.code, c.name, c.text, got)
	}
}

func TestAFoundPlaceEndsAtWordBorders(t *testing.T) {
	for _, c := range []struct {
		text, key    string
		most, places int
	}{
		{"art and party and Art.", "art", 8, 2},
		{"C++ and C", "c++", 8, 1},
		{"C++ and C", "c", 8, 2}, // the signs after it are no part of the word
		{"HIV-1, HIV-2", "hiv-1", 8, 1},
		{"x1 x 1x", "x", 8, 1},
		{"a b a b", "a b", 1, 1},
		{"anything", "", 8, 0},
		{"", "x", 8, 0},
	} {
		assert.Len(t, names.NewText(c.text).Spans(c.key, c.most), c.places, "%q %q", c.key, c.text)
	}
}

// Every name that is more than space has a key, and no key has space around it.
func FuzzEveryNameHasAKey(f *testing.F) {
	for _, name := range []string{"The Hague", "“Niels  Bohr”,", "((x))", "the the", "ẞ", "C++.", "( x )"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := names.Key(name, false)
		visible := strings.ContainsFunc(name, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
		assert.True(t, !utf8.ValidString(name) || strings.TrimSpace(key) == key && (!visible || key != ""),
			"%q has the key %q", name, key)
	})
}

// Keys of this version. Where this fails, classes get other ids: raise names.Version.
// Promises: 19.
func TestKeysOfThisVersion(t *testing.T) {
	assert.True(t, names.Version == "names/1", "pin the keys of the new version")
	for name, key := range map[string]string{
		"The  Hague": "hague", "the": "the", "The The": "the", "“Niels Bohr”,": "niels bohr",
		"O’Neill–Smith": "o'neill-smith", "[(DNA)];": "dna", "C++": "c++", "U.S.A.": "u.s.a", "!!!": "!!!",
		"STRASSE": "strasse", "Straße": "strasse", "ﬁeld": "field", "soft\u00adhyphen": "softhyphen",
		"tab\tand\nnew  line": "tab and new line",
	} {
		assert.Equal(t, key, names.Key(name, false), "%q", name)
		assert.True(t, names.Key(name, true) == name, "%q does not stay as it is for parity", name)
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
			require.True(t, s[0] >= 0 && s[0] < s[1] && s[1] <= n, "span %v of %d code points", s, n)
		}
	})
}
