package classtext_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/text/classtext"
)

func TestTheTextOfAClass(t *testing.T) {
	for _, c := range []struct {
		descriptions []string
		short        string
		parity       bool
		want         string
	}{
		{[]string{"A physicist.", "From Denmark."}, "", false, "Bohr: A physicist. From Denmark."},
		{[]string{"A physicist.", "From Denmark."}, "", true, "A physicist. From Denmark."},
		{nil, "", false, "Bohr"},
		{nil, "", true, "Bohr"},
		{[]string{""}, "", false, "Bohr"},
		{[]string{"A physicist.", "From Denmark."}, "A Dane.", false, "Bohr: A Dane."},
		{[]string{"A physicist.", "From Denmark."}, "A Dane.", true, "A Dane."},
	} {
		assert.Equal(t, c.want, classtext.FinalText("Bohr", c.descriptions, c.short, c.parity), "%+v", c)
		assert.True(t, c.short != "" || classtext.JoinText("Bohr", c.descriptions, c.parity) == c.want,
			"%+v: the whole text is another", c)
	}
}

// Property: a text is long when it has more runes than the threshold.
func TestLongIsAboutRunesOfTheWholeText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		name, descriptions := strings.Repeat("é", 1+r.IntN(10)), make([]string, 1+r.IntN(5))
		for i := range descriptions {
			descriptions[i] = strings.Repeat("漢", 1+r.IntN(30))
		}
		for _, parity := range []bool{false, true} {
			runes := utf8.RuneCountInString(classtext.JoinText(name, descriptions, parity))
			require.True(t, classtext.IsLong(name, descriptions, runes-1, parity) &&
				!classtext.IsLong(name, descriptions, runes, parity), "%d runes, parity %v: long is not reported", runes, parity)
		}
	}
}
