// Package classtext makes the text of a class from its name and descriptions (docs/reference/formats.md, Class text and
// titles), for the stages that shorten, embed and load it.
package classtext

import (
	"strings"
	"unicode/utf8"
)

// JoinText returns the whole text: `name: descriptions`, or the descriptions alone for parity with the reference code.
// A class without any description is its name.
func JoinText(name string, descriptions []string, parity bool) string {
	d := strings.Join(descriptions, " ")
	switch {
	case d == "":
		return name
	case parity:
		return d
	}
	return name + ": " + d
}

// FinalText returns the embedded and shown text: the shortened description where there is one, else the whole text.
func FinalText(name string, descriptions []string, short string, parity bool) string {
	if short == "" {
		return JoinText(name, descriptions, parity)
	}
	return JoinText(name, []string{short}, parity)
}

// IsLong reports whether the whole text is over the threshold, in runes.
func IsLong(name string, descriptions []string, threshold int, parity bool) bool {
	n := -1 // one space less than there are descriptions
	for _, d := range descriptions {
		n += utf8.RuneCountInString(d) + 1
	}
	if !parity {
		n += utf8.RuneCountInString(name) + 2
	}
	return n > threshold
}
